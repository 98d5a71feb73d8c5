//===- MagnitudeStart.h - Where the magnitudes of adapters begin ------------------------------===//
#ifndef RUNTIME_EXECUTOR_MAGNITUDESTART_H
#define RUNTIME_EXECUTOR_MAGNITUDESTART_H

#include "runtime/executor/AdapterStart.h"
#include "runtime/program/Program.h"

namespace omnibal::rt {

/// Fresh magnitudes: the norms of the rows of W + scale B A with W as kernels read it, so that
/// training begins at the model that these are of. Empty if the parameter is not a magnitude;
/// `stage` has the parameter W.
Result<std::vector<float>> freshMagnitude(const Adapters &adapters, const Stage &stage,
                                          const std::string &parameter, const FirstValues &first,
                                          uint64_t seed);

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_MAGNITUDESTART_H
