//===- Normalize.cpp - Plain softmax, norms and running sums -----------------------------===//
#include "runtime/backends/host/kernels/plain/Plain.h"
#include <vector>

namespace omnibal::rt::plain {
namespace {

/// The view without some dimensions: the lines that run along them.
TensorView without(const TensorView &view, int first, int last) {
  TensorView rest = view;
  rest.rank = 0;
  for (int d = 0; d < view.rank; ++d)
    if (d < first || d >= last) {
      rest.shape[rest.rank] = view.shape[d];
      rest.strides[rest.rank++] = view.strides[d];
    }
  return rest;
}

class Softmax final : public PlainKernel {
public:
  Softmax(CallReader &call, const BoundCall &description)
      : PlainKernel(description), input(call.operand("input")), result(call.operand("result")),
        axis(call.integer("axis", -1)), logarithm(description.kernel == "log_softmax") {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &from = views[input], &to = views[result];
    OMNIBAL_RETURN_IF_ERROR(same(to, "result", from, "input"));
    OMNIBAL_ASSIGN_OR_RETURN(const int at, axisOf(axis, from));
    const int64_t n = from.shape[at], step = from.strides[at], toStep = to.strides[at];
    const TensorView source = without(from, at, at + 1), target = without(to, at, at + 1);
    const auto body = [&](const Counter &line) {
      const int64_t s = line.offset(source), t = line.offset(target);
      double top = -INFINITY, sum = 0;
      for (int64_t i = 0; i < n; ++i)
        top = std::max(top, loadReal(from, s + i * step));
      for (int64_t i = 0; i < n; ++i)
        sum += std::exp(loadReal(from, s + i * step) - top);
      for (int64_t i = 0; i < n; ++i) {
        const double x = loadReal(from, s + i * step) - top;
        storeReal(to, t + i * toStep, logarithm ? x - std::log(sum) : std::exp(x) / sum);
      }
    };
    forPositions(source, pool, body, std::max<int64_t>(1, 4096 / std::max<int64_t>(n, 1)));
    return Status::ok();
  }

private:
  int input, result;
  int64_t axis;
  bool logarithm;
};

/// layer_norm and rms_norm over dimensions [axis, rank); scale and bias broadcast from the right.
class Norm final : public PlainKernel {
public:
  Norm(CallReader &call, const BoundCall &description)
      : PlainKernel(description), centered(description.kernel == "layer_norm"),
        input(call.operand("input")),
        scale(centered ? call.operand("scale") : call.optionalOperand("scale")),
        bias(centered ? call.optionalOperand("bias") : -1), result(call.operand("result")),
        axis(call.integer("axis", -1)), epsilon(call.number("epsilon", 1e-5)) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &from = views[input], &to = views[result];
    OMNIBAL_RETURN_IF_ERROR(same(to, "result", from, "input"));
    OMNIBAL_ASSIGN_OR_RETURN(const int at, axisOf(axis, from));
    TensorView factor, shift;
    if (scale >= 0) {
      OMNIBAL_ASSIGN_OR_RETURN(factor, broadcast(views[scale], to));
    }
    if (bias >= 0) {
      OMNIBAL_ASSIGN_OR_RETURN(shift, broadcast(views[bias], to));
    }
    TensorView outer = from; // one position a group
    outer.rank = at;
    Counter shape(from.shape + at, from.rank - at);
    const int64_t n = shape.count();
    const auto body = [&](const Counter &group) {
      Counter position(from.shape, from.rank);
      auto forGroup = [&](const auto &use) {
        Counter inner(from.shape + at, from.rank - at);
        std::copy_n(group.index, at, position.index);
        for (int64_t i = 0; i < n; ++i, inner.next()) {
          std::copy_n(inner.index, from.rank - at, position.index + at);
          use();
        }
      };
      double mean = 0, square = 0;
      if (centered)
        forGroup([&] { mean += loadReal(from, position.offset(from)) / static_cast<double>(n); });
      forGroup([&] {
        const double x = loadReal(from, position.offset(from)) - mean;
        square += x * x / static_cast<double>(n);
      });
      const double inverse = 1 / std::sqrt(square + epsilon);
      forGroup([&] {
        double y = (loadReal(from, position.offset(from)) - mean) * inverse;
        y *= scale >= 0 ? loadReal(factor, position.offset(factor)) : 1;
        y += bias >= 0 ? loadReal(shift, position.offset(shift)) : 0;
        storeReal(to, position.offset(to), y);
      });
    };
    forPositions(outer, pool, body, std::max<int64_t>(1, 4096 / std::max<int64_t>(n, 1)));
    return Status::ok();
  }

private:
  bool centered;
  int input, scale, bias, result;
  int64_t axis;
  double epsilon;
};

class CumSum final : public PlainKernel {
public:
  CumSum(CallReader &call, const BoundCall &description)
      : PlainKernel(description), input(call.operand("input")), result(call.operand("result")),
        axisOperand(call.optionalOperand("axisOperand")),
        axis(axisOperand < 0 ? call.requiredInteger("axis") : call.integer("axis", 0)),
        exclusive(call.flag("exclusive", false)), reverse(call.flag("reverse", false)) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &from = views[input], &to = views[result];
    OMNIBAL_RETURN_IF_ERROR(same(to, "result", from, "input"));
    OMNIBAL_ASSIGN_OR_RETURN(
        const int at, axisOf(axisOperand < 0 ? axis : loadInteger(views[axisOperand], 0), from));
    const int64_t n = from.shape[at];
    const TensorView source = without(from, at, at + 1), target = without(to, at, at + 1);
    const bool real = isFloat(to.dtype);
    const auto body = [&](const Counter &line) {
      double sum = 0;
      int64_t integerSum = 0;
      for (int64_t k = 0; k < n; ++k) {
        const int64_t i = reverse ? n - 1 - k : k;
        const int64_t s = line.offset(source) + i * from.strides[at];
        const int64_t t = line.offset(target) + i * to.strides[at];
        const double x = loadReal(from, s);
        const int64_t integer = real ? 0 : loadInteger(from, s);
        if (real)
          storeReal(to, t, exclusive ? sum : sum + x);
        else
          storeInteger(to, t, exclusive ? integerSum : integerSum + integer);
        sum += x;
        integerSum += integer;
      }
    };
    forPositions(source, pool, body, std::max<int64_t>(1, 4096 / std::max<int64_t>(n, 1)));
    return Status::ok();
  }

private:
  int input, result, axisOperand;
  int64_t axis;
  bool exclusive, reverse;
};

} // namespace
} // namespace omnibal::rt::plain

void omnibal::rt::addNormalizeKernels(KernelTable &table) {
  table["softmax"] = createKernel<plain::Softmax>;
  table["log_softmax"] = createKernel<plain::Softmax>;
  table["layer_norm"] = createKernel<plain::Norm>;
  table["rms_norm"] = createKernel<plain::Norm>;
  table["cumsum"] = createKernel<plain::CumSum>;
}
