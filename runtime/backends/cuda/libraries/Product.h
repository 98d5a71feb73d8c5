//===- Product.h - How a matrix product is put to cuBLASLt ------------------------------------===//
//
// The library sees column-major matrices: d [m, n] = alpha a [m, k] b [k, n] + beta c. A result
// whose rows are dense is its transpose there, so a and b change places; one whose columns are
// dense is taken as it is. What the library's epilogue cannot do is left to our own kernel.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_LIBRARIES_PRODUCT_H
#define RUNTIME_BACKENDS_CUDA_LIBRARIES_PRODUCT_H

#include "runtime/backends/cuda/kernels/matrix/Gemm.h"
#include <compare>
#include <optional>
#include <string>
#include <vector>

namespace omnibal::rt::cuda {

/// All that an algorithm depends on, in the library's terms. Lines and strides in elements.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  bool transposedA = false, transposedB = false;
  int64_t lineA = 0, lineB = 0, lineC = 0, lineD = 0, lineAux = 0;
  int64_t batches = 1;
  int64_t strideA = 0, strideB = 0, strideC = 0, strideD = 0, strideAux = 0;
  Element type = Element::F32, resultType = Element::F32;
  uint32_t epilogue = 1;
  bool beta = false;      ///< c is read
  int64_t alignment = 16; ///< of all operands, in bytes; a power of two
  bool writesAux() const;
  bool makesSums() const;
  /// Epilogues that the library may lack, or that may cost more than a kernel of our own.
  bool isSpecial() const;
  auto operator<=>(const Product &) const = default;
};

/// A place in each operand where one call of the library begins.
struct ProductCall {
  const void *a, *b, *c;
  void *d, *aux; ///< aux is written (pre) or read (at)
};

/// Sums of an operand that one product may make.
constexpr int64_t mostSums = int64_t{1} << 16;

struct ProductPlan {
  Product product;
  std::vector<ProductCall> calls; ///< more than one where the batches lie irregularly
  float alpha = 1;
  const void *bias = nullptr; ///< for the library's epilogue
  /// What the library's sums of an operand are added to, and how many these are.
  float *sums = nullptr;
  int64_t sumCount = 0;
  GemmRest rest;          ///< for launchGemmRest
  bool sumsApart = false; ///< for launchGemmSums
};

enum class Epilogues { All, Ordinary }; ///< Ordinary: none that isSpecial()

/// Plans the product, or returns nothing if the library cannot do it; launchGemm does then. Batches
/// of one weight become one product.
std::optional<ProductPlan> planProduct(const GemmShape &shape, const GemmData &data,
                                       Epilogues allowed = Epilogues::All);

/// Returns the key under which an algorithm is kept: sizes are rounded up in steps of half of
/// their power of two (64 at least), so that micro-batches of about equal size share it.
std::string algorithmKey(const Product &product);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_LIBRARIES_PRODUCT_H
