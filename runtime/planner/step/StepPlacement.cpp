//===- StepPlacement.cpp -----------------------------------------------------------------===//
#include "runtime/planner/step/StepPlacement.h"
#include <algorithm>
#include <map>

namespace omnibal::planner {
namespace {

/// Repairs that begin a stage's list anew, and rounds in which repaired lists get new times.
constexpr int mostRestarts = 64, mostPlacements = 4;

enum class Fit { Best, First, BothEnds };

/// The free gaps of a stage's memory, ascending.
class Gaps {
public:
  explicit Gaps(int64_t bytes) : all{{0, bytes}} {}

  /// The offset of `bytes` taken from a gap; -1 where none is large enough. With BothEnds what
  /// lives short lies at the end of the last gap that holds it.
  int64_t take(int64_t bytes, Fit fit, bool isShort) {
    size_t chosen = all.size();
    for (size_t g = 0; g < all.size(); ++g) {
      if (all[g].bytes < bytes)
        continue;
      bool better = chosen == all.size() ||
                    (fit == Fit::Best && all[g].bytes < all[chosen].bytes) ||
                    (fit == Fit::BothEnds && isShort);
      if (better)
        chosen = g;
    }
    if (chosen == all.size())
      return -1;
    Gap &gap = all[chosen];
    bool fromEnd = fit == Fit::BothEnds && isShort;
    int64_t offset = fromEnd ? gap.offset + gap.bytes - bytes : gap.offset;
    gap.offset += fromEnd ? 0 : bytes;
    gap.bytes -= bytes;
    if (gap.bytes == 0)
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(chosen));
    return offset;
  }

  void give(int64_t offset, int64_t bytes) {
    auto after = std::lower_bound(all.begin(), all.end(), offset,
                                  [](const Gap &gap, int64_t at) { return gap.offset < at; });
    bool joinsAfter = after != all.end() && after->offset == offset + bytes;
    bool joinsBefore = after != all.begin() && (after - 1)->offset + (after - 1)->bytes == offset;
    if (joinsBefore && joinsAfter) {
      (after - 1)->bytes += bytes + after->bytes;
      all.erase(after);
    } else if (joinsBefore) {
      (after - 1)->bytes += bytes;
    } else if (joinsAfter) {
      *after = {offset, after->bytes + bytes};
    } else {
      all.insert(after, {offset, bytes});
    }
  }

private:
  struct Gap {
    int64_t offset = 0, bytes = 0;
  };
  std::vector<Gap> all;
};

/// Blocks' lives in one state of the lists, as places in their stages' lists.
class Lives {
public:
  Lives(const StepUnits &units, const StepLists &lists, const StepTimes &times)
      : units(units), times(times), places(listPlaces(units, lists)) {}

  int32_t beginOf(int32_t unit, const Block &block) const {
    const ListPlaces &at = places[unit];
    switch (block.begin) {
    case BlockBegin::Receive:
      return std::max(at.forward - 1, 0);
    case BlockBegin::ReceiveGrad:
      return std::max(at.backward - 1, 0);
    case BlockBegin::Forward:
      return at.forward;
    case BlockBegin::InputGrad:
      return at.backward;
    }
    return 0;
  }

  int32_t endOf(int32_t unit, const Block &block) const {
    const ListPlaces &at = places[unit];
    switch (block.end) {
    case BlockEnd::Forward:
      return at.forward;
    case BlockEnd::InputGrad:
      return at.backward;
    case BlockEnd::WeightGrad:
      return at.isWhole() ? at.backward : at.weightGrad;
    case BlockEnd::Send:
      return isForward(block) ? sent(unit, at.forward, units.forwardFeeds(unit), true)
                              : sent(unit, at.backward, units.backwardFeeds(unit), false);
    }
    return 0;
  }

  bool exists(int32_t unit, const Block &block) const {
    return !(block.isOfSplitOnly() && places[unit].isWhole());
  }

  std::vector<ListPlaces> &all() { return places; }
  const std::vector<ListPlaces> &all() const { return places; }

private:
  static bool isForward(const Block &block) {
    return block.begin == BlockBegin::Forward || block.begin == BlockBegin::Receive;
  }

  /// The place of the sender's last action that does not start later than the last reader does.
  int32_t sent(int32_t unit, int32_t made, std::span<const Need> readers, bool forward) const {
    int32_t last = made;
    const std::vector<int64_t> &starts = times.starts[units.units[unit].stage];
    for (const Need &reader : readers) {
      const ListPlaces &at = places[reader.unit];
      int64_t read =
          times.starts[units.units[reader.unit].stage][forward ? at.forward : at.backward];
      auto end = std::upper_bound(starts.begin(), starts.end(), read);
      last = std::max(last, static_cast<int32_t>(end - starts.begin()) - 1);
    }
    return last;
  }

  const StepUnits &units;
  const StepTimes &times;
  std::vector<ListPlaces> places;
};

/// One stage's list.
class StagePlacement {
public:
  StagePlacement(const StepUnits &units, StepLists &lists, Lives &lives, int32_t stage)
      : units(units), lists(lists), lives(lives), list(lists.actions[stage]),
        limit(units.model.problem.memoryOf(stage)), isGone(list.size()) {}

  bool run() {
    for (Fit fit : {Fit::Best, Fit::First, Fit::BothEnds})
      if (isPlaced(fit, false))
        return true;
    for (int restart = 0; restart < mostRestarts; ++restart) {
      if (isPlaced(Fit::Best, true))
        return true;
      if (!makeAnyLeaner())
        return false;
    }
    return false;
  }

  /// The places of all blocks.
  std::vector<BlockPlace> result() const {
    std::vector<BlockPlace> result;
    for (const Taken &block : taken) {
      const Unit &unit = units.units[block.unit];
      result.push_back({unit.chunk, unit.microbatch, unit.part, block.block, block.offset});
    }
    return result;
  }

  /// Takes weight gradients that are part of whole backwards now out of the list.
  void compress() {
    size_t kept = 0;
    for (size_t i = 0; i < list.size(); ++i)
      if (!isGone[i])
        list[kept++] = list[i];
    list.resize(kept);
  }

private:
  struct Held {
    int32_t unit = 0;
    int64_t offset = 0, bytes = 0;
  };
  struct Taken {
    int32_t unit = 0, block = 0;
    int64_t offset = 0;
    size_t end = 0; ///< the place after which it is free
  };

  /// Places the whole list; with repairs where the unit at hand can do with less.
  bool isPlaced(Fit fit, bool mayRepair) {
    Gaps gaps(limit);
    endsAt.assign(list.size(), {});
    taken.clear();
    std::vector<Gaps> gapsAt(list.size(), gaps);
    std::vector<size_t> takenAt(list.size());
    for (size_t i = 0; i < list.size();) {
      gapsAt[i] = gaps;
      takenAt[i] = taken.size();
      if (i > 0)
        for (const Held &held : endsAt[i - 1])
          gaps.give(held.offset, held.bytes);
      if (isPlacedAt(i, fit, gaps)) {
        ++i;
        continue;
      }
      stuckAt = i;
      if (!mayRepair || !repair(i))
        return false;
      // What begins here may have a block that was received one place earlier.
      i -= i > 0 ? 1 : 0;
      takeBack(takenAt[i]);
      gaps = gapsAt[i];
    }
    return true;
  }

  void takeBack(size_t count) {
    for (; taken.size() > count; taken.pop_back())
      endsAt[taken.back().end].pop_back();
  }

  bool isPlacedAt(size_t i, Fit fit, Gaps &gaps) {
    if (i == 0 && !areTaken(0, true, 0, fit, gaps))
      return false;
    return areTaken(i, false, i, fit, gaps) &&
           (i + 1 == list.size() || areTaken(i + 1, true, i, fit, gaps));
  }

  /// Takes memory at place `now` for the blocks of action `i`: those that it receives, or its own.
  bool areTaken(size_t i, bool received, size_t now, Fit fit, Gaps &gaps) {
    const UnitAction &action = list[i];
    if (isGone[i] || action.kind == ActionKind::WeightGrad)
      return true;
    bool forward = action.kind == ActionKind::Forward;
    BlockBegin begin = forward    ? (received ? BlockBegin::Receive : BlockBegin::Forward)
                       : received ? BlockBegin::ReceiveGrad
                                  : BlockBegin::InputGrad;
    const std::vector<Block> &blocks =
        units.variantOf(action.unit, lists.variants[action.unit]).blocks;
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (blocks[b].begin != begin || !lives.exists(action.unit, blocks[b]))
        continue;
      int64_t bytes = units.bytesOf(action.unit, blocks[b]), offset = 0;
      auto end = static_cast<size_t>(lives.endOf(action.unit, blocks[b]));
      // Nothing lies anywhere, without taking a place from others.
      if (bytes > 0)
        offset = gaps.take(bytes, fit, end <= now + 1);
      if (offset < 0) {
        stuckUnit = action.unit;
        return false;
      }
      endsAt[end].push_back({action.unit, offset, bytes});
      taken.push_back({action.unit, static_cast<int32_t>(b), offset, end});
    }
    return true;
  }

  /// Makes the unit that has no place at `i` need less there, without changing what lies there.
  bool repair(size_t i) {
    ListPlaces &at = lives.all()[stuckUnit];
    if (static_cast<size_t>(at.forward) >= i)
      return isLeaner(stuckUnit);
    if (at.isWhole() || !isTurnAt(stuckUnit, static_cast<size_t>(at.backward)))
      return false;
    list[at.backward].kind = ActionKind::Backward;
    isGone[at.weightGrad] = 1;
    at.weightGrad = -1;
    return true;
  }

  /// Whether all earlier weight gradients of the unit's chunk stand before place `i`.
  bool isTurnAt(int32_t unit, size_t i) const {
    const StepProblem &problem = units.model.problem;
    if (!problem.ascendingWeightGradients)
      return true;
    int32_t chunk = units.units[unit].chunk;
    for (int32_t other = units.unitsOf(chunk, 0).first; other < unit; ++other) {
      const ListPlaces &at = lives.all()[other];
      if (static_cast<size_t>(at.isWhole() ? at.backward : at.weightGrad) > i)
        return false;
    }
    return true;
  }

  bool isLeaner(int32_t unit) {
    if (lists.variants[unit] + 1 >= units.units[unit].variants)
      return false;
    ++lists.variants[unit];
    return true;
  }

  /// The unit that is stuck, or else the one with the largest block that lies there, becomes
  /// leaner.
  bool makeAnyLeaner() {
    if (isLeaner(stuckUnit))
      return true;
    int32_t victim = -1;
    int64_t largest = -1;
    for (size_t end = stuckAt; end < list.size(); ++end)
      for (const Held &held : endsAt[end])
        if (held.bytes > largest &&
            lists.variants[held.unit] + 1 < units.units[held.unit].variants) {
          largest = held.bytes;
          victim = held.unit;
        }
    return victim >= 0 && isLeaner(victim);
  }

  const StepUnits &units;
  StepLists &lists;
  Lives &lives;
  std::vector<UnitAction> &list;
  int64_t limit;
  std::vector<uint8_t> isGone;           ///< by place: its weight gradient runs in a whole backward
  std::vector<std::vector<Held>> endsAt; ///< by place: what is free after it
  std::vector<Taken> taken;              ///< in the order of entries of endsAt
  int32_t stuckUnit = 0;
  size_t stuckAt = 0;
};

/// Whether blocks that live together overlap nowhere, with the lives of these lists.
bool areApart(const StepUnits &units, const StepLists &lists, const StepTimes &times,
              const std::vector<std::vector<BlockPlace>> &places) {
  Lives lives(units, lists, times);
  for (size_t s = 0; s < places.size(); ++s) {
    struct Change {
      int32_t at = 0;
      bool isBegin = false;
      int64_t offset = 0, end = 0;
    };
    std::vector<Change> changes;
    for (const BlockPlace &place : places[s]) {
      int32_t unit = units.unitOf(place);
      const Block &block = units.variantOf(unit, lists.variants[unit]).blocks[place.block];
      int64_t bytes = units.bytesOf(unit, block);
      if (bytes == 0)
        continue;
      changes.push_back({lives.beginOf(unit, block), true, place.offset, place.offset + bytes});
      changes.push_back({lives.endOf(unit, block) + 1, false, place.offset, place.offset + bytes});
    }
    std::stable_sort(changes.begin(), changes.end(), [](const Change &a, const Change &b) {
      return a.at != b.at ? a.at < b.at : a.isBegin < b.isBegin;
    });
    std::map<int64_t, int64_t> alive; ///< end by offset
    for (const Change &change : changes) {
      if (!change.isBegin) {
        alive.erase(change.offset);
        continue;
      }
      auto after = alive.lower_bound(change.offset);
      if ((after != alive.end() && after->first < change.end) ||
          (after != alive.begin() && std::prev(after)->second > change.offset))
        return false;
      alive[change.offset] = change.end;
    }
  }
  return true;
}

} // namespace

std::optional<PlacedLists> placeBlocks(const StepUnits &units, StepLists lists) {
  std::optional<StepTimes> times = timesOf(units, lists);
  // A repair changes times, and with them how long messages are in flight.
  for (int round = 0; round < mostPlacements && times; ++round) {
    PlacedLists placed;
    Lives lives(units, lists, *times);
    std::vector<StagePlacement> stages;
    for (size_t s = 0; s < lists.actions.size(); ++s)
      if (!stages.emplace_back(units, lists, lives, static_cast<int32_t>(s)).run())
        return std::nullopt;
    for (StagePlacement &stage : stages) {
      placed.places.push_back(stage.result());
      stage.compress();
    }
    times = timesOf(units, lists);
    if (times && areApart(units, lists, *times, placed.places)) {
      placed.lists = std::move(lists);
      placed.times = std::move(*times);
      return placed;
    }
  }
  return std::nullopt;
}

} // namespace omnibal::planner
