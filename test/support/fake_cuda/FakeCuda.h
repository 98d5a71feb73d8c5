//===- FakeCuda.h - A device that records what is asked of it, and runs it late --------------===//
//
// Streams hold their work until somebody waits for it; then it runs in an order that a device could
// have chosen. So a missing wait shows as wrong numbers. Device memory can only be reached by work:
// the host's own access is a fault, and work outside of what was allocated is noted.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef TEST_SUPPORT_FAKE_CUDA_FAKECUDA_H
#define TEST_SUPPORT_FAKE_CUDA_FAKECUDA_H

#include <cstdint>
#include <cuda_runtime_api.h>
#include <functional>
#include <string>
#include <vector>

namespace omnibal::fake {

struct Device {
  int driverVersion = 13000; ///< 0: no driver
  int devices = 1, major = 9, minor = 0;
  int64_t memory = int64_t{1} << 30;
  bool stuck = false; ///< performs nothing any more
  /// Work runs as soon as nothing is before it, device memory is the process's own, and nothing is
  /// recorded: for kernels that are emulated.
  bool direct = false;
  bool graphsFail = false; ///< no graph can be instantiated
  bool failed = false;     ///< every later wait for the device says so
};

/// What a stream starts with, for fakes of libraries that are opened at run time and find nothing
/// of this one by name.
struct StreamInterface {
  /// Work that is performed, and lets what is behind it go on, when `ready` says so. That is asked
  /// again and again while the stream has got there and somebody waits.
  void (*enqueue)(cudaStream_t stream, const char *name, std::function<bool()> ready,
                  std::function<void()> run);
  void *(*at)(const void *address, int64_t bytes);
  /// The device's clock, which events read, goes on by so many nanoseconds.
  void (*pass)(int64_t nanoseconds);
};
struct StreamBase {
  const StreamInterface *interface;
};

/// A fresh device without memory, streams or record. `seed` chooses the order of work of different
/// streams; 0: only the work that is waited for runs.
void reset(uint64_t seed = 0, const Device &device = {});
Device &device();

/// Every enqueued piece of work and every wait of a stream in the order of the calls, as in
/// "stream 1: copy 64 host to device 0+128": device memory is named by the number of the allocation
/// and the offset in it, streams in the order of their creation from 1.
std::vector<std::string> calls();
/// Memory outside of allocations that work wanted to use, freed memory, host memory that is not
/// pinned: one line each.
std::vector<std::string> mistakes();
/// Allocations of device memory and of pinned memory that are alive, and the most bytes of device
/// memory at a time.
int64_t liveAllocations();
int64_t largestBytes();
/// How often the host asked for the device's progress, and it was not there yet.
int64_t hostWaits();
/// Graphs instantiated so far, and those that are alive.
int graphsMade();
int liveGraphs();

/// Enqueues work, for fakes of kernels. The work asks at() for the memory behind addresses.
void enqueue(cudaStream_t stream, const std::string &name, std::function<void()> work);
/// Where `bytes` of device memory really lie; notes a mistake if they are not allocated (and gives
/// memory that is nobody's).
void *at(const void *address, int64_t bytes);
/// Notes one.
void mistake(const std::string &text);
/// The newest stream.
cudaStream_t lastStream();
/// "0+128"
std::string nameOf(const void *address);

/// What cudaLaunchKernel runs for a kernel name: gets the grid and the arguments' values.
using KernelBody = std::function<void(dim3 grid, dim3 block, const std::vector<int64_t> &values)>;
/// Makes a file path loadable, with one kernel of so many parameters of 8 bytes.
void addKernel(const std::string &path, const std::string &name, int parameters, KernelBody body);

/// Opens files that no test has added: gives the kernel of a name (without a body if there is
/// none), or no finder for a file that it does not know.
struct FoundKernel {
  int parameters = 0;
  std::function<void(dim3 grid, dim3 block, size_t sharedBytes, const std::vector<int64_t> &values)>
      body;
};
using KernelFinder = std::function<FoundKernel(const std::string &name)>;
void setCodeOpener(KernelFinder (*open)(const std::string &path));

} // namespace omnibal::fake
#endif // TEST_SUPPORT_FAKE_CUDA_FAKECUDA_H
