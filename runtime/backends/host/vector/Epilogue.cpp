#include "runtime/backends/host/vector/Epilogue.h"
#include "runtime/backends/host/vector/VectorMath.h"

namespace {
using omnibal::rt::Activation;
using omnibal::rt::Epilogue;

template <Activation activation> OMNIBAL_INLINE Vec activate(Vec x) {
  switch (activation) {
  case Activation::None:
    return x;
  case Activation::Gelu:
    return x * 0.5f * (1.f + errorFunction(x * 0.707106781f));
  case Activation::GeluTanh: { // 1 + tanh(u) = 2 / (1 + e^-2u)
    Vec u = (x + x * x * x * 0.044715f) * 0.797884561f;
    return x / (1.f + exponential(-2.f * u));
  }
  case Activation::Silu:
    return x / (1.f + exponential(-x));
  case Activation::QuickGelu:
    return x / (1.f + exponential(-1.702f * x));
  case Activation::Relu:
    return x > 0.f ? x : (x == x ? Vec{} : x);
  }
  return x;
}

template <Activation activation> OMNIBAL_INLINE Vec derivative(Vec x) {
  switch (activation) {
  case Activation::None:
    return splat(1.f);
  case Activation::Gelu: // Phi(x) + x phi(x)
    return 0.5f * (1.f + errorFunction(x * 0.707106781f)) +
           x * exponential(x * x * -0.5f) * 0.398942280f;
  case Activation::GeluTanh: { // x s(2u), s the logistic function
    Vec u = (x + x * x * x * 0.044715f) * 0.797884561f;
    Vec s = 1.f / (1.f + exponential(-2.f * u));
    return s + x * s * (1.f - s) * (1.595769122f + x * x * 0.214064448f);
  }
  case Activation::Silu: {
    Vec s = 1.f / (1.f + exponential(-x));
    return s + x * s * (1.f - s);
  }
  case Activation::QuickGelu: {
    Vec s = 1.f / (1.f + exponential(-1.702f * x));
    return s + 1.702f * x * s * (1.f - s);
  }
  case Activation::Relu:
    return x > 0.f ? splat(1.f) : Vec{};
  }
  return splat(1.f);
}

OMNIBAL_INLINE Vec gather(const float *p, int64_t stride, int64_t count) {
  float buffer[lanes];
  for (int i = 0; i < lanes; ++i)
    buffer[i] = i < count ? p[i * stride] : 0;
  return load(buffer);
}

template <Activation activation, bool whole>
OMNIBAL_INLINE void step(const Epilogue &e, int64_t i, int64_t j, int64_t count) {
  const float *source = e.source + i * e.sourceStride + j;
  Vec v = whole ? load(source) : loadPart(source, count);
  if (e.bias) {
    const float *bias = e.bias + i * e.biasRowStride + j * e.biasColStride;
    v += e.biasColStride == 0            ? splat(*bias)
         : whole && e.biasColStride == 1 ? load(bias)
                                         : gather(bias, e.biasColStride, count);
  }
  if (e.pre) {
    float *pre = e.pre + i * e.preStride + j * e.preColStride;
    if (whole && e.preColStride == 1) {
      store(pre, v);
    } else {
      float buffer[lanes];
      store(buffer, v);
      for (int l = 0; l < count; ++l)
        pre[l * e.preColStride] = buffer[l];
    }
  }
  if (e.at) {
    const float *at = e.at + i * e.atStride + j * e.atColStride;
    v *= derivative<activation>(whole && e.atColStride == 1 ? load(at)
                                                            : gather(at, e.atColStride, count));
  } else {
    v = activate<activation>(v);
  }
  if (e.residual) {
    const float *residual = e.residual + i * e.residualStride + j * e.residualColStride;
    v += whole && e.residualColStride == 1 ? load(residual)
                                           : gather(residual, e.residualColStride, count);
  }
  float *c = e.c + i * e.cStride + j;
  if (whole)
    store(c, v);
  else
    storePart(c, v, count);
}

template <Activation activation> void run(const Epilogue &e) {
  for (int64_t i = 0; i < e.rows; ++i) {
    int64_t j = 0;
    for (; j + lanes <= e.cols; j += lanes)
      step<activation, true>(e, i, j, lanes);
    if (j < e.cols)
      step<activation, false>(e, i, j, e.cols - j);
  }
}

void apply(const Epilogue &e) {
  switch (e.activation) {
  case Activation::None:
    return run<Activation::None>(e);
  case Activation::Gelu:
    return run<Activation::Gelu>(e);
  case Activation::GeluTanh:
    return run<Activation::GeluTanh>(e);
  case Activation::Silu:
    return run<Activation::Silu>(e);
  case Activation::QuickGelu:
    return run<Activation::QuickGelu>(e);
  case Activation::Relu:
    return run<Activation::Relu>(e);
  }
}

} // namespace

namespace omnibal::rt::OMNIBAL_ISA {
const EpilogueTable epilogueTable = {apply};
}
