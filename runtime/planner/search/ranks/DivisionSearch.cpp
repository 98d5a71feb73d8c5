#include "runtime/planner/search/ranks/DivisionSearch.h"
#include "runtime/planner/model/ProblemSize.h"
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace omnibal::planner {
namespace {

std::string textOf(const RankDivision &division) {
  const std::string parts =
      division.parts > 1 ? std::to_string(division.parts) + " parts x " : std::string();
  return parts + std::to_string(division.stages) + " stages x " +
         std::to_string(division.replicas) + " replicas" + (division.zero ? " with ZeRO-1" : "") +
         (division.rankOrder == rt::RankOrder::Replica ? ", replicas as neighbors" : "");
}

/// The order among divisions that take equally long.
auto simplicity(const RankDivision &division) {
  return std::tuple(division.parts, division.zero, division.stages, division.rankOrder);
}
using Simplicity = decltype(simplicity(RankDivision()));
auto simplicity(const RankCandidate &candidate) {
  return std::tuple_cat(simplicity(candidate.division), std::tuple(candidate.layoutPrice));
}

class DivisionSearch {
public:
  DivisionSearch(const std::string &schedule, DivisionPlanner &planner, RankReport &report)
      : schedule(schedule), isSearched(schedule == "auto" || schedule == "per-step"),
        planner(planner), report(report) {}

  DivisionSearchEnd run(int64_t layers) {
    if (!areListed(layers))
      return DivisionSearchEnd::Refused;
    if (report.candidates.empty())
      return DivisionSearchEnd::NoDivision;
    planAll();
    const bool isFound = best != nullptr;
    if (isFound)
      best->isChosen = true;
    keepBestLayouts();
    if (!isFound)
      return DivisionSearchEnd::NoneFits;
    report.boundNs = leastBound();
    return DivisionSearchEnd::Chosen;
  }

private:
  /// False: the first candidate cannot be, and the others need not or cannot.
  bool areListed(int64_t layers) {
    for (const RankDivision &division : rankDivisions(report.limits, layers)) {
      addCandidate(division);
      if (report.candidates.back().isRefused && planner.mustServe(division)) {
        report.candidates = {report.candidates.back()};
        return false;
      }
    }
    isOneDivision = report.candidates.size() == 1;
    addOtherPrices();
    auto isRefused = [](const RankCandidate &each) { return each.isRefused; };
    if (!report.candidates.empty() &&
        std::all_of(report.candidates.begin(), report.candidates.end(), isRefused))
      return false;
    std::sort(report.candidates.begin(), report.candidates.end(),
              [](const RankCandidate &a, const RankCandidate &b) {
                return std::tuple(a.boundNs, simplicity(a)) < std::tuple(b.boundNs, simplicity(b));
              });
    return true;
  }

  void addCandidate(const RankDivision &division) {
    RankCandidate &candidate = report.candidates.emplace_back();
    candidate.division = division;
    if (costsOf(candidate)) {
      candidate.boundNs = boundOf(candidate);
      return;
    }
    candidate.isRefused = true;
    candidate.boundNs = std::numeric_limits<int64_t>::max(); // behind all that have one
    candidate.ruledOut = planner.whyRefused(division);
  }

  void addOtherPrices() {
    std::vector<RankCandidate> others;
    for (const RankCandidate &usual : report.candidates) {
      if (usual.isRefused)
        continue;
      std::set<const Problem *> known = {nullptr, costsOf(usual)};
      for (double price : planner.otherPrices(usual.division)) {
        RankCandidate candidate = usual;
        candidate.layoutPrice = price;
        if (!known.insert(costsOf(candidate)).second)
          continue;
        candidate.boundNs = boundOf(candidate);
        others.push_back(std::move(candidate));
      }
    }
    report.candidates.insert(report.candidates.end(), others.begin(), others.end());
  }

  const Problem *costsOf(const RankCandidate &candidate) {
    return planner.costsOf(candidate.division, candidate.layoutPrice);
  }

  int64_t boundOf(const RankCandidate &candidate) {
    Problem problem = *costsOf(candidate);
    problem.schedule = isSearched ? "auto" : schedule;
    return planner::boundOf(problem, candidate.division, report.limits.node);
  }

  /// Of several layouts of one division, leaves those whose plan is best. `isUndecided`: those
  /// without a plan stay, too.
  void keepBestLayouts(bool isUndecided = false) {
    std::map<Simplicity, const RankCandidate *> kept;
    auto rank = [](const RankCandidate &each) {
      const bool isPlanned = each.stepNs || each.isInfeasible; // its bound says nothing more
      return std::tuple(!each.stepNs, each.stepNs, each.isInfeasible, isPlanned ? 0 : each.boundNs,
                        each.layoutPrice);
    };
    for (const RankCandidate &each : report.candidates) {
      const RankCandidate *&first = kept[simplicity(each.division)];
      if (!first || rank(each) < rank(*first))
        first = &each;
    }
    std::vector<RankCandidate> left;
    for (RankCandidate &each : report.candidates)
      if (kept.at(simplicity(each.division)) == &each || (isUndecided && !each.stepNs))
        left.push_back(each);
      else if (!each.isInfeasible)
        boundOfDropped = std::min(boundOfDropped, each.boundNs);
    report.candidates = std::move(left);
  }

  void planAll() {
    purpose = isOneDivision ? SearchPurpose::Only : SearchPurpose::OneOfSeveral;
    if (!isSearched || isOneDivision) {
      planWithEach({schedule});
      return;
    }
    purpose = SearchPurpose::Ranking;
    planWithEach({"1f1b", "zb-h1"});
    purpose = SearchPurpose::OneOfSeveral;
    keepBestLayouts(/*isUndecided=*/true);
    // Those without a plan last: another schedule may need less memory.
    std::sort(report.candidates.begin(), report.candidates.end(),
              [](const RankCandidate &a, const RankCandidate &b) {
                return std::tuple(!a.stepNs, a.stepNs, a.boundNs, simplicity(a)) <
                       std::tuple(!b.stepNs, b.stepNs, b.boundNs, simplicity(b));
              });
    best = nullptr;
    const int64_t leastNs = report.candidates.front().stepNs.value_or(0);
    int searched = 0;
    for (RankCandidate &candidate : report.candidates) {
      if (candidate.stepNs && isFarBehind(candidate, leastNs)) {
        candidate.ruledOut = "no schedule searched, as the best named one is far behind";
      } else if (candidate.stepNs && searched >= mostSearched) {
        candidate.ruledOut = "no schedule searched, as others are ahead";
      } else {
        searched += candidate.stepNs.has_value();
        planOne(candidate, {schedule});
      }
    }
  }

  void planWithEach(const std::vector<std::string> &schedules) {
    for (RankCandidate &candidate : report.candidates)
      planOne(candidate, schedules);
    if (best)
      for (const RankDivision &division : nearlyBest())
        planBetween(division, schedules);
  }

  /// Divisions with parts, those of the least steps first.
  std::vector<RankDivision> nearlyBest() {
    std::vector<const RankCandidate *> near;
    std::set<Simplicity> listed;
    for (const RankCandidate &each : report.candidates)
      if (each.stepNs && each.division.parts > 1 && !isFarBehind(each, *best->stepNs))
        near.push_back(&each);
    std::sort(near.begin(), near.end(),
              [](const RankCandidate *a, const RankCandidate *b) { return isBetter(*a, *b); });
    std::vector<RankDivision> divisions;
    for (const RankCandidate *each : near)
      if (divisions.size() < mostSearched && listed.insert(simplicity(each->division)).second)
        divisions.push_back(each->division);
    return divisions;
  }

  void planBetween(const RankDivision &division, const std::vector<std::string> &schedules) {
    std::set<const Problem *> tried = {nullptr, planner.costsOf(division, std::nullopt)};
    for (double price : planner.otherPrices(division))
      tried.insert(planner.costsOf(division, price));
    for (double price : planner.pricesBetween(division, schedules, *best->stepNs)) {
      if (!tried.insert(planner.costsOf(division, price)).second)
        continue;
      RankCandidate &candidate = append(division);
      candidate.layoutPrice = price;
      candidate.boundNs = boundOf(candidate);
      planOne(candidate, schedules);
    }
  }

  /// The best one may move in memory.
  RankCandidate &append(const RankDivision &division) {
    const auto place = best - report.candidates.data();
    report.candidates.emplace_back().division = division;
    best = &report.candidates[place];
    return report.candidates.back();
  }

  static bool isFarBehind(const RankCandidate &candidate, int64_t leastNs) {
    return static_cast<double>(*candidate.stepNs) >= farBehind * static_cast<double>(leastNs);
  }

  /// Plans it with each of the schedules; the best plan counts.
  void planOne(RankCandidate &candidate, const std::vector<std::string> &schedules) {
    if (candidate.isRefused)
      return;
    RankCandidate again;
    again.division = candidate.division;
    again.boundNs = candidate.boundNs;
    again.layoutPrice = candidate.layoutPrice;
    again.ranked = std::move(candidate.ranked);
    candidate = std::move(again);
    if (!mayWin(candidate))
      return;
    planCosts(candidate, schedules);
    if (candidate.isInfeasible && !candidate.layoutPrice)
      planWithLeastMemory(candidate, schedules);
  }

  bool mayWin(RankCandidate &candidate) {
    if (best && candidate.boundNs >= *best->stepNs)
      candidate.ruledOut = "its bound is not below " + textOf(best->division);
    return candidate.ruledOut.empty();
  }

  void planWithLeastMemory(RankCandidate &candidate, const std::vector<std::string> &schedules) {
    const std::optional<double> price = planner.leastMemory(candidate.division);
    if (!price || !planner.costsOf(candidate.division, price))
      return;
    RankCandidate again = candidate;
    again.layoutPrice = price;
    again.ranked.reset();
    again.boundNs = boundOf(again);
    again.isInfeasible = false;
    again.ruledOut.clear();
    const RankCandidate before = std::exchange(candidate, std::move(again));
    if (mayWin(candidate))
      planCosts(candidate, schedules);
    if (candidate.isInfeasible)
      candidate = before; // whose reason is that of what was asked for
  }

  void planCosts(RankCandidate &candidate, const std::vector<std::string> &schedules) {
    candidate.ruledOut =
        tooLarge(dividedBy(*costsOf(candidate), candidate.division, report.limits.node));
    if (!candidate.ruledOut.empty()) // which is no proof that there is no plan
      return;
    std::string why;
    for (const std::string &each : schedules)
      if (std::optional<DivisionStep> planned = planner.plan(candidate, each, purpose, why))
        consider(candidate, *planned, each);
    if (candidate.stepNs)
      return;
    candidate.isInfeasible =
        why.find(noPlanInTime) == std::string::npos && why.find(noPlanFound) == std::string::npos;
    candidate.ruledOut = std::move(why);
  }

  void consider(RankCandidate &candidate, const DivisionStep &planned, const std::string &with) {
    // The bound of a schedule is none of another's.
    if (planned.boundNs && with == schedule)
      candidate.boundNs = std::max(candidate.boundNs, *planned.boundNs);
    if (candidate.stepNs && *candidate.stepNs <= planned.stepNs)
      return;
    candidate.stepNs = planned.stepNs;
    if (purpose == SearchPurpose::Ranking)
      candidate.ranked = {with, planned.stepNs};
    if (best && best != &candidate && !isBetter(candidate, *best))
      return;
    best = &candidate;
    planner.keepPlan();
  }

  static bool isBetter(const RankCandidate &a, const RankCandidate &b) {
    return std::tuple(*a.stepNs, simplicity(a)) < std::tuple(*b.stepNs, simplicity(b));
  }

  int64_t leastBound() const {
    int64_t least = std::min(*report.chosen().stepNs, boundOfDropped);
    for (const RankCandidate &candidate : report.candidates)
      if (!candidate.isInfeasible && !candidate.isRefused)
        least = std::min(least, candidate.boundNs);
    return least;
  }

  const std::string &schedule;
  const bool isSearched; ///< the schedule, too
  DivisionPlanner &planner;
  RankReport &report;
  bool isOneDivision = false;
  SearchPurpose purpose = SearchPurpose::OneOfSeveral; ///< of each plan
  RankCandidate *best = nullptr;                       ///< until layouts are dropped
  int64_t boundOfDropped = std::numeric_limits<int64_t>::max();
};

} // namespace

const RankCandidate &RankReport::chosen() const {
  return *std::find_if(candidates.begin(), candidates.end(),
                       [](const RankCandidate &each) { return each.isChosen; });
}

SearchOptions optionsFor(SearchPurpose purpose, const SearchOptions &only) {
  if (purpose == SearchPurpose::Only)
    return only;
  SearchOptions options = only;
  options.seconds = secondsForOne;
  options.work = workForOne;
  options.effort = purpose == SearchPurpose::Ranking ? Effort::Quick : Effort::Proof;
  return options;
}

DivisionSearchEnd searchDivisions(const RankLimits &limits, int64_t layers,
                                  const std::string &schedule, DivisionPlanner &planner,
                                  RankReport &report) {
  report = {limits, {}, 0};
  return DivisionSearch(schedule, planner, report).run(layers);
}

std::string noneFits(const RankReport &report) {
  std::string text = "no division of " + std::to_string(report.limits.ranks) + " ranks has a plan";
  for (const RankCandidate &candidate : report.candidates)
    text += "\n  " + textOf(candidate.division) + ": " + candidate.ruledOut;
  return text;
}

} // namespace omnibal::planner
