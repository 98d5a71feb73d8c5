//===- RopeKernel.cpp - `rope`: rotary position embedding --------------------------------===//
#include "runtime/backends/host/kernels/HostKernel.h"
#include "runtime/backends/host/vector/Rows.h"
#include "runtime/device/calls/BoundRope.h"
#include <algorithm>
#include <cstring>

namespace omnibal::rt {
namespace {

class RopeKernel final : public HostKernel, private BoundRope {
public:
  RopeKernel(CallReader &call, const BoundCall &description)
      : HostKernel(description), BoundRope(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    OMNIBAL_RETURN_IF_ERROR(checkPositions(views[positions], views[cosine].shape[0]));
    const TensorView &vx = views[x];
    const int64_t tokens = vx.shape[0], heads = vx.shape[1];
    const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, heads * vx.shape[2]));
    pool.parallelFor((tokens + grain - 1) / grain, [&](int64_t task, int) {
      for (int64_t t = task * grain; t < std::min(tokens, (task + 1) * grain); ++t)
        for (int64_t h = 0; h < heads; ++h)
          turn(views, t, h);
    });
    return Status::ok();
  }

private:
  Status checkPositions(const TensorView &given, int64_t rows) const {
    for (int64_t t = 0; t < given.shape[0]; ++t) {
      int32_t position = dataOf<int32_t>(given)[t * given.strides[0]];
      if (position < 0 || position >= rows)
        return bad("position " + std::to_string(position) + " of token " + std::to_string(t) +
                   " is outside the tables' " + std::to_string(rows) + " rows");
    }
    return Status::ok();
  }

  void turn(std::span<const TensorView> views, int64_t t, int64_t h) const {
    const TensorView &vx = views[x], &vo = views[out], &vc = views[cosine], &vs = views[sine];
    const int64_t size = vx.shape[2], turned = vc.shape[1], half = turned / 2;
    const int64_t row = dataOf<int32_t>(views[positions])[t * views[positions].strides[0]];
    const float *from = dataOf<float>(vx) + t * vx.strides[0] + h * vx.strides[1];
    float *to = dataOf<float>(vo) + t * vo.strides[0] + h * vo.strides[1];
    const float *c = dataOf<float>(vc) + row * vc.strides[0];
    const float *s = dataOf<float>(vs) + row * vs.strides[0];
    const int64_t sx = vx.strides[2], so = vo.strides[2], sc = vc.strides[1], ss = vs.strides[1];
    if (!interleaved && sx == 1 && so == 1 && sc == 1 && ss == 1) {
      rowTable().rotate(from, from + half, c, c + half, s, s + half, to, to + half, half, inverse);
    } else {
      for (int64_t i = 0; i < half; ++i) {
        const int64_t p = interleaved ? 2 * i : i, q = interleaved ? 2 * i + 1 : i + half;
        const float a = from[p * sx], b = from[q * sx];
        to[p * so] = a * c[p * sc] + (inverse ? b * s[q * ss] : -(b * s[p * ss]));
        to[q * so] = b * c[q * sc] + (inverse ? -(a * s[p * ss]) : a * s[q * ss]);
      }
    }
    if (from != to || sx != so)
      for (int64_t i = turned; i < size; ++i)
        to[i * so] = from[i * sx];
  }
};

} // namespace

void addRopeKernels(KernelTable &table) { table["rope"] = createKernel<RopeKernel>; }

} // namespace omnibal::rt
