//===- CapturedGraphs.h - Work that repeats is enqueued as one piece -------------------------===//
#ifndef RUNTIME_EXECUTOR_CAPTUREDGRAPHS_H
#define RUNTIME_EXECUTOR_CAPTUREDGRAPHS_H

#include "runtime/device/Backend.h"
#include "runtime/program/Program.h"
#include <array>
#include <list>
#include <map>
#include <set>

namespace omnibal::rt {

/// Neighboring layer calls of a phase whose kernels depend on the same of V, N and the number of
/// labels, and on the samples' or the pictures' borders.
struct Segment {
  size_t begin = 0, end = 0; ///< layer calls
  /// Says what the work of the segment depends on.
  bool tiles = false, tokens = false, labels = false, samples = false, pictures = false;
  bool moves = false; ///< some of it is what parts of a stage do together, which is not recorded
  /// For each micro-batch, a number that micro-batches with equal addresses share.
  std::vector<int32_t> places;
};

/// Cuts a list of layer calls so that a recording of vision layers serves every N, and one of
/// language layers every V. It also cuts behind the calls of `ends`.
std::vector<Segment> cutIntoSegments(const Program &program, const Mode &mode,
                                     const std::vector<LayerCall> &calls,
                                     const std::set<size_t> &ends = {});

/// What a segment's work depends on within a mode: chunk, kind, segment, place, V, N, labels, and
/// the buckets of the number and of the longest of samples, pictures' segments and their windows.
using GraphKey = std::array<int64_t, 13>;

/// Returns the key of a segment. `number` is the segment's number in the action's phase, `rows` is
/// N as kernels see it, and `bySamples` says whether kernels depend on the samples
/// (Backend::goesBySamples).
GraphKey graphKey(const Action &action, size_t number, const Segment &segment, int64_t tiles,
                  int64_t rows, const Load &load, bool bySamples);

/// Holds captured graphs by what they depend on. Work runs as it is the first time, is recorded the
/// second time, and is repeated from then on. The graph that was not used for longest is dropped
/// first.
class CapturedGraphs {
public:
  Status run(const GraphKey &key, const void *mode, Backend &backend,
             const std::function<Status()> &work);

private:
  struct Entry {
    std::pair<const void *, GraphKey> key;
    std::unique_ptr<CapturedGraph> work;
    bool declined = false; ///< cannot be recorded
  };
  using List = std::list<Entry>;

  Status record(Entry &entry, Backend &backend, const std::function<Status()> &work);
  void makeRoom(int most);

  /// The number of keys that are remembered, including those seen once.
  static constexpr int64_t rememberedKeys = 256, keysAGraph = 8;
  List entries; ///< the last used first
  std::map<std::pair<const void *, GraphKey>, List::iterator> byKey;
  int recorded = 0;
};

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_CAPTUREDGRAPHS_H
