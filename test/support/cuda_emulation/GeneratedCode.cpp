#include "test/support/cuda_emulation/GeneratedCode.h"
#include "test/support/cuda_emulation/Emulation.h"
#include <dlfcn.h>

namespace omnibal::emulation {
namespace {

constexpr unsigned wholeWarp = 0xffffffffu;

// What generated code asks the device for, in the order of its table
// (test/lib/GpuEmulation.cpp).
int64_t threadNumber() { return threadIdx.x; }
int64_t blockNumber() { return blockIdx.x; }
int64_t blockCount() { return gridDim.x; }
void barrier(int32_t place) { (void)blockBarrier(0, place); }
int32_t exchangeWord(int32_t word, int32_t bits, int32_t place) {
  return shuffle(wholeWarp, word, lane() ^ bits, place);
}

void *const table[] = {
    reinterpret_cast<void *>(threadNumber), reinterpret_cast<void *>(blockNumber),
    reinterpret_cast<void *>(blockCount),   reinterpret_cast<void *>(barrier),
    reinterpret_cast<void *>(exchangeWord), reinterpret_cast<void *>(dynamicShared)};

} // namespace

void *openGeneratedCode(const std::string &path, std::string &error) {
  void *code = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void **slots = code ? static_cast<void **>(dlsym(code, "omnibal_device")) : nullptr;
  if (!slots) {
    error = code ? path + " is not for an emulated device" : std::string(dlerror());
    return nullptr;
  }
  for (void *entry : table)
    *slots++ = entry;
  return code;
}

GeneratedKernel findGeneratedKernel(void *code, const std::string &name) {
  GeneratedKernel kernel;
  auto *parameters = static_cast<const int64_t *>(dlsym(code, (name + "_parameters").c_str()));
  if (!parameters)
    return kernel;
  kernel.function = reinterpret_cast<void (*)(void **)>(dlsym(code, name.c_str()));
  kernel.parameters = *parameters;
  return kernel;
}

void runGeneratedKernel(const GeneratedKernel &kernel, unsigned blocks, unsigned threads,
                        size_t sharedBytes, const std::vector<int64_t> &values) {
  std::vector<int64_t> own = values;
  std::vector<void *> parameters;
  for (int64_t &value : own)
    parameters.push_back(&value);
  launch(dim3(blocks), dim3(threads), sharedBytes, [&] { kernel.function(parameters.data()); });
}

} // namespace omnibal::emulation
