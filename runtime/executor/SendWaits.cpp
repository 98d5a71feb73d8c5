#include "runtime/executor/SendWaits.h"
#include <algorithm>
#include <set>

namespace omnibal::rt {
namespace {

/// Memory of a region for one unit, or for one micro-batch where it is not divided.
struct UsedRange {
  int32_t region = 0;
  Unit holder;
  int64_t begin = 0, end = 0;

  /// Whether it is other memory at the same place. What is being sent may be read by its own chunk.
  bool takesPlaceOf(const UsedRange &other) const {
    const bool isSame = region == other.region && holder == other.holder;
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

std::vector<Action> SendWaits::delayed(std::span<const Action> actions, const RunPlan &plan,
                                       std::span<const RunLoad> loads) const {
  std::vector<Action> list;
  std::vector<PendingWait> pending;
  auto rangeOf = [&](int32_t region, Unit unit) {
    const RunLoad &whole = loads[unit.microbatch];
    const RunLoad size = plan.sizeOf(region, plan.tilesOf(unit, whole.tiles), whole);
    const int64_t begin = plan.offset(region, unit);
    return UsedRange{region, plan.holder(region, unit), begin,
                     begin + mode.regions[region].bytesAt(size.tiles, size.tokens)};
  };
  auto release = [&](const UsedRange &range) {
    std::erase_if(pending, [&](const PendingWait &one) {
      if (!range.takesPlaceOf(one.sent))
        return false;
      list.push_back(one.wait);
      return true;
    });
  };
  // A copy of what another chunk made is written for all its parts.
  auto releaseUsed = [&](const Action &a) {
    const bool isDivided = plan.isDividedChunk(a.index);
    for (int32_t region : used[a.index][static_cast<size_t>(a.kind)])
      if (!isDivided && plan.isDividedRegion(region))
        for (int32_t p = 0; p < plan.partsOf(a.microbatch); ++p)
          release(rangeOf(region, {a.microbatch, p}));
      else
        release(rangeOf(region, a.unit()));
  };
  for (const Action &a : actions) {
    if (a.kind == ActionKind::WaitSend) {
      pending.push_back({a, rangeOf(mode.transfers[a.index].sendRegion, a.unit())});
      continue;
    }
    if (a.kind == ActionKind::PostRecv)
      release(rangeOf(mode.transfers[a.index].recvRegion, a.unit()));
    else if (isCompute(a.kind))
      releaseUsed(a);
    list.push_back(a);
  }
  for (const PendingWait &one : pending)
    list.push_back(one.wait);
  return list;
}

} // namespace omnibal::rt
