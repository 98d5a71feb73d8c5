//===- FirstLists.cpp --------------------------------------------------------------------===//
#include "runtime/planner/step/FirstLists.h"
#include <algorithm>
#include <numeric>
#include <span>

namespace omnibal::planner {
namespace {

using enum StepPolicy::Phase;
using enum EntryOrder;
using Forwards = StepPolicy::Forwards;
using Backwards = StepPolicy::Backwards;

/// How many micro-batches may be under way: all, or so many for so many stages.
enum class Window : uint8_t { All, OneMore, Twice };

struct ListRow {
  StepPolicy::Phase phase;
  Forwards forwards;
  Backwards backwards;
  int32_t overlap; ///< in 16ths
  EntryOrder order;
  Window window = Window::All;
  int64_t level = 0; ///< thirds of the variants
};

/// Where the pipeline is full for most of the step.
constexpr ListRow manyRows[] = {
    {ForwardFirst, Forwards::Microbatch, Backwards::LongestWay, 16, LeastTiles},
    {InTurn, Forwards::Microbatch, Backwards::LongestWay, 16, LeastLast},
    {ForwardFirst, Forwards::Microbatch, Backwards::LongestWay, 16, LeastLast},
    {InTurn, Forwards::Microbatch, Backwards::LongestWay, 16, LeastTiles},
    {InTurn, Forwards::Rounds, Backwards::Microbatch, 16, LeastLast},
    {InTurn, Forwards::Microbatch, Backwards::LongestWay, 16, Natural},
    {ForwardFirst, Forwards::Rounds, Backwards::LongestWay, 16, LeastTiles},
    {InTurn, Forwards::Microbatch, Backwards::LongestWay, 16, SmallAtEnds},
    {InTurn, Forwards::Microbatch, Backwards::Microbatch, 16, Natural},
};

/// Where it fills and drains for most of the step.
constexpr ListRow fewRows[] = {
    {InTurn, Forwards::Rounds, Backwards::LongestWay, 8, LeastTiles},
    {ForwardFirst, Forwards::Microbatch, Backwards::LongestWay, 8, LeastTiles},
    {BackwardFirst, Forwards::Rounds, Backwards::LongestWay, 12, Natural},
    {InTurn, Forwards::Microbatch, Backwards::LongestWay, 12, LeastTiles},
    {BackwardFirst, Forwards::Depth, Backwards::LongestWay, 8, SmallAtEnds},
    {ForwardFirst, Forwards::Rounds, Backwards::LongestWay, 16, LeastTiles},
    {InTurn, Forwards::Microbatch, Backwards::LongestWay, 12, Natural},
    {ForwardFirst, Forwards::Microbatch, Backwards::LongestWay, 8, LeastWork},
};

/// The same with micro-batches in parts.
constexpr ListRow partRows[] = {
    {InTurn, Forwards::Microbatch, Backwards::LongestWay, 12, Natural},
    {InTurn, Forwards::Microbatch, Backwards::LongestWay, 16, LeastTiles},
    {InTurn, Forwards::Depth, Backwards::Microbatch, 16, Natural},
    {InTurn, Forwards::Microbatch, Backwards::LongestWay, 12, SmallAtEnds},
};

constexpr ListRow limitedRows[] = {
    {InTurn, Forwards::Depth, Backwards::LongestWay, 16, SmallAtEnds, Window::Twice, 1},
    {InTurn, Forwards::Rounds, Backwards::LongestWay, 16, LeastWork, Window::Twice},
    {ForwardFirst, Forwards::Rounds, Backwards::Microbatch, 8, LeastTiles, Window::OneMore, 1},
    {InTurn, Forwards::Microbatch, Backwards::Microbatch, 8, SmallAtEnds, Window::Twice, 2},
    {BackwardFirst, Forwards::Microbatch, Backwards::Microbatch, 8, LeastTiles, Window::OneMore, 1},
    {InTurn, Forwards::Depth, Backwards::Microbatch, 8, SmallAtEnds, Window::OneMore, 1},
    {ForwardFirst, Forwards::Microbatch, Backwards::Microbatch, 16, SmallAtEnds, Window::OneMore},
    {BackwardFirst, Forwards::Rounds, Backwards::Microbatch, 8, LeastWork, Window::OneMore, 2},
    {BackwardFirst, Forwards::Rounds, Backwards::Microbatch, 8, LeastWork, Window::OneMore, 1},
    {BackwardFirst, Forwards::Rounds, Backwards::LongestWay, 16, LeastTiles, Window::Twice, 1},
    {InTurn, Forwards::Rounds, Backwards::LongestWay, 16, SmallAtEnds, Window::Twice, 2},
    {BackwardFirst, Forwards::Microbatch, Backwards::LongestWay, 8, LeastWork, Window::Twice, 1},
    {BackwardFirst, Forwards::Microbatch, Backwards::LongestWay, 16, LeastTiles, Window::Twice},
    {BackwardFirst, Forwards::Rounds, Backwards::LongestWay, 8, LeastLast, Window::OneMore, 1},
    {InTurn, Forwards::Microbatch, Backwards::LongestWay, 8, LeastTiles, Window::OneMore, 1},
    {ForwardFirst, Forwards::Microbatch, Backwards::Microbatch, 16, SmallAtEnds, Window::OneMore,
     2},
    {BackwardFirst, Forwards::Rounds, Backwards::Microbatch, 8, Natural, Window::OneMore, 2},
};

FirstList listOf(const ListRow &row, const StepProblem &problem) {
  const int64_t all = problem.microbatches, stages = problem.stages;
  const int64_t wanted = row.window == Window::OneMore ? stages + 1 : 2 * stages;
  const auto third = static_cast<int64_t>(std::max<size_t>(1, mostVariants(problem) / 3));
  StepPolicy policy{row.phase, row.forwards, row.backwards};
  policy.window = static_cast<int32_t>(row.window == Window::All ? all : std::min(wanted, all));
  policy.overlap = row.overlap;
  policy.level = static_cast<uint8_t>(third * row.level);
  return {policy, row.order};
}

std::vector<FirstList> listsOf(std::span<const ListRow> rows, const StepProblem &problem) {
  std::vector<FirstList> lists;
  for (const ListRow &row : rows)
    lists.push_back(listOf(row, problem));
  return lists;
}

} // namespace

std::vector<FirstList> firstLists(const StepProblem &problem, bool isLimited) {
  if (isLimited)
    return listsOf(limitedRows, problem);
  if (problem.microbatches < 2 * problem.stages)
    return listsOf(fewRows, problem);
  return listsOf(manyRows, problem);
}

std::vector<FirstList> firstListsOfParts(const StepProblem &problem) {
  return listsOf(partRows, problem);
}

std::vector<int32_t> entryOrder(EntryOrder order, const StepLoads &loads,
                                const SplitChoices &choices) {
  std::vector<int32_t> sorted(loads.microbatches.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  if (order == Natural)
    return sorted;
  std::stable_sort(sorted.begin(), sorted.end(), [&](int32_t a, int32_t b) {
    if (order == LeastTiles)
      return loads.microbatches[a].load.tiles < loads.microbatches[b].load.tiles;
    return choices.workOf(a) < choices.workOf(b);
  });
  if (order == LeastLast)
    std::rotate(sorted.begin(), sorted.begin() + 1, sorted.end());
  if (order != SmallAtEnds)
    return sorted;
  std::vector<int32_t> ends(sorted.size());
  size_t front = 0, back = ends.size();
  for (size_t i = 0; i < sorted.size(); ++i)
    (i % 2 == 0 ? ends[front++] : ends[--back]) = sorted[i];
  return ends;
}

} // namespace omnibal::planner
