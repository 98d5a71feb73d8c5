//===- FakeDriver.cpp - libcuda.so.1 for cuDNN where no driver is ----------------------------===//
//
// Enough for cuDNN to choose and compile kernels for a device that is only described to it: code is
// "loaded", nothing can be launched. Also what cuDNN's headers ask CUDA's runtime.
//
//===-------------------------------------------------------------------------------------------===//
#define OMNIBAL_EXPORT extern "C" __attribute__((visibility("default")))

namespace {
constexpr int success = 0, notSupported = 801;
int something;
} // namespace

// Hands out an object.
#define GIVES(name)                                                                                \
  OMNIBAL_EXPORT int name(void **made) {                                                           \
    *made = &something;                                                                            \
    return success;                                                                                \
  }
GIVES(cuCtxGetCurrent)
GIVES(cuCtxPopCurrent)
GIVES(cuKernelGetFunction)
GIVES(cuLibraryGetKernel)
GIVES(cuLibraryLoadData)
GIVES(cuLibraryLoadFromFile)
GIVES(cuModuleGetFunction)
GIVES(cuModuleLoadData)
GIVES(cuStreamGetCtx)

#define ANSWERS(name, value)                                                                       \
  OMNIBAL_EXPORT int name(int *answer) {                                                           \
    *answer = value;                                                                               \
    return success;                                                                                \
  }
ANSWERS(cuDeviceGet, 0)
ANSWERS(cuDeviceGetCount, 1)
ANSWERS(cuDriverGetVersion, 13000)
ANSWERS(cuKernelGetAttribute, 0)
ANSWERS(cuOccupancyMaxPotentialClusterSize, 1)
ANSWERS(cudaGetDevice, 0)
ANSWERS(cudaRuntimeGetVersion, 13000)
ANSWERS(cudaDriverGetVersion, 13000)

#define DOES_NOTHING(name)                                                                         \
  OMNIBAL_EXPORT int name() { return success; }
DOES_NOTHING(cuCtxGetLimit)
DOES_NOTHING(cuCtxPushCurrent)
DOES_NOTHING(cuKernelSetAttribute)
DOES_NOTHING(cuLibraryUnload)
DOES_NOTHING(cuLinkAddData)
DOES_NOTHING(cuLinkComplete)
DOES_NOTHING(cuLinkCreate)
DOES_NOTHING(cuLinkDestroy)
DOES_NOTHING(cuModuleUnload)

#define REFUSES(name)                                                                              \
  OMNIBAL_EXPORT int name() { return notSupported; }
REFUSES(cuLaunchCooperativeKernel)
REFUSES(cuLaunchKernel)
REFUSES(cuLaunchKernelEx)
REFUSES(cuTensorMapEncodeIm2col)
REFUSES(cuTensorMapEncodeTiled)

OMNIBAL_EXPORT int cuGetErrorName(int, const char **text) {
  *text = "a fake's error";
  return success;
}
OMNIBAL_EXPORT int cuGetErrorString(int error, const char **text) {
  return cuGetErrorName(error, text);
}
OMNIBAL_EXPORT const char *cudaGetErrorString(int) { return "a fake's error"; }

/// 75 and 76: the compute capability; 16: multiprocessors.
OMNIBAL_EXPORT int cudaDeviceGetAttribute(int *value, int attribute, int) {
  *value = attribute == 75 ? 9 : attribute == 16 ? 132 : 0;
  return success;
}
