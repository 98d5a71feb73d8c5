//===- KernelTest.h - Tensors and kernel calls for the conformance suite --------------------===//
#ifndef TEST_CONFORMANCE_KERNELTEST_H
#define TEST_CONFORMANCE_KERNELTEST_H

#include "test/conformance/BackendUnderTest.h"
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <vector>

namespace omnibal::rt::test {

template <typename T> constexpr DType dtypeOf() {
  if constexpr (std::is_same_v<T, float>)
    return DType::F32;
  else if constexpr (std::is_same_v<T, int32_t>)
    return DType::I32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return DType::I64;
  else if constexpr (std::is_same_v<T, double>)
    return DType::F64;
  else
    return DType::Bool;
}

/// A tensor with its own memory; `order` permutes which dimension is innermost in memory and `gap`
/// pads every line, so that strides are not those of a dense tensor.
template <typename T> struct Tensor {
  std::vector<T> memory;
  TensorView view;

  Tensor() = default;
  explicit Tensor(std::vector<int64_t> shape, std::vector<int> order = {}, int64_t gap = 0) {
    if (order.empty()) {
      order.resize(shape.size());
      std::iota(order.begin(), order.end(), 0);
    }
    view.rank = static_cast<int>(shape.size());
    view.dtype = dtypeOf<T>();
    int64_t stride = 1;
    for (int i = view.rank - 1; i >= 0; --i) {
      int d = order[i];
      view.shape[d] = shape[d];
      view.strides[d] = stride;
      stride = stride * shape[d] + (i == view.rank - 1 ? gap : 0);
    }
    memory.resize(std::max<int64_t>(stride, 1));
    view.data = memory.data();
  }
  Tensor(const Tensor &other) : memory(other.memory), view(other.view) {
    view.data = memory.data();
  }
  Tensor &operator=(const Tensor &other) {
    memory = other.memory;
    view = other.view;
    view.data = memory.data();
    return *this;
  }

  int64_t elements() const { return view.elements(); }
  /// Element by its row-major number.
  T &operator[](int64_t number) {
    int64_t offset = 0;
    for (int i = view.rank - 1; i >= 0; --i) {
      offset += number % view.shape[i] * view.strides[i];
      number /= view.shape[i];
    }
    return memory[offset];
  }
  template <typename... I> T &at(I... index) {
    int64_t list[] = {static_cast<int64_t>(index)..., 0}, offset = 0;
    for (int i = 0; i < view.rank; ++i)
      offset += list[i] * view.strides[i];
    return memory[offset];
  }
  Tensor &fill(const std::function<T(int64_t)> &value) {
    for (int64_t i = 0; i < elements(); ++i)
      (*this)[i] = value(i);
    return *this;
  }
};

inline Tensor<float> randomTensor(std::mt19937 &random, std::vector<int64_t> shape,
                                  std::vector<int> order = {}, int64_t gap = 0, float scale = 1) {
  Tensor<float> tensor(std::move(shape), std::move(order), gap);
  std::normal_distribution<float> normal(0, scale);
  // The gaps hold NaN, so that reading one shows.
  std::fill(tensor.memory.begin(), tensor.memory.end(), NAN);
  return tensor.fill([&](int64_t) { return normal(random); });
}

using Operands = std::vector<std::pair<std::string, TensorView>>;

inline Status runKernel(const std::string &name, const Operands &operands,
                        nlohmann::json attributes = nlohmann::json::object(), int threads = 1,
                        int64_t tiles = 0, int64_t tokens = 0) {
  BoundCall call;
  call.kernel = name;
  call.attributes = std::move(attributes);
  std::vector<TensorView> views;
  for (const auto &[operand, view] : operands) {
    call.operands.push_back(operand);
    views.push_back(view);
  }
  Result<std::unique_ptr<Kernel>> kernel = createKernelUnderTest(call);
  if (!kernel)
    return std::move(kernel).status();
  return runKernelUnderTest(**kernel, views, tiles, tokens, threads);
}

#define EXPECT_OK(expression)                                                                      \
  do {                                                                                             \
    ::omnibal::rt::Status testStatus = (expression);                                               \
    EXPECT_TRUE(testStatus.isOk()) << testStatus.message();                                        \
  } while (false)

/// |got - want| <= absolute + relative * |want| for every element; want[i] by row-major number.
inline void expectNear(Tensor<float> &got, const std::vector<double> &want, double absolute,
                       double relative, const std::string &what) {
  ASSERT_EQ(got.elements(), static_cast<int64_t>(want.size())) << what;
  for (int64_t i = 0; i < got.elements(); ++i) {
    if (static_cast<double>(got[i]) == want[i])
      continue; // infinite ones too
    double bound = absolute + relative * std::abs(want[i]);
    ASSERT_LE(std::abs(got[i] - want[i]), bound)
        << what << ": element " << i << " is " << got[i] << ", expected " << want[i];
  }
}

} // namespace omnibal::rt::test
#endif // TEST_CONFORMANCE_KERNELTEST_H
