//===- PreferenceKernels.cpp - `preference_loss` and its gradient --------------------------===//
//
// A few numbers a token, so one thread does all: sums are in double and in the order of the tokens.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/host/kernels/HostKernel.h"
#include "runtime/device/calls/BoundLoss.h"
#include <algorithm>
#include <cmath>

namespace omnibal::rt {
namespace {

float &numberAt(const TensorView &v, int64_t i) { return dataOf<float>(v)[i * v.strides[0]]; }

/// A pair's tokens: of the chosen answer [begin, middle), of the rejected one [middle, end).
struct Pair {
  int64_t begin, middle, end;
};

/// Calls visit(pair) for each; borders must rise within the rows.
template <typename Visit>
Status forPairs(const CheckedKernel &kernel, const TensorView &borders, int64_t rows,
                const Visit &visit) {
  auto at = [&](int64_t i) { return int64_t{dataOf<int32_t>(borders)[i * borders.strides[0]]}; };
  for (int64_t i = 0; i + 2 < borders.shape[0]; i += 2) {
    const Pair pair{at(i), at(i + 1), at(i + 2)};
    if (pair.begin < 0 || pair.middle < pair.begin || pair.end < pair.middle || pair.end > rows)
      return kernel.bad("operand 'cu_seqlens' does not rise within the " + std::to_string(rows) +
                        " rows");
    if (pair.begin < pair.middle && pair.middle < pair.end)
      visit(pair);
  }
  return Status::ok();
}

/// -log sigmoid(x)
double lossOf(double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(-x, 0.0); }

class PreferenceKernel : public HostKernel, protected BoundPreferenceLoss {
protected:
  PreferenceKernel(CallReader &call, const BoundCall &description, bool backward)
      : HostKernel(description), BoundPreferenceLoss(call, backward) {}

  double rewardOf(std::span<const TensorView> views, int64_t begin, int64_t end) const {
    double logProbability = 0;
    for (int64_t t = begin; t < end; ++t)
      logProbability -= numberAt(views[losses], t);
    return beta * (logProbability - numberAt(views[reference], begin));
  }
  static void zero(const TensorView &view) {
    for (int64_t i = 0; i < view.shape[0]; ++i)
      numberAt(view, i) = 0;
  }
};

class PreferenceLoss final : public PreferenceKernel {
public:
  PreferenceLoss(CallReader &call, const BoundCall &description)
      : PreferenceKernel(call, description, false) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    for (int each : {loss, chosen, rejected, preferred})
      zero(views[each]);
    return forPairs(*this, views[borders], views[losses].shape[0], [&](const Pair &pair) {
      const double better = rewardOf(views, pair.begin, pair.middle),
                   worse = rewardOf(views, pair.middle, pair.end), margin = better - worse;
      numberAt(views[loss], pair.begin) = static_cast<float>(
          (1 - double{smoothing}) * lossOf(margin) + smoothing * lossOf(-margin));
      numberAt(views[chosen], pair.begin) = static_cast<float>(better);
      numberAt(views[rejected], pair.begin) = static_cast<float>(worse);
      numberAt(views[preferred], pair.begin) = better > worse ? 1 : 0;
    });
  }
};

class PreferenceLossBackward final : public PreferenceKernel {
public:
  PreferenceLossBackward(CallReader &call, const BoundCall &description)
      : PreferenceKernel(call, description, true) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    zero(views[dlosses]);
    return forPairs(*this, views[borders], views[losses].shape[0], [&](const Pair &pair) {
      const double margin =
          rewardOf(views, pair.begin, pair.middle) - rewardOf(views, pair.middle, pair.end);
      const double slope =
          (1 - double{smoothing}) / (1 + std::exp(margin)) - smoothing / (1 + std::exp(-margin));
      const double weight = rowWeights < 0 ? 1 : numberAt(views[rowWeights], pair.begin);
      const auto each = static_cast<float>(beta * slope * weight);
      for (int64_t t = pair.begin; t < pair.end; ++t)
        numberAt(views[dlosses], t) = t < pair.middle ? each : -each;
    });
  }
};

} // namespace

void addPreferenceKernels(KernelTable &table) {
  table["preference_loss"] = createKernel<PreferenceLoss>;
  table["preference_loss_backward"] = createKernel<PreferenceLossBackward>;
}

} // namespace omnibal::rt
