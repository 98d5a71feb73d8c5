//===- RopeKernel.cpp - `rope`: rotary position embedding --------------------------------===//
#include "runtime/backends/host/kernels/HostKernel.h"
#include "runtime/backends/host/vector/Rows.h"
#include <algorithm>
#include <cstring>

namespace omnibal::rt {
namespace {

class RopeKernel final : public HostKernel {
public:
  RopeKernel(CallReader &call, const BoundCall &description) : HostKernel(description) {
    x = call.operand("x");
    positions = call.operand("positions");
    cosine = call.operand("cos");
    sine = call.operand("sin");
    out = call.operand("out");
    interleaved = call.flag("interleaved", false);
    inverse = call.flag("inverse", false);
  }

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkShapes(views));
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
  Status checkShapes(std::span<const TensorView> views) const {
    const TensorView &vx = views[x], &vp = views[positions], &vc = views[cosine];
    OMNIBAL_RETURN_IF_ERROR(check(vx, "x", 3, DType::F32));
    OMNIBAL_RETURN_IF_ERROR(check(views[out], "out", 3, DType::F32));
    OMNIBAL_RETURN_IF_ERROR(same(views[out], "out", vx, "x"));
    OMNIBAL_RETURN_IF_ERROR(check(vp, "positions", 1, DType::I32));
    OMNIBAL_RETURN_IF_ERROR(check(vc, "cos", 2, DType::F32));
    OMNIBAL_RETURN_IF_ERROR(check(views[sine], "sin", 2, DType::F32));
    OMNIBAL_RETURN_IF_ERROR(same(views[sine], "sin", vc, "cos"));
    if (vp.shape[0] != vx.shape[0] || vc.shape[1] > vx.shape[2] || vc.shape[1] % 2 != 0)
      return bad("shapes do not fit together: x " + printShape(vx) + ", positions " +
                 printShape(vp) + ", cos " + printShape(vc));
    for (int64_t t = 0; t < vp.shape[0]; ++t) {
      int32_t position = dataOf<int32_t>(vp)[t * vp.strides[0]];
      if (position < 0 || position >= vc.shape[0])
        return bad("position " + std::to_string(position) + " of token " + std::to_string(t) +
                   " is outside the tables' " + std::to_string(vc.shape[0]) + " rows");
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

  int x, positions, cosine, sine, out;
  bool interleaved, inverse;
};

} // namespace

void addRopeKernels(KernelTable &table) { table["rope"] = createKernel<RopeKernel>; }

} // namespace omnibal::rt
