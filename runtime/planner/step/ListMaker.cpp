//===- ListMaker.cpp ---------------------------------------------------------------------===//
#include "runtime/planner/step/ListMaker.h"
#include "runtime/planner/step/StepBound.h"
#include <algorithm>

namespace omnibal::planner {
namespace {

constexpr int64_t never = std::numeric_limits<int64_t>::max();

} // namespace

ListMaker::ListMaker(const StepUnits &units, const std::vector<UnitBytes> &bytes,
                     std::vector<int64_t> limits)
    : units(units), bytes(bytes), limits(std::move(limits)),
      ascending(units.model.problem.ascendingWeightGradients), chunksOf(units.model.problem.stages),
      unitsOfMicrobatch(units.model.problem.microbatches), tails(backwardTails(units)) {
  const StepProblem &problem = units.model.problem;
  for (size_t c = 0; c < problem.chunks.size(); ++c)
    chunksOf[problem.chunks[c].stage].push_back(static_cast<int32_t>(c));
  for (size_t u = 0; u < units.units.size(); ++u)
    unitsOfMicrobatch[units.units[u].microbatch].push_back(static_cast<int32_t>(u));
}

const TimedLists *ListMaker::make(const StepPolicy &wanted, const std::vector<int32_t> &entering) {
  policy = wanted;
  order = entering;
  setKeys(order);
  begin();
  admit(0);
  while (true) {
    int32_t first = 0;
    for (size_t s = 1; s < stages.size(); ++s)
      if (stages[s].wake < stages[first].wake)
        first = static_cast<int32_t>(s);
    if (stages[first].wake == never)
      break;
    decide(first, stages[first].wake);
  }
  for (const Stage &stage : stages)
    made.stepNs = std::max(made.stepNs, stage.busyUntil);
  return left == 0 ? &made : nullptr;
}

void ListMaker::setKeys(const std::vector<int32_t> &entering) {
  const StepProblem &problem = units.model.problem;
  std::vector<int64_t> ranks(entering.size());
  for (size_t i = 0; i < entering.size(); ++i)
    ranks[entering[i]] = static_cast<int64_t>(i);
  // Chunks and micro-batches are below 2^16, parts below 2^6: a key has three of them.
  auto key = [](int64_t major, int64_t middle, int64_t minor) {
    return (major << 44) + (middle << 22) + minor;
  };
  auto chunks = static_cast<int64_t>(problem.chunks.size());
  forwardKeys.resize(units.units.size());
  backwardKeys.resize(units.units.size());
  for (size_t u = 0; u < units.units.size(); ++u) {
    const Unit &unit = units.units[u];
    int64_t place = ranks[unit.microbatch] * 64 + unit.part, height = chunks - unit.chunk;
    switch (policy.forwards) {
    case StepPolicy::Forwards::Microbatch:
      forwardKeys[u] = key(0, place, height);
      break;
    case StepPolicy::Forwards::Depth:
      forwardKeys[u] = key(0, height, place);
      break;
    case StepPolicy::Forwards::Rounds:
      forwardKeys[u] = key(ranks[unit.microbatch] / problem.stages, unit.chunk, place);
      break;
    }
    backwardKeys[u] =
        policy.backwards == StepPolicy::Backwards::LongestWay ? -tails[u] : key(0, place, height);
  }
}

/// Nothing has run, all stages are idle.
void ListMaker::begin() {
  size_t count = units.units.size(), stageCount = chunksOf.size();
  made.stepNs = 0;
  made.lists.actions.resize(stageCount);
  for (std::vector<UnitAction> &list : made.lists.actions)
    list.clear();
  made.lists.variants.assign(count, policy.level);
  stages.resize(stageCount);
  transients.assign(stageCount, 0);
  for (Stage &stage : stages) {
    stage.coming.clear();
    stage.weights.clear();
    stage.busyUntil = stage.reserved = 0;
    stage.wake = never;
    stage.wasForward = false;
  }
  missingForward.resize(count);
  missingBackward.resize(count);
  readyForward.assign(count, 0);
  readyBackward.assign(count, 0);
  hasInputGrad.assign(count, 0);
  turns.clear();
  for (size_t c = 0; c < units.model.problem.chunks.size(); ++c)
    turns.push_back(units.unitsOf(static_cast<int64_t>(c), 0).first);
  backwardsLeft.assign(order.size(), 0);
  for (size_t u = 0; u < count; ++u) {
    auto unit = static_cast<int32_t>(u);
    const Unit &facts = units.units[u];
    missingForward[u] = static_cast<int32_t>(units.forwardNeeds(unit).size());
    missingBackward[u] = static_cast<int32_t>(units.backwardNeeds(unit).size()) + 1;
    ++backwardsLeft[facts.microbatch];
    auto level = std::min<int32_t>(policy.level, facts.variants - 1);
    made.lists.variants[u] = static_cast<uint8_t>(level);
    if (isLimited())
      for (int32_t v = level; v < facts.variants; ++v)
        transients[facts.stage] =
            std::max(transients[facts.stage], bytesOf(unit, v).transient(policy.keepsRoomForSplit));
  }
  admitted = finished = 0;
  left = count;
}

bool ListMaker::hasRoomFor(int32_t microbatch) const {
  std::vector<int64_t> more(stages.size());
  for (int32_t unit : unitsOfMicrobatch[microbatch])
    more[units.units[unit].stage] += leanest(unit).held;
  for (size_t s = 0; s < stages.size(); ++s)
    if (stages[s].reserved + more[s] + transients[s] > limits[s])
      return false;
  return true;
}

/// Lets micro-batches begin while the window and the memory have room.
void ListMaker::admit(int64_t now) {
  while (admitted < order.size() && admitted - finished < static_cast<size_t>(policy.window)) {
    int32_t microbatch = order[admitted];
    if (isLimited() && !hasRoomFor(microbatch))
      return;
    ++admitted;
    for (int32_t unit : unitsOfMicrobatch[microbatch]) {
      if (isLimited())
        stages[units.units[unit].stage].reserved += leanest(unit).held;
      if (missingForward[unit] == 0)
        arrive(unit, true, now);
    }
  }
}

void ListMaker::arrive(int32_t unit, bool isForward, int64_t at) {
  Stage &stage = stages[units.units[unit].stage];
  stage.coming.push_back({at, unit, isForward});
  stage.wake = std::min(stage.wake, std::max(at, stage.busyUntil));
}

ListMaker::Choice ListMaker::look(const Stage &stage, int64_t now) const {
  Choice choice;
  choice.next = never;
  int64_t forwardKey = never, backwardKey = never;
  for (size_t i = 0; i < stage.coming.size(); ++i) {
    const Arrival &arrival = stage.coming[i];
    if (arrival.at > now) {
      choice.next = std::min(choice.next, arrival.at);
    } else if (arrival.isForward) {
      if (int64_t key = forwardKeys[arrival.unit];
          key < forwardKey ||
          (key == forwardKey && arrival.unit < stage.coming[choice.forward].unit)) {
        forwardKey = key;
        choice.forward = static_cast<int32_t>(i);
      }
    } else if (int64_t key = backwardKeys[arrival.unit];
               key < backwardKey ||
               (key == backwardKey && arrival.unit < stage.coming[choice.backward].unit)) {
      backwardKey = key;
      choice.backward = static_cast<int32_t>(i);
    }
  }
  return choice;
}

void ListMaker::take(Stage &stage, int32_t place) {
  stage.coming[place] = stage.coming.back();
  stage.coming.pop_back();
}

/// The weight gradient that fits the gap best, or -1.
int32_t ListMaker::weightFor(const Stage &stage, int32_t number, int64_t gap) const {
  int32_t fitting = -1, delaying = -1;
  int64_t longest = -1, leastDelay = never;
  auto consider = [&](int32_t unit) {
    int64_t time = units.duration(unit, made.lists.variants[unit], ActionKind::WeightGrad);
    if (time <= gap) {
      if (time > longest) {
        longest = time;
        fitting = unit;
      }
    } else if (time - gap < leastDelay &&
               __int128{time - gap} * 16 <= __int128{policy.overlap} * time) {
      leastDelay = time - gap;
      delaying = unit;
    }
  };
  if (!ascending) {
    for (int32_t unit : stage.weights)
      consider(unit);
  } else {
    for (int32_t chunk : chunksOf[number])
      if (isWeightReady(chunk))
        consider(turns[chunk]);
  }
  return fitting >= 0 ? fitting : delaying;
}

/// Whether the chunk's next weight gradient in order may run.
bool ListMaker::isWeightReady(int32_t chunk) const {
  int32_t end = units.unitsOf(chunk, units.model.problem.microbatches - 1).second;
  return turns[chunk] < end && hasInputGrad[turns[chunk]];
}

/// Starts what the stage runs at `now`, or lets it wait.
void ListMaker::decide(int32_t number, int64_t now) {
  Stage &stage = stages[number];
  Choice choice = look(stage, now);
  bool backwardFirst = policy.phase == StepPolicy::Phase::BackwardFirst ||
                       (policy.phase == StepPolicy::Phase::InTurn && stage.wasForward);
  if (choice.backward >= 0 && (backwardFirst || choice.forward < 0) &&
      runBackward(number, choice.backward, now))
    return;
  bool mayFree = isLimited() && (choice.backward >= 0 || weightFor(stage, number, never) >= 0);
  if (choice.forward >= 0 && runForward(number, choice.forward, now, mayFree))
    return;
  // A forward that makes room for itself lets the backward go first.
  if (choice.backward >= 0 && runBackward(number, choice.backward, now))
    return;
  int64_t gap = choice.next == never ? never : choice.next - now;
  // Something ready waits for memory or for a turn: weight gradients give both.
  if (choice.forward >= 0 || choice.backward >= 0)
    gap = never;
  if (int32_t unit = weightFor(stage, number, gap); unit >= 0)
    return runWeight(number, unit, now);
  if (choice.forward >= 0 && runForward(number, choice.forward, now, false))
    return;
  stage.wake = choice.next;
}

/// Runs a forward in the fattest variant that has room. Where the wanted one has none and something
/// can be freed first, it lets that go first.
bool ListMaker::runForward(int32_t number, int32_t place, int64_t now, bool mayFree) {
  Stage &stage = stages[number];
  int32_t unit = stage.coming[place].unit;
  if (isLimited()) {
    int64_t others = stage.reserved - leanest(unit).held + transients[number];
    int32_t variant = made.lists.variants[unit], last = units.units[unit].variants - 1;
    if (mayFree && variant < last && others + bytesOf(unit, variant).held > limits[number])
      return false;
    while (variant < last && others + bytesOf(unit, variant).held > limits[number])
      ++variant;
    made.lists.variants[unit] = static_cast<uint8_t>(variant);
    stage.reserved += bytesOf(unit, variant).held - leanest(unit).held;
  }
  take(stage, place);
  start(number, ActionKind::Forward, unit, now);
  int64_t end = stage.busyUntil;
  readyBackward[unit] = std::max(readyBackward[unit], end);
  if (--missingBackward[unit] == 0)
    arrive(unit, false, readyBackward[unit]);
  for (const Need &fed : units.forwardFeeds(unit)) {
    readyForward[fed.unit] = std::max(readyForward[fed.unit], end + fed.delayNs);
    if (--missingForward[fed.unit] == 0)
      arrive(fed.unit, true, readyForward[fed.unit]);
  }
  return true;
}

/// Runs an input gradient, or a whole backward where halves are not wanted or have no room. False
/// where it must wait: it has room only as a whole and it is not its turn.
bool ListMaker::runBackward(int32_t number, int32_t place, int64_t now) {
  Stage &stage = stages[number];
  int32_t unit = stage.coming[place].unit;
  const UnitBytes &own = bytesOf(unit, made.lists.variants[unit]);
  int64_t splitNeeds = std::max(own.duringInputGrad, own.split + transients[number]);
  bool hasRoom = !isLimited() || stage.reserved - own.held + splitNeeds <= limits[number];
  bool isWhole = isTurn(unit) && (!policy.isSplit || !hasRoom);
  if (!isWhole && !hasRoom)
    return false;
  take(stage, place);
  start(number, isWhole ? ActionKind::Backward : ActionKind::InputGrad, unit, now);
  if (isLimited())
    stage.reserved += (isWhole ? 0 : own.split) - own.held;
  if (isWhole) {
    ++turns[units.units[unit].chunk];
    --left;
  } else {
    hasInputGrad[unit] = 1;
    if (!ascending)
      stage.weights.push_back(unit);
  }
  inputDone(unit, stage.busyUntil);
  return true;
}

void ListMaker::inputDone(int32_t unit, int64_t at) {
  for (const Need &fed : units.backwardFeeds(unit)) {
    readyBackward[fed.unit] = std::max(readyBackward[fed.unit], at + fed.delayNs);
    if (--missingBackward[fed.unit] == 0)
      arrive(fed.unit, false, readyBackward[fed.unit]);
  }
  if (--backwardsLeft[units.units[unit].microbatch] == 0)
    ++finished;
  admit(at);
}

void ListMaker::runWeight(int32_t number, int32_t unit, int64_t now) {
  Stage &stage = stages[number];
  if (ascending) {
    ++turns[units.units[unit].chunk];
  } else {
    auto found = std::find(stage.weights.begin(), stage.weights.end(), unit);
    stage.weights.erase(found);
  }
  --left;
  start(number, ActionKind::WeightGrad, unit, now);
  if (isLimited()) {
    stage.reserved -= bytesOf(unit, made.lists.variants[unit]).split;
    admit(stage.busyUntil);
  }
}

void ListMaker::start(int32_t number, ActionKind kind, int32_t unit, int64_t now) {
  Stage &stage = stages[number];
  made.lists.actions[number].push_back({kind, unit});
  stage.busyUntil = now + units.duration(unit, made.lists.variants[unit], kind);
  stage.wake = stage.busyUntil;
  if (kind != ActionKind::WeightGrad)
    stage.wasForward = kind == ActionKind::Forward;
}

} // namespace omnibal::planner
