//===- GemmCase.h - A matrix product by the host and what a device needs for it --------------===//
#ifndef TEST_UNIT_RUNTIME_BACKENDS_CUDA_KERNELS_GEMMCASE_H
#define TEST_UNIT_RUNTIME_BACKENDS_CUDA_KERNELS_GEMMCASE_H

#include "runtime/backends/cuda/kernels/matrix/Gemm.h"
#include "test/unit/runtime/backends/cuda/kernels/KernelChecks.h"

namespace omnibal::rt::test {

inline cuda::GemmShape::Operand gemmOperandOf(const TensorView &v) {
  cuda::GemmShape::Operand o;
  o.strides = {v.strides[v.rank - 2], v.strides[v.rank - 1]};
  for (int d = 0; d < v.rank - 2; ++d)
    o.batch[d] = v.strides[d];
  return o;
}

/// Operands of [batch.., m, k] x [batch.., k, n].
struct GemmTensors {
  Tensor<float> a, b, c, residual, pre, at, bias;
};

/// A product with a random epilogue: the host's result lies in `tensors` and the sums of its
/// operands, the device's operands are stored as they were before.
class GemmCase {
public:
  /// `inBFloat16`: c, residual, pre and at are bfloat16 as well as a, b and bias (`bf16`).
  GemmCase(GemmTensors drawn, bool bf16, bool inBFloat16, std::mt19937 &random)
      : tensors(rounded(std::move(drawn), bf16)), accumulate(random() % 4 == 0),
        activation(accumulate ? 0 : static_cast<int>(random() % 6)), alpha(random() % 2 ? 1 : 0.5f),
        withAt(activation > 0 && random() % 2), withBias(may() && random() % 2),
        withResidual(may() && random() % 2), withPre(may() && random() % 2),
        withSumA(isOne() && random() % 3 == 0), withSumB(isOne() && random() % 3 == 0),
        hostSumA(randomTensor(random, {rows()})), hostSumB(randomTensor(random, {columns()})),
        a(tensors.a.memory, bf16), b(tensors.b.memory, bf16), bias(tensors.bias.memory, bf16),
        c(tensors.c.memory, inBFloat16), residual(tensors.residual.memory, inBFloat16),
        pre(tensors.pre.memory, inBFloat16), at(tensors.at.memory, inBFloat16),
        sumA(hostSumA.memory, false), sumB(hostSumB.memory, false) {
    Operands operands = {{"a", tensors.a.view}, {"b", tensors.b.view}, {"c", tensors.c.view}};
    if (withBias)
      operands.push_back({"bias", tensors.bias.view});
    if (withResidual)
      operands.push_back({"residual", tensors.residual.view});
    if (withPre)
      operands.push_back({"pre", tensors.pre.view});
    if (withAt)
      operands.push_back({"at", tensors.at.view});
    if (withSumA)
      operands.push_back({"sum_a", hostSumA.view});
    if (withSumB)
      operands.push_back({"sum_b", hostSumB.view});
    EXPECT_OK(runKernel(
        "gemm", operands,
        {{"alpha", alpha}, {"accumulate", accumulate}, {"activation", activationName()}}));
  }

  cuda::GemmShape shape() const {
    const TensorView &va = tensors.a.view, &vc = tensors.c.view;
    cuda::GemmShape s;
    s.m = vc.shape[vc.rank - 2], s.n = vc.shape[vc.rank - 1], s.k = va.shape[va.rank - 1];
    for (int d = 0; d < vc.rank - 2; ++d)
      s.batch[s.batchRank++] = vc.shape[d];
    s.a = gemmOperandOf(va), s.b = gemmOperandOf(tensors.b.view), s.c = gemmOperandOf(vc);
    s.residual = gemmOperandOf(tensors.residual.view), s.pre = gemmOperandOf(tensors.pre.view);
    s.at = gemmOperandOf(tensors.at.view);
    s.alpha = alpha, s.accumulate = accumulate, s.type = a.type(), s.resultType = c.type();
    s.activation = static_cast<cuda::GemmActivation>(activation);
    return s;
  }
  cuda::GemmData data() {
    auto given = [](bool there, Stored &operand) { return there ? operand.data() : nullptr; };
    cuda::GemmData d{a.data(), b.data(), c.data()};
    d.bias = given(withBias, bias);
    d.residual = given(withResidual, residual);
    d.pre = given(withPre, pre);
    d.at = given(withAt, at);
    d.sumA = static_cast<float *>(given(withSumA, sumA));
    d.sumB = static_cast<float *>(given(withSumB, sumB));
    return d;
  }
  const char *activationName() const {
    static const char *const names[] = {"none", "gelu", "gelu_tanh", "silu", "quick_gelu", "relu"};
    return names[activation];
  }
  std::string name() const {
    const cuda::GemmShape s = shape();
    return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) + " " +
           activationName() + (withAt ? "'" : "");
  }

  GemmTensors tensors;
  const bool accumulate;
  const int activation;
  const float alpha;
  const bool withAt, withBias, withResidual, withPre, withSumA, withSumB;
  Tensor<float> hostSumA, hostSumB;
  Stored a, b, bias, c, residual, pre, at, sumA, sumB;

private:
  /// What the derivative and a sum in place exclude.
  bool may() const { return !accumulate && !withAt; }
  bool isOne() const { return tensors.c.view.rank == 2; }
  int64_t rows() const { return tensors.c.view.shape[tensors.c.view.rank - 2]; }
  int64_t columns() const { return tensors.c.view.shape[tensors.c.view.rank - 1]; }
  static GemmTensors rounded(GemmTensors drawn, bool bf16) {
    if (bf16)
      roundAll(drawn.bias);
    return drawn;
  }
};

} // namespace omnibal::rt::test
#endif // TEST_UNIT_RUNTIME_BACKENDS_CUDA_KERNELS_GEMMCASE_H
