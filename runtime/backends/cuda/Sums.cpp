#include "runtime/backends/cuda/Sums.h"
#include "runtime/backends/cuda/kernels/StepSums.h"
#include <cstring>

namespace omnibal::rt::cuda {

Result<std::unique_ptr<Sums>> Sums::create(cudaStream_t stream, Staging &staging) {
  std::unique_ptr<Sums> made(new Sums);
  made->stream = stream;
  OMNIBAL_ASSIGN_OR_RETURN(made->memory, DeviceBuffer::allocate(stateBytes, stream));
  made->staging = &staging;
  OMNIBAL_RETURN_IF_ERROR(made->restart());
  return made;
}

Status Sums::restart() {
  std::byte start[stateBytes] = {};
  const float one = 1; // nothing has gone wrong
  std::memcpy(start + scaleAt, &one, sizeof one);
  return staging->upload(memory->data(), start, stateBytes);
}

Status Sums::add(std::span<const float> losses, LossKind kind) {
  double *sum = this->losses() + static_cast<int>(kind);
  return check(launchAddLosses(losses.data(), static_cast<int64_t>(losses.size()), sum, stream),
               "adding losses");
}

Result<std::span<float>> Sums::finish(const double *squaredNorm, Transport &transport,
                                      const SumsOptions &options) {
  const int ranks = static_cast<int>(options.ranks.size());
  const int64_t floats = int64_t{ranks} * slotFloats;
  if (floats > slotsMade) {
    OMNIBAL_ASSIGN_OR_RETURN(slots,
                             DeviceBuffer::allocate(floats * int64_t{sizeof(float)}, stream));
    slotsMade = floats;
  }
  std::span<float> all(reinterpret_cast<float *>(slots->data()), floats);
  OMNIBAL_RETURN_IF_ERROR(
      check(launchEncodeSums(losses(), squaredNorm, options.places[options.rank], ranks, all.data(),
                             stream),
            "a step's sums"));
  OMNIBAL_RETURN_IF_ERROR(transport.allReduce(all, options.ranks));
  if (!options.updates)
    return all;
  OMNIBAL_RETURN_IF_ERROR(
      check(launchUpdateScale(all.data(), ranks, options.labels, options.clip,
                              reinterpret_cast<float *>(memory->data() + scaleAt), stream),
            "a step's sums"));
  return all;
}

} // namespace omnibal::rt::cuda
