//===- Evaluate.cpp - Loss and accuracy over a whole data set: --evaluate ---------------------===//
#include "runtime/support/AtomicFile.h"
#include "runtime/training/evaluation/Scoring.h"
#include "runtime/training/session/Session.h"
#include <cmath>
#include <cstdio>

namespace omnibal::rt {
namespace {

Status print(const Session &s, const Scores &scores) {
  if (!s.leads())
    return Status::ok();
  if (!std::isfinite(scores.meanLoss()))
    return invalid(s.weights.path() +
                   ": the loss over the samples is not a finite number; are these "
                   "the right weights, or did training diverge?");
  std::fputs(scores.toText().c_str(), stdout);
  std::fflush(stdout);
  return s.options.log.empty() ? Status::ok()
                               : writeFileAtomically(s.options.log, scores.toJson().dump() + "\n");
}

} // namespace

Status evaluate(Session &s, const DataSource &data) {
  Status unread;
  OMNIBAL_ASSIGN_OR_RETURN(const Scores scores, scoreSamples(s, {data, s.references}, unread));
  OMNIBAL_RETURN_IF_ERROR(unread);
  return s.agree(print(s, scores));
}

} // namespace omnibal::rt
