#include "runtime/backends/cuda/comm/Transports.h"
#include "runtime/backends/cuda/comm/LocalTransport.h"
#include "runtime/backends/cuda/comm/NcclTransport.h"
#include <cstdlib>

namespace omnibal::rt::cuda {

Result<std::unique_ptr<Transport>> openRankTransport(Communicator &control, const RankStream &queue,
                                                     const RankGroups &groups) {
  const char *text = std::getenv("OMNIBAL_CUDA_TRANSPORT");
  std::string wanted = text ? text : "";
  if (!wanted.empty() && wanted != "local" && wanted != "nccl")
    return invalid("OMNIBAL_CUDA_TRANSPORT is \"" + wanted + "\", but local or nccl is expected");
  OMNIBAL_ASSIGN_OR_RETURN(bool together, inOneProcess(control));
  if (!together && wanted == "local")
    return invalid("OMNIBAL_CUDA_TRANSPORT is local, but the ranks are several processes; start "
                   "omnibal-run without a launcher, or leave the variable out");
  return together && wanted != "nccl" ? openLocalTransport(control, queue)
                                      : openNcclTransport(control, queue, groups);
}

} // namespace omnibal::rt::cuda
