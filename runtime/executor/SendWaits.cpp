#include "runtime/executor/SendWaits.h"
#include <algorithm>
#include <set>

namespace omnibal::rt {
namespace {

/// Memory of a region for one micro-batch.
struct UsedRange {
  int32_t region = 0, microbatch = 0;
  int64_t begin = 0, end = 0;

  /// Whether it is other memory at the same place. What is being sent may be read by its own chunk.
  bool takesPlaceOf(const UsedRange &other) const {
    const bool isSame = region == other.region && microbatch == other.microbatch;
    return !isSame && begin < other.end && other.begin < end;
  }
};

struct PendingWait {
  Action wait;
  UsedRange sent;
};

} // namespace

SendWaits::SendWaits(const Mode &ofMode) : mode(ofMode), used(ofMode.chunks.size()) {
  for (size_t c = 0; c < mode.chunks.size(); ++c)
    for (ActionKind kind : computeKinds) {
      std::set<int32_t> regions;
      for (const LayerCall &call : mode.chunks[c].calls(kind))
        for (const Location &l : call.bindings)
          if (l.space == Space::Region && mode.regions[l.index].block)
            regions.insert(l.index);
      used[c][static_cast<size_t>(kind)].assign(regions.begin(), regions.end());
    }
}

std::vector<Action> SendWaits::delayed(std::span<const Action> actions,
                                       const std::vector<const int64_t *> &offsets,
                                       std::span<const RunLoad> loads) const {
  std::vector<Action> list;
  std::vector<PendingWait> pending;
  auto rangeOf = [&](int32_t region, int32_t microbatch) {
    const RunLoad &load = loads[microbatch];
    const int64_t begin = offsets[region][microbatch];
    return UsedRange{region, microbatch, begin,
                     begin + mode.regions[region].bytesAt(load.tiles, load.tokens)};
  };
  auto release = [&](const UsedRange &range) {
    std::erase_if(pending, [&](const PendingWait &one) {
      if (!range.takesPlaceOf(one.sent))
        return false;
      list.push_back(one.wait);
      return true;
    });
  };
  for (const Action &a : actions) {
    if (a.kind == ActionKind::WaitSend) {
      pending.push_back({a, rangeOf(mode.transfers[a.index].sendRegion, a.microbatch)});
      continue;
    }
    if (a.kind == ActionKind::PostRecv)
      release(rangeOf(mode.transfers[a.index].recvRegion, a.microbatch));
    else if (isCompute(a.kind))
      for (int32_t region : used[a.index][static_cast<size_t>(a.kind)])
        release(rangeOf(region, a.microbatch));
    list.push_back(a);
  }
  for (const PendingWait &one : pending)
    list.push_back(one.wait);
  return list;
}

} // namespace omnibal::rt
