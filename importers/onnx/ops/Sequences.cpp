//===- Sequences.cpp - Sequences of tensors, which exist during import only --------------===//
//
// Exporters write torch.split and torch.unbind as SplitToSequence and SequenceAt with constant
// sizes and positions. Both are resolved here, so that the dialect needs no sequence type.
//
//===------------------------------------------------------------------------------------------------===//
#include "importers/onnx/OpTable.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {

LogicalResult giveSequence(NodeContext &c, Sequence sequence) {
  for (Value element : sequence)
    if (!element)
      return failure();
  c.sequenceOutput = std::move(sequence);
  return success();
}

LogicalResult buildSplitToSequence(NodeContext &c) {
  Emitter &e = c.e;
  Value x = c.input(0), split = c.input(1);
  std::optional<int64_t> axis = e.axis(c.getInt("axis", 0), rankOf(x));
  if (!axis)
    return failure();
  int64_t size = shapeOf(x)[*axis];
  llvm::SmallVector<int64_t> sizes;
  auto given = split ? e.known.getAll(split) : std::nullopt;
  // One part of a length that the run tells is the whole.
  if (split && !given && rankOf(split) == 1 && shapeOf(split)[0] == 1)
    return giveSequence(c, {x});
  if (split && given && rankOf(split) == 1) {
    sizes.assign(given->begin(), given->end());
  } else {
    if ((split && !given) || size == kDynamic)
      return e.unsupported("a number of parts that is not constant"), failure();
    int64_t part = split ? given->front() : 1;
    if (part <= 0)
      return e.invalid("parts of size " + llvm::Twine(part)), failure();
    for (int64_t at = 0; at < size; at += part)
      sizes.push_back(std::min(part, size - at));
  }
  Sequence sequence;
  int64_t begin = 0;
  bool squeeze = !split && c.getInt("keepdims", 1) == 0;
  for (int64_t part : sizes) {
    if (part < 0)
      return e.invalid("a negative part"), failure();
    Value element = e.slice(x, *axis, begin, begin + part);
    sequence.push_back(squeeze ? e.squeeze(element, llvm::ArrayRef<int64_t>(*axis)) : element);
    begin += part;
  }
  if (size != kDynamic && begin != size)
    return e.invalid("the parts do not add up to size " + llvm::Twine(size)), failure();
  return giveSequence(c, std::move(sequence));
}

LogicalResult buildSequenceConstruct(NodeContext &c) {
  return giveSequence(c, Sequence(c.inputs.begin(), c.inputs.end()));
}

LogicalResult buildSequenceAt(NodeContext &c) {
  if (!c.sequences[0])
    return c.e.invalid("the first operand must be a sequence"), failure();
  auto position = c.e.known.getAll(c.input(1));
  if (!position || position->size() != 1)
    return c.e.unsupported("a position that is not constant"), failure();
  std::optional<int64_t> at = c.e.axis(position->front(), int64_t(c.sequences[0]->size()));
  return at ? c.give((*c.sequences[0])[size_t(*at)]) : failure();
}

LogicalResult buildConcatFromSequence(NodeContext &c) {
  if (!c.sequences[0] || c.sequences[0]->empty())
    return c.e.invalid("the operand must be a sequence that is not empty"), failure();
  int64_t axis = c.getInt("axis", 0);
  if (c.getInt("new_axis", 0) == 0)
    return c.give(c.e.concat(*c.sequences[0], axis));
  llvm::SmallVector<Value> stacked;
  for (Value element : *c.sequences[0])
    stacked.push_back(c.e.unsqueeze(element, llvm::ArrayRef<int64_t>(axis)));
  return c.give(c.e.concat(stacked, axis));
}

} // namespace

llvm::ArrayRef<OpEntry> sequenceOps() {
  static const OpEntry table[] = {
      {"ConcatFromSequence", kFirst, kLast, 1, 1, buildConcatFromSequence},
      {"SequenceAt", kFirst, kLast, 2, 2, buildSequenceAt},
      {"SequenceConstruct", kFirst, kLast, 1, -1, buildSequenceConstruct},
      {"SplitToSequence", kFirst, kLast, 1, 2, buildSplitToSequence},
  };
  return table;
}

} // namespace omnibal::onnx
