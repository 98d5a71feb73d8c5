//===- ProductTest.h - What the tests of products share
//-----------------------------------------===//
#ifndef TEST_CONFORMANCE_PRODUCTTEST_H
#define TEST_CONFORMANCE_PRODUCTTEST_H

#include "test/conformance/KernelTest.h"

namespace omnibal::rt::test {

/// What a product's attribute "activation" does with a sum.
inline double activate(const std::string &kind, double x) {
  if (kind == "gelu")
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  if (kind == "gelu_tanh")
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  if (kind == "silu")
    return x / (1 + std::exp(-x));
  if (kind == "quick_gelu")
    return x / (1 + std::exp(-1.702 * x));
  if (kind == "relu")
    return std::max(x, 0.0);
  return x;
}

/// Runs a product with one thread and with three, which must give the same bits. `operands` have c,
/// as it is before, in the third place; `one` is c and becomes the result.
inline void runProduct(const std::string &kernel, Operands operands,
                       const nlohmann::json &attributes, Tensor<float> &one,
                       const std::string &what) {
  Tensor<float> three = one;
  operands[2].second = one.view;
  EXPECT_OK(runKernel(kernel, operands, attributes, 1));
  operands[2].second = three.view;
  EXPECT_OK(runKernel(kernel, operands, attributes, 3));
  for (int64_t i = 0; i < one.elements(); ++i)
    ASSERT_EQ(one[i], three[i]) << "threads change the result: " << what;
}

} // namespace omnibal::rt::test
#endif // TEST_CONFORMANCE_PRODUCTTEST_H
