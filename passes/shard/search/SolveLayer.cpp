//===- SolveLayer.cpp - A dynamic program over the ops of a layer in order --------------------===//
//
// After an op, all that matters of what was chosen before is in which layouts the values are that
// later ops read, and in which of these backward keeps them. Choices that agree in this are one
// state, of which the cheapest goes on.
//
// A layout that a value has is forgotten where no later op reads it and no later move would begin
// at it; so is what is kept, where no later op adds to it.
//
//===-------------------------------------------------------------------------------------------===//
#include "passes/shard/search/SolveLayer.h"
#include "passes/shard/search/StateTable.h"
#include <algorithm>
#include <cassert>
#include <unordered_map>

namespace omnibal::shard {
namespace {

/// A table grows to so many times the states that go on before it is cut.
constexpr size_t slack = 4;

/// What a state knows of a value: layouts as bits.
struct Known {
  uint32_t made = 0, kept = 0;
  uint64_t word() const { return static_cast<uint64_t>(kept) << 32 | made; }
  static Known of(uint64_t word) {
    return {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)};
  }
};

/// A way of an op, with how parameters are held that it is the first to read.
struct Step {
  unsigned way;
  std::vector<std::pair<unsigned, unsigned>> held; ///< value, layout
  Cost cost;
};

class StateSearch {
public:
  explicit StateSearch(const LayerProblem &problem) : problem(problem) {
    findUses();
    values.resize(problem.values.size());
    for (size_t op = 0; op < problem.ops.size(); ++op)
      steps.push_back(stepsOf(op));
    remaining.assign(problem.ops.size() + 1, 0);
    for (size_t op = problem.ops.size(); op-- > 0;) {
      Cost least = impossible;
      for (const Step &step : steps[op])
        least = std::min(least, step.cost);
      remaining[op] = std::min(impossible, remaining[op + 1] + least);
    }
  }

  /// Goes on with at most `limit` states, the cheapest, and with none that can only lead above
  /// `most`.
  std::optional<LayerSolution> run(size_t limit, Cost most) {
    stateLimit = limit;
    costLimit = most;
    origins.clear();
    isCut = false;
    table = StateTable(live.front().size());
    std::vector<uint64_t> start;
    for (unsigned value : live.front())
      start.push_back(Known{1U << problem.values[value].native, 0}.word());
    // A parameter that no op reads is held as is cheapest.
    Cost unread = 0;
    for (size_t i = 0; i < problem.values.size(); ++i)
      if (problem.values[i].kind == SearchValue::Kind::Parameter && firstRead[i] < 0)
        unread += *std::min_element(problem.values[i].held.begin(), problem.values[i].held.end());
    table.add(start, unread, {0, 0});
    size_t largest = 1;
    for (size_t op = 0; op < problem.ops.size(); ++op) {
      advance(op);
      largest = std::max(largest, table.size());
      if (table.size() == 0)
        return std::nullopt;
    }
    LayerChoice choice = trace();
    std::optional<LayerCost> cost = costOf(problem, choice);
    assert(cost && cost->total() == table.cost(0));
    return LayerSolution{std::move(choice), *cost, largest, !isCut};
  }

  /// Whether the last run left states out that might have led to less.
  bool hasCut() const { return isCut; }

private:
  /// What later ops do with a value.
  struct Future {
    uint32_t reads = 0; ///< layouts
    bool keeps = false;
  };

  void findUses();
  std::vector<Step> stepsOf(size_t op) const;
  void advance(size_t op);
  void cut(StateTable &states);
  Cost keep(unsigned value, unsigned layout);
  Cost readOperands(const SearchOp &op, const SearchWay &way);
  Cost makeResults(const SearchOp &op, const SearchWay &way);
  LayerChoice trace() const;
  Known forgetting(unsigned value, Known known, const Future &future) const;

  const LayerProblem &problem;
  std::vector<std::vector<unsigned>> live;  ///< in front of each op, and behind the last: values
  std::vector<std::vector<Future>> futures; ///< by op and live value: behind the op
  std::vector<int64_t> firstRead, lastRead; ///< by value; -1: none
  std::vector<std::vector<Step>> steps;     ///< by op
  StateTable table{0};                      ///< behind the ops so far
  std::vector<std::vector<StateTable::Origin>> origins; ///< by op: of the states behind it
  std::vector<Cost> remaining; ///< in front of each op: what it and later ones take at least
  std::vector<Known> values;   ///< of the state that goes on, by value
  size_t stateLimit = 0;
  Cost costLimit = impossible;
  bool isCut = false;
};

void StateSearch::findUses() {
  const size_t count = problem.values.size();
  firstRead.assign(count, -1);
  lastRead.assign(count, -1);
  std::vector<int64_t> made(count, -1);
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    for (unsigned value : problem.ops[op].operands) {
      lastRead[value] = static_cast<int64_t>(op);
      if (firstRead[value] < 0)
        firstRead[value] = static_cast<int64_t>(op);
    }
    for (unsigned value : problem.ops[op].results)
      made[value] = static_cast<int64_t>(op);
  }
  for (size_t op = 0; op <= problem.ops.size(); ++op) {
    std::vector<unsigned> &values = live.emplace_back();
    const auto here = static_cast<int64_t>(op);
    for (unsigned value = 0; value < count; ++value) {
      const SearchValue &of = problem.values[value];
      const int64_t begin = of.kind == SearchValue::Kind::Input       ? -1
                            : of.kind == SearchValue::Kind::Parameter ? firstRead[value]
                                                                      : made[value];
      if (begin < here && lastRead[value] >= here)
        values.push_back(value);
    }
  }
  std::vector<Future> future(count);
  futures.resize(problem.ops.size());
  for (size_t op = problem.ops.size(); op-- > 0;) {
    for (unsigned value : live[op + 1])
      futures[op].push_back(future[value]);
    const SearchOp &of = problem.ops[op];
    for (size_t j = 0; j < of.operands.size(); ++j) {
      Future &own = future[of.operands[j]];
      for (const SearchWay &way : of.ways)
        own.reads |= 1U << way.reads[j];
      own.keeps |= of.keepsOperand[j];
    }
  }
}

/// The ways of an op; those that are the first to read a parameter, once for each way to hold it,
/// or for the cheapest one where no other op reads it.
std::vector<Step> StateSearch::stepsOf(size_t number) const {
  const SearchOp &op = problem.ops[number];
  std::vector<Step> result;
  for (unsigned way = 0; way < op.ways.size(); ++way) {
    std::vector<Step> found{{way, {}, op.ways[way].work}};
    std::vector<unsigned> seen;
    for (unsigned parameter : op.operands) {
      const SearchValue &value = problem.values[parameter];
      if (value.kind != SearchValue::Kind::Parameter ||
          firstRead[parameter] != static_cast<int64_t>(number) ||
          std::find(seen.begin(), seen.end(), parameter) != seen.end())
        continue;
      seen.push_back(parameter);
      std::vector<std::pair<Cost, unsigned>> natives;
      for (unsigned native = 0; native < value.layouts; ++native) {
        bool fits = value.held[native] < impossible;
        for (size_t j = 0; j < op.operands.size(); ++j) {
          const unsigned read = op.ways[way].reads[j];
          fits &= op.operands[j] != parameter || read == native ||
                  value.moves[native * value.layouts + read] < impossible;
        }
        if (fits)
          natives.push_back({value.held[native], native});
      }
      if (lastRead[parameter] == static_cast<int64_t>(number) && !natives.empty())
        natives = {*std::min_element(natives.begin(), natives.end())};
      std::vector<Step> extended;
      for (const Step &step : found)
        for (auto [cost, native] : natives) {
          extended.push_back(step);
          extended.back().held.push_back({parameter, native});
          extended.back().cost += cost;
        }
      found = std::move(extended);
    }
    result.insert(result.end(), found.begin(), found.end());
  }
  return result;
}

Known StateSearch::forgetting(unsigned number, Known known, const Future &future) const {
  const SearchValue &value = problem.values[number];
  if (!future.keeps)
    known.kept = 0;
  if (value.kind == SearchValue::Kind::Parameter)
    return known;
  for (unsigned layout = 0; layout < value.layouts; ++layout) {
    const uint32_t rest = known.made & ~(1U << layout);
    if (!(known.made >> layout & 1) || (future.reads >> layout & 1) || rest == 0)
      continue;
    bool isSource = false;
    for (unsigned to = 0; to < value.layouts && !isSource; ++to)
      isSource =
          (future.reads & ~known.made) >> to & 1 && sourceOf(value, known.made, to) == layout;
    if (!isSource)
      known.made = rest;
  }
  return known;
}

Cost StateSearch::keep(unsigned value, unsigned layout) {
  const SearchValue &of = problem.values[value];
  if (of.kept.empty())
    return 0;
  Known &known = values[value];
  const uint32_t more = known.kept | 1U << of.keptAs[layout];
  const Cost cost = keptCost(of, more) - keptCost(of, known.kept);
  known.kept = more;
  return cost;
}

/// Moves operands to where the way reads them; what comes on top of its own cost, or at least
/// `impossible`.
Cost StateSearch::readOperands(const SearchOp &op, const SearchWay &way) {
  Cost cost = 0;
  for (size_t j = 0; j < op.operands.size() && cost < impossible; ++j) {
    const unsigned value = op.operands[j], read = way.reads[j];
    const SearchValue &of = problem.values[value];
    Known &known = values[value];
    if (!(known.made >> read & 1)) {
      cost += of.moves[sourceOf(of, known.made, read) * of.layouts + read];
      if (of.kind != SearchValue::Kind::Parameter)
        known.made |= 1U << read;
    }
    if (op.keepsOperand[j])
      cost += keep(value, read);
  }
  return cost;
}

Cost StateSearch::makeResults(const SearchOp &op, const SearchWay &way) {
  Cost cost = 0;
  for (size_t j = 0; j < op.results.size(); ++j) {
    values[op.results[j]] = {1U << way.layouts[j], 0};
    if (op.keepsResult[j])
      cost += keep(op.results[j], way.layouts[j]);
  }
  return cost;
}

void StateSearch::cut(StateTable &states) {
  isCut = true;
  states = states.cheapest(stateLimit);
}

/// Of the states before the op only the origins stay.
void StateSearch::advance(size_t number) {
  const SearchOp &op = problem.ops[number];
  const std::vector<unsigned> &before = live[number], &after = live[number + 1];
  std::vector<std::unordered_map<uint64_t, uint64_t>> forgotten(after.size());
  StateTable next(after.size());
  const StateTable &from = table;
  std::vector<uint64_t> key(after.size());
  for (uint32_t state = 0; state < from.size(); ++state)
    for (uint32_t s = 0; s < steps[number].size(); ++s) {
      const Step &step = steps[number][s];
      const SearchWay &way = op.ways[step.way];
      for (size_t i = 0; i < before.size(); ++i)
        values[before[i]] = Known::of(from.row(state)[i]);
      for (auto [parameter, layout] : step.held)
        values[parameter] = {1U << layout, 0};
      Cost cost = from.cost(state) + step.cost + readOperands(op, way);
      if (cost >= impossible || cost + remaining[number + 1] > costLimit)
        continue;
      cost += makeResults(op, way);
      for (size_t i = 0; i < after.size(); ++i) {
        const Known known = values[after[i]];
        auto [found, isNew] = forgotten[i].try_emplace(known.word(), 0);
        if (isNew)
          found->second = forgetting(after[i], known, futures[number][i]).word();
        key[i] = found->second;
      }
      next.add(key, cost, {state, s});
      if (next.size() > slack * stateLimit)
        cut(next);
    }
  if (next.size() > stateLimit)
    cut(next);
  origins.push_back(next.takeOrigins());
  table = std::move(next);
}

LayerChoice StateSearch::trace() const {
  LayerChoice choice;
  choice.ways.resize(problem.ops.size());
  choice.held.assign(problem.values.size(), 0);
  for (size_t i = 0; i < problem.values.size(); ++i)
    if (problem.values[i].kind == SearchValue::Kind::Parameter && firstRead[i] < 0) {
      const std::vector<Cost> &held = problem.values[i].held;
      choice.held[i] =
          static_cast<unsigned>(std::min_element(held.begin(), held.end()) - held.begin());
    }
  size_t state = 0; // nothing is live behind the last op
  for (size_t op = problem.ops.size(); op-- > 0;) {
    const StateTable::Origin origin = origins[op][state];
    const Step &step = steps[op][origin.step];
    choice.ways[op] = step.way;
    for (auto [parameter, layout] : step.held)
      choice.held[parameter] = layout;
    state = origin.state;
  }
  return choice;
}

/// The problem with one of the four terms alone.
LayerProblem withOnly(LayerProblem problem, Cost LayerCost::*term) {
  auto clear = [](std::vector<Cost> &costs) {
    for (Cost &cost : costs)
      cost = cost >= impossible ? cost : 0;
  };
  for (SearchValue &value : problem.values) {
    if (term != &LayerCost::moves)
      clear(value.moves);
    if (term != &LayerCost::kept)
      value.kept.clear();
    if (term != &LayerCost::held)
      clear(value.held);
  }
  if (term != &LayerCost::work)
    for (SearchOp &op : problem.ops)
      for (SearchWay &way : op.ways)
        way.work = way.work >= impossible ? way.work : 0;
  return problem;
}

} // namespace

std::optional<LayerSolution> solveLayer(const LayerProblem &problem, const StateLimits &limits) {
  StateSearch search(problem);
  auto quick = search.run(limits.quick, impossible);
  if (quick && quick->isExact)
    return quick;
  // What a few states lead to is a limit for all.
  auto found = search.run(limits.most, quick ? quick->cost.total() : impossible);
  // All states that went on may lead to what is not legal, while others do not.
  for (size_t most = 2 * limits.most; !found && !quick && search.hasCut(); most *= 2)
    found = search.run(most, impossible);
  if (found && !found->isExact && quick && quick->cost.total() < found->cost.total())
    return quick;
  return found ? found : quick;
}

std::optional<LayerCost> boundOf(const LayerProblem &problem, const StateLimits &limits) {
  LayerCost bound;
  for (Cost LayerCost::*term :
       {&LayerCost::work, &LayerCost::moves, &LayerCost::kept, &LayerCost::held}) {
    auto solution = solveLayer(withOnly(problem, term), limits);
    if (!solution || !solution->isExact)
      return std::nullopt;
    bound.*term = solution->cost.*term;
  }
  return bound;
}

} // namespace omnibal::shard
