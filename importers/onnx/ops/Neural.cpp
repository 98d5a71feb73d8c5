//===- Neural.cpp - Matrix products, convolution, norms, softmax, dropout ----------------===//
#include "importers/onnx/OpTable.h"
#include "llvm/Support/FormatVariadic.h"
#include <limits>

using namespace mlir;

namespace omnibal::onnx {

namespace {

LogicalResult buildMatMul(NodeContext &c) { return c.give(c.e.matmul(c.input(0), c.input(1))); }

LogicalResult buildGemm(NodeContext &c) {
  Emitter &e = c.e;
  if (rankOf(c.input(0)) != 2 || rankOf(c.input(1)) != 2)
    return e.invalid("A and B must have rank 2"), failure();
  Value result =
      e.matmul(c.input(0), c.input(1), c.getInt("transA", 0) != 0, c.getInt("transB", 0) != 0);
  result = e.scale(result, c.getFloat("alpha", 1));
  if (c.input(2) && c.getFloat("beta", 1) != 0)
    result = e.add(result, e.scale(c.input(2), c.getFloat("beta", 1)));
  return c.give(result);
}

/// Padding that makes the output ceil(input / stride) long; the odd one at the end or the start.
bool samePads(NodeContext &c, llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> kernel,
              llvm::ArrayRef<int64_t> strides, llvm::ArrayRef<int64_t> dilations, bool upper,
              llvm::MutableArrayRef<int64_t> pads) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == kDynamic) {
      c.e.unsupported("auto_pad for sizes that are not constant");
      return false;
    }
    int64_t outputs = (sizes[i] + strides[i] - 1) / strides[i];
    int64_t reach = (outputs - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1;
    int64_t total = std::max<int64_t>(reach - sizes[i], 0), less = total / 2;
    pads[i] = upper ? less : total - less;
    pads[i + sizes.size()] = total - pads[i];
  }
  return true;
}

LogicalResult buildConv(NodeContext &c) {
  Emitter &e = c.e;
  Value x = c.input(0), weight = c.input(1), bias = c.input(2);
  if (!e.requireFloat(x, "X") || !e.requireFloat(weight, "W"))
    return failure();
  int64_t spatial = rankOf(x) - 2;
  if (spatial < 1 || rankOf(weight) != rankOf(x))
    return e.invalid("X and W must have one rank, 3 at least"), failure();
  llvm::SmallVector<int64_t> sizes(shapeOf(x).drop_front(2)), kernel(shapeOf(weight).drop_front(2));
  if (auto given = c.getInts("kernel_shape"); given && *given != kernel) {
    if (!llvm::is_contained(kernel, kDynamic))
      return e.invalid("kernel_shape differs from W's shape"), failure();
    kernel = *given;
  }
  if (llvm::is_contained(kernel, kDynamic))
    return e.unsupported("a kernel whose size is not constant"), failure();
  llvm::SmallVector<int64_t> ones(size_t(spatial), 1), zeros(size_t(2 * spatial), 0);
  llvm::SmallVector<int64_t> strides = c.getInts("strides").value_or(ones);
  llvm::SmallVector<int64_t> dilations = c.getInts("dilations").value_or(ones);
  llvm::SmallVector<int64_t> pads = c.getInts("pads").value_or(zeros);
  int64_t group = c.getInt("group", 1);
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  const auto isSmall = [](int64_t v) { return v >= -most && v <= most; };
  const auto isCount = [](int64_t v) { return v > 0 && v <= most; };
  if (!isCount(group) || !llvm::all_of(strides, isCount) || !llvm::all_of(dilations, isCount) ||
      !llvm::all_of(pads, isSmall) || !llvm::all_of(kernel, isSmall))
    return e.invalid("strides, dilations or group are not from 1 to 2^31 - 1, or pads or "
                     "kernel_shape are larger than that"),
           failure();
  if (int64_t(strides.size()) != spatial || int64_t(dilations.size()) != spatial ||
      int64_t(pads.size()) != 2 * spatial || int64_t(kernel.size()) != spatial)
    return e.invalid("kernel_shape, strides, dilations or pads do not fit the rank"), failure();
  std::string autoPad = c.getString("auto_pad", "NOTSET");
  if (autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER") {
    if (!samePads(c, sizes, kernel, strides, dilations, autoPad == "SAME_UPPER", pads))
      return failure();
  } else if (autoPad == "VALID") {
    pads = zeros;
  } else if (autoPad != "NOTSET") {
    return e.invalid("auto_pad is '" + autoPad + "'"), failure();
  }
  int64_t channels = shapeOf(x)[1], perGroup = shapeOf(weight)[1];
  if (channels != kDynamic && perGroup != kDynamic && channels != perGroup * group)
    return e.invalid("X has " + llvm::Twine(channels) + " channels, W takes " +
                     llvm::Twine(perGroup * group)),
           failure();
  llvm::SmallVector<int64_t> dims = {shapeOf(x)[0], shapeOf(weight)[0]};
  for (int64_t i = 0; i < spatial; ++i) {
    if (sizes[i] == kDynamic) {
      dims.push_back(kDynamic);
      continue;
    }
    int64_t room = sizes[i] + pads[i] + pads[i + spatial] - (dilations[i] * (kernel[i] - 1) + 1);
    if (room < 0)
      return e.invalid("the kernel is larger than the padded input"), failure();
    dims.push_back(room / strides[i] + 1);
  }
  return c.give(ConvOp::create(e.builder, e.loc, RankedTensorType::get(dims, elementOf(x)), x,
                               weight, bias, strides, pads, dilations, group));
}

template <bool logarithm> LogicalResult buildSoftmax(NodeContext &c) {
  int64_t axis = c.getInt("axis", -1);
  return c.give(logarithm ? c.e.logSoftmax(c.input(0), axis) : c.e.softmax(c.input(0), axis));
}

/// `scale` as a tensor of exactly the normalized dimensions; null if it needs broadcasting that is
/// not known here (then it is multiplied separately). A dimension that is not known yet is the
/// scale's, unless that is 1 and broadcasts.
Value asNormScale(NodeContext &c, Value scale, llvm::ArrayRef<int64_t> normalized) {
  if (!scale)
    return scale;
  llvm::ArrayRef<int64_t> dims = shapeOf(scale);
  bool fits = dims.size() == normalized.size() && !llvm::is_contained(dims, kDynamic);
  for (size_t i = 0; fits && i < dims.size(); ++i)
    fits = dims[i] == normalized[i] || (normalized[i] == kDynamic && dims[i] != 1);
  return fits ? scale : Value();
}

Value onesFor(NodeContext &c, llvm::ArrayRef<int64_t> dims, Type element) {
  for (int64_t dim : dims)
    if (dim == kDynamic)
      return c.e.unsupported("normalized dimensions that are not constant");
  return c.e.constant(DenseElementsAttr::get(RankedTensorType::get(dims, element),
                                             Attribute(c.e.builder.getFloatAttr(element, 1.0))));
}

LogicalResult buildLayerNorm(NodeContext &c) {
  Emitter &e = c.e;
  Value x = c.input(0), scale = c.input(1), bias = c.input(2);
  if (!e.requireFloat(x, "X"))
    return failure();
  std::optional<int64_t> axis = e.axis(c.getInt("axis", -1), rankOf(x));
  if (!axis)
    return failure();
  llvm::APFloat epsilon(c.getFloat("epsilon", 1e-5f));
  llvm::ArrayRef<int64_t> normalized = shapeOf(x).drop_front(*axis);
  Value inner = asNormScale(c, scale, normalized);
  Value innerBias = inner ? asNormScale(c, bias, normalized) : Value();
  Value ones = inner ? inner : onesFor(c, normalized, elementOf(x));
  if (!ones)
    return failure();
  Value result =
      LayerNormOp::create(e.builder, e.loc, x.getType(), x, ones, innerBias, *axis, epsilon);
  if (!inner)
    result = e.mul(result, scale);
  if (bias && !innerBias)
    result = e.add(result, bias);
  llvm::SmallVector<Value> results = {result};
  if (c.hasOutput(1) || c.hasOutput(2)) {
    llvm::SmallVector<int64_t> axes;
    for (int64_t i = *axis; i < rankOf(x); ++i)
      axes.push_back(i);
    Value mean = e.reduce(x, ReduceKind::Mean, axes, true);
    Value centered = e.sub(x, mean);
    Value variance = e.reduce(e.mul(centered, centered), ReduceKind::Mean, axes, true);
    results.push_back(mean);
    results.push_back(
        e.unary<RsqrtOp>(e.add(variance, e.scalar(epsilon.convertToDouble(), elementOf(x)))));
  }
  return c.give(results);
}

LogicalResult buildRMSNorm(NodeContext &c) {
  Emitter &e = c.e;
  Value x = c.input(0), scale = c.input(1);
  if (!e.requireFloat(x, "X"))
    return failure();
  std::optional<int64_t> axis = e.axis(c.getInt("axis", -1), rankOf(x));
  if (!axis)
    return failure();
  Value inner = asNormScale(c, scale, shapeOf(x).drop_front(*axis));
  Value result = RMSNormOp::create(e.builder, e.loc, x.getType(), x, inner, *axis,
                                   llvm::APFloat(c.getFloat("epsilon", 1e-5f)));
  return c.give(inner ? result : e.mul(result, scale));
}

DenseElementsAttr constantOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
}

/// What dropout drops: nothing in evaluation mode.
FailureOr<double> droppedShare(NodeContext &c) {
  Emitter &e = c.e;
  if (!c.input(2))
    return 0.0;
  DenseElementsAttr mode = constantOf(c.input(2));
  if (!mode || !mode.getElementType().isInteger(1))
    return e.unsupported("training_mode that is not constant; export in evaluation mode"),
           failure();
  if (mode.getNumElements() == 0 || !*mode.value_begin<bool>())
    return 0.0;
  double share = 0.5; // the standard's, where the node has no ratio
  if (c.input(1)) {
    DenseElementsAttr ratio = constantOf(c.input(1));
    if (!ratio || !isa<FloatType>(ratio.getElementType()) || ratio.getNumElements() != 1)
      return e.unsupported("a ratio that is not a constant number; export in evaluation mode"),
             failure();
    share = ratio.getSplatValue<llvm::APFloat>().convertToDouble();
  }
  if (!(share >= 0 && share < 1))
    return e.invalid(
               llvm::formatv("a ratio of {0}; it must be at least 0 and below 1", share).str()),
           failure();
  return share;
}

/// In evaluation mode the identity, and a mask that is all true.
LogicalResult buildDropout(NodeContext &c) {
  Emitter &e = c.e;
  Value x = c.input(0);
  FailureOr<double> share = droppedShare(c);
  if (failed(share))
    return failure();
  if (*share > 0) {
    if (!e.requireFloat(x, "the input"))
      return failure();
    c.isPartial = true; // the mask is not known before training
    return c.give(
        DropoutOp::create(e.builder, e.loc, x.getType(), x, e.builder.getF64FloatAttr(*share))
            .getResult());
  }
  llvm::SmallVector<Value> results = {x};
  if (c.hasOutput(1))
    results.push_back(e.expand(e.scalar(1, e.builder.getI1Type()), e.shape(x, 0, rankOf(x))));
  return c.give(results);
}

} // namespace

llvm::ArrayRef<OpEntry> neuralOps() {
  static const OpEntry table[] = {
      {"Conv", kFirst, kLast, 2, 3, buildConv},
      {"Dropout", kFirst, kLast, 1, 3, buildDropout},
      {"Gemm", kFirst, kLast, 2, 3, buildGemm},
      {"LayerNormalization", 17, kLast, 2, 3, buildLayerNorm},
      {"LogSoftmax", kFirst, kLast, 1, 1, buildSoftmax<true>},
      {"MatMul", kFirst, kLast, 2, 2, buildMatMul},
      {"RMSNormalization", 23, kLast, 2, 2, buildRMSNorm},
      {"Softmax", kFirst, kLast, 1, 1, buildSoftmax<false>},
  };
  return table;
}

} // namespace omnibal::onnx
