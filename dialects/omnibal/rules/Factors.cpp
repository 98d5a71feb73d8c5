//===- Factors.cpp - What the rules of division are written with -----------------------------===//
#include "dialects/omnibal/rules/Factors.h"

using namespace mlir;
using namespace omnibal;

#include "dialects/omnibal/ir/FactorInterface.cpp.inc"

LogicalResult omnibal::buildSameOp(OpBuilder &builder, Operation *op, const PartOf &part,
                                   ValueRange operands, SmallVectorImpl<Value> &results) {
  Operation *same = builder.clone(*op);
  same->setOperands(operands);
  for (auto [result, type] : llvm::zip_equal(same->getResults(), part.results))
    result.setType(type);
  results.append(same->result_begin(), same->result_end());
  return success();
}

void omnibal::attachFactorRules(MLIRContext &context) {
  attachElementwiseFactors(context);
  attachLayoutFactors(context);
  attachReductionFactors(context);
  attachProductFactors(context);
  attachAttentionFactors(context);
  attachModelFactors(context);
}

static void collect(ValueRange values, SmallVectorImpl<SymbolicShape> &shapes,
                    SmallVectorImpl<ValueLetters> &letters, bool &known) {
  for (Value value : values) {
    auto shape = getSymbolicShape(cast<RankedTensorType>(value.getType()));
    known &= shape.has_value();
    shapes.push_back(shape.value_or(SymbolicShape()));
    letters.push_back(ValueLetters(shapes.back().size()));
  }
}

FactorBuilder::FactorBuilder(Operation *op) {
  collect(op->getOperands(), operands, rule.operands, known);
  collect(op->getResults(), results, rule.results, known);
}

std::optional<unsigned> FactorBuilder::letter(const SymbolicDim &size, LetterKind kind) {
  if (size.isOne())
    return std::nullopt;
  rule.sizes.push_back(size);
  rule.kinds.push_back(kind);
  return static_cast<unsigned>(rule.sizes.size() - 1);
}

void FactorBuilder::onOperand(unsigned i, int64_t dim, std::optional<unsigned> letter) {
  if (letter)
    rule.operands[i][dim].push_back(*letter);
}
void FactorBuilder::onResult(unsigned i, int64_t dim, std::optional<unsigned> letter) {
  if (letter)
    rule.results[i][dim].push_back(*letter);
}

void FactorBuilder::broadcast(unsigned operand, unsigned result) {
  const SymbolicShape &own = operands[operand], &whole = results[result];
  const size_t lead = whole.size() - own.size();
  for (size_t dim = 0; dim < own.size(); ++dim)
    if (!own[dim].isOne())
      rule.operands[operand][dim] = rule.results[result][lead + dim];
}

void FactorBuilder::carry(int64_t from, int64_t to, LetterKind kind,
                          std::optional<SymbolicDim> size) {
  std::optional<unsigned> shared = letter(size.value_or(operands[0][from]), kind);
  onOperand(0, from, shared);
  onResult(0, to, shared);
}

void FactorBuilder::onRows(unsigned operand, std::optional<unsigned> letter,
                           const SymbolicDim &size) {
  for (auto [dim, own] : llvm::enumerate(operands[operand]))
    if (own == size && !own.isOne())
      return onOperand(operand, static_cast<int64_t>(dim), letter);
}

FactorRule FactorBuilder::take() {
  auto close = [&](ArrayRef<SymbolicShape> shapes, MutableArrayRef<ValueLetters> letters) {
    for (auto [shape, dims] : llvm::zip_equal(shapes, letters))
      for (auto [size, dim] : llvm::zip_equal(shape, dims))
        if (dim.empty())
          if (std::optional<unsigned> closed = letter(size, LetterKind::Closed))
            dim.push_back(*closed);
  };
  close(operands, rule.operands);
  close(results, rule.results);
  return std::move(rule);
}
