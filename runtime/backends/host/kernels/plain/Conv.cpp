//===- Conv.cpp - Plain convolution of any number of dimensions, with its gradients ------===//
#include "runtime/backends/host/kernels/plain/Plain.h"
#include "runtime/device/calls/BoundConv.h"
#include <vector>

namespace omnibal::rt::plain {
namespace {

/// ONNX Conv: input [N, C, x..], weight [O, C / group, k..], output [N, O, y..].
class ConvKernel final : public PlainKernel, private BoundConv {
public:
  ConvKernel(CallReader &call, const BoundCall &description)
      : PlainKernel(description), BoundConv(call, description.kernel) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    switch (kind) {
    case Forward:
      forward(views, pool);
      break;
    case InputGrad:
      inputGrad(views, pool);
      break;
    case WeightGrad:
      weightGrad(views, pool);
      break;
    }
    return Status::ok();
  }

private:
  /// Offset in x of the value that output position `at` (from dimension 2) reads through kernel
  /// position `k`; false if it lies in the padding.
  bool reads(const TensorView &x, const int64_t *at, const int64_t *k, int64_t &offset) const {
    for (int d = 0; d < x.rank - 2; ++d) {
      const int64_t i = at[d] * strides[d] + k[d] * dilations[d] - pads[d];
      if (i < 0 || i >= x.shape[d + 2])
        return false;
      offset += i * x.strides[d + 2];
    }
    return true;
  }

  void forward(std::span<const TensorView> views, ThreadPool &pool) const {
    const TensorView &x = views[input], &w = views[weight], &y = views[output];
    const int64_t perGroup = w.shape[0] / group;
    const auto body = [&](const Counter &at) {
      const int64_t channel = at.index[1], first = channel / perGroup * w.shape[1];
      double sum = bias >= 0 ? loadReal(views[bias], channel * views[bias].strides[0]) : 0;
      Counter k(w.shape + 2, w.rank - 2);
      for (int64_t i = 0; i < k.count(); ++i, k.next()) {
        int64_t place = at.index[0] * x.strides[0] + first * x.strides[1];
        if (!reads(x, at.index + 2, k.index, place))
          continue;
        int64_t factor = channel * w.strides[0];
        for (int d = 2; d < w.rank; ++d)
          factor += k.index[d - 2] * w.strides[d];
        for (int64_t c = 0; c < w.shape[1]; ++c)
          sum += loadReal(x, place + c * x.strides[1]) * loadReal(w, factor + c * w.strides[1]);
      }
      storeReal(y, at.offset(y), sum);
    };
    forPositions(y, pool, body, 64);
  }

  /// One task per image and group: it owns that part of the input's gradient.
  void inputGrad(std::span<const TensorView> views, ThreadPool &pool) const {
    const TensorView &x = views[input], &w = views[weight], &y = views[output];
    const int64_t perGroup = w.shape[0] / group;
    pool.parallelFor(x.shape[0] * group, [&](int64_t task, int) {
      const int64_t image = task / group, part = task % group;
      TensorView mine = x;
      mine.data = static_cast<char *>(x.data) +
                  (image * x.strides[0] + part * w.shape[1] * x.strides[1]) * byteSize(x.dtype);
      mine.shape[0] = 1;
      mine.shape[1] = w.shape[1];
      // Sums stay in double until all are in.
      std::vector<double> sums(mine.elements(), 0);
      Counter at(y.shape + 2, y.rank - 2), k(w.shape + 2, w.rank - 2);
      TensorView dense = mine;
      int64_t stride = 1;
      for (int d = x.rank - 1; d >= 0; --d) {
        dense.strides[d] = stride;
        stride *= mine.shape[d];
      }
      for (int64_t o = part * perGroup; o < (part + 1) * perGroup; ++o)
        for (int64_t i = 0; i < at.count(); ++i, at.next()) {
          const double grad = loadReal(y, image * y.strides[0] + o * y.strides[1] + spatial(y, at));
          for (int64_t j = 0; j < k.count(); ++j, k.next()) {
            int64_t place = 0;
            if (!reads(dense, at.index, k.index, place))
              continue;
            for (int64_t c = 0; c < w.shape[1]; ++c)
              sums[place + c * dense.strides[1]] +=
                  grad * loadReal(w, o * w.strides[0] + c * w.strides[1] + spatial(w, k));
          }
        }
      Counter all(mine.shape, mine.rank);
      for (int64_t i = 0; i < all.count(); ++i, all.next())
        storeReal(mine, all.offset(mine), sums[i]);
    });
  }

  void weightGrad(std::span<const TensorView> views, ThreadPool &pool) const {
    const TensorView &x = views[input], &w = views[weight], &y = views[output];
    const int64_t perGroup = w.shape[0] / group;
    const auto body = [&](const Counter &k) {
      const int64_t o = k.index[0], channel = o / perGroup * w.shape[1] + k.index[1];
      double sum = 0;
      Counter at(y.shape + 2, y.rank - 2);
      for (int64_t image = 0; image < y.shape[0]; ++image)
        for (int64_t i = 0; i < at.count(); ++i, at.next()) {
          int64_t place = image * x.strides[0] + channel * x.strides[1];
          if (reads(x, at.index, k.index + 2, place))
            sum += loadReal(x, place) *
                   loadReal(y, image * y.strides[0] + o * y.strides[1] + spatial(y, at));
        }
      storeReal(w, k.offset(w), sum);
    };
    forPositions(w, pool, body, 16);
  }

  static int64_t spatial(const TensorView &v, const Counter &at) {
    int64_t offset = 0;
    for (int d = 2; d < v.rank; ++d)
      offset += at.index[d - 2] * v.strides[d];
    return offset;
  }
};

} // namespace
} // namespace omnibal::rt::plain

void omnibal::rt::addConvKernels(KernelTable &table) {
  for (const char *name : {"conv", "conv_input_grad", "conv_weight_grad"})
    table[name] = createKernel<plain::ConvKernel>;
}
