//===- KnownInts.cpp - Integers that shape arithmetic is known to give -------------------===//
#include "importers/onnx/KnownInts.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {
constexpr int64_t kUnknown = ShapedType::kDynamic;
/// No tensor has a shape longer than this; longer values are data.
constexpr int64_t kMaxElements = 64;
} // namespace

std::optional<KnownInts::Ints> KnownInts::get(Value value) {
  if (auto entry = known.find(value); entry != known.end())
    return entry->second;
  std::optional<Ints> result = compute(value);
  known[value] = result;
  return result;
}

std::optional<KnownInts::Ints> KnownInts::getAll(Value value) {
  std::optional<Ints> ints = get(value);
  if (!ints || llvm::is_contained(*ints, kUnknown))
    return std::nullopt;
  return ints;
}

std::optional<KnownInts::Ints> KnownInts::compute(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() > 1 || !type.getElementType().isInteger(64))
    return std::nullopt;
  Operation *op = value.getDefiningOp();
  auto unknown = [&]() -> std::optional<Ints> {
    if (!type.hasStaticShape() || type.getNumElements() > kMaxElements)
      return std::nullopt;
    return Ints(size_t(type.getNumElements()), kUnknown);
  };
  if (!op)
    return unknown();

  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto values = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!values || values.getNumElements() > kMaxElements)
      return std::nullopt;
    Ints ints(values.getValues<int64_t>());
    // The lowest integer ("from the start" of a slice) is no unknown; the next one means the same.
    for (int64_t &value : ints)
      value = std::max(value, std::numeric_limits<int64_t>::min() + 1);
    return ints;
  }
  if (auto shape = dyn_cast<ShapeOp>(op)) {
    auto input = cast<RankedTensorType>(shape.getInput().getType());
    int64_t rank = input.getRank(), end = shape.getEnd().value_or(rank);
    Ints dims;
    for (int64_t i = shape.getStart(); i < end; ++i)
      dims.push_back(input.getDimSize(i));
    return dims;
  }
  if (auto concat = dyn_cast<ConcatOp>(op)) {
    Ints all;
    for (Value input : concat.getInputs()) {
      std::optional<Ints> part = get(input);
      if (!part)
        return unknown();
      all.append(*part);
    }
    return all;
  }
  if (auto size = dyn_cast<SizeOp>(op)) {
    auto input = cast<RankedTensorType>(size.getInput().getType());
    return Ints{input.hasStaticShape() ? input.getNumElements() : kUnknown};
  }
  if (auto expand = dyn_cast<ExpandOp>(op)) { // ConstantOfShape
    std::optional<Ints> element = get(expand.getInput());
    if (!element || element->size() != 1 || !type.hasStaticShape() ||
        type.getNumElements() > kMaxElements)
      return unknown();
    return Ints(size_t(type.getNumElements()), element->front());
  }
  if (auto range = dyn_cast<RangeOp>(op)) {
    std::optional<Ints> start = getAll(range.getStart()), delta = getAll(range.getDelta());
    if (!start || !delta || !type.hasStaticShape() || type.getNumElements() > kMaxElements)
      return unknown();
    Ints all;
    for (int64_t i = 0; i < type.getNumElements(); ++i)
      all.push_back(start->front() + i * delta->front());
    return all;
  }
  if (isa<NegOp>(op)) {
    std::optional<Ints> ints = get(op->getOperand(0));
    if (!ints)
      return unknown();
    for (int64_t &value : *ints)
      value = value == kUnknown ? kUnknown : -value;
    return ints;
  }
  // Rank changes between scalars and vectors of one element keep the elements.
  if (isa<ReshapeOp, SqueezeOp, UnsqueezeOp, CastOp>(op)) {
    std::optional<Ints> ints = get(op->getOperand(0));
    return ints ? ints : unknown();
  }
  if (auto gather = dyn_cast<GatherOp>(op)) {
    std::optional<Ints> input = get(gather.getInput()), indices = getAll(gather.getIndices());
    if (!input || !indices)
      return unknown();
    Ints picked;
    for (int64_t index : *indices) {
      index += index < 0 ? int64_t(input->size()) : 0;
      if (index < 0 || index >= int64_t(input->size()))
        return unknown();
      picked.push_back((*input)[size_t(index)]);
    }
    return picked;
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    std::optional<Ints> input = get(slice.getInput());
    if (!input || !slice.getStarts() || !slice.getEnds())
      return unknown();
    std::optional<Ints> starts = getAll(slice.getStarts()), ends = getAll(slice.getEnds());
    std::optional<Ints> steps = slice.getSteps() ? getAll(slice.getSteps()) : Ints{1};
    if (!starts || !ends || !steps || starts->size() != 1 || ends->size() != 1 ||
        steps->size() != 1 || steps->front() != 1)
      return unknown();
    int64_t size = int64_t(input->size());
    auto clamp = [&](int64_t i) { return std::clamp(i < 0 ? i + size : i, int64_t(0), size); };
    Ints part;
    for (int64_t i = clamp(starts->front()); i < clamp(ends->front()); ++i)
      part.push_back((*input)[size_t(i)]);
    return part;
  }
  if (isa<AddOp, SubOp, MulOp, DivOp>(op)) {
    std::optional<Ints> lhs = get(op->getOperand(0)), rhs = get(op->getOperand(1));
    if (!lhs || !rhs || (lhs->size() != rhs->size() && lhs->size() != 1 && rhs->size() != 1))
      return unknown();
    Ints result;
    for (size_t i = 0, e = std::max(lhs->size(), rhs->size()); i < e; ++i) {
      int64_t a = (*lhs)[lhs->size() == 1 ? 0 : i], b = (*rhs)[rhs->size() == 1 ? 0 : i], r = 0;
      bool fails = a == kUnknown || b == kUnknown;
      if (!fails && isa<AddOp>(op))
        fails = llvm::AddOverflow(a, b, r);
      else if (!fails && isa<SubOp>(op))
        fails = llvm::SubOverflow(a, b, r);
      else if (!fails && isa<MulOp>(op))
        fails = llvm::MulOverflow(a, b, r);
      else if (!fails && !(fails = b == 0 || b == -1))
        r = a / b;
      result.push_back(fails ? kUnknown : r);
    }
    return result;
  }
  return unknown();
}

} // namespace omnibal::onnx
