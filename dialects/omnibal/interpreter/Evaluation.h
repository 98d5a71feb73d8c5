//===- Evaluation.h - Internals of the interpreter ---------------------------------------===//
#ifndef DIALECTS_OMNIBAL_INTERPRETER_EVALUATION_H
#define DIALECTS_OMNIBAL_INTERPRETER_EVALUATION_H

#include "dialects/omnibal/interpreter/Interpreter.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "llvm/ADT/TypeSwitch.h"

namespace omnibal {

/// Returns the value modulo the width of an integer type (booleans: != 0).
int64_t wrapInteger(int64_t value, mlir::Type type);
/// Rounds floats, as after every op unless float64 is asked for.
void roundToFloat32(HostTensor &tensor);

/// One op with its operand values; evaluators append to `results`.
struct Evaluation {
  mlir::Operation *op;
  llvm::ArrayRef<const HostTensor *> operands;
  Interpreter &interpreter;
  llvm::SmallVectorImpl<HostTensor> &results;

  const HostTensor &operand(unsigned i) const { return *operands[i]; }
  mlir::Type elementType(unsigned result = 0) const;
  /// Appends a zero-filled result of this shape with the element type that the op declares.
  HostTensor &addResult(llvm::ArrayRef<int64_t> shape);
  /// Returns the declared shape of a result for the interpreter's V and N; reports a diagnostic if
  /// it is open.
  llvm::FailureOr<llvm::SmallVector<int64_t>> declaredShape(unsigned result = 0) const;
  /// Returns the value among `values` that is operand `value` of the op.
  const HostTensor *valueOf(mlir::Value value) const;
};

/// Each function evaluates the ops of its theme and returns none for other ops.
std::optional<llvm::LogicalResult> evaluateElementwise(Evaluation &e);
std::optional<llvm::LogicalResult> evaluateLayout(Evaluation &e);
std::optional<llvm::LogicalResult> evaluateIndexing(Evaluation &e);
std::optional<llvm::LogicalResult> evaluateGroups(Evaluation &e);
std::optional<llvm::LogicalResult> evaluateReduction(Evaluation &e);
std::optional<llvm::LogicalResult> evaluateMatrix(Evaluation &e);
std::optional<llvm::LogicalResult> evaluateConvolution(Evaluation &e);
std::optional<llvm::LogicalResult> evaluateAttention(Evaluation &e);
std::optional<llvm::LogicalResult> evaluateCrossAttention(Evaluation &e);
std::optional<llvm::LogicalResult> evaluateRecurrent(Evaluation &e);
std::optional<llvm::LogicalResult> evaluateLoss(Evaluation &e);
std::optional<llvm::LogicalResult> evaluateStructure(Evaluation &e);

/// Calls body(offsets) for every index of `shape` in row-major order; offsets[k] advances by
/// strides[k].
template <typename Body>
void forEachIndex(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<llvm::SmallVector<int64_t>> strides,
                  llvm::MutableArrayRef<int64_t> offsets, Body body) {
  if (elementCount(shape) == 0)
    return;
  llvm::SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    body();
    size_t axis = shape.size();
    while (axis > 0) {
      --axis;
      for (size_t k = 0; k < strides.size(); ++k)
        offsets[k] += strides[k][axis];
      if (++index[axis] < shape[axis])
        break;
      for (size_t k = 0; k < strides.size(); ++k)
        offsets[k] -= strides[k][axis] * shape[axis];
      index[axis] = 0;
      if (axis == 0)
        return;
    }
    if (shape.empty())
      return;
  }
}

/// Returns the strides of `shape` as seen from `result` under NumPy broadcasting (0 where it
/// repeats).
llvm::SmallVector<int64_t> broadcastStrides(llvm::ArrayRef<int64_t> shape,
                                            llvm::ArrayRef<int64_t> result);
/// Returns the joint shape under broadcasting, or failure.
llvm::FailureOr<llvm::SmallVector<int64_t>> broadcastShape(llvm::ArrayRef<int64_t> a,
                                                           llvm::ArrayRef<int64_t> b);
/// result[i] = source[offset + i * strides]: transpose, expand, slice.
void copyStrided(HostTensor &result, const HostTensor &source, llvm::ArrayRef<int64_t> strides,
                 int64_t offset);
/// result[i] = source[j]
inline void copyElement(HostTensor &result, int64_t i, const HostTensor &source, int64_t j) {
  if (result.isFloat())
    result.floats[i] = source.floats[j];
  else
    result.ints[i] = source.ints[j];
}
/// c += a b for row-major a [m, k], b [k, n].
template <typename T>
void multiplyAdd(T *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l) {
      T factor = a[i * k + l];
      for (int64_t j = 0; j < n; ++j)
        c[i * n + j] += factor * b[l * n + j];
    }
}
/// Row-major transpose of a matrix.
std::vector<double> transposed(const double *matrix, int64_t rows, int64_t columns);

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_INTERPRETER_EVALUATION_H
