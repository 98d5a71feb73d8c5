//===- FusedKernel.cpp - Shapes and identity of a fused kernel ---------------------------===//
#include "passes/lower/transforms/FusedKernel.h"
#include "passes/lower/TensorBuilder.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace omnibal::lower {

IterationSpace spaceOf(FusedOp op) {
  return {rt::Extent::of(op.getRows()), static_cast<int64_t>(op.getCols())};
}

InputShape describeInput(FusedOp op, unsigned index) {
  IterationSpace space = spaceOf(op);
  Value value = op.getBody().getArgument(index);
  SymbolicShape shape = *getSymbolicShape(typeOf(value));
  InputShape result;
  for (OpOperand &use : value.getUses()) {
    auto found = fit(use.getOwner(), space);
    if (!found || use.getOperandNumber() >= found->operands.size())
      continue;
    const OperandUse &seen = found->operands[use.getOperandNumber()];
    result.extent = seen.extent;
    result.partial = seen.partial;
    if (!seen.partial)
      return result;
    result.rowDims = found->rowDims;
    int missing = typeOf(use.getOwner()->getResult(0)).getRank() - static_cast<int>(shape.size());
    for (int i = 0, e = found->rowDims.size(); i < e; ++i) {
      bool moves = i >= missing && shape[i - missing] == found->rowDims[i];
      result.operandDims.push_back(moves ? i - missing : -1);
    }
    return result;
  }
  result.extent = classify(shape, space);
  return result;
}

FusedAccess describeOutput(FusedOp op, unsigned index) {
  IterationSpace space = spaceOf(op);
  Value value = op.getBody().front().getTerminator()->getOperand(index);
  FusedAccess access;
  if (auto reduce = value.getDefiningOp<ReduceOp>())
    if (auto found = fit(reduce, space)) {
      access.extent = found->result;
      access.columnReduction = found->columnReduction;
      return access;
    }
  if (Operation *producer = value.getDefiningOp())
    if (auto found = fit(producer, space)) {
      access.extent = found->result;
      return access;
    }
  access.extent = classify(*getSymbolicShape(typeOf(value)), space);
  return access;
}

bool FusedKernel::hasColumnReduction() const {
  return llvm::any_of(outputs, [](const FusedAccess &a) { return a.columnReduction; });
}

SmallVector<SymbolicDim> FusedKernel::runtimeSizes() const {
  SmallVector<SymbolicDim> sizes;
  auto add = [&](const SymbolicDim &dim) {
    if (!dim.isStatic() && !llvm::is_contained(sizes, dim))
      sizes.push_back(dim);
  };
  for (const auto *accesses : {&inputs, &outputs})
    for (const FusedAccess &access : *accesses)
      for (auto [i, digit] : llvm::enumerate(access.rows.digits)) {
        if (i > 0)
          add(digit.size);
        add(digit.stride);
      }
  return sizes;
}

std::string FusedKernel::key() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  FusedOp op = this->op; // generated accessors are not const
  IterationSpace space = spaceOf(op);
  SmallVector<SymbolicDim> sizes = runtimeSizes();
  auto number = [&](const SymbolicDim &dim) {
    if (dim.isStatic())
      out << dim.constant;
    else
      out << "s" << llvm::find(sizes, dim) - sizes.begin();
  };
  out << "cols " << space.cols;
  if (space.rows.isOne())
    out << " single";
  if (gpu)
    out << " gpu";
  else if (hasColumnReduction())
    out << " grain " << grain;
  for (auto [accesses, types] :
       {std::pair(&inputs, TypeRange(op->getOperandTypes())), {&outputs, op->getResultTypes()}})
    for (auto [access, type] : llvm::zip(*accesses, types)) {
      out << "\n"
          << cast<RankedTensorType>(type).getElementType() << " " << static_cast<int>(access.extent)
          << (access.columnReduction ? " partial" : "") << (access.half ? " half" : "");
      if (gpu)
        out << " aligned " << access.alignment;
      for (auto [i, digit] : llvm::enumerate(access.rows.digits)) {
        out << " ";
        if (i > 0)
          number(digit.size);
        out << "*";
        number(digit.stride);
      }
    }
  llvm::DenseMap<Value, int> names;
  auto name = [&](Value value) { return names.try_emplace(value, names.size()).first->second; };
  for (Value argument : op.getBody().getArguments())
    name(argument);
  for (Operation &inner : op.getBody().front()) {
    out << "\n" << inner.getName().getStringRef();
    for (Value operand : inner.getOperands())
      out << " " << name(operand);
    if (auto found = isFusible(&inner) ? fit(&inner, space) : std::nullopt)
      out << " " << static_cast<int>(found->result) << (found->columnReduction ? " partial" : "");
    for (NamedAttribute attribute : inner.getAttrDictionary()) // inherent ones included
      if (attribute.getName() != "axes" && attribute.getName() != "keepdims") {
        out << " " << attribute.getName().getValue() << "=";
        if (auto splat = dyn_cast<SplatElementsAttr>(attribute.getValue()))
          out << splat.getSplatValue<Attribute>();
        else
          out << attribute.getValue();
      }
    for (Value value : inner.getResults()) {
      out << " " << typeOf(value).getElementType();
      name(value);
    }
  }
  return text;
}

} // namespace omnibal::lower
