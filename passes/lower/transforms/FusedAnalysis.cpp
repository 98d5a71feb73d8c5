//===- FusedAnalysis.cpp -----------------------------------------------------------------===//
#include "passes/lower/transforms/FusedAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/lower/TensorBuilder.h"

using namespace mlir;

namespace omnibal::lower {

Value FusedAnalysis::behind(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isFree(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

OperandRange FusedAnalysis::results() const {
  return FusedOp(fused).getBody().front().getTerminator()->getOperands();
}

llvm::ArrayRef<ReduceOp> FusedAnalysis::reductionsOf(int phase) const {
  if (phase < static_cast<int>(reductions.size()))
    return reductions[phase];
  return {};
}

size_t FusedAnalysis::reductionCount() const {
  size_t count = 0;
  for (const auto &list : reductions)
    count += list.size();
  return count;
}

FusedAnalysis::FusedAnalysis(const FusedKernel &kernel) : fused(kernel.op) {
  for (auto [argument, access] : llvm::zip(fused.getBody().getArguments(), kernel.inputs))
    infos[argument] = {access.extent, 0};
  for (Operation &op : fused.getBody().front().without_terminator()) {
    if (isFree(&op))
      continue;
    Info info;
    bool row = false, col = false, full = false;
    for (Value operand : op.getOperands()) {
      const Info &source = infos[behind(operand)];
      info.level = std::max(info.level, source.level);
      full |= source.extent == Extent2D::Full;
      row |= source.extent == Extent2D::PerRow;
      col |= source.extent == Extent2D::PerCol;
    }
    info.extent = full || (row && col) ? Extent2D::Full
                  : row                ? Extent2D::PerRow
                  : col                ? Extent2D::PerCol
                                       : Extent2D::Single;
    if (isa<ReduceOp>(op)) {
      bool partial = false;
      for (auto [result, access] : llvm::zip(results(), kernel.outputs))
        partial |= result == op.getResult(0) && access.columnReduction;
      if (!partial) {
        info.extent = Extent2D::PerRow;
        ++info.level;
      }
    }
    infos[op.getResult(0)] = info;
  }
  for (auto [result, access] : llvm::zip(results(), kernel.outputs)) {
    Value value = behind(result);
    if (access.columnReduction)
      addRoot(value.getDefiningOp()->getOperand(0), infos[value].level);
    else if (access.extent == Extent2D::Full)
      addRoot(value, infos[value].level);
    else
      addRowRoots(value);
  }
}

void FusedAnalysis::addRoot(Value value, int phase) {
  value = behind(value);
  if (static_cast<int>(phases.size()) <= phase)
    phases.resize(phase + 1);
  if (!llvm::is_contained(phases[phase], value))
    phases[phase].push_back(value);
  addRowRoots(value);
}

/// The reductions that `value` depends on become part of the phases before it.
void FusedAnalysis::addRowRoots(Value value) {
  if (!visited.insert(value).second)
    return;
  Operation *op = value.getDefiningOp();
  if (!op)
    return;
  for (Value operand : op->getOperands())
    addRowRoots(behind(operand));
  if (isa<ReduceOp>(op) && infos[value].extent == Extent2D::PerRow) {
    Value input = behind(op->getOperand(0));
    int phase = infos[input].level;
    if (static_cast<int>(phases.size()) <= phase)
      phases.resize(phase + 1);
    phases[phase].push_back(input);
    if (static_cast<int>(reductions.size()) <= phase)
      reductions.resize(phase + 1);
    reductions[phase].push_back(cast<ReduceOp>(op));
  }
}

TypedAttr neutralElement(ReduceKind kind, Type element) {
  if (auto real = dyn_cast<FloatType>(element)) {
    const llvm::fltSemantics &semantics = real.getFloatSemantics();
    APFloat number(semantics, 0);
    if (kind == ReduceKind::Max || kind == ReduceKind::Min)
      number = APFloat::getInf(semantics, kind == ReduceKind::Max);
    else if (kind == ReduceKind::Prod)
      number = APFloat(semantics, 1);
    return FloatAttr::get(real, number);
  }
  unsigned bits = element.getIntOrFloatBitWidth();
  APInt number(bits, 0);
  if (kind == ReduceKind::Max)
    number = APInt::getSignedMinValue(bits);
  else if (kind == ReduceKind::Min)
    number = APInt::getSignedMaxValue(bits);
  else if (kind == ReduceKind::Prod)
    number = APInt(bits, 1);
  return IntegerAttr::get(element, number);
}

Value combine(ImplicitLocOpBuilder &b, ReduceKind kind, Value x, Value y) {
  bool real = isa<FloatType>(getElementTypeOrSelf(x.getType()));
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return real ? Value(arith::AddFOp::create(b, x, y)) : Value(arith::AddIOp::create(b, x, y));
  case ReduceKind::Max:
    return real ? Value(arith::MaximumFOp::create(b, x, y))
                : Value(arith::MaxSIOp::create(b, x, y));
  case ReduceKind::Min:
    return real ? Value(arith::MinimumFOp::create(b, x, y))
                : Value(arith::MinSIOp::create(b, x, y));
  case ReduceKind::Prod:
    return real ? Value(arith::MulFOp::create(b, x, y)) : Value(arith::MulIOp::create(b, x, y));
  }
  llvm_unreachable("all kinds are handled");
}

Value KernelSizes::of(ImplicitLocOpBuilder &b, const SymbolicDim &dim) const {
  if (dim.isStatic())
    return arith::ConstantIntOp::create(b, dim.constant, 64);
  return values[llvm::find(dims, dim) - dims.begin()];
}

Value KernelSizes::rowOffset(ImplicitLocOpBuilder &b, const RowAddress &address, Value row) const {
  Value offset, rest = row;
  for (size_t i = address.digits.size(); i-- > 0;) {
    const RowAddress::Digit &digit = address.digits[i];
    Value index = rest;
    if (i > 0) {
      Value size = of(b, digit.size);
      index = arith::RemUIOp::create(b, rest, size);
      rest = arith::DivUIOp::create(b, rest, size);
    }
    if (digit.stride == SymbolicDim(0))
      continue;
    Value part = arith::MulIOp::create(b, index, of(b, digit.stride));
    offset = offset ? Value(arith::AddIOp::create(b, offset, part)) : part;
  }
  return offset;
}

} // namespace omnibal::lower
