//===- LinkTimes.h - How long links of a cluster take, rounded up -----------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_LINKTIMES_H
#define RUNTIME_PLANNER_MODEL_LINKTIMES_H

#include "runtime/planner/model/Problem.h"

namespace omnibal::planner {

/// `bytes` may be more than 64 bits hold.
constexpr int64_t nsOfBytes(__int128 bytes, __int128 bytesPerSecond) {
  return static_cast<int64_t>((bytes * 1'000'000'000 + bytesPerSecond - 1) / bytesPerSecond);
}

inline int64_t transferNs(const Link &link, int64_t bytes) {
  return link.latencyNs + nsOfBytes(bytes, link.bytesPerSecond);
}

/// Bytes that go around the ring of the replicas so many times.
inline int64_t ringNs(const Cluster &cluster, int64_t times, int64_t bytes) {
  const int64_t replicas = cluster.dataParallel, rounds = times * (replicas - 1);
  if (replicas <= 1 || bytes == 0)
    return 0;
  const Link &link = cluster.dataParallelLink;
  return rounds * link.latencyNs + nsOfBytes(static_cast<__int128>(rounds) * bytes,
                                             static_cast<__int128>(replicas) * link.bytesPerSecond);
}

/// The end of a step among the replicas: the sum of gradients, or where each has its share the sums
/// of these and then what was updated.
inline int64_t reductionNs(const Cluster &cluster, const ReplicaBytes &bytes) {
  return cluster.divides() ? ringNs(cluster, 1, bytes.gradients) + ringNs(cluster, 1, bytes.updates)
                           : ringNs(cluster, 2, bytes.gradients);
}

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_LINKTIMES_H
