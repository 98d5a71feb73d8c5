//===- Resize.cpp - Interpolation between constant sizes ---------------------------------===//
//
// Linear and cubic interpolation is a product with a constant matrix along each axis, nearest a
// gather: so it has a gradient without an op of its own (learned position tables are resized).
//
//===------------------------------------------------------------------------------------------------===//
#include "importers/onnx/OpTable.h"
#include <cmath>

using namespace mlir;

namespace omnibal::onnx {

namespace {

struct Rules {
  std::string mode, coordinates, nearest;
  double cubicCoefficient = -0.75;
  bool excludeOutside = false;
};

/// Returns where output position i lies among the inputs.
double origin(const Rules &rules, int64_t i, int64_t inputs, int64_t outputs, double scale) {
  if (rules.coordinates == "align_corners")
    return outputs == 1 ? 0 : double(i) * double(inputs - 1) / (double(inputs) * scale - 1);
  if (rules.coordinates == "asymmetric")
    return double(i) / scale;
  if (rules.coordinates == "pytorch_half_pixel" && outputs == 1)
    return 0;
  double x = (double(i) + 0.5) / scale - 0.5;
  if (rules.coordinates == "half_pixel_symmetric") {
    double adjustment = double(outputs) / (scale * double(inputs));
    x += double(inputs) / 2 * (1 - adjustment);
  }
  return x;
}

int64_t nearestIndex(const Rules &rules, double x, int64_t inputs) {
  double index = 0;
  if (rules.nearest == "floor")
    index = std::floor(x);
  else if (rules.nearest == "ceil")
    index = std::ceil(x);
  else if (rules.nearest == "round_prefer_ceil")
    index = std::floor(x + 0.5);
  else
    index = std::ceil(x - 0.5);
  return std::clamp<int64_t>(int64_t(index), 0, inputs - 1);
}

/// Weights of the inputs from floor(x) - taps / 2 + 1 on, `taps` of them.
llvm::SmallVector<double, 4> tapWeights(const Rules &rules, double fraction) {
  if (rules.mode == "linear")
    return {1 - fraction, fraction};
  double a = rules.cubicCoefficient;
  llvm::SmallVector<double, 4> weights;
  for (double distance : {fraction + 1, fraction, 1 - fraction, 2 - fraction}) {
    double d = distance;
    weights.push_back(d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1
                             : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a);
  }
  return weights;
}

/// [inputs, outputs], row-major.
std::vector<double> matrix(const Rules &rules, int64_t inputs, int64_t outputs, double scale) {
  std::vector<double> entries(size_t(inputs * outputs), 0);
  for (int64_t i = 0; i < outputs; ++i) {
    double x = origin(rules, i, inputs, outputs, scale);
    llvm::SmallVector<double, 4> weights = tapWeights(rules, x - std::floor(x));
    int64_t first = int64_t(std::floor(x)) - int64_t(weights.size()) / 2 + 1;
    double sum = 0;
    for (size_t t = 0; t < weights.size(); ++t) {
      int64_t at = first + int64_t(t);
      if (rules.excludeOutside && (at < 0 || at >= inputs))
        weights[t] = 0;
      sum += weights[t];
    }
    for (size_t t = 0; t < weights.size(); ++t) {
      int64_t at = std::clamp<int64_t>(first + int64_t(t), 0, inputs - 1);
      entries[size_t(at * outputs + i)] += rules.excludeOutside ? weights[t] / sum : weights[t];
    }
  }
  return entries;
}

Value resizeAxis(Emitter &e, Value x, int64_t axis, const Rules &rules, int64_t outputs,
                 double scale) {
  int64_t inputs = shapeOf(x)[axis], last = rankOf(x) - 1;
  if (rules.mode == "nearest") {
    llvm::SmallVector<int64_t> indices;
    for (int64_t i = 0; i < outputs; ++i)
      indices.push_back(nearestIndex(rules, origin(rules, i, inputs, outputs, scale), inputs));
    return e.gather(x, e.ints(indices), axis);
  }
  llvm::SmallVector<Attribute> entries;
  for (double entry : matrix(rules, inputs, outputs, scale))
    entries.push_back(e.builder.getFloatAttr(elementOf(x), entry));
  Value weights = e.constant(
      DenseElementsAttr::get(RankedTensorType::get({inputs, outputs}, elementOf(x)), entries));
  llvm::SmallVector<int64_t> swap;
  for (int64_t i = 0; i <= last; ++i)
    swap.push_back(i);
  std::swap(swap[size_t(axis)], swap[size_t(last)]);
  if (axis == last)
    return e.matmul(x, weights);
  return e.transpose(e.matmul(e.transpose(x, swap), weights), swap);
}

/// Constant scales as doubles.
std::optional<llvm::SmallVector<double>> constantScales(Value value) {
  auto constant = value ? value.getDefiningOp<ConstantOp>() : ConstantOp();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!elements || !elements.getElementType().isF32())
    return std::nullopt;
  llvm::SmallVector<double> scales;
  for (float scale : elements.getValues<float>())
    scales.push_back(scale);
  return scales;
}

LogicalResult buildResize(NodeContext &c) {
  Emitter &e = c.e;
  Value x = c.input(0);
  Rules rules = {c.getString("mode", "nearest"),
                 c.getString("coordinate_transformation_mode", "half_pixel"),
                 c.getString("nearest_mode", "round_prefer_floor"),
                 c.getFloat("cubic_coeff_a", -0.75f), c.getInt("exclude_outside", 0) != 0};
  static const llvm::StringRef modes[] = {"nearest", "linear", "cubic"};
  static const llvm::StringRef transformations[] = {
      "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"};
  if (!e.requireFloat(x, "X"))
    return failure();
  if (!llvm::is_contained(modes, rules.mode) ||
      !llvm::is_contained(transformations, rules.coordinates))
    return e.unsupported("mode '" + rules.mode + "', coordinates '" + rules.coordinates + "'"),
           failure();
  if (c.getInt("antialias", 0) != 0 ||
      c.getString("keep_aspect_ratio_policy", "stretch") != "stretch")
    return e.unsupported("antialiasing and keep_aspect_ratio_policy"), failure();
  llvm::SmallVector<int64_t> axes;
  if (auto given = c.getInts("axes")) {
    for (int64_t a : *given) {
      std::optional<int64_t> at = e.axis(a, rankOf(x));
      if (!at)
        return failure();
      axes.push_back(*at);
    }
  } else {
    for (int64_t i = 0; i < rankOf(x); ++i)
      axes.push_back(i);
  }
  // An empty scales operand counts as absent.
  auto scales = constantScales(c.input(2));
  if (scales && scales->empty())
    scales.reset();
  auto sizes = c.input(3) ? e.known.get(c.input(3)) : std::nullopt;
  if ((!scales && !sizes) || (scales ? scales->size() : sizes->size()) != axes.size())
    return e.unsupported("sizes that are not constant; export for a fixed image size"), failure();
  for (auto [i, axis] : llvm::enumerate(axes)) {
    int64_t inputs = shapeOf(x)[axis];
    bool same = scales ? (*scales)[i] == 1 : (*sizes)[i] == inputs;
    if (same) // also batch and channels that are not constant
      continue;
    if (inputs == kDynamic || inputs == 0 || (sizes && !scales && (*sizes)[i] == kDynamic))
      return e.unsupported("sizes that are not constant; export for a fixed image size"), failure();
    int64_t outputs = scales ? int64_t(std::floor(double(inputs) * (*scales)[i])) : (*sizes)[i];
    double scale = scales ? (*scales)[i] : double(outputs) / double(inputs);
    if (outputs <= 0)
      return e.invalid("a size of " + llvm::Twine(outputs)), failure();
    x = resizeAxis(e, x, axis, rules, outputs, scale);
    if (!x)
      return failure();
  }
  return c.give(x);
}

} // namespace

llvm::ArrayRef<OpEntry> resizeOps() {
  static const OpEntry table[] = {{"Resize", kFirst, kLast, 1, 4, buildResize}};
  return table;
}

} // namespace omnibal::onnx
