//===- DivisionSearch.h - How many parts, stages and replicas -------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_RANKS_DIVISIONSEARCH_H
#define RUNTIME_PLANNER_SEARCH_RANKS_DIVISIONSEARCH_H

#include "runtime/planner/search/Search.h"
#include "runtime/planner/search/ranks/RankCandidates.h"
#include <string>

namespace omnibal::planner {

/// What a named schedule takes.
struct NamedStep {
  std::string schedule;
  int64_t stepNs = 0;
};

/// A division of the ranks, and what became of it.
struct RankCandidate {
  RankDivision division;
  int64_t boundNs = 0;           ///< no plan of it takes less
  std::optional<int64_t> stepNs; ///< of the best plan found
  std::string ruledOut;          ///< why it was not planned, or has no plan; empty: it has one
  bool isInfeasible = false;     ///< it has no plan
  bool isRefused = false;        ///< so many parts cannot run the model
  bool isChosen = false;
  /// Of memory, at which its layouts were searched, where that was not the usual price.
  std::optional<double> layoutPrice = std::nullopt;
  /// The better of the schedules that it was ranked by.
  std::optional<NamedStep> ranked = std::nullopt;
};

struct RankReport {
  RankLimits limits;
  std::vector<RankCandidate> candidates; ///< one a division, in the order of their bounds
  int64_t boundNs = 0;                   ///< no plan of any division takes less

  const RankCandidate &chosen() const;
};

/// What a plan of a division takes, and a bound on all plans under its schedule, if there is one.
struct DivisionStep {
  int64_t stepNs = 0;
  std::optional<int64_t> boundNs;
};

/// What a search for one division is for: `Ranking` needs a good plan and no proof, since the best
/// ones are planned again; `OneOfSeveral` makes the plan that may be chosen; `Only` may take as
/// long as if the division had been asked for.
enum class SearchPurpose : uint8_t { Ranking, OneOfSeveral, Only };

/// Knows what stages cost under a division, and plans it. Layouts of a division's layers that trade
/// memory for time differ by a price; no price stands for the usual one.
class DivisionPlanner {
public:
  virtual ~DivisionPlanner() = default;

  /// What a division is planned on: layers, edges, and links and memory of all ranks. Null where
  /// the model cannot be divided so. Equal costs are one object.
  virtual const Problem *costsOf(const RankDivision &division, std::optional<double> price) = 0;
  virtual std::string whyRefused(const RankDivision &division) = 0;
  /// Whether that ends the search.
  virtual bool mustServe(const RankDivision &division) = 0;

  /// Prices that are tried with the usual one.
  virtual std::vector<double> otherPrices(const RankDivision &division) = 0;
  /// The price that leaves least in memory, tried where no plan fits at the usual one.
  virtual std::optional<double> leastMemory(const RankDivision &division) = 0;
  /// More prices, tried for one of the best divisions with parts; none where they cannot gain over
  /// a step of `bestNs` under these schedules.
  virtual std::vector<double> pricesBetween(const RankDivision &division,
                                            const std::vector<std::string> &schedules,
                                            int64_t bestNs) = 0;

  /// Plans a candidate for that purpose. Says in `why` why there is no plan, unless a reason
  /// stands there.
  virtual std::optional<DivisionStep> plan(const RankCandidate &candidate,
                                           const std::string &schedule, SearchPurpose purpose,
                                           std::string &why) = 0;
  /// The plan that was made last is the best so far.
  virtual void keepPlan() = 0;
};

constexpr double farBehind = 1.2;
constexpr int mostSearched = 4;
/// Of the best step over a bound, from which on more prices are tried.
constexpr double leastGain = 1.001;
/// Of a search for one division of several: about two seconds, but the same on every machine, and
/// seconds only against a machine that does next to nothing.
constexpr int64_t workForOne = int64_t{1} << 29;
constexpr double secondsForOne = 120;

/// `only`: of a division that is asked for.
SearchOptions optionsFor(SearchPurpose purpose, const SearchOptions &only);

/// `NoDivision`: no division gives all replicas equally many micro-batches. `Refused`: the model
/// cannot be divided like the first candidate of the report. `NoneFits`: none has a plan.
enum class DivisionSearchEnd : uint8_t { Chosen, NoDivision, Refused, NoneFits };

/// Plans every division of the ranks with at most `layers` stages that could be the best. A
/// division whose bound is not below a step that was found is passed over. Of equal steps the one
/// of fewer parts, then without ZeRO-1, then of fewer stages. Where the schedule is to be searched
/// ("auto" or "per-step"), too, all divisions are ranked by 1F1B and ZB-H1 first, and only the
/// `mostSearched` best, and of them those whose step is then less than `farBehind` times the best,
/// get a schedule of their own. The `mostSearched` best are planned at prices between, too.
DivisionSearchEnd searchDivisions(const RankLimits &limits, int64_t layers,
                                  const std::string &schedule, DivisionPlanner &planner,
                                  RankReport &report);

/// "no division of 32 ranks has a plan", and a line with the reason for each.
std::string noneFits(const RankReport &report);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_RANKS_DIVISIONSEARCH_H
