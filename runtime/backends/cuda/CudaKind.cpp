//===- CudaKind.cpp - Finds the device, or says what is missing ------------------------------===//
#include "runtime/backends/cuda/CudaBackend.h"
#include "runtime/backends/cuda/driver/Runtime.h"
#include "runtime/support/DeviceTable.h"
#include <cstdlib>

namespace omnibal::rt::cuda {
namespace {

constexpr int leastCapability = 80; ///< bfloat16, asynchronous copies

/// "13.0"
std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Status unavailable(const std::string &message) { return {Code::Unavailable, message}; }

Result<int> countDevices() {
  int driver = 0, runtime = 0, count = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  cudaError_t error = cudaDriverGetVersion(&driver);
  if (error != cudaSuccess || driver == 0)
    return unavailable("there is no NVIDIA driver on this machine (libcuda.so.1); programs for "
                       "target host run without one");
  error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver)
    return unavailable("the NVIDIA driver knows CUDA " + versionText(driver) +
                       ", but this plugin was built with CUDA " + versionText(runtime) +
                       "; install a newer driver, or build with an older toolkit");
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return unavailable(
        "the NVIDIA driver finds no device" +
        (visible ? std::string(" (CUDA_VISIBLE_DEVICES is \"") + visible + "\")" : std::string()));
  }
  OMNIBAL_RETURN_IF_ERROR(check(error, "counting devices"));
  return count;
}

class CudaKind final : public BackendKind {
public:
  explicit CudaKind(const cudaDeviceProp &properties) : properties(properties) {}

  std::string description() const override {
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    return std::string(properties.name) + ", compute capability " +
           std::to_string(properties.major) + "." + std::to_string(properties.minor) + ", " +
           std::to_string(properties.totalGlobalMem) + " bytes, CUDA " + versionText(runtime) +
           ", driver for CUDA " + versionText(driver);
  }
  double peakFlops(const std::string &compute) const override {
    const DeviceFigures *device = deviceOfProduct(properties.name);
    if (!device)
      return 0;
    return static_cast<double>(compute == "bfloat16" ? device->bfloat16Flops
                                                     : device->float32Flops);
  }
  Result<std::unique_ptr<Backend>> open(const BackendOptions &options) override {
    OMNIBAL_ASSIGN_OR_RETURN(int device, deviceOf(options));
    return openCudaBackend(device, options);
  }

private:
  /// A rank alone in its process takes the device of its number on the machine, unless the launcher
  /// lets it see one only. Threads of one process share the first.
  static Result<int> deviceOf(const BackendOptions &options) {
    OMNIBAL_ASSIGN_OR_RETURN(int count, countDevices());
    if (options.localRank < 0 || count == 1)
      return 0;
    if (options.localRank >= count)
      return invalid("rank " + std::to_string(options.rank) + " is number " +
                     std::to_string(options.localRank) + " on its machine, where only " +
                     std::to_string(count) + " devices are visible; start fewer ranks there");
    return options.localRank;
  }

  cudaDeviceProp properties;
};

} // namespace

Result<std::unique_ptr<BackendKind>> findCudaDevice() {
  OMNIBAL_RETURN_IF_ERROR(countDevices().status());
  cudaDeviceProp properties{};
  OMNIBAL_RETURN_IF_ERROR(check(cudaGetDeviceProperties(&properties, 0), "looking at the device"));
  if (properties.major * 10 + properties.minor < leastCapability)
    return unavailable("the device " + std::string(properties.name) + " has compute capability " +
                       std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                       ", but 8.0 or newer is needed (A100, H100, ...)");
  return std::unique_ptr<BackendKind>(std::make_unique<CudaKind>(properties));
}

} // namespace omnibal::rt::cuda
