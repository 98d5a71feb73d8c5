#include "runtime/data/pictures/Resample.h"
#include <algorithm>
#include <cmath>
#include <numbers>

namespace omnibal::rt {
namespace {

constexpr int fractionBits = 22;
constexpr int32_t half = int32_t{1} << (fractionBits - 1);

double sinc(double x) {
  return x == 0 ? 1.0 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi);
}

/// Keys' cubic convolution with a = -1/2. The order of operations decides the last bits.
double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/// Pillow's constants are those of float.
double hamming(double x) {
  x = std::abs(x);
  if (x == 0)
    return 1;
  if (x >= 1)
    return 0;
  x *= std::numbers::pi;
  return std::sin(x) / x * (double{0.54F} + double{0.46F} * std::cos(x));
}

double valueOf(ResampleFilter filter, double x) {
  switch (filter) {
  case ResampleFilter::Box:
    return x > -0.5 && x <= 0.5 ? 1 : 0;
  case ResampleFilter::Bilinear:
    return std::max(0.0, 1 - std::abs(x));
  case ResampleFilter::Hamming:
    return hamming(x);
  case ResampleFilter::Bicubic:
    return bicubic(x);
  case ResampleFilter::Lanczos:
    return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
  }
  return 0;
}

double supportOf(ResampleFilter filter) {
  switch (filter) {
  case ResampleFilter::Box:
    return 0.5;
  case ResampleFilter::Bilinear:
  case ResampleFilter::Hamming:
    return 1;
  case ResampleFilter::Bicubic:
    return 2;
  case ResampleFilter::Lanczos:
    return 3;
  }
  return 0;
}

/// For every element of an axis the elements that it is made of, and their weights.
struct AxisWeights {
  struct Span {
    int64_t first = 0, count = 0;
  };
  AxisWeights(int64_t from, int64_t to, ResampleFilter filter);
  const int32_t *weightsOf(int64_t element) const { return weights.data() + element * most; }

  int64_t most; ///< elements that one is made of
  std::vector<Span> spans;
  std::vector<int32_t> weights; ///< [to, most]
};

int64_t mostTaps(int64_t from, int64_t to, ResampleFilter filter) {
  const double scale = std::max(1.0, static_cast<double>(from) / static_cast<double>(to));
  return static_cast<int64_t>(std::ceil(supportOf(filter) * scale)) * 2 + 1;
}

AxisWeights::AxisWeights(int64_t from, int64_t to, ResampleFilter filter)
    : most(mostTaps(from, to, filter)), spans(static_cast<size_t>(to)),
      weights(static_cast<size_t>(to * most)) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double wide = std::max(1.0, scale), support = supportOf(filter) * wide, narrow = 1.0 / wide;
  std::vector<double> exact(static_cast<size_t>(most));
  for (int64_t element = 0; element < to; ++element) {
    const double center = (static_cast<double>(element) + 0.5) * scale;
    const auto first = static_cast<int64_t>(std::max(0.0, std::floor(center - support + 0.5)));
    const int64_t end = std::min(from, static_cast<int64_t>(std::floor(center + support + 0.5)));
    double sum = 0;
    for (int64_t i = 0; i < end - first; ++i) {
      exact[i] = valueOf(filter, (static_cast<double>(i + first) - center + 0.5) * narrow);
      sum += exact[i];
    }
    spans[element] = {first, end - first};
    int32_t *out = weights.data() + element * most;
    for (int64_t i = 0; i < end - first; ++i) {
      const double weight = sum != 0 ? exact[i] / sum : exact[i];
      out[i] = static_cast<int32_t>((weight < 0 ? -0.5 : 0.5) +
                                    weight * static_cast<double>(int32_t{1} << fractionBits));
    }
  }
}

uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> fractionBits, 0, 255));
}

Image emptyOf(int64_t height, int64_t width) {
  Image image;
  image.height = height;
  image.width = width;
  image.rgb.resize(static_cast<size_t>(height * width * 3));
  return image;
}

Image alongRows(const Image &image, int64_t width, ResampleFilter filter) {
  const AxisWeights axis(image.width, width, filter);
  Image out = emptyOf(image.height, width);
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t *row = image.rgb.data() + y * image.width * 3;
    uint8_t *to = out.rgb.data() + y * width * 3;
    for (int64_t x = 0; x < width; ++x, to += 3) {
      const AxisWeights::Span span = axis.spans[x];
      const int32_t *weights = axis.weightsOf(x);
      const uint8_t *pixel = row + span.first * 3;
      int32_t red = half, green = half, blue = half;
      for (int64_t i = 0; i < span.count; ++i, pixel += 3) {
        red += pixel[0] * weights[i];
        green += pixel[1] * weights[i];
        blue += pixel[2] * weights[i];
      }
      to[0] = rounded(red);
      to[1] = rounded(green);
      to[2] = rounded(blue);
    }
  }
  return out;
}

Image alongColumns(const Image &image, int64_t height, ResampleFilter filter) {
  const AxisWeights axis(image.height, height, filter);
  Image out = emptyOf(height, image.width);
  const int64_t values = image.width * 3;
  std::vector<int32_t> sums(static_cast<size_t>(values));
  for (int64_t y = 0; y < height; ++y) {
    const AxisWeights::Span span = axis.spans[y];
    std::fill(sums.begin(), sums.end(), half);
    for (int64_t i = 0; i < span.count; ++i) {
      const int32_t weight = axis.weightsOf(y)[i];
      const uint8_t *row = image.rgb.data() + (span.first + i) * values;
      for (int64_t v = 0; v < values; ++v)
        sums[v] += row[v] * weight;
    }
    std::transform(sums.begin(), sums.end(), out.rgb.begin() + y * values, rounded);
  }
  return out;
}

} // namespace

std::optional<ResampleFilter> resampleFilterOf(std::string_view name) {
  constexpr std::pair<std::string_view, ResampleFilter> names[] = {
      {"box", ResampleFilter::Box},
      {"bilinear", ResampleFilter::Bilinear},
      {"hamming", ResampleFilter::Hamming},
      {"bicubic", ResampleFilter::Bicubic},
      {"lanczos", ResampleFilter::Lanczos}};
  for (const auto &[known, filter] : names)
    if (known == name)
      return filter;
  return std::nullopt;
}

Image resample(const Image &image, const ImageSize &size, const Resampling &how) {
  const bool wide = image.width != size.width, high = image.height != size.height;
  if (!wide)
    return high ? alongColumns(image, size.height, how.filter) : image;
  if (!high)
    return alongRows(image, size.width, how.filter);
  const int64_t fewerRows = image.height - size.height, fewerColumns = image.width - size.width;
  if (how.order == PassOrder::Auto && fewerRows > 0 && fewerRows > 2 * fewerColumns)
    return alongRows(alongColumns(image, size.height, how.filter), size.width, how.filter);
  return alongColumns(alongRows(image, size.width, how.filter), size.height, how.filter);
}

int64_t resampleBytes(const ImageSize &from, const ImageSize &to) {
  const int64_t between = std::max(from.height * to.width, to.height * from.width);
  const int64_t pictures = 3 * (between + to.height * to.width);
  // Lanczos has most: 2 * ceil(3 * max(1, from / to)) + 1 weights for each element.
  const int64_t taps = 6 * (from.height + from.width) + 9 * (to.height + to.width);
  const int64_t spans = 16 * (to.height + to.width), row = 12 * to.width;
  return pictures + int64_t{sizeof(int32_t)} * taps + spans + row;
}

} // namespace omnibal::rt
