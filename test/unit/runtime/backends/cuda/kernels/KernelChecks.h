//===- KernelChecks.h - Emulated launches beside the host backend's kernels -------------------===//
#ifndef TEST_UNIT_RUNTIME_BACKENDS_CUDA_KERNELS_KERNELCHECKS_H
#define TEST_UNIT_RUNTIME_BACKENDS_CUDA_KERNELS_KERNELCHECKS_H

#include "runtime/backends/cuda/kernels/Strides.h"
#include "test/conformance/KernelTest.h"
#include "test/support/cuda_emulation/Control.h"
#include <cstring>

namespace omnibal::rt::test {

inline uint16_t roundToBf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if (std::isnan(x))
    return 0x7fc0;
  const uint32_t rest = bits & 0xffff, odd = bits >> 16 & 1;
  return static_cast<uint16_t>((bits >> 16) + (rest > 0x8000 || (rest == 0x8000 && odd)));
}

inline float fromBf16(uint16_t x) {
  const uint32_t bits = uint32_t(x) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Storage of a tensor's memory (gaps included) as float32 or bfloat16, for a launch.
struct Stored {
  std::vector<float> inFloat32;
  std::vector<uint16_t> inBFloat16;
  bool isBFloat16;

  Stored(const std::vector<float> &values, bool bf16) : isBFloat16(bf16) {
    if (!bf16)
      inFloat32 = values;
    else
      for (float x : values)
        inBFloat16.push_back(roundToBf16(x));
  }
  void *data() { return isBFloat16 ? static_cast<void *>(inBFloat16.data()) : inFloat32.data(); }
  cuda::Element type() const { return isBFloat16 ? cuda::Element::BF16 : cuda::Element::F32; }
  float at(int64_t i) const { return isBFloat16 ? fromBf16(inBFloat16[i]) : inFloat32[i]; }
  std::pair<void *, size_t> bytes() {
    return {data(), isBFloat16 ? inBFloat16.size() * 2 : inFloat32.size() * 4};
  }
};

/// Rounds a tensor's values to bfloat16, so that both sides start from the same numbers.
inline void roundAll(Tensor<float> &t) {
  for (float &x : t.memory)
    x = fromBf16(roundToBf16(x));
}

template <typename T> std::pair<void *, size_t> bytesOf(std::vector<T> &v) {
  return {v.data(), v.size() * sizeof(T)};
}

/// Runs `launch` from the same start in several orders of blocks and threads; every order must
/// succeed and leave the same bytes in `outputs`.
inline void runInSeveralOrders(std::vector<std::pair<void *, size_t>> outputs,
                               const std::function<int()> &launch, uint64_t orders = 3) {
  using Bytes = std::vector<std::vector<char>>;
  auto save = [&] {
    Bytes all;
    for (auto [data, size] : outputs)
      all.emplace_back(static_cast<char *>(data), static_cast<char *>(data) + size);
    return all;
  };
  const Bytes start = save();
  Bytes first;
  for (uint64_t seed = 0; seed < orders; ++seed) {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].second)
        std::memcpy(outputs[i].first, start[i].data(), outputs[i].second);
    emulation::setOrder(seed);
    const int error = launch();
    emulation::setOrder(0);
    ASSERT_EQ(emulation::takeFailure(), "");
    ASSERT_EQ(error, 0);
    if (seed == 0)
      first = save();
    else
      ASSERT_EQ(save(), first) << "the order of threads and blocks changes the result";
  }
}

inline cuda::StridedPair stridesOf(const TensorView &to, const TensorView &from) {
  cuda::StridedPair p;
  for (int d = 0; d < to.rank; ++d)
    p.append(to.shape[d], to.strides[d], from.strides[d]);
  return p;
}

/// Memory of both, NaN equal to NaN; |got - want| <= absolute + relative * |want|.
inline void expectMemoryNear(const Stored &got, const std::vector<float> &want, double absolute,
                             double relative, const std::string &what) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) {
      ASSERT_TRUE(std::isnan(got.at(i))) << what << ": a gap was written, place " << i;
      continue;
    }
    if (got.at(i) == want[i])
      continue;
    ASSERT_LE(std::abs(double(got.at(i)) - want[i]), absolute + relative * std::abs(want[i]))
        << what << ": place " << i << " is " << got.at(i) << ", the host has " << want[i];
  }
}

/// Relative rounding of a result's storage.
inline double roundingOf(bool bf16, double float32 = 1e-6) { return bf16 ? 0.004 : float32; }

} // namespace omnibal::rt::test
#endif // TEST_UNIT_RUNTIME_BACKENDS_CUDA_KERNELS_KERNELCHECKS_H
