//===- RandomProblems.h - Random shapes and values for kernels on both sides ------------------===//
#ifndef TEST_CONFORMANCE_DEVICE_RANDOMPROBLEMS_H
#define TEST_CONFORMANCE_DEVICE_RANDOMPROBLEMS_H

#include "test/conformance/device/BothSides.h"
#include <cstdlib>

namespace omnibal::rt::test {

/// One random problem after another; more and larger ones on a real device.
/// OMNIBAL_TEST_LARGE=1 or 0 in the environment says so too.
class Random {
public:
  explicit Random(int seed) : engine(seed) {}
  static bool large() {
    const char *wish = std::getenv("OMNIBAL_TEST_LARGE");
    return wish ? *wish != '0' : !deviceIsEmulated();
  }
  static int rounds(int emulated) { return large() ? 10 * emulated : emulated; }

  int64_t upTo(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(engine); }
  bool chance(int percent) { return upTo(99) < percent; }
  template <typename T> T oneOf(std::initializer_list<T> list) {
    return *(list.begin() + upTo(static_cast<int64_t>(list.size()) - 1));
  }
  /// Often 0, 1 or a power of two; never more than `most` (four times that on a real device).
  int64_t size(int64_t most, int64_t least = 0) {
    most *= large() ? 4 : 1;
    const int64_t kind = upTo(9);
    const int64_t n = kind == 0 ? 0 : kind == 1 ? 1 : kind < 4 ? int64_t{8} << upTo(4) : upTo(most);
    return std::clamp(n, least, most);
  }
  /// Gaps of whole packs, or odd ones.
  int64_t gap() { return oneOf<int64_t>({0, 0, 8, 3}); }
  Tensor<float> floats(std::vector<int64_t> shape, std::vector<int> order = {}, float scale = 1) {
    return randomTensor(engine, std::move(shape), std::move(order), gap(), scale);
  }
  Tensor<float> dense(std::vector<int64_t> shape, float scale = 1) {
    return randomTensor(engine, std::move(shape), {}, 0, scale);
  }
  Tensor<int32_t> indices(int64_t count, int64_t first, int64_t end) {
    Tensor<int32_t> list({count});
    return list.fill([&](int64_t) { return static_cast<int32_t>(first + upTo(end - first - 1)); });
  }
  std::vector<int> order(int rank) {
    std::vector<int> list(rank);
    std::iota(list.begin(), list.end(), 0);
    if (chance(30))
      std::shuffle(list.begin(), list.end(), engine);
    return list;
  }

  std::mt19937 engine;
};

#define FOR_ROUNDS(emulated)                                                                       \
  for (int round = 0; round < Random::rounds(emulated) && !HasFatalFailure(); ++round)

class AgainstHost : public testing::Test {};

} // namespace omnibal::rt::test
#endif // TEST_CONFORMANCE_DEVICE_RANDOMPROBLEMS_H
