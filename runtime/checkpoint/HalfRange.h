//===- HalfRange.h - Numbers that float16 cannot hold ----------------------------------------===//
#ifndef RUNTIME_CHECKPOINT_HALFRANGE_H
#define RUNTIME_CHECKPOINT_HALFRANGE_H

#include "runtime/checkpoint/NamedTensor.h"
#include <string>
#include <vector>

namespace omnibal::rt {

bool exceedsHalf(double value);
/// "the tensor ... holds ..., more than float16 can".
std::string beyondHalf(const std::string &tensor, double value);
/// Says so of one of the tensors; empty: there is none.
Result<std::string> findBeyondHalf(const std::vector<NamedTensor> &tensors);

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_HALFRANGE_H
