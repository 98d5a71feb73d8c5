//===- LengthJudge.h - What the candidates make of an epoch under given cuts ----------------===//
//
// The relaxed time of an epoch: the modes that pay are chosen from the candidates, every bin of
// samples takes its least time in one of them (docs/batching.md), and each mode takes what the
// slowest stage takes for the samples that it gets.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_LENGTHS_LENGTHJUDGE_H
#define RUNTIME_PLANNER_LENGTHS_LENGTHJUDGE_H

#include "runtime/batching/lengths/ModeChoice.h"
#include "runtime/planner/lengths/JointCuts.h"
#include "runtime/planner/lengths/ModeTimes.h"
#include <optional>

namespace omnibal::planner {

/// A length group that may be chosen, with its planning problem.
struct LengthCandidate {
  rt::LengthGroup group; ///< its cost is left open
  ModeProblem mode;
  /// The limits of its plans, where they are less than the problem's: without what a stage needs
  /// beside what the search counts.
  std::vector<int64_t> limitBytes;
};

/// By candidate: the option number of every layer; none where the stages cannot hold it.
using CandidateOptions = std::vector<std::optional<std::vector<int>>>;

/// The numbers of the options that a plan of the problem has.
std::vector<int> optionsOf(const Problem &problem, const std::vector<std::string> &remat);

struct LengthVerdict {
  std::vector<rt::ModeCost> costs; ///< by candidate; nothing set where it does not fit
  /// By candidate: what a rank takes for a token of the samples that want it (else of all that it
  /// holds), bubbles included.
  std::vector<double> tokenNs;
  std::vector<bool> wanted;    ///< by candidate: it is the best one for some length
  std::vector<int32_t> chosen; ///< candidates, ascending; none: they do not hold all samples
  double relaxedNs = 0;        ///< infinite where they do not
};

class LengthJudge {
public:
  /// The candidates outlive this.
  LengthJudge(const std::vector<rt::Cell> &cells, const std::vector<LengthCandidate> &candidates,
              int32_t replicas, int32_t stages);

  LengthVerdict judge(const std::vector<int64_t> &cuts, const CandidateOptions &options) const;

private:
  std::vector<ModeLoad> loadsHeld() const;
  std::vector<ModeLoad> loadsOf(const rt::LengthGroups &groups, const std::vector<bool> &fits,
                                std::vector<bool> *wanted = nullptr) const;
  double timeOf(const std::vector<int32_t> &chosen, const rt::LengthGroups &groups,
                const std::vector<int64_t> &cuts, const CandidateOptions &options) const;
  double tokenNsOf(const rt::LengthGroup &group, const ModeLoad &load) const;

  const std::vector<LengthCandidate> &candidates;
  rt::LengthGroups shape; ///< the candidates' groups without costs
  std::vector<rt::LengthBin> bins;
};

/// Cuts for all candidates by the relaxed epoch (searchJointCuts). `own`: the plan of each under
/// the best cuts for it alone.
JointSearch searchSharedCuts(const LengthJudge &judge,
                             const std::vector<LengthCandidate> &candidates,
                             std::vector<SearchResult> own);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_LENGTHS_LENGTHJUDGE_H
