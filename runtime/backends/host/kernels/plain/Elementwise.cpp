//===- Elementwise.cpp - Plain elementwise kernels ---------------------------------------===//
#include "runtime/backends/host/kernels/plain/Plain.h"
#include "runtime/device/calls/BoundElementwise.h"

namespace omnibal::rt::plain {
namespace {

class UnaryKernel final : public PlainKernel, private BoundUnary {
public:
  UnaryKernel(CallReader &call, const BoundCall &description)
      : PlainKernel(description), BoundUnary(call, description.kernel) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &to = views[result];
    OMNIBAL_ASSIGN_OR_RETURN(const TensorView from, broadcast(views[operand], to));
    const bool integers = onIntegers(op) && !isFloat(from.dtype);
    forPositions(to, pool, [&](const Counter &at) {
      if (integers)
        storeInteger(to, at.offset(to), apply(op, loadInteger(from, at.offset(from))));
      else
        storeReal(to, at.offset(to), apply(op, loadReal(from, at.offset(from))));
    });
    return Status::ok();
  }
};

class BinaryKernel final : public PlainKernel, private BoundBinary {
public:
  BinaryKernel(CallReader &call, const BoundCall &description)
      : PlainKernel(description), BoundBinary(call, description.kernel) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &to = views[result];
    OMNIBAL_ASSIGN_OR_RETURN(const TensorView a, broadcast(views[lhs], to));
    OMNIBAL_ASSIGN_OR_RETURN(const TensorView b, broadcast(views[rhs], to));
    const bool integers = onIntegers(op) && !isFloat(a.dtype) && !isFloat(b.dtype);
    forPositions(to, pool, [&](const Counter &at) {
      if (integers)
        storeInteger(to, at.offset(to),
                     apply(op, loadInteger(a, at.offset(a)), loadInteger(b, at.offset(b))));
      else
        storeReal(to, at.offset(to),
                  apply(op, loadReal(a, at.offset(a)), loadReal(b, at.offset(b))));
    });
    return Status::ok();
  }
};

class SelectKernel final : public PlainKernel {
public:
  SelectKernel(CallReader &call, const BoundCall &description)
      : PlainKernel(description), condition(call.operand("condition")),
        onTrue(call.operand("onTrue")), onFalse(call.operand("onFalse")),
        result(call.operand("result")) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &to = views[result];
    OMNIBAL_ASSIGN_OR_RETURN(const TensorView c, broadcast(views[condition], to));
    OMNIBAL_ASSIGN_OR_RETURN(const TensorView yes, broadcast(views[onTrue], to));
    OMNIBAL_ASSIGN_OR_RETURN(const TensorView no, broadcast(views[onFalse], to));
    forPositions(to, pool, [&](const Counter &at) {
      const TensorView &from = loadInteger(c, at.offset(c)) ? yes : no;
      copyElement(from, at.offset(from), to, at.offset(to));
    });
    return Status::ok();
  }

private:
  int condition, onTrue, onFalse, result;
};

} // namespace
} // namespace omnibal::rt::plain

void omnibal::rt::addElementwiseKernels(KernelTable &table) {
  for (const auto &[name, op] : plain::unaryNames)
    table[name] = createKernel<plain::UnaryKernel>;
  for (const auto &[name, op] : plain::binaryNames)
    table[name] = createKernel<plain::BinaryKernel>;
  table["select"] = createKernel<plain::SelectKernel>;
}
