//===- NcclRanks.h - NCCL's communicators of a run --------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_COMM_NCCLRANKS_H
#define RUNTIME_BACKENDS_CUDA_COMM_NCCLRANKS_H

#include "runtime/backends/cuda/comm/NcclLibrary.h"
#include "runtime/backends/cuda/driver/RankStream.h"
#include <deque>
#include <map>
#include <vector>

namespace omnibal::rt::cuda {

/// One communicator of all ranks and, split off it, one of each group that this rank is in. All are
/// non-blocking: a call that needs other ranks is waited for here, with the run's deadline and an
/// eye on the control communicator.
class NcclRanks {
public:
  /// Connects; all ranks call it with the same groups, each with a device of its own.
  static Result<std::unique_ptr<NcclRanks>> connect(Communicator &control, const RankStream &queue,
                                                    const RankGroups &groups);
  /// Aborts what has not been finished.
  ~NcclRanks();
  NcclRanks(const NcclRanks &) = delete;

  const nccl::Functions &api() const { return *functions; }
  nccl::Communicator world() const { return all; }
  /// Returns the communicator of a group, or null.
  nccl::Communicator of(const std::vector<int> &ranks) const;

  /// Checks a result; on failure the error says that `what` (a noun) failed, with NCCL's words.
  Status check(nccl::Result result, const std::string &what, nccl::Communicator communicator) const;
  /// Waits until a call that began on this communicator is over.
  Status settle(nccl::Result result, const std::string &what,
                nccl::Communicator communicator) const;
  /// Returns what came up in the background, in this rank or another; the ranks that failed first
  /// are given a moment to say why.
  Status health() const;
  /// Finishes on all ranks together; nothing is under way any more.
  Status finish();
  /// Aborts at once and without other ranks: kernels that wait for other ranks end.
  void abort();

private:
  NcclRanks(Communicator &control, const RankStream &queue, const nccl::Functions *functions)
      : control(control), queue(queue), functions(functions) {}
  Status checkDevices() const;
  Status connectAll();
  Status split(const RankGroups &groups);
  std::vector<nccl::Communicator> communicators() const;

  Communicator &control;
  RankStream queue;
  const nccl::Functions *functions;
  nccl::Communicator all = nullptr;
  std::deque<nccl::Communicator> splits;
  std::map<std::vector<int>, nccl::Communicator> groups;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_COMM_NCCLRANKS_H
