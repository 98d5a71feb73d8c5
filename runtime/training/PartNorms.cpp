#include "runtime/training/PartNorms.h"
#include <cmath>

namespace omnibal::rt {

Result<std::map<std::string, double>> normsOfParts(Session &s, const ParameterGroups &groups,
                                                   double divisor) {
  OMNIBAL_RETURN_IF_ERROR(s.executor->gatherGradients());
  std::map<std::string, std::vector<FloatRun>> runs;
  for (const auto &[parameter, part] : groups.partOfParameter)
    runs[part]; // all ranks have all parts, in one order
  for (const Parameter &q : s.executor->stageInfo().parameters)
    if (q.trainable && s.executor->counts(q) && s.executor->readsWeights())
      runs[groups.partOfParameter.at(q.name)].push_back(
          {s.executor->at(q.gradOffset), q.elements()});
  std::vector<double> squares;
  for (const auto &[part, own] : runs) {
    OMNIBAL_ASSIGN_OR_RETURN(const double square, s.executor->backend().squaredNorm(own));
    squares.push_back(square);
  }
  OMNIBAL_RETURN_IF_ERROR(
      s.communicator.allReduce(std::span<double>(squares), s.communicator.everyone()));
  std::map<std::string, double> norms;
  size_t next = 0;
  for (const auto &[part, own] : runs) {
    const double norm = std::sqrt(squares[next++]);
    norms[part] = divisor > 0 ? norm / divisor : 0;
  }
  return norms;
}

} // namespace omnibal::rt
