#include "runtime/planner/lengths/CutFit.h"
#include <limits>

namespace omnibal::planner {
namespace {

constexpr double noTimeLimit = std::numeric_limits<double>::infinity();

} // namespace

CutFit::CutFit(const Problem &problem)
    : model(problem), control(noTimeLimit), choices(makeRematChoices(model, control)) {}

std::optional<std::vector<int>> CutFit::options(const std::vector<int64_t> &cuts) {
  std::vector<int> result;
  for (int64_t s = 0; s < model.stages; ++s) {
    const std::vector<RematChoice> &fitting = choices->of(s, cuts[s], cuts[s + 1]);
    if (fitting.empty())
      return std::nullopt;
    std::vector<int> ofStage = choices->options(s, cuts[s], cuts[s + 1], fitting.front());
    result.insert(result.end(), ofStage.begin(), ofStage.end());
  }
  return result;
}

std::optional<int64_t> CutFit::leastRecomputationNs() {
  // Of the stages so far, by the layers that they hold.
  std::vector<int64_t> least(model.layers + 1, unreachable);
  least[0] = 0;
  for (int64_t s = 0; s < model.stages; ++s) {
    std::vector<int64_t> next(model.layers + 1, unreachable);
    for (int64_t begin = s; begin < model.layers; ++begin)
      for (int64_t end = begin + 1; end <= model.layers - (model.stages - 1 - s); ++end) {
        if (least[begin] >= unreachable || (s == model.stages - 1 && end != model.layers))
          continue;
        const std::vector<RematChoice> &fitting = choices->of(s, begin, end);
        if (fitting.empty())
          break; // more layers fit even less
        next[end] = std::min(next[end], least[begin] + fitting.front()[0]);
      }
    least = std::move(next);
  }
  if (least[model.layers] >= unreachable)
    return std::nullopt;
  return least[model.layers];
}

} // namespace omnibal::planner
