//===- MomentShapes.h - What an optimizer keeps of a parameter --------------------------------===//
#ifndef RUNTIME_PROGRAM_MOMENTSHAPES_H
#define RUNTIME_PROGRAM_MOMENTSHAPES_H

#include "runtime/program/Program.h"

namespace omnibal::rt {

/// Whether what is kept of a tensor of so many dimensions are variances of the rows and columns of
/// its last two, and not moments of each element.
constexpr bool isFactored(OptimizerKind kind, size_t rank) {
  return kind == OptimizerKind::Adafactor && rank >= 2;
}

/// The shapes of what is kept of a parameter that trains: of moments that of the parameter; of the
/// variances of rows and of columns, in this order, one with a last dimension of 1 and one with a
/// last but one of 1. `orthogonalized`: it is one of Muon's matrices.
inline std::vector<std::vector<int64_t>>
momentShapes(OptimizerKind kind, const std::vector<int64_t> &shape, bool orthogonalized) {
  if (!isFactored(kind, shape.size()))
    return std::vector(momentsOf(kind, orthogonalized), shape);
  std::vector<int64_t> rows = shape, cols = shape;
  rows.back() = 1;
  cols[cols.size() - 2] = 1;
  return {rows, cols};
}

/// What each of these takes in memory.
inline std::vector<int64_t> momentBytes(OptimizerKind kind, const std::vector<int64_t> &shape,
                                        bool orthogonalized) {
  std::vector<int64_t> bytes;
  for (const std::vector<int64_t> &dims : momentShapes(kind, shape, orthogonalized))
    bytes.push_back(momentBytes(kind, Parameter::elementsOf(dims)));
  return bytes;
}

/// Of what a rank has of the parameter.
inline std::vector<int64_t> momentBytes(OptimizerKind kind, const Parameter &parameter) {
  return momentBytes(kind, parameter.heldDims(), parameter.orthogonalized);
}

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_MOMENTSHAPES_H
