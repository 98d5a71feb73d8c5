#include "passes/plan/StepVariants.h"
#include <algorithm>
#include <cmath>

namespace omnibal::plan {
namespace {

using planner::RematOption;

/// Of a chunk, from the fastest to the leanest. More would gain little: micro-batches of a chunk
/// may differ in theirs.
constexpr size_t mostVariants = 8;

/// Options of a chunk's layers, as numbers in Layer::remat.
struct Choice {
  std::vector<size_t> options;
  int64_t savedBytes = 0;
};

class ChunkVariants {
public:
  ChunkVariants(const planner::Problem &problem, const planner::Plan &plan, size_t chunk)
      : problem(problem), first(plan.cuts[chunk]), last(plan.cuts[chunk + 1]) {
    for (int64_t l = first; l < last; ++l) {
      const std::vector<RematOption> &options = problem.layers[l].remat;
      auto known = std::find_if(options.begin(), options.end(), [&](const RematOption &option) {
        return option.name == plan.remat[l];
      });
      planned.options.push_back(known - options.begin());
    }
    planned.savedBytes = savedBytes(planned);
  }

  std::vector<Choice> run() {
    std::vector<Choice> chain = frontier(), chosen;
    const auto most = static_cast<double>(std::max<int64_t>(1, chain.front().savedBytes)),
               least = static_cast<double>(std::max<int64_t>(1, chain.back().savedBytes));
    for (size_t i = 0; i < mostVariants; ++i) {
      // A memory that holds k micro-batches of one size holds k + 1 of the next one.
      const double wanted =
          most * std::pow(least / most, static_cast<double>(i) / (mostVariants - 1));
      add(chosen,
          *std::min_element(chain.begin(), chain.end(), [&](const Choice &a, const Choice &b) {
            return std::abs(static_cast<double>(a.savedBytes) - wanted) <
                   std::abs(static_cast<double>(b.savedBytes) - wanted);
          }));
    }
    add(chosen, planned);
    std::stable_sort(chosen.begin(), chosen.end(),
                     [](const Choice &a, const Choice &b) { return a.savedBytes > b.savedBytes; });
    return chosen;
  }

private:
  const RematOption &optionOf(const Choice &choice, size_t layer) const {
    return problem.layers[first + static_cast<int64_t>(layer)].remat[choice.options[layer]];
  }

  int64_t savedBytes(const Choice &choice) const {
    int64_t bytes = 0;
    for (size_t l = 0; l < choice.options.size(); ++l)
      bytes += optionOf(choice, l).savedBytes;
    return bytes;
  }

  static void add(std::vector<Choice> &chosen, const Choice &choice) {
    if (std::none_of(chosen.begin(), chosen.end(),
                     [&](const Choice &other) { return other.options == choice.options; }))
      chosen.push_back(choice);
  }

  /// From the fastest choice on, each time the option that frees most bytes for its time.
  std::vector<Choice> frontier() const {
    Choice choice;
    for (int64_t l = first; l < last; ++l)
      choice.options.push_back(fastest(problem.layers[l].remat));
    choice.savedBytes = savedBytes(choice);
    std::vector<Choice> chain{choice};
    while (advance(choice)) {
      choice.savedBytes = savedBytes(choice);
      chain.push_back(choice);
    }
    return chain;
  }

  static size_t fastest(const std::vector<RematOption> &options) {
    return std::min_element(options.begin(), options.end(),
                            [](const RematOption &a, const RematOption &b) {
                              return std::pair(a.recomputeNs, a.savedBytes) <
                                     std::pair(b.recomputeNs, b.savedBytes);
                            }) -
           options.begin();
  }

  bool advance(Choice &choice) const {
    double best = 0;
    size_t bestLayer = 0, bestOption = 0;
    for (size_t l = 0; l < choice.options.size(); ++l) {
      const RematOption &now = optionOf(choice, l);
      const std::vector<RematOption> &options =
          problem.layers[first + static_cast<int64_t>(l)].remat;
      for (size_t o = 0; o < options.size(); ++o) {
        const int64_t freed = now.savedBytes - options[o].savedBytes;
        // A byte more for nothing is still the better one.
        const auto time =
            static_cast<double>(std::max<int64_t>(1, options[o].recomputeNs - now.recomputeNs));
        if (freed > 0 && static_cast<double>(freed) / time > best) {
          best = static_cast<double>(freed) / time;
          bestLayer = l;
          bestOption = o;
        }
      }
    }
    if (best > 0)
      choice.options[bestLayer] = bestOption;
    return best > 0;
  }

  const planner::Problem &problem;
  int64_t first, last;
  Choice planned;
};

} // namespace

layout::StepVariants chooseStepVariants(const planner::Problem &problem,
                                        const planner::Plan &plan) {
  layout::StepVariants variants(problem.layers.size());
  for (size_t c = 0; c + 1 < plan.cuts.size(); ++c)
    for (const Choice &choice : ChunkVariants(problem, plan, c).run())
      for (size_t i = 0; i < choice.options.size(); ++i) {
        const size_t layer = plan.cuts[c] + i;
        variants[layer].push_back(problem.layers[layer].remat[choice.options[i]].name);
      }
  return variants;
}

} // namespace omnibal::plan
