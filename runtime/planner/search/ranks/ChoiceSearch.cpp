#include "runtime/planner/search/ranks/ChoiceSearch.h"
#include "runtime/planner/json/ProblemJson.h"
#include <map>
#include <utility>

namespace omnibal::planner {
namespace {

class ChoicePlanner : public DivisionPlanner {
public:
  ChoicePlanner(const PlanChoice &choice, const SearchOptions &only) : choice(choice), only(only) {
    for (const PartsCosts &costs : choice.costs) {
      rt::JsonWriter text;
      text.object([&] { writeLayers(text, costs.problem); });
      Problem &problem = different.try_emplace(text.take(), costs.problem).first->second;
      problem.cluster = choice.cluster;
      undivided.push_back(&problem);
    }
  }

  const Problem *costsOf(const RankDivision &division, std::optional<double> price) override {
    const Problem *found = nullptr;
    for (size_t i = 0; i < choice.costs.size(); ++i) {
      const PartsCosts &each = choice.costs[i];
      if (each.parts != division.parts || each.layoutPrice != price)
        continue;
      if (!each.zeroReplicas)
        found = undivided[i];
      else if (division.zero > 0 && *each.zeroReplicas == division.replicas)
        return undivided[i];
    }
    return found;
  }
  std::string whyRefused(const RankDivision &division) override {
    const std::string parts = std::to_string(division.parts) + " parts";
    for (const PartsCosts &each : choice.costs)
      if (each.parts == division.parts)
        return "the costs for " + parts + " are those of other `zero_replicas`";
    return "no costs for " + parts + " are given";
  }
  bool mustServe(const RankDivision &) override { return false; }

  std::vector<double> otherPrices(const RankDivision &division) override {
    std::vector<double> prices;
    for (const PartsCosts &costs : choice.costs)
      if (costs.parts == division.parts && costs.layoutPrice)
        prices.push_back(*costs.layoutPrice);
    return prices;
  }
  std::optional<double> leastMemory(const RankDivision &) override { return std::nullopt; }
  std::vector<double> pricesBetween(const RankDivision &, const std::vector<std::string> &,
                                    int64_t) override {
    return {};
  }

  std::optional<DivisionStep> plan(const RankCandidate &candidate, const std::string &schedule,
                                   SearchPurpose purpose, std::string &why) override {
    last.problem = dividedBy(*costsOf(candidate.division, candidate.layoutPrice),
                             candidate.division, choice.limits.node);
    last.problem.schedule = schedule;
    last.search = searchPlan(last.problem, optionsFor(purpose, only));
    if (last.search.plan)
      return DivisionStep{last.search.plan->stepNs, last.search.lowerBoundNs};
    if (why.empty())
      why = last.search.problem;
    return std::nullopt;
  }
  void keepPlan() override { kept = std::move(last); }

  ChosenPlan kept;

private:
  const PlanChoice &choice;
  const SearchOptions &only;
  std::map<std::string, Problem> different; ///< by their text
  std::vector<const Problem *> undivided;   ///< by costs
  ChosenPlan last;
};

} // namespace

ChosenPlan searchChoice(const PlanChoice &choice, const SearchOptions &only, RankReport &report) {
  ChoicePlanner planner(choice, only);
  const auto layers = static_cast<int64_t>(choice.costs.front().problem.layers.size());
  const DivisionSearchEnd end =
      searchDivisions(choice.limits, layers, choice.schedule, planner, report);
  switch (end) {
  case DivisionSearchEnd::Chosen:
    break;
  case DivisionSearchEnd::NoDivision:
    planner.kept.search.problem =
        "no division of " + std::to_string(choice.limits.ranks) +
        " ranks gives every replica equally many of " + std::to_string(choice.limits.groups) +
        " groups with at most " + std::to_string(layers) +
        " stages and a number of parts that has costs and that a node holds (and what `parts`, "
        "`stages`, `data_parallel` and `zero` say); change `ranks`, `groups` or `costs`";
    break;
  case DivisionSearchEnd::Refused:
    planner.kept.search.problem = report.candidates.front().ruledOut;
    break;
  case DivisionSearchEnd::NoneFits:
    planner.kept = {};
    planner.kept.search.problem = noneFits(report);
    break;
  }
  return std::move(planner.kept);
}

} // namespace omnibal::planner
