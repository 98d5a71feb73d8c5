#include "runtime/backends/host/vector/Update.h"
#include "runtime/backends/host/vector/VectorMath.h"

namespace {
using omnibal::rt::CodedMoment;
using omnibal::rt::DynamicMap;
using omnibal::rt::UpdateFactors;

void adamW(float *__restrict param, float *__restrict grad, float *__restrict moment1,
           float *__restrict moment2, int64_t n, const UpdateFactors &factors) {
  const UpdateFactors f = factors;
  for (int64_t i = 0; i < n; ++i) {
    float g = grad[i] * f.gradientScale;
    float m = moment1[i] + f.take1 * (g - moment1[i]);
    float v = f.keep2 * moment2[i] + f.take2 * g * g;
    float denominator = __builtin_sqrtf(v) * f.rootScale + f.epsilon;
    moment1[i] = m;
    moment2[i] = v;
    param[i] = param[i] * f.shrink - f.stepSize * (m / denominator);
  }
  if (f.zeroGradients)
    std::memset(grad, 0, n * sizeof(float));
}

void lion(float *__restrict param, float *__restrict grad, float *__restrict moment, float *,
          int64_t n, const UpdateFactors &factors) {
  const UpdateFactors f = factors;
  for (int64_t i = 0; i < n; ++i) {
    float g = grad[i] * f.gradientScale;
    float blend = moment[i] + f.take1 * (g - moment[i]);
    float sign = float(blend > 0) - float(blend < 0);
    moment[i] = moment[i] + f.take2 * (g - moment[i]);
    param[i] = param[i] * f.shrink - f.stepSize * sign;
  }
  if (f.zeroGradients)
    std::memset(grad, 0, n * sizeof(float));
}

void sgd(float *__restrict param, float *__restrict grad, float *__restrict moment, float *,
         int64_t n, const UpdateFactors &factors) {
  const UpdateFactors f = factors;
  const float ownPart = f.nesterov ? 1.f : 0.f, ofMoment = f.nesterov ? f.keep1 : 1.f;
  for (int64_t i = 0; i < n; ++i) {
    float g = grad[i] * f.gradientScale + f.decay * param[i];
    float m = f.keep1 * moment[i] + g;
    moment[i] = m;
    param[i] = param[i] - f.stepSize * (ownPart * g + ofMoment * m);
  }
  if (f.zeroGradients)
    std::memset(grad, 0, n * sizeof(float));
}

constexpr int codedValues = static_cast<int>(omnibal::rt::codedBlock);

void decode(const uint8_t *codes, float scale, const DynamicMap &map, float *__restrict values) {
  for (int i = 0; i < codedValues; ++i)
    values[i] = map.values[codes[i]] * scale;
}

/// Returns the scale, the largest magnitude. In sums side by side, as squares() is.
float largestMagnitude(const float *values) {
  float most[16] = {};
  for (int i = 0; i < codedValues; i += 16)
    for (int l = 0; l < 16; ++l) {
      const float magnitude = __builtin_fabsf(values[i + l]);
      most[l] = magnitude > most[l] ? magnitude : most[l];
    }
  float all = 0;
  for (float each : most)
    all = each > all ? each : all;
  return all;
}

/// The nearest code of each value, the lower of two that are as near. Every value looks for its
/// place among the borders, in steps of half the size.
void encode(const float *__restrict values, float scale, const DynamicMap &map,
            uint8_t *__restrict codes) {
  alignas(64) int32_t places[codedValues] = {};
  alignas(64) float parts[codedValues];
  for (int i = 0; i < codedValues; ++i)
    parts[i] = scale > 0 ? values[i] / scale : 0;
  const float *borders = map.borders.data();
  for (int step = codedValues / 2; step > 0; step /= 2)
    for (int i = 0; i < codedValues; ++i)
      places[i] += parts[i] > borders[places[i] + step - 1] ? step : 0;
  for (int i = 0; i < codedValues; ++i)
    codes[i] = static_cast<uint8_t>(places[i]);
}

/// A block whose values all are there; the moments that are encoded are those that the update used.
void adamW8bitBlock(float *__restrict param, float *__restrict grad, CodedMoment moment1,
                    CodedMoment moment2, const UpdateFactors &f, const DynamicMap &map1,
                    const DynamicMap &map2) {
  alignas(64) float m[codedValues];
  alignas(64) float v[codedValues];
  decode(moment1.codes, *moment1.scales, map1, m);
  decode(moment2.codes, *moment2.scales, map2, v);
  adamW(param, grad, m, v, codedValues, f);
  *moment1.scales = largestMagnitude(m);
  *moment2.scales = largestMagnitude(v);
  encode(m, *moment1.scales, map1, moment1.codes);
  encode(v, *moment2.scales, map2, moment2.codes);
  // As zero, a second moment would make of a first one that is not zero a step without bounds.
  for (int i = 0; i < codedValues; ++i)
    moment2.codes[i] = v[i] > 0 && moment2.codes[i] == 0 ? 1 : moment2.codes[i];
}

void adamW8bit(float *param, float *grad, CodedMoment moment1, CodedMoment moment2, int64_t n,
               const UpdateFactors &factors, const DynamicMap &map1, const DynamicMap &map2) {
  for (int64_t at = 0; at < n; at += codedValues, ++moment1.scales, ++moment2.scales,
               moment1.codes += codedValues, moment2.codes += codedValues) {
    if (n - at >= codedValues) {
      adamW8bitBlock(param + at, grad + at, moment1, moment2, factors, map1, map2);
      continue;
    }
    // What is missing of the last block is zero, and stays so.
    const auto left = static_cast<size_t>(n - at);
    float p[codedValues] = {}, g[codedValues] = {};
    uint8_t codes1[codedValues], codes2[codedValues] = {};
    std::memset(codes1, omnibal::rt::signedZero, codedValues);
    std::memcpy(p, param + at, left * sizeof(float));
    std::memcpy(g, grad + at, left * sizeof(float));
    std::memcpy(codes1, moment1.codes, left);
    std::memcpy(codes2, moment2.codes, left);
    adamW8bitBlock(p, g, {codes1, moment1.scales}, {codes2, moment2.scales}, factors, map1, map2);
    std::memcpy(param + at, p, left * sizeof(float));
    std::memcpy(grad + at, g, left * sizeof(float));
    std::memcpy(moment1.codes, codes1, left);
    std::memcpy(moment2.codes, codes2, left);
  }
}

void average(const float *__restrict value, float *__restrict average, int64_t n, float keep,
             float take) {
  for (int64_t i = 0; i < n; ++i)
    average[i] = keep * average[i] + take * value[i];
}

/// 16 sums side by side, so that the order does not depend on the instruction set.
double squares(const float *x, int64_t n) {
  double sums[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l)
      sums[l] += double(x[i + l]) * double(x[i + l]);
  for (int l = 0; i < n; ++i, ++l)
    sums[l] += double(x[i]) * double(x[i]);
  for (int width = 8; width > 0; width /= 2)
    for (int l = 0; l < width; ++l)
      sums[l] += sums[l + width];
  return sums[0];
}

} // namespace

namespace omnibal::rt::OMNIBAL_ISA {
const UpdateTable updateTable = {
    {adamW, lion, sgd, adamW, nullptr, nullptr}, adamW8bit, squares, average};
}
