// Abi.h against NVIDIA's header. Compiled only where that is installed; nothing of it is run.
#include "runtime/backends/cuda/libraries/Abi.h"
#include <cublasLt.h>
#include <type_traits>

namespace omnibal::rt::cuda::lt {
namespace {

/// Same number of parameters, each of the same size and of the same kind (pointer or not).
template <typename A, typename B>
constexpr bool alike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;
template <typename... A, typename... B, typename R, typename S>
constexpr bool callable(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B))
    return false;
  else
    return (alike<A, B> && ...) && alike<R, S>;
}
#define SAME_CALL(member, function)                                                                \
  static_assert(callable(decltype(Functions::member)(nullptr), decltype (&function)(nullptr)))

SAME_CALL(create, cublasLtCreate);
SAME_CALL(destroy, cublasLtDestroy);
SAME_CALL(version, cublasLtGetVersion);
SAME_CALL(statusString, cublasLtGetStatusString);
SAME_CALL(descriptionCreate, cublasLtMatmulDescCreate);
SAME_CALL(descriptionDestroy, cublasLtMatmulDescDestroy);
SAME_CALL(descriptionSet, cublasLtMatmulDescSetAttribute);
SAME_CALL(layoutCreate, cublasLtMatrixLayoutCreate);
SAME_CALL(layoutDestroy, cublasLtMatrixLayoutDestroy);
SAME_CALL(layoutSet, cublasLtMatrixLayoutSetAttribute);
SAME_CALL(preferenceCreate, cublasLtMatmulPreferenceCreate);
SAME_CALL(preferenceDestroy, cublasLtMatmulPreferenceDestroy);
SAME_CALL(preferenceSet, cublasLtMatmulPreferenceSetAttribute);
SAME_CALL(heuristics, cublasLtMatmulAlgoGetHeuristic);
SAME_CALL(check, cublasLtMatmulAlgoCheck);
SAME_CALL(algorithmGet, cublasLtMatmulAlgoConfigGetAttribute);
SAME_CALL(multiply, cublasLtMatmul);

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(Heuristic, workspaceBytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(Heuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(Heuristic, waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));
static_assert(success == CUBLAS_STATUS_SUCCESS && notInitialized == CUBLAS_STATUS_NOT_INITIALIZED &&
              invalidValue == CUBLAS_STATUS_INVALID_VALUE &&
              notSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(float32 == CUDA_R_32F && bfloat16 == CUDA_R_16BF);
static_assert(computeFloat32 == CUBLAS_COMPUTE_32F && computeTf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(notTransposed == CUBLAS_OP_N && transposed == CUBLAS_OP_T);
static_assert(int(transposeA) == CUBLASLT_MATMUL_DESC_TRANSA &&
              int(transposeB) == CUBLASLT_MATMUL_DESC_TRANSB &&
              int(epilogue) == CUBLASLT_MATMUL_DESC_EPILOGUE &&
              int(biasPointer) == CUBLASLT_MATMUL_DESC_BIAS_POINTER &&
              int(auxPointer) == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER &&
              int(auxLine) == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD &&
              int(auxBatchStride) == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE);
static_assert(int(batchCount) == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT &&
              int(batchStride) == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(int(workspaceBytes) == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES &&
              int(reductionMask) == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK &&
              int(alignmentA) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
              int(alignmentB) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES &&
              int(alignmentC) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES &&
              int(alignmentD) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(int(splitK) == CUBLASLT_ALGO_CONFIG_SPLITK_NUM &&
              int(reductionScheme) == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
static_assert(int(reduceNone) == CUBLASLT_REDUCTION_SCHEME_NONE &&
              int(reduceInPlace) == CUBLASLT_REDUCTION_SCHEME_INPLACE &&
              int(reduceComputeType) == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
static_assert(int(plain) == CUBLASLT_EPILOGUE_DEFAULT && int(relu) == CUBLASLT_EPILOGUE_RELU &&
              int(addBias) == CUBLASLT_EPILOGUE_BIAS && int(gelu) == CUBLASLT_EPILOGUE_GELU &&
              (int(gelu) | int(aux)) == CUBLASLT_EPILOGUE_GELU_AUX &&
              (int(gelu) | int(aux) | int(addBias)) == CUBLASLT_EPILOGUE_GELU_AUX_BIAS &&
              (int(relu) | int(addBias)) == CUBLASLT_EPILOGUE_RELU_BIAS &&
              (int(geluGradient) | int(aux)) == CUBLASLT_EPILOGUE_DGELU &&
              int(sumOfA) == CUBLASLT_EPILOGUE_BGRADA && int(sumOfB) == CUBLASLT_EPILOGUE_BGRADB);

} // namespace
} // namespace omnibal::rt::cuda::lt
