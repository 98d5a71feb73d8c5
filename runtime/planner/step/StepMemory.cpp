//===- StepMemory.cpp --------------------------------------------------------------------===//
#include "runtime/planner/step/StepMemory.h"
#include <algorithm>
#include <utility>

namespace omnibal::planner {
namespace {

UnitBytes bytesInPhases(const StepUnits &units, int32_t unit, const StepVariant &variant) {
  UnitBytes sum;
  for (const Block &block : variant.blocks) {
    int64_t bytes = units.bytesOf(unit, block);
    bool early = block.begin == BlockBegin::Receive || block.begin == BlockBegin::Forward;
    bool isHeld = early && (block.end == BlockEnd::InputGrad || block.end == BlockEnd::WeightGrad);
    sum.duringForward += early ? bytes : 0;
    sum.held += isHeld ? bytes : 0;
    sum.duringInputGrad += isHeld || !early ? bytes : 0;
    sum.duringBackward += (isHeld || !early) && !block.isOfSplitOnly() ? bytes : 0;
    sum.split += block.end == BlockEnd::WeightGrad ? bytes : 0;
  }
  return sum;
}

struct Ratio {
  __int128 over = 0, under = 1;
};

/// Whether a > b, exactly; nothing is negative. Products that 128 bits may not hold are not made:
/// the whole parts are compared, then what is left, upside down.
bool isMore(Ratio a, Ratio b) {
  constexpr __int128 small = __int128{1} << 63;
  while (std::max({a.over, a.under, b.over, b.under}) >= small) {
    if (a.over / a.under != b.over / b.under)
      return a.over / a.under > b.over / b.under;
    a.over %= a.under;
    b.over %= b.under;
    if (a.over == 0 || b.over == 0)
      return a.over > b.over;
    std::swap(a, b);
    std::swap(a.over, a.under);
    std::swap(b.over, b.under);
  }
  return a.over * b.under > b.over * a.under;
}

/// One stage's list with the bytes that are alive at each place.
class Fattening {
public:
  Fattening(const StepUnits &units, const std::vector<UnitBytes> &bytes,
            const std::vector<ListPlaces> &places, StepLists &lists, size_t stage, int64_t limit)
      : units(units), bytes(bytes), places(places), lists(lists), list(lists.actions[stage]),
        limit(limit), alive(list.size()) {
    for (const UnitAction &action : list)
      if (action.kind == ActionKind::Forward)
        add(action.unit, lists.variants[action.unit], 1);
  }

  void run() {
    struct Candidate {
      int32_t unit = 0;
      uint8_t variant = 0;
      __int128 saved = 0, cost = 1;
    };
    std::vector<Candidate> candidates;
    for (const UnitAction &action : list)
      if (action.kind == ActionKind::Forward)
        for (uint8_t v = 0; v < lists.variants[action.unit]; ++v)
          if (int64_t saved = savedBy(action.unit, v); saved > 0)
            candidates.push_back({action.unit, v, saved, costOf(action.unit, v)});
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate &a, const Candidate &b) {
                       return isMore({a.saved, a.cost}, {b.saved, b.cost});
                     });
    for (const Candidate &candidate : candidates)
      if (candidate.variant < lists.variants[candidate.unit] &&
          savedBy(candidate.unit, candidate.variant) > 0)
        tryVariant(candidate.unit, candidate.variant);
  }

private:
  int64_t timeOf(int32_t unit, int64_t variant) const {
    int64_t time = units.duration(unit, variant, ActionKind::Forward);
    if (places[unit].isWhole())
      return time + units.duration(unit, variant, ActionKind::Backward);
    return time + units.duration(unit, variant, ActionKind::InputGrad) +
           units.duration(unit, variant, ActionKind::WeightGrad);
  }
  int64_t savedBy(int32_t unit, uint8_t variant) const {
    return timeOf(unit, lists.variants[unit]) - timeOf(unit, variant);
  }
  const UnitBytes &bytesOf(int32_t unit, int64_t variant) const {
    return bytes[units.indexOf(unit, variant)];
  }
  /// Bytes times actions that the fatter variant holds in addition.
  __int128 costOf(int32_t unit, uint8_t variant) const {
    int64_t more = bytesOf(unit, variant).held - bytesOf(unit, lists.variants[unit]).held;
    return std::max<__int128>(1, __int128{more} * (places[unit].backward - places[unit].forward));
  }

  void add(int32_t unit, int64_t variant, int64_t sign) {
    const UnitBytes &unitBytes = bytesOf(unit, variant);
    const ListPlaces &at = places[unit];
    alive[at.forward] += sign * unitBytes.duringForward;
    for (int32_t i = at.forward + 1; i < at.backward; ++i)
      alive[i] += sign * unitBytes.held;
    alive[at.backward] +=
        sign * (at.isWhole() ? unitBytes.duringBackward : unitBytes.duringInputGrad);
    for (int32_t i = at.backward + 1; i <= at.weightGrad; ++i)
      alive[i] += sign * unitBytes.split;
  }

  void tryVariant(int32_t unit, uint8_t variant) {
    const ListPlaces &at = places[unit];
    add(unit, lists.variants[unit], -1);
    add(unit, variant, 1);
    int32_t last = std::max(at.backward, at.weightGrad);
    if (std::any_of(alive.begin() + at.forward, alive.begin() + last + 1,
                    [&](int64_t bytes) { return bytes > limit; })) {
      add(unit, variant, -1);
      add(unit, lists.variants[unit], 1);
      return;
    }
    lists.variants[unit] = variant;
  }

  const StepUnits &units;
  const std::vector<UnitBytes> &bytes;
  const std::vector<ListPlaces> &places;
  StepLists &lists;
  const std::vector<UnitAction> &list;
  int64_t limit;
  std::vector<int64_t> alive; ///< by place in the list
};

} // namespace

std::vector<UnitBytes> unitBytes(const StepUnits &units) {
  std::vector<UnitBytes> bytes;
  for (size_t u = 0; u < units.units.size(); ++u)
    for (int32_t v = 0; v < units.units[u].variants; ++v) {
      auto unit = static_cast<int32_t>(u);
      bytes.push_back(bytesInPhases(units, unit, units.variantOf(unit, v)));
    }
  return bytes;
}

int64_t peakBytes(const StepUnits &units, const std::vector<UnitBytes> &bytes,
                  const StepLists &lists, size_t stage) {
  int64_t held = 0, peak = 0;
  for (const UnitAction &action : lists.actions[stage]) {
    const UnitBytes &own = bytes[units.indexOf(action.unit, lists.variants[action.unit])];
    switch (action.kind) {
    case ActionKind::Forward:
      peak = std::max(peak, held + own.duringForward);
      held += own.held;
      break;
    case ActionKind::Backward:
      peak = std::max(peak, held - own.held + own.duringBackward);
      held -= own.held;
      break;
    case ActionKind::InputGrad:
      peak = std::max(peak, held - own.held + own.duringInputGrad);
      held += own.split - own.held;
      break;
    case ActionKind::WeightGrad:
      peak = std::max(peak, held);
      held -= own.split;
      break;
    }
  }
  return peak;
}

void fatten(const StepUnits &units, const std::vector<UnitBytes> &bytes,
            const std::vector<int64_t> &limits, StepLists &lists) {
  const std::vector<ListPlaces> places = listPlaces(units, lists);
  for (size_t s = 0; s < lists.actions.size(); ++s)
    Fattening(units, bytes, places, lists, s, limits[s]).run();
}

} // namespace omnibal::planner
