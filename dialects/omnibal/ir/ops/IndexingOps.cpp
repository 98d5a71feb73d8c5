//===- IndexingOps.cpp - Shape rules of gathers and scatters -----------------------------===//
#include "dialects/omnibal/ir/ShapeInference.h"

using namespace mlir;
using namespace omnibal;

namespace {
LogicalResult verifyReduction(Operation *op, StringRef reduction) {
  if (llvm::is_contained({"none", "add", "mul", "max", "min"}, reduction))
    return success();
  return op->emitOpError() << "has unknown reduction '" << reduction
                           << "' (none, add, mul, max or min)";
}
} // namespace

OMNIBAL_SHAPE_RULE(GatherOp) {
  FailureOr<int64_t> axis = normalizeAxis(*this, getAxis(), shapes[0].size()); // gather_c1
  if (failed(axis))
    return failure();
  if (getPadding() && *axis != 0) // gather_c2
    return emitOpError("has a row of padding, but gathers along another axis");
  SymbolicShape result(shapes[0].begin(), shapes[0].begin() + *axis);
  result.append(shapes[1].begin(), shapes[1].end());
  result.append(shapes[0].begin() + *axis + 1, shapes[0].end());
  results.push_back(result);
  return success();
}

OMNIBAL_SHAPE_RULE(GatherNDOp) {
  const SymbolicShape &input = shapes[0], &indices = shapes[1];
  int64_t batch = getBatchDims();
  if (indices.empty() || !indices.back().isStatic() || batch < 0 ||
      batch >= int64_t(indices.size()) || indices.back().constant < 1 ||
      batch + indices.back().constant > int64_t(input.size())) // gather_nd_c1
    return emitOpError() << "indices " << toString(indices) << " with batch_dims " << batch
                         << " do not address an input " << toString(input);
  for (int64_t i = 0; i < batch; ++i)
    if (input[i] != indices[i]) // gather_nd_c2
      return emitOpError() << "batch dimension " << i << " differs: " << toString(input[i])
                           << " and " << toString(indices[i]);
  SymbolicShape result(indices.begin(), indices.end() - 1);
  result.append(input.begin() + batch + indices.back().constant, input.end());
  results.push_back(result);
  return success();
}

OMNIBAL_SHAPE_RULE(GatherElementsOp) {
  if (failed(normalizeAxis(*this, getAxis(), shapes[0].size()))) // gather_elements_c1
    return failure();
  if (shapes[0].size() != shapes[1].size()) // gather_elements_c2
    return emitOpError("input and indices must have equal rank");
  results.push_back(shapes[1]);
  return success();
}

OMNIBAL_SHAPE_RULE(ScatterNDOp) {
  if (failed(verifyReduction(*this, getReduction()))) // scatter_nd_c2
    return failure();
  const SymbolicShape &input = shapes[0], &indices = shapes[1], &updates = shapes[2];
  bool fits = !indices.empty() && indices.back().isStatic() && indices.back().constant >= 1 &&
              indices.back().constant <= int64_t(input.size());
  if (fits) {
    SymbolicShape expected(indices.begin(), indices.end() - 1);
    expected.append(input.begin() + indices.back().constant, input.end());
    fits = expected == updates;
  }
  if (!fits) // scatter_nd_c1
    return emitOpError() << "updates " << toString(updates) << " do not fit indices "
                         << toString(indices) << " into " << toString(input);
  results.push_back(input);
  return success();
}

OMNIBAL_SHAPE_RULE(ScatterElementsOp) {
  if (failed(verifyReduction(*this, getReduction()))) // scatter_elements_c2
    return failure();
  if (failed(normalizeAxis(*this, getAxis(), shapes[0].size())))
    return failure();
  if (shapes[1] != shapes[2] || shapes[0].size() != shapes[1].size()) // scatter_elements_c1
    return emitOpError() << "indices " << toString(shapes[1]) << " and updates "
                         << toString(shapes[2]) << " must have one shape of the input's rank";
  results.push_back(shapes[0]);
  return success();
}

OMNIBAL_SHAPE_RULE(TriluOp) {
  if (shapes[0].size() < 2) // trilu_c1
    return emitOpError("needs an input of rank 2 or more");
  results.push_back(shapes[0]);
  return success();
}
