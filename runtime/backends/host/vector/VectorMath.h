//===- VectorMath.h - Vectors of floats for sources compiled once per instruction set ----===//
//
// Only the files in this folder include this header. Everything here has internal linkage: the same
// source is compiled for several instruction sets, and shared inline functions would mix them up.
// For the same reason these files include no header with inline code beyond the C library's.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_VECTOR_VECTORMATH_H
#define RUNTIME_BACKENDS_HOST_VECTOR_VECTORMATH_H

#include <cstdint>
#include <cstring>

namespace {

constexpr int vectorBytes = OMNIBAL_VECTOR_BYTES;
constexpr int lanes = vectorBytes / 4;
using Vec = float __attribute__((vector_size(OMNIBAL_VECTOR_BYTES)));
using VecI = int32_t __attribute__((vector_size(OMNIBAL_VECTOR_BYTES)));

#define OMNIBAL_INLINE static inline __attribute__((always_inline))

OMNIBAL_INLINE Vec load(const float *p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
OMNIBAL_INLINE void store(float *p, Vec v) { std::memcpy(p, &v, sizeof v); }
/// Subtracting zero changes no value, so compilers drop it and broadcast from memory; adding zero
/// would turn -0 into 0 and costs an addition.
OMNIBAL_INLINE Vec splat(float x) { return x - Vec{}; }
OMNIBAL_INLINE VecI bits(Vec v) { return reinterpret_cast<VecI>(v); }
OMNIBAL_INLINE Vec fromBits(VecI v) { return reinterpret_cast<Vec>(v); }
OMNIBAL_INLINE Vec maximum(Vec a, Vec b) { return a > b ? a : b; }
OMNIBAL_INLINE Vec minimum(Vec a, Vec b) { return a < b ? a : b; }
OMNIBAL_INLINE Vec absolute(Vec a) { return fromBits(bits(a) & 0x7fffffff); }

OMNIBAL_INLINE Vec loadPart(const float *p, int64_t count, float fill = 0) {
  float buffer[lanes];
  for (int i = 0; i < lanes; ++i)
    buffer[i] = i < count ? p[i] : fill;
  return load(buffer);
}
OMNIBAL_INLINE void storePart(float *p, Vec v, int64_t count) {
  float buffer[lanes];
  store(buffer, v);
  for (int i = 0; i < lanes && i < count; ++i)
    p[i] = buffer[i];
}

/// Sum and maximum of the lanes, in a fixed tree order.
OMNIBAL_INLINE float sumLanes(Vec v) {
  float b[lanes];
  store(b, v);
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i)
      b[i] += b[i + width];
  return b[0];
}
OMNIBAL_INLINE float maxLanes(Vec v) {
  float b[lanes];
  store(b, v);
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i)
      b[i] = b[i] > b[i + width] ? b[i] : b[i + width];
  return b[0];
}

/// e^x within about 1 ulp; 0 below -87.3 (no denormals), infinity above 88.8; NaN stays NaN.
OMNIBAL_INLINE Vec exponential(Vec x) {
  const float magic = 12582912.f; // 1.5 * 2^23: adding it rounds to an integer in the low bits
  Vec clamped = minimum(x, splat(89.f));
  Vec t = clamped * 1.44269504f + magic;
  Vec n = t - magic;
  Vec r = clamped - n * 0.693145752f; // ln 2 in two parts; the first has 15 bits
  r = r - n * 1.42860677e-6f;
  Vec p = splat(1.381461372e-3f);
  p = p * r + 8.368711219e-3f;
  p = p * r + 4.166838743e-2f;
  p = p * r + 1.666652068e-1f;
  p = p * r + 4.999999345e-1f;
  p = (p * r) * r + r + 1.f;
  Vec result = p * fromBits((bits(t) << 23) + 0x3f800000);
  result = x < splat(-87.3f) ? Vec{} : result;
  return x == x ? result : x;
}

/// Error function within 2 ulp: x + x P(x^2) near 0, 1 - e^-Q(|x|) elsewhere (own minimax fits).
OMNIBAL_INLINE Vec errorFunction(Vec x) {
  Vec a = minimum(absolute(x), splat(4.f)), s = x * x;
  Vec p = splat(8.185069729e-5f);
  p = p * s - 8.097696968e-4f;
  p = p * s + 5.196951422e-3f;
  p = p * s - 2.685770478e-2f;
  p = p * s + 1.128366399e-1f;
  p = p * s - 3.761263161e-1f;
  p = p * s + 1.283791664e-1f;
  Vec nearZero = x + x * p;
  Vec q = splat(2.082859556e-5f);
  q = q * a - 4.313929771e-4f;
  q = q * a + 4.15625041e-3f;
  q = q * a - 2.508060015e-2f;
  q = q * a + 1.082203518e-1f;
  q = q * a + 6.334008864e-1f;
  q = q * a + 1.129488386f;
  q = q * a - 1.692002372e-4f;
  Vec far = 1.f - exponential(-q);
  far = fromBits(bits(far) | (bits(x) & INT32_MIN));
  return a < splat(0.92f) ? nearZero : (x == x ? far : x);
}

} // namespace
#endif // RUNTIME_BACKENDS_HOST_VECTOR_VECTORMATH_H
