#include "runtime/training/evaluation/Evaluations.h"
#include "runtime/support/Checksum.h"
#include <algorithm>
#include <cmath>

namespace omnibal::rt {
namespace {

std::string identityOf(const Dataset &dataset) {
  uint64_t sum = fnv1a("");
  for (int64_t i = 0; i < dataset.size(); ++i)
    sum = fnv1a(dataset.key(i) + "\n", sum);
  return checksumText(sum);
}

} // namespace

Evaluations::Evaluations(Session &session, const DataSource &training)
    : s(session), data(training.evaluation), identity(data ? identityOf(*data->dataset) : "") {}

bool Evaluations::isDue(int64_t completed, int64_t total) const {
  return data && completed > 0 && (completed % s.options.evaluateEvery == 0 || completed == total);
}

Result<Evaluation> Evaluations::run(int64_t completed) {
  Evaluation found;
  const Clock::time_point begin = Clock::now();
  const bool averages = s.options.evaluateAverages;
  if (averages)
    OMNIBAL_RETURN_IF_ERROR(s.executor->exchangeAverages());
  OMNIBAL_ASSIGN_OR_RETURN(found.scores,
                           scoreSamples(s, {*data, s.evaluationReferences}, found.unread));
  if (averages)
    OMNIBAL_RETURN_IF_ERROR(s.executor->exchangeAverages());
  if (!found.unread)
    return found;
  found.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  longest = std::max(longest, found.seconds);
  last = completed;
  const double own = found.scores.meanLoss();
  found.isBest = std::isfinite(own) && (best < 0 || own < loss);
  if (found.isBest) {
    best = completed;
    loss = own;
  }
  sinceBest = found.isBest ? 0 : sinceBest + 1;
  found.bestStep = best;
  found.bestLoss = loss;
  return found;
}

bool Evaluations::areEnough() const {
  return data && s.options.earlyStop > 0 && sinceBest >= s.options.earlyStop;
}

nlohmann::json Evaluations::state() const {
  if (!data)
    return nlohmann::json::object();
  return {{"data", identity},
          {"last", last},
          {"best_step", best},
          {"best_loss", loss},
          {"since_best", sinceBest}};
}

bool Evaluations::take(const nlohmann::json &state) {
  if (!data || !state.is_object() || state.empty())
    return true;
  if (state.value("data", "") != identity)
    return false;
  last = state.value("last", int64_t{-1});
  best = state.value("best_step", int64_t{-1});
  loss = state.value("best_loss", 0.0);
  sinceBest = state.value("since_best", int64_t{0});
  return true;
}

} // namespace omnibal::rt
