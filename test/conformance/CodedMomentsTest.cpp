//===- CodedMomentsTest.cpp - Moments of 8 bits against the bits that they are made of
//---------===//
#include "runtime/backends/host/Optimizer.h"
#include "runtime/device/DynamicMap.h"
#include "test/conformance/KernelTest.h"
#include <set>

using namespace omnibal::rt;

namespace {

/// What a string of bits stands for: zeros, a one, and the number of a cell of [0.1, 1].
double magnitudeOf(int bits, int width) {
  int zeros = 0;
  while (zeros < width && !(bits >> (width - 1 - zeros) & 1))
    ++zeros;
  const int cellBits = width - 1 - zeros;
  const int cells = 1 << cellBits, cell = bits & (cells - 1);
  return std::pow(10.0, -zeros) * (0.1 + 0.9 * (cell + 0.5) / cells);
}

int nearest(const DynamicMap &map, double part) {
  int best = 0;
  for (int code = 1; code < 256; ++code)
    if (std::abs(part - map.values[code]) < std::abs(part - map.values[best]))
      best = code;
  return best;
}

/// A tensor with its moments, of which `room` elements have a place.
struct Coded {
  std::vector<float> param, grad;
  std::vector<uint8_t> first, second;

  explicit Coded(int64_t elements, uint32_t seed = 5)
      : first(codedBytes(elements)), second(codedBytes(elements)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    std::uniform_real_distribution<float> powers(-6, 1);
    for (int64_t i = 0; i < elements; ++i) {
      param.push_back(normal(random));
      grad.push_back(i % 7 == 3 ? 0 : normal(random) * std::pow(10.F, powers(random)));
    }
  }
  int64_t elements() const { return static_cast<int64_t>(param.size()); }
  UpdatedTensor from(int64_t begin, int64_t count) {
    UpdatedTensor t{param.data() + begin, grad.data() + begin, nullptr, nullptr, count};
    t.coded1 = codedMomentAt(first.data(), elements(), begin);
    t.coded2 = codedMomentAt(second.data(), elements(), begin);
    return t;
  }
};

UpdateOptions codedOptions() {
  UpdateOptions options;
  options.kind = OptimizerKind::AdamW8bit;
  options.rates = {{1e-2, 0.1}};
  options.zeroGradients = false;
  return options;
}

} // namespace

TEST(DynamicMap, IsWhatItsBitsSay) {
  std::set<float> signs = {0, 1}, plain = {0, 1};
  for (int bits = 1; bits < 128; ++bits) { // seven bits; all zeros are zero
    signs.insert(static_cast<float>(magnitudeOf(bits, 7)));
    signs.insert(static_cast<float>(-magnitudeOf(bits, 7)));
  }
  // Without a sign a bit more for the cell of each power of ten.
  for (int bits = 1; bits < 128; ++bits)
    for (int half = 0; half < 2; ++half) {
      int zeros = 0;
      while (!(bits >> (6 - zeros) & 1))
        ++zeros;
      const int cells = 2 << (6 - zeros), cell = 2 * (bits & ((1 << (6 - zeros)) - 1)) + half;
      plain.insert(static_cast<float>(std::pow(10.0, -zeros) * (0.1 + 0.9 * (cell + 0.5) / cells)));
    }
  for (auto [map, want] : {std::pair{&signedMap(), &signs}, std::pair{&unsignedMap(), &plain}}) {
    ASSERT_EQ(want->size(), 256u);
    size_t code = 0;
    for (float value : *want)
      EXPECT_FLOAT_EQ(map->values[code++], value);
    EXPECT_TRUE(std::is_sorted(map->values.begin(), map->values.end()));
  }
  EXPECT_EQ(signedMap().values[signedZero], 0);
  EXPECT_EQ(unsignedMap().values[0], 0);
  EXPECT_FLOAT_EQ(signedMap().values[0], -0.9929688F); // 1 - 0.9 / 128
  EXPECT_FLOAT_EQ(unsignedMap().values[1], 3.25e-7F);  // 1e-6 (0.1 + 0.9 / 4)
}

/// No code is nearer, on borders, beside them and anywhere.
TEST(DynamicMap, BordersLieHalfway) {
  for (const DynamicMap *map : {&signedMap(), &unsignedMap()})
    for (int code = 0; code < 255; ++code) {
      const float border = map->borders[code];
      EXPECT_EQ(nearest(*map, border), code);
      EXPECT_EQ(nearest(*map, std::nextafter(border, 2.0F)), code + 1);
    }
}

/// Without memory (both betas 0) the moments are the gradient and its square.
TEST(CodedMoments, AreTheNearestCodes) {
  Coded tensor(5000);
  UpdateOptions options = codedOptions();
  options.beta1 = options.beta2 = 0;
  options.gradientScale = 0.5;
  ThreadPool pool(1);
  const UpdatedTensor all = tensor.from(0, tensor.elements());
  update({{all}}, options, pool);
  for (int64_t begin = 0; begin < tensor.elements(); begin += codedBlock) {
    const int64_t end = std::min(begin + codedBlock, tensor.elements());
    float most1 = 0, most2 = 0;
    for (int64_t i = begin; i < end; ++i) {
      const float g = 0.5F * tensor.grad[i];
      most1 = std::max(most1, std::abs(g));
      most2 = std::max(most2, g * g);
    }
    ASSERT_EQ(all.coded1.scales[begin / codedBlock], most1);
    ASSERT_EQ(all.coded2.scales[begin / codedBlock], most2);
    for (int64_t i = begin; i < end; ++i) {
      const float g = 0.5F * tensor.grad[i];
      ASSERT_EQ(all.coded1.codes[i], nearest(signedMap(), g / most1)) << g << " of " << most1;
      const int second = nearest(unsignedMap(), g * g / most2);
      ASSERT_EQ(all.coded2.codes[i], g != 0 && second == 0 ? 1 : second) << g << " of " << most2;
    }
  }
}

/// The definition over steps, in double but for what is kept.
TEST(CodedMoments, UpdatesFollowTheirDefinition) {
  Coded tensor(1000);
  const std::vector<float> grad = tensor.grad;
  std::vector<double> param(tensor.param.begin(), tensor.param.end());
  const UpdatedTensor all = tensor.from(0, tensor.elements());
  UpdateOptions options = codedOptions();
  ThreadPool pool(1);
  for (options.step = 1; options.step <= 4; ++options.step) {
    std::vector<double> m(param.size()), v(param.size());
    for (int64_t i = 0; i < tensor.elements(); ++i) { // what was kept before
      m[i] = double{signedMap().values[all.coded1.codes[i]]} * all.coded1.scales[i / codedBlock];
      v[i] = double{unsignedMap().values[all.coded2.codes[i]]} * all.coded2.scales[i / codedBlock];
    }
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.grad[i] = grad[(i + 13 * options.step) % tensor.elements()];
    update({{all}}, options, pool);
    for (size_t i = 0; i < param.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * tensor.grad[i];
      v[i] = 0.999 * v[i] + 0.001 * tensor.grad[i] * tensor.grad[i];
      const double root = std::sqrt(v[i] / (1 - std::pow(0.999, options.step)));
      param[i] =
          param[i] * (1 - 1e-3) - 1e-2 * m[i] / (1 - std::pow(0.9, options.step)) / (root + 1e-8);
      ASSERT_NEAR(tensor.param[i], param[i], 3e-6 * (1 + std::abs(param[i]))) << options.step;
      param[i] = tensor.param[i];
    }
  }
}

/// However the elements are handed out: by threads, or in pieces that begin at blocks.
TEST(CodedMoments, DoNotDependOnPieces) {
  Coded whole(70001), pieces(70001);
  UpdateOptions options = codedOptions();
  ThreadPool pool1(1), pool3(3);
  for (options.step = 1; options.step <= 3; ++options.step) {
    update({{whole.from(0, 70001)}}, options, pool1);
    const std::vector<UpdatedTensor> list = {pieces.from(0, 256), pieces.from(256, 16384),
                                             pieces.from(16640, 53361)};
    update(list, options, pool3);
  }
  EXPECT_EQ(whole.param, pieces.param);
  EXPECT_EQ(whole.first, pieces.first);
  EXPECT_EQ(whole.second, pieces.second);
}

/// Where the gradient stays away, the step of what is left of the first moment has a bound.
TEST(CodedMoments, NoStepWithoutBounds) {
  Coded tensor(256);
  const std::vector<float> start = tensor.param;
  for (int64_t i = 0; i < 256; ++i)
    tensor.grad[i] = i == 0 ? 1 : 1e-4F; // its square is a hundred millionth of the largest
  UpdateOptions options = codedOptions();
  options.rates = {{1e-2, 0}};
  ThreadPool pool(1);
  const UpdatedTensor all = tensor.from(0, 256);
  for (options.step = 1; options.step <= 10; ++options.step) {
    update({{all}}, options, pool);
    tensor.grad.assign(256, 0);
  }
  for (int64_t i = 0; i < 256; ++i)
    EXPECT_LE(std::abs(tensor.param[i] - start[i]), 0.11) << i;
}

/// By hand: 1000 elements have four scales, which take 16 bytes of the first 64.
TEST(CodedMoments, BytesByHand) {
  EXPECT_EQ(codedBytes(0), 0);
  EXPECT_EQ(codedBytes(1), 64 + 1);
  EXPECT_EQ(codedBytes(1000), 64 + 1000);
  EXPECT_EQ(codedBytes(4096), 64 + 4096);
  EXPECT_EQ(codedBytes(4097), 128 + 4097);
  EXPECT_EQ(codedBytes(int64_t{1} << 20), (int64_t{1} << 20) * 65 / 64); // a byte and 4 / 256
  EXPECT_EQ(momentBytes(OptimizerKind::AdamW, 1000), 4000);
  EXPECT_EQ(momentBytes(OptimizerKind::AdamW8bit, 1000), 1064);
}
