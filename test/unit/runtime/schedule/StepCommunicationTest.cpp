//===- StepCommunicationTest.cpp - Messages of random step plans -----------------------------===//
#include "runtime/schedule/StepCommunication.h"
#include "runtime/planner/step/StepSearch.h"
#include "runtime/program/Names.h"
#include "runtime/program/verify/VerifyLists.h"
#include "test/unit/runtime/schedule/RandomPlannedStep.h"
#include <functional>
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

using planner::BlockBegin, planner::BlockEnd;

/// The verdict of rules p7, p8 and, where the transport has one queue, p11.
std::string brokenRule(const RandomPlannedStep &step, const ActionLists &lists,
                       TransportOrder order = TransportOrder::OneQueue) {
  std::vector<StageActions> stages = stageActionsOf(step, lists);
  for (auto verify : {verifyEnds, verifyRendezvous, verifyOneQueue})
    if (verify == verifyOneQueue && order == TransportOrder::Any)
      continue;
    else if (Status status = verify(stages, "step 0"); !status)
      return status.message();
  return "";
}

/// When blocks are in use, as positions in a stage's list with messages: a received one from the
/// start of its first message, a sent one to the end of its last, and others as their actions are.
class MemoryShadow {
public:
  MemoryShadow(const RandomPlannedStep &step, const ActionLists &lists) : step(step) {
    for (size_t s = 0; s < lists.size(); ++s)
      for (size_t i = 0; i < lists[s].size(); ++i) {
        const Action &a = lists[s][i];
        int64_t at = static_cast<int64_t>(i);
        if (a.kind <= ActionKind::WeightGrad)
          ran[{a.kind, a.index, a.unit()}] = at;
        else if (a.kind == ActionKind::PostRecv)
          posted[{a.index, a.unit()}] = at;
        else if (a.kind == ActionKind::WaitSend)
          sent[{a.index, a.unit()}] = at;
      }
  }

  /// Blocks that are in use at once in one place, or "".
  std::string overlap() const {
    for (size_t s = 0; s < step.plan.places.size(); ++s) {
      std::vector<Use> uses;
      for (const planner::BlockPlace &place : step.plan.places[s])
        uses.push_back(useOf(place));
      for (size_t i = 0; i < uses.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (const Use &a = uses[i], &b = uses[j]; a.from <= b.to && b.from <= a.to &&
                                                    a.offset < b.offset + b.bytes &&
                                                    b.offset < a.offset + a.bytes)
            return "stage " + std::to_string(s) + ": " + a.name + " and " + b.name;
    }
    return "";
  }

  /// How many blocks lie where another one has lain before.
  int64_t reused() const {
    int64_t count = 0;
    for (const std::vector<planner::BlockPlace> &places : step.plan.places)
      for (size_t i = 0; i < places.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (Use a = useOf(places[i]), b = useOf(places[j]);
              a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes) {
            ++count;
            break;
          }
    return count;
  }

private:
  struct Use {
    int64_t from = 0, to = 0, offset = 0, bytes = 0;
    std::string name;
  };

  int64_t at(ActionKind kind, int32_t chunk, Unit unit) const {
    auto found = ran.find({kind, chunk, unit});
    return found == ran.end() ? -1 : found->second;
  }

  Use useOf(const planner::BlockPlace &place) const {
    const int32_t c = place.chunk;
    const Unit m{place.microbatch, place.part};
    const auto [first, end] = step.units.unitsOf(c, place.microbatch);
    const int32_t unit = first + place.part;
    const planner::Block &block =
        step.units.variantOf(unit, step.lists.variants[unit]).blocks[place.block];
    int64_t forward = at(ActionKind::Forward, c, m),
            backward = std::max(at(ActionKind::Backward, c, m), at(ActionKind::InputGrad, c, m)),
            weights = std::max(backward, at(ActionKind::WeightGrad, c, m));
    bool gradient = block.begin == BlockBegin::ReceiveGrad || block.begin == BlockBegin::InputGrad;
    bool received = block.begin == BlockBegin::Receive || block.begin == BlockBegin::ReceiveGrad;
    Use use{gradient ? backward : forward, 0, place.offset, step.units.bytesOf(unit, block),
            "block " + std::to_string(place.block) + " of chunk " + std::to_string(c) + ", " +
                nameOf(m)};
    use.to = block.end == BlockEnd::Forward      ? forward
             : block.end == BlockEnd::InputGrad  ? backward
             : block.end == BlockEnd::WeightGrad ? weights
                                                 : use.from;
    for (const Message &message : step.messages)
      if (message.gradient == gradient) {
        // Of each of its parts, where only the other end is divided.
        for (int32_t part = 0; part < 64; ++part) {
          if (end - first > 1 && part != m.part)
            continue;
          const std::pair<int32_t, Unit> key{message.id, {m.microbatch, part}};
          if (auto post = posted.find(key);
              received && message.toChunk == c && post != posted.end())
            use.from = std::min(use.from, post->second);
          if (auto wait = sent.find(key);
              block.end == BlockEnd::Send && message.fromChunk == c && wait != sent.end())
            use.to = std::max(use.to, wait->second);
        }
      }
    // Values that stay on the stage are read where they are.
    if (block.end == BlockEnd::Send)
      for (const planner::Need &reader :
           gradient ? step.units.backwardFeeds(unit) : step.units.forwardFeeds(unit)) {
        const planner::Unit &other = step.units.units[reader.unit];
        if (other.stage != step.units.units[unit].stage)
          continue;
        const Unit reads{other.microbatch, other.part};
        use.to = std::max(use.to, gradient ? std::max(at(ActionKind::Backward, other.chunk, reads),
                                                      at(ActionKind::InputGrad, other.chunk, reads))
                                           : at(ActionKind::Forward, other.chunk, reads));
      }
    return use;
  }

  const RandomPlannedStep &step;
  std::map<std::tuple<ActionKind, int32_t, Unit>, int64_t> ran;
  std::map<std::pair<int32_t, Unit>, int64_t> posted, sent; ///< by message
};

/// Whether each message's send stands right behind the action that makes its data, but for other
/// messages' starts and waits.
std::string lateSend(const RandomPlannedStep &step, const ActionLists &lists) {
  for (size_t s = 0; s < lists.size(); ++s) {
    Action last;
    for (const Action &a : lists[s]) {
      if (a.kind <= ActionKind::WeightGrad)
        last = a;
      const Message *message = a.kind == ActionKind::Send ? &step.messages[a.index] : nullptr;
      auto parts = [&] {
        const auto [first, end] = step.units.unitsOf(message->fromChunk, a.microbatch);
        return end - first;
      };
      if (message && (last.index != message->fromChunk || last.microbatch != a.microbatch ||
                      (parts() > 1 && last.part != a.part)))
        return "stage " + std::to_string(s) + ": message " + std::to_string(a.index);
    }
  }
  return "";
}

TEST(StepCommunication, InAnyOrderMessagesLeaveAtOnce) {
  int64_t plans = 0, elsewhere = 0;
  for (uint64_t seed = 0; plans < 1000; ++seed) {
    auto step = RandomPlannedStep::make(seed);
    if (!step)
      continue;
    ++plans;
    ActionLists lists =
        insertCommunication(step->plan.actions, step->times, step->messages, TransportOrder::Any);
    ASSERT_EQ(brokenRule(*step, lists, TransportOrder::Any), "") << "seed " << seed;
    ASSERT_EQ(MemoryShadow(*step, lists).overlap(), "") << "seed " << seed;
    ASSERT_EQ(lateSend(*step, lists), "") << "seed " << seed;
    ActionLists queued = insertCommunication(step->plan.actions, step->times, step->messages);
    elsewhere += !lateSend(*step, queued).empty();
  }
  EXPECT_GT(elsewhere, 100);
}

TEST(StepCommunication, RandomPlansFinishAndKeepTheirMemory) {
  int64_t plans = 0, messages = 0, reused = 0, limited = 0;
  for (uint64_t seed = 0; plans < 1000; ++seed) {
    auto step = RandomPlannedStep::make(seed);
    if (!step)
      continue;
    ++plans;
    limited += !step->problem.memoryBytes.empty();
    ActionLists lists = insertCommunication(step->plan.actions, step->times, step->messages);
    ASSERT_EQ(brokenRule(*step, lists), "") << "seed " << seed;
    MemoryShadow shadow(*step, lists);
    ASSERT_EQ(shadow.overlap(), "") << "seed " << seed;
    reused += shadow.reused();
    for (size_t s = 0; s < lists.size(); ++s) {
      size_t computing = 0;
      for (const Action &action : lists[s]) {
        computing += action.kind <= ActionKind::WeightGrad;
        messages += action.kind == ActionKind::Send;
      }
      EXPECT_EQ(computing, step->plan.actions[s].size());
    }
  }
  // Plans without messages or with a place for every block would show nothing.
  EXPECT_GT(messages, 8000);
  EXPECT_GT(reused, 5000);
  EXPECT_GT(limited, 300);
}

TEST(StepCommunication, EveryMessageOfTheStepIsThere) {
  int64_t divided = 0; // messages of later parts
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    auto step = RandomPlannedStep::make(seed);
    if (!step)
      continue;
    std::set<std::pair<int32_t, Unit>> expected, found;
    auto isVision = [&](int64_t chunk) {
      return step->problem.chunks[chunk].component == planner::ChunkComponent::Vision;
    };
    for (const Message &message : step->messages)
      for (const planner::Unit &maker : step->units.units)
        for (const planner::Unit &reader : step->units.units)
          if (maker.chunk == message.fromChunk && reader.chunk == message.toChunk &&
              maker.microbatch == reader.microbatch &&
              (maker.part == reader.part || !isVision(maker.chunk) || !isVision(reader.chunk))) {
            expected.insert(
                {message.id, {maker.microbatch, maker.part + reader.part * (maker.part == 0)}});
            divided += maker.part + reader.part > 0;
          }
    for (const auto &list : insertCommunication(step->plan.actions, step->times, step->messages))
      for (const Action &action : list)
        if (action.kind == ActionKind::Send)
          found.insert({action.index, action.unit()});
    EXPECT_TRUE(found == expected) << "seed " << seed;
  }
  EXPECT_GT(divided, 100);
}

/// A change of the lists, and the rule that sees it.
struct ListBreak {
  const char *rule, *what;
  std::function<bool(std::vector<Action> &)> change;
};

size_t findKind(const std::vector<Action> &list, ActionKind kind, size_t from = 0) {
  while (from < list.size() && list[from].kind != kind)
    ++from;
  return from;
}

std::function<bool(std::vector<Action> &)> dropFirst(ActionKind kind) {
  return [kind](std::vector<Action> &list) {
    size_t at = findKind(list, kind);
    if (at == list.size())
      return false;
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    return true;
  };
}

/// Moves the first action of a kind to the front.
std::function<bool(std::vector<Action> &)> moveToFront(ActionKind kind) {
  return [kind](std::vector<Action> &list) {
    size_t at = findKind(list, kind);
    if (at == list.size())
      return false;
    std::rotate(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(at),
                list.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    return true;
  };
}

/// Exchanges the first two actions of a kind.
std::function<bool(std::vector<Action> &)> exchange(ActionKind kind) {
  return [kind](std::vector<Action> &list) {
    size_t first = findKind(list, kind), second = findKind(list, kind, first + 1);
    if (second >= list.size())
      return false;
    std::swap(list[first], list[second]);
    return true;
  };
}

TEST(StepCommunication, ChangedListsAreRefused) {
  const ListBreak breaks[] = {
      {"p7", "a receive is never started", dropFirst(ActionKind::PostRecv)},
      {"p7", "a receive is not awaited", dropFirst(ActionKind::WaitRecv)},
      {"p7", "a send is never started", dropFirst(ActionKind::Send)},
      {"p7", "a send is not awaited", dropFirst(ActionKind::WaitSend)},
      {"p7", "a receive is awaited before it starts", moveToFront(ActionKind::WaitRecv)},
      {"p11", "two receives are exchanged", exchange(ActionKind::PostRecv)},
      {"p11", "two sends are exchanged", exchange(ActionKind::Send)},
  };
  for (const ListBreak &change : breaks) {
    int seen = 0;
    for (uint64_t seed = 0; seed < 300 && seen < 3; ++seed) {
      auto step = RandomPlannedStep::make(seed);
      if (!step)
        continue;
      ActionLists lists = insertCommunication(step->plan.actions, step->times, step->messages);
      for (std::vector<Action> &list : lists)
        if (std::vector<Action> before = list; change.change(list)) {
          std::string broken = brokenRule(*step, lists);
          seen += broken.starts_with(std::string(change.rule) + ":");
          list = before;
        }
    }
    EXPECT_GE(seen, 3) << change.rule << ": " << change.what;
  }
}

/// Takes all actions of a kind out of a list and puts them at its begin or end.
std::vector<Action> withKindAt(const std::vector<Action> &list, ActionKind kind, bool begin) {
  std::vector<Action> moved, result;
  for (const Action &action : list)
    (action.kind == kind ? moved : result).push_back(action);
  result.insert(begin ? result.begin() : result.end(), moved.begin(), moved.end());
  return result;
}

/// Rule p8 sees sends that start too late, and the shadow sends that are not awaited in time and
/// receives that start too early.
TEST(StepCommunication, EventsInOtherPlacesAreSeen) {
  int64_t stuck = 0, overwrittenSends = 0, overwrittenReceives = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    auto step = RandomPlannedStep::make(seed);
    if (!step)
      continue;
    ActionLists lists = insertCommunication(step->plan.actions, step->times, step->messages);
    for (std::vector<Action> &list : lists) {
      const std::vector<Action> before = list;
      list = withKindAt(before, ActionKind::WaitSend, false);
      overwrittenSends += !MemoryShadow(*step, lists).overlap().empty();
      list = withKindAt(withKindAt(before, ActionKind::Send, false), ActionKind::WaitSend, false);
      stuck += brokenRule(*step, lists).starts_with("p8:");
      list = withKindAt(before, ActionKind::PostRecv, true);
      overwrittenReceives += !MemoryShadow(*step, lists).overlap().empty();
      list = before;
    }
  }
  EXPECT_GT(stuck, 20);
  EXPECT_GT(overwrittenSends, 20);
  EXPECT_GT(overwrittenReceives, 20);
}

} // namespace
} // namespace omnibal::rt
