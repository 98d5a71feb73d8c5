//===- ElementwiseEval.cpp - Elementwise ops ---------------------------------------------===//
#include "dialects/omnibal/interpreter/Evaluation.h"

using namespace mlir;

namespace omnibal {
namespace {

using IntegerRule = int64_t (*)(Operation *, const int64_t *);

uint64_t bits(int64_t x) { return static_cast<uint64_t>(x); }
int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, factor = bits(base);
  for (; exponent; exponent >>= 1, factor *= factor)
    if (exponent & 1)
      result *= factor;
  return static_cast<int64_t>(result);
}

/// Integers wrap like the machine's and never pass through doubles, so that 2^63 - 1 ("to the end"
/// in ONNX's Slice) survives arithmetic on it.
IntegerRule integerRule(Operation *op) {
  return llvm::TypeSwitch<Operation *, IntegerRule>(op)
      .Case([](NegOp) -> IntegerRule {
        return [](Operation *, const int64_t *x) { return int64_t(0 - bits(x[0])); };
      })
      .Case([](AbsOp) -> IntegerRule {
        return
            [](Operation *, const int64_t *x) { return x[0] < 0 ? int64_t(0 - bits(x[0])) : x[0]; };
      })
      .Case([](SignOp) -> IntegerRule {
        return [](Operation *, const int64_t *x) { return int64_t((x[0] > 0) - (x[0] < 0)); };
      })
      .Case([](ReluOp) -> IntegerRule {
        return [](Operation *, const int64_t *x) { return std::max<int64_t>(x[0], 0); };
      })
      .Case([](AddOp) -> IntegerRule {
        return [](Operation *, const int64_t *x) { return int64_t(bits(x[0]) + bits(x[1])); };
      })
      .Case([](SubOp) -> IntegerRule {
        return [](Operation *, const int64_t *x) { return int64_t(bits(x[0]) - bits(x[1])); };
      })
      .Case([](MulOp) -> IntegerRule {
        return [](Operation *, const int64_t *x) { return int64_t(bits(x[0]) * bits(x[1])); };
      })
      .Case([](DivOp) -> IntegerRule {
        return [](Operation *, const int64_t *x) {
          if (x[1] == -1)
            return int64_t(0 - bits(x[0])); // the one quotient that overflows wraps
          return x[1] == 0 ? 0 : x[0] / x[1];
        };
      })
      .Case([](ModOp) -> IntegerRule {
        return [](Operation *op, const int64_t *x) {
          if (x[1] == 0 || x[1] == -1)
            return int64_t(0);
          int64_t rest = x[0] % x[1];
          bool move = !cast<ModOp>(op).getFmod() && rest != 0 && (rest < 0) != (x[1] < 0);
          return move ? rest + x[1] : rest;
        };
      })
      .Case([](MaxOp) -> IntegerRule {
        return [](Operation *, const int64_t *x) { return std::max(x[0], x[1]); };
      })
      .Case([](MinOp) -> IntegerRule {
        return [](Operation *, const int64_t *x) { return std::min(x[0], x[1]); };
      })
      .Case([](AndOp) -> IntegerRule {
        return [](Operation *, const int64_t *x) { return x[0] & x[1]; };
      })
      .Case([](OrOp) -> IntegerRule {
        return [](Operation *, const int64_t *x) { return x[0] | x[1]; };
      })
      .Case([](XorOp) -> IntegerRule {
        return [](Operation *, const int64_t *x) { return x[0] ^ x[1]; };
      })
      .Case([](NotOp op) -> IntegerRule {
        if (op.getOperand().getType().getElementType().isInteger(1))
          return [](Operation *, const int64_t *x) { return int64_t(x[0] == 0); };
        return [](Operation *, const int64_t *x) { return ~x[0]; };
      })
      .Case([](PowOp) -> IntegerRule {
        return [](Operation *, const int64_t *x) { return power(x[0], x[1]); };
      })
      .Case(
          [](CastOp) -> IntegerRule { return [](Operation *, const int64_t *x) { return x[0]; }; })
      .Case([](SelectOp) -> IntegerRule {
        return [](Operation *, const int64_t *x) { return x[0] ? x[1] : x[2]; };
      })
      .Case([](CompareOp) -> IntegerRule {
        return [](Operation *op, const int64_t *x) {
          switch (cast<CompareOp>(op).getPredicate()) {
          case ComparePredicate::EQ:
            return int64_t(x[0] == x[1]);
          case ComparePredicate::LT:
            return int64_t(x[0] < x[1]);
          case ComparePredicate::LE:
            return int64_t(x[0] <= x[1]);
          case ComparePredicate::GT:
            return int64_t(x[0] > x[1]);
          case ComparePredicate::GE:
            return int64_t(x[0] >= x[1]);
          }
          return int64_t(0);
        };
      })
      .Default([](Operation *) -> IntegerRule { return nullptr; });
}

} // namespace

std::optional<LogicalResult> evaluateElementwise(Evaluation &e) {
  auto op = dyn_cast<ElementwiseOpInterface>(e.op);
  if (!op)
    return std::nullopt;
  SmallVector<int64_t> shape;
  for (const HostTensor *operand : e.operands) {
    auto joint = broadcastShape(shape, operand->shape);
    if (failed(joint))
      return LogicalResult(e.op->emitOpError("has operands that do not broadcast"));
    shape = *joint;
  }
  size_t count = e.operands.size();
  SmallVector<SmallVector<int64_t>> strides;
  for (const HostTensor *operand : e.operands)
    strides.push_back(broadcastStrides(operand->shape, shape));
  SmallVector<int64_t> offsets(count, 0);
  HostTensor &result = e.addResult(shape);
  int64_t i = 0;
  bool allIntegers = !result.isFloat() &&
                     llvm::none_of(e.operands, [](const HostTensor *t) { return t->isFloat(); });
  IntegerRule rule = allIntegers ? integerRule(e.op) : nullptr;
  if (rule) {
    SmallVector<int64_t, 4> x(count);
    forEachIndex(shape, strides, offsets, [&] {
      for (size_t k = 0; k < count; ++k)
        x[k] = e.operands[k]->ints[offsets[k]];
      result.ints[i++] = wrapInteger(rule(e.op, x.data()), result.elementType);
    });
    return success();
  }
  SmallVector<double, 4> x(count);
  forEachIndex(shape, strides, offsets, [&] {
    for (size_t k = 0; k < count; ++k)
      x[k] = e.operands[k]->at(offsets[k]);
    result.set(i++, op.evaluate(x));
  });
  return success();
}

} // namespace omnibal
