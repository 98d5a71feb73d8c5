//===- AttentionForm.h - One attention call as a library of fused attention sees it -----------===//
//
// Samples of different lengths lie one after the other, without padding: a sample's row r of a
// tensor is at its offset (in elements) + r * token + head * head's stride. How many samples there
// are and how long the longest is are upper bounds; samples beyond the last have length 0.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_LIBRARIES_ATTENTIONFORM_H
#define RUNTIME_BACKENDS_CUDA_LIBRARIES_ATTENTIONFORM_H

#include <array>
#include <compare>
#include <cstdint>

namespace omnibal::rt::cuda {

/// Operands with an offset of their own for each sample.
enum AttentionTensor {
  TensorQ,
  TensorK,
  TensorV,
  TensorOut,
  TensorLse,
  TensorDout,
  TensorDq,
  TensorDk,
  TensorDv,
  attentionTensors
};
/// The number of tensors of a forward call; a backward call has all.
constexpr int forwardTensors = TensorLse + 1;

/// Whether a tensor has the key heads.
constexpr bool isOfKeys(AttentionTensor t) {
  return t == TensorK || t == TensorV || t == TensorDk || t == TensorDv;
}

/// What a plan is made for. All tensors are bfloat16 but lse, which is float32.
struct AttentionForm {
  struct Strides {
    int64_t token = 0, head = 0;
    auto operator<=>(const Strides &) const = default;
  };
  int64_t samples = 0, longest = 0;
  int64_t heads = 0, keyHeads = 0;
  int64_t size = 0, valueSize = 0; ///< features of q and k, of v and out
  std::array<Strides, attentionTensors> strides{};
  float scale = 1;
  bool causal = false, backward = false;
  bool ordered = true; ///< the same input gives the same bits
  auto operator<=>(const AttentionForm &) const = default;

  int tensors() const { return backward ? attentionTensors : forwardTensors; }
};

/// Device memory. Offsets are [samples + 1], lengths [samples].
struct AttentionCall {
  std::array<void *, attentionTensors> data{};
  std::array<const int32_t *, attentionTensors> offsets{};
  const int32_t *lengths = nullptr;
  void *workspace = nullptr;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_LIBRARIES_ATTENTIONFORM_H
