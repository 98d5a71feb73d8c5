//===- Abi.h - The part of cuBLASLt's binary interface that the backend calls -----------------===//
//
// These are our own declarations, so that every build has the library's part and none needs its
// headers. CublasAbiCheck.cpp compares them with NVIDIA's if those are installed.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_LIBRARIES_ABI_H
#define RUNTIME_BACKENDS_CUDA_LIBRARIES_ABI_H

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace omnibal::rt::cuda::lt {

using Handle = struct HandleContents *;
using Description = struct DescriptionContents *;
using Layout = struct LayoutContents *;
using Preference = struct PreferenceContents *;

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspaceBytes;
  int state;
  float waves;
  int reserved[4];
};

inline constexpr int success = 0, notInitialized = 1, invalidValue = 7, notSupported = 15;
inline constexpr int float32 = 0, bfloat16 = 14;            ///< cudaDataType
inline constexpr int computeFloat32 = 68, computeTf32 = 77; ///< cublasComputeType_t
inline constexpr int32_t notTransposed = 0, transposed = 1; ///< cublasOperation_t

enum DescriptionAttribute : int {
  transposeA = 3,
  transposeB = 4,
  epilogue = 7,
  biasPointer = 8,
  auxPointer = 11,
  auxLine = 12,
  auxBatchStride = 13,
};
enum LayoutAttribute : int { batchCount = 5, batchStride = 6 };
enum PreferenceAttribute : int {
  workspaceBytes = 1,
  reductionMask = 3,
  alignmentA = 5,
  alignmentB = 6,
  alignmentC = 7,
  alignmentD = 8,
};
enum AlgorithmAttribute : int { splitK = 2, reductionScheme = 3 };
enum Reduction : uint32_t { reduceNone = 0, reduceInPlace = 1, reduceComputeType = 2 };
enum Epilogue : uint32_t {
  plain = 1,
  relu = 2,
  addBias = 4,
  gelu = 32,
  geluGradient = 64, ///< with aux, which is read
  aux = 128,
  sumOfA = 256, ///< bias gradients: sums of an operand over k, into the bias vector
  sumOfB = 512,
};

struct Functions {
  int (*create)(Handle *);
  int (*destroy)(Handle);
  size_t (*version)();
  const char *(*statusString)(int);
  int (*descriptionCreate)(Description *, int computeType, int scaleType);
  int (*descriptionDestroy)(Description);
  int (*descriptionSet)(Description, int attribute, const void *value, size_t bytes);
  int (*layoutCreate)(Layout *, int type, uint64_t rows, uint64_t cols, int64_t line);
  int (*layoutDestroy)(Layout);
  int (*layoutSet)(Layout, int attribute, const void *value, size_t bytes);
  int (*preferenceCreate)(Preference *);
  int (*preferenceDestroy)(Preference);
  int (*preferenceSet)(Preference, int attribute, const void *value, size_t bytes);
  int (*heuristics)(Handle, Description, Layout a, Layout b, Layout c, Layout d, Preference,
                    int wanted, Heuristic *results, int *found);
  int (*check)(Handle, Description, Layout a, Layout b, Layout c, Layout d, const Algorithm *,
               Heuristic *result);
  int (*algorithmGet)(const Algorithm *, int attribute, void *value, size_t bytes, size_t *written);
  int (*multiply)(Handle, Description, const void *alpha, const void *a, Layout aLayout,
                  const void *b, Layout bLayout, const void *beta, const void *c, Layout cLayout,
                  void *d, Layout dLayout, const Algorithm *, void *workspace, size_t bytes,
                  CUstream_st *stream);
};

} // namespace omnibal::rt::cuda::lt
#endif // RUNTIME_BACKENDS_CUDA_LIBRARIES_ABI_H
