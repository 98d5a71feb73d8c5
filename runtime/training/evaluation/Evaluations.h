//===- Evaluations.h - Evaluations while a run trains -----------------------------------------===//
#ifndef RUNTIME_TRAINING_EVALUATION_EVALUATIONS_H
#define RUNTIME_TRAINING_EVALUATION_EVALUATIONS_H

#include "runtime/training/evaluation/Scoring.h"

namespace omnibal::rt {

/// One of them.
struct Evaluation {
  Scores scores;
  double seconds = 0;
  bool isBest = false; ///< of the run so far
  int64_t bestStep = -1;
  double bestLoss = 0;
  Status unread; ///< what all ranks agreed cannot be read; then there are no scores
};

/// When a run is evaluated, and what was found so far, which is the same on all ranks. Steps are
/// counted as completed ones.
class Evaluations {
public:
  Evaluations(Session &session, const DataSource &training);

  bool isDue(int64_t completed, int64_t total) const;
  /// Whether the model of that step was evaluated, by this run or the one that it goes on from.
  bool isDone(int64_t completed) const { return last == completed; }
  /// All ranks call it, while no step is under way.
  Result<Evaluation> run(int64_t completed);

  /// Whether --early-stop ends the run.
  bool areEnough() const;
  int64_t bestStep() const { return best; }
  double bestLoss() const { return loss; }
  double longestSeconds() const { return longest; }

  /// For checkpoints, and from one. Figures of other data are forgotten, which is `false`.
  nlohmann::json state() const;
  bool take(const nlohmann::json &state);

private:
  Session &s;
  std::shared_ptr<const DataSource> data; ///< none: nothing is evaluated
  std::string identity;                   ///< of the samples
  int64_t last = -1, best = -1;
  double loss = 0;       ///< of `best`
  int64_t sinceBest = 0; ///< evaluations
  double longest = 0;
};

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_EVALUATION_EVALUATIONS_H
