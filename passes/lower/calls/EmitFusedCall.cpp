//===- EmitFusedCall.cpp - Calls of generated kernels ------------------------------------===//
#include "passes/lower/TensorBuilder.h"
#include "passes/lower/calls/CallBuilder.h"
#include "passes/lower/codegen/gpu/GpuShape.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace omnibal::lower {
namespace {

constexpr int64_t elementsPerTask = 1 << 13; ///< some microseconds of work
constexpr int64_t maxPartials = 32;          ///< partial rows of a sum over rows

/// Dimensions of rows as digits: without ones, neighbors that continue each other joined.
RowAddress addressOf(ArrayRef<SymbolicDim> sizes, ArrayRef<SymbolicDim> strides) {
  RowAddress address;
  for (auto [size, stride] : llvm::zip(sizes, strides)) {
    if (size.isOne())
      continue;
    if (!address.digits.empty()) {
      RowAddress::Digit &last = address.digits.back();
      auto joined = multiply(last.size, size);
      if (multiply(stride, size) == last.stride && joined) {
        last = {*joined, stride};
        continue;
      }
    }
    address.digits.push_back({size, stride});
  }
  if (llvm::all_of(address.digits, [](const auto &d) { return d.stride == SymbolicDim(0); }))
    address.digits.clear();
  return address;
}

} // namespace

FusedAccess CallBuilder::accessInput(FusedOp op, unsigned index, Place &place) {
  InputShape seen = describeInput(op, index);
  FusedAccess access;
  access.extent = seen.extent;
  access.alignment = alignmentOf(place.offset, 16);
  IterationSpace space = spaceOf(op);
  // First of the dimensions that are columns.
  size_t split = place.rank();
  if (seen.extent == Extent2D::PerCol || seen.extent == Extent2D::Single) {
    split = 0;
  } else if (seen.extent == Extent2D::Full) {
    int64_t cols = 1;
    while (split > 0 && cols < space.cols)
      cols *= place.shape[--split].constant;
  }
  if (!isContiguous(place, split, place.rank())) {
    place = materialize(place, op);
    access.alignment = alignmentOf(place.offset, 16);
  }
  ArrayRef<SymbolicDim> sizes(place.shape), strides(place.strides);
  if (seen.partial) {
    // By the result's row dimensions: those in which the operand has one element do not move.
    SymbolicShape moving;
    for (int dim : seen.operandDims)
      moving.push_back(dim < 0 ? SymbolicDim(0) : place.strides[dim]);
    access.rows = addressOf(seen.rowDims, moving);
  } else {
    access.rows = addressOf(sizes.take_front(split), strides.take_front(split));
  }
  return access;
}

namespace {

void describeLaunch(const FusedKernel &kernel, int64_t blocks, Call &fused) {
  GpuShape shape = gpuShapeOf(kernel, FusedAnalysis(kernel));
  if (shape.flat) // one line of elements
    fused.attributes["rows"] = toJson(*multiply(spaceOf(kernel.op).rows, spaceOf(kernel.op).cols));
  else if (shape.split && !kernel.hasColumnReduction()) // tiles of rows
    fused.attributes["rows"] = toJson(*multiply(spaceOf(kernel.op).rows, SymbolicDim(shape.tiles)));
  fused.attributes["grain"] = shape.grain();
  fused.attributes["threads"] = shape.threads;
  if (shape.sharedBytes > 0)
    fused.attributes["shared"] = shape.sharedBytes;
  if (kernel.hasColumnReduction())
    fused.attributes["blocks"] = blocks * (shape.split ? shape.tiles : 1);
}

} // namespace

LogicalResult CallBuilder::emitFused(FusedOp op) {
  IterationSpace space = spaceOf(op);
  FusedKernel kernel;
  kernel.op = op;
  kernel.gpu = options.target == "cuda";
  std::vector<std::pair<std::string, Place>> operands;
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    Place place = placeOf(input);
    kernel.inputs.push_back(accessInput(op, i, place));
    kernel.inputs.back().half = dtypeAt(place) == rt::DType::BF16;
    operands.emplace_back("in" + std::to_string(i), place);
  }
  int64_t rowsAtCap = space.rows.evaluate(options.caps());
  kernel.grain = std::max<int64_t>(1, elementsPerTask / space.cols);
  for (unsigned i = 0; i < op.getNumResults(); ++i)
    kernel.outputs.push_back(describeOutput(op, i));
  const bool gpu = kernel.gpu;
  if (kernel.hasColumnReduction())
    kernel.grain = std::max<int64_t>(kernel.grain, llvm::divideCeil(rowsAtCap, maxPartials));
  int64_t tasks = std::max<int64_t>(1, llvm::divideCeil(rowsAtCap, kernel.grain));
  if (gpu)
    tasks = gpuShapeOf(kernel, FusedAnalysis(kernel)).partialRows(rowsAtCap);

  struct Partial {
    Place rows, target;
    bool accumulate;
  };
  std::vector<Partial> partials;
  for (auto [i, value] : llvm::enumerate(op.getResults())) {
    FusedAccess &access = kernel.outputs[i];
    std::string name = "out" + std::to_string(i);
    auto target = accumulated.find(value);
    if (access.columnReduction) {
      Partial partial;
      partial.accumulate = target != accumulated.end();
      partial.target = partial.accumulate ? target->second : fresh(value);
      if (!partial.accumulate)
        set(value, partial.target);
      partial.rows = fresh(elementType(value), {tasks, space.cols});
      operands.emplace_back(name, partial.rows);
      partials.push_back(partial);
      continue;
    }
    Place place = fresh(value);
    set(value, place);
    access.half = dtypeAt(place) == rt::DType::BF16;
    if (access.extent == Extent2D::Full && !space.rows.isOne())
      access.rows.digits.push_back({space.rows, space.cols});
    else if (access.extent == Extent2D::PerRow && !space.rows.isOne())
      access.rows.digits.push_back({space.rows, 1});
    operands.emplace_back(name, place);
  }
  // Tasks that do not run at smaller sizes leave nothing; on a GPU all blocks run.
  for (const Partial &partial : partials)
    if (!gpu)
      call(op, "fill", {{"dst", partial.rows}}).attributes["value"] = 0;

  auto symbol = kernels.impl().add(kernel);
  if (failed(symbol))
    return failure();
  Call &fused = call(op, "fused", std::move(operands));
  fused.attributes["symbol"] = *symbol;
  fused.attributes["rows"] = toJson(space.rows);
  fused.attributes["grain"] = kernel.grain;
  if (gpu)
    describeLaunch(kernel, tasks, fused);
  nlohmann::json sizes = nlohmann::json::array();
  for (const SymbolicDim &size : kernel.runtimeSizes())
    sizes.push_back(toJson(size));
  fused.attributes["sizes"] = std::move(sizes);

  for (const Partial &partial : partials) {
    Place target = *reshape(partial.target, {1, space.cols});
    target.shape[0] = partial.rows.shape[0];
    target.strides[0] = 0;
    if (gpu && partial.accumulate) {
      gradientSums.emplace_back(partial.rows, target);
      continue;
    }
    Call &reduce = call(op, "reduce", {{"src", partial.rows}, {"dst", target}});
    reduce.attributes["kind"] = "sum";
    if (partial.accumulate)
      reduce.attributes["accumulate"] = true;
  }
  return success();
}

void CallBuilder::emitGradientSums(Operation *op) {
  std::vector<std::pair<std::string, Place>> pairs;
  auto flush = [&] {
    if (pairs.empty())
      return;
    Call &reduce = call(op, "reduce", std::move(pairs));
    reduce.label = "sums of gradients";
    reduce.attributes["kind"] = "sum";
    reduce.attributes["accumulate"] = true;
    pairs.clear();
  };
  for (const auto &[rows, target] : gradientSums) {
    if (llvm::any_of(pairs, [&, to = &target](auto &p) { return p.second.root == to->root; }))
      flush(); // one after the other into the same gradient
    const std::string number = pairs.empty() ? "" : std::to_string(pairs.size() / 2);
    pairs.emplace_back("src" + number, rows);
    pairs.emplace_back("dst" + number, target);
  }
  flush();
}

} // namespace omnibal::lower
