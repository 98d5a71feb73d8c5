//===- EmulatedDevice.cpp - The fake device with the emulated kernels ------------------------===//
//
// Linked beside FakeCuda.cpp, it makes the fake device direct and performs the launches of the
// emulated kernels in the order of its streams. A launch that goes wrong is told on stderr, and the
// device has failed from there on.
//
//===-------------------------------------------------------------------------------------------===//
#include "test/support/cuda_emulation/Control.h"
#include "test/support/cuda_emulation/GeneratedCode.h"
#include "test/support/fake_cuda/FakeCuda.h"
#include <cstdio>
#include <cstdlib>

namespace {

void checkFailure() {
  const std::string failure = omnibal::emulation::takeFailure();
  if (failure.empty())
    return;
  std::fprintf(stderr, "emulated device: %s\n", failure.c_str());
  omnibal::fake::device().failed = true;
}

void queue(void *stream, std::function<void()> work) {
  omnibal::fake::enqueue(static_cast<cudaStream_t>(stream), "a launch", [work = std::move(work)] {
    work();
    checkFailure();
  });
}

omnibal::fake::KernelFinder openCode(const std::string &path) {
  std::string error;
  void *code = omnibal::emulation::openGeneratedCode(path, error);
  if (!code) {
    std::fprintf(stderr, "emulated device: %s\n", error.c_str());
    return nullptr;
  }
  return [code](const std::string &name) {
    const auto kernel = omnibal::emulation::findGeneratedKernel(code, name);
    omnibal::fake::FoundKernel found;
    if (!kernel.function)
      return found;
    found.parameters = static_cast<int>(kernel.parameters);
    found.body = [kernel](dim3 grid, dim3 block, size_t sharedBytes,
                          const std::vector<int64_t> &values) {
      omnibal::emulation::runGeneratedKernel(kernel, grid.x, block.x, sharedBytes, values);
      checkFailure();
    };
    return found;
  };
}

const bool ready = [] {
  // NVIDIA's libraries would take this memory for a GPU's. A test may name a folder of fakes.
  setenv("OMNIBAL_CUDA_LIBRARIES", "none", 0);
  omnibal::fake::Device device;
  device.memory = int64_t{1} << 36;
  device.direct = true;
  // Processes with a device each; they share this machine's memory all the same.
  if (const char *devices = std::getenv("OMNIBAL_EMULATED_DEVICES"))
    device.devices = std::atoi(devices);
  omnibal::fake::reset(0, device);
  omnibal::emulation::setQueue(queue);
  omnibal::fake::setCodeOpener(openCode);
  return true;
}();

} // namespace

/// Where tests find it: in another order of blocks and threads the same kernels give the same bits.
extern "C" __attribute__((visibility("default"))) void omnibalEmulationOrder(uint64_t seed) {
  omnibal::emulation::setOrder(seed);
}
