//===- GeneratedCode.h - Kernels of omnibal-compile --gpu-code emulated -----------------------===//
#ifndef TEST_SUPPORT_CUDA_EMULATION_GENERATEDCODE_H
#define TEST_SUPPORT_CUDA_EMULATION_GENERATEDCODE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace omnibal::emulation {

/// A kernel of a loaded file.
struct GeneratedKernel {
  void (*function)(void **parameters) = nullptr; ///< what one thread does
  int64_t parameters = 0;                        ///< of 8 bytes each
};

/// The file's handle, which stays open; null and `error` where it is no such file.
void *openGeneratedCode(const std::string &path, std::string &error);
/// `function` is null if there is none of that name.
GeneratedKernel findGeneratedKernel(void *code, const std::string &name);
/// Runs all threads of all blocks.
void runGeneratedKernel(const GeneratedKernel &kernel, unsigned blocks, unsigned threads,
                        size_t sharedBytes, const std::vector<int64_t> &values);

} // namespace omnibal::emulation
#endif // TEST_SUPPORT_CUDA_EMULATION_GENERATEDCODE_H
