//===- Pooling.cpp - Average pooling over windows that do not overlap --------------------===//
#include "importers/onnx/OpTable.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {

bool allEqual(const std::optional<llvm::SmallVector<int64_t>> &values, int64_t expected) {
  return !values || llvm::all_of(*values, [&](int64_t value) { return value == expected; });
}

/// Each window becomes a dimension of its own, and the mean is taken over it.
LogicalResult buildAveragePool(NodeContext &c) {
  Emitter &e = c.e;
  Value x = c.input(0);
  int64_t spatial = rankOf(x) - 2;
  auto kernel = c.getInts("kernel_shape");
  if (!e.requireFloat(x, "X"))
    return failure();
  if (spatial < 1 || !kernel || int64_t(kernel->size()) != spatial ||
      llvm::any_of(*kernel, [](int64_t size) { return size <= 0; }))
    return e.invalid("kernel_shape must hold a positive size for each spatial dimension of X"),
           failure();
  llvm::SmallVector<int64_t> ones(size_t(spatial), 1);
  std::string autoPad = c.getString("auto_pad", "NOTSET");
  if (c.getInts("strides").value_or(ones) != *kernel || !allEqual(c.getInts("pads"), 0) ||
      !allEqual(c.getInts("dilations"), 1) || (autoPad != "NOTSET" && autoPad != "VALID"))
    return e.unsupported("average pooling with padding, or with strides other than its kernel"),
           failure();
  llvm::SmallVector<int64_t> windows{0, 0}, inside;
  for (int64_t i = 0; i < spatial; ++i) {
    int64_t size = shapeOf(x)[i + 2], window = (*kernel)[i], count = size / window;
    if (size == kDynamic)
      return e.unsupported("average pooling over sizes that are not constant"), failure();
    if (size % window != 0) { // what is left at the end belongs to no window
      if (c.getInt("ceil_mode", 0) != 0)
        return e.unsupported("average pooling over part of a window (ceil_mode)"), failure();
      x = e.slice(x, i + 2, 0, count * window);
    }
    windows.append({count, window});
    inside.push_back(3 + 2 * i);
  }
  return c.give(e.reduce(e.reshape(x, windows), ReduceKind::Mean, inside, /*keepDims=*/false));
}

LogicalResult buildGlobalAveragePool(NodeContext &c) {
  Value x = c.input(0);
  if (!c.e.requireFloat(x, "X"))
    return failure();
  if (rankOf(x) < 3)
    return c.e.invalid("X must have a spatial dimension"), failure();
  return c.give(c.e.reduce(x, ReduceKind::Mean, llvm::to_vector(llvm::seq<int64_t>(2, rankOf(x))),
                           /*keepDims=*/true));
}

} // namespace

llvm::ArrayRef<OpEntry> poolingOps() {
  static const OpEntry table[] = {
      {"AveragePool", kFirst, kLast, 1, 1, buildAveragePool},
      {"GlobalAveragePool", kFirst, kLast, 1, 1, buildGlobalAveragePool},
  };
  return table;
}

} // namespace omnibal::onnx
