#include "test/support/fake_cuda/FakeState.h"
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace omnibal::fake {

State &state() {
  static State *one = new State; // threads of a test may outlive main's statics
  return *one;
}

void State::release(const Allocation &a) {
  munmap(a.outside, a.mapped);
  if (a.inside != a.outside)
    munmap(a.inside, a.mapped);
  bytes -= a.bytes;
}

void State::free(void *address) {
  auto found = memory.find(static_cast<std::byte *>(address));
  if (found == memory.end())
    return mistake("memory freed twice");
  release(found->second);
  memory.erase(found);
}

std::unique_lock<std::recursive_mutex> lock() {
  return std::unique_lock<std::recursive_mutex>(state().mutex);
}

namespace {
std::atomic<bool> isEnding = false;

void stepAll() {
  while (!isEnding) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    auto guard = lock();
    for (size_t i = 0; i < state().streams.size(); ++i)
      while (state().step(*state().streams[i]))
        ;
  }
}
} // namespace

void State::goOnAlone() {
  static std::thread *thread = nullptr;
  if (thread)
    return;
  thread = new std::thread(stepAll);
  std::atexit([] { // before what the streams' work reaches is gone
    isEnding = true;
    thread->join();
  });
}

namespace {

void *pinnedAt(const void *address, int64_t bytes) {
  State &s = state();
  auto *start = static_cast<const std::byte *>(address);
  auto after = s.pinned.upper_bound(start);
  if (after == s.pinned.begin() ||
      start + bytes > std::prev(after)->first + std::prev(after)->second) {
    s.mistake("host memory that is not pinned");
    s.nobodys.resize(std::max<size_t>(s.nobodys.size(), bytes));
    return s.nobodys.data();
  }
  return const_cast<void *>(address);
}

} // namespace

void reset(uint64_t seed, const Device &settings) {
  auto guard = lock();
  State &s = state();
  for (auto &[address, allocation] : s.memory)
    s.release(allocation);
  s.memory.clear();
  s.pinned.clear();
  s.streams.clear();
  s.files.clear();
  s.calls.clear();
  s.mistakes.clear();
  s.allocations = 0;
  s.bytes = s.largest = s.waits = 0;
  s.graphs = s.liveGraphs = 0;
  s.passed = {};
  s.device = settings;
  s.seed = seed;
  s.random.seed(seed);
}

Device &device() { return state().device; }

std::vector<std::string> calls() {
  auto guard = lock();
  return state().calls;
}
std::vector<std::string> mistakes() {
  auto guard = lock();
  return state().mistakes;
}
int64_t liveAllocations() {
  auto guard = lock();
  return static_cast<int64_t>(state().memory.size() + state().pinned.size());
}
int64_t largestBytes() {
  auto guard = lock();
  return state().largest;
}
int64_t hostWaits() {
  auto guard = lock();
  return state().waits;
}
int graphsMade() {
  auto guard = lock();
  return state().graphs;
}
int liveGraphs() {
  auto guard = lock();
  return state().liveGraphs;
}

void enqueue(cudaStream_t stream, const std::string &name, std::function<void()> work) {
  auto guard = lock();
  state().note(stream, name);
  state().push(*stream, {std::move(work), nullptr, nullptr});
  state().wander();
}

void *at(const void *address, int64_t bytes) {
  State &s = state();
  if (const Allocation *a = s.find(address, bytes))
    return a->inside + (static_cast<const std::byte *>(address) - a->outside);
  s.mistake(std::to_string(bytes) + " bytes outside of device memory");
  s.nobodys.resize(std::max<size_t>(s.nobodys.size(), bytes));
  return s.nobodys.data();
}

void mistake(const std::string &text) {
  auto guard = lock();
  state().mistake(text);
}

cudaStream_t lastStream() {
  auto guard = lock();
  return state().streams.back().get();
}

void setCodeOpener(KernelFinder (*open)(const std::string &path)) {
  auto guard = lock();
  state().openCode = open;
}

std::string nameOf(const void *address) {
  auto guard = lock();
  const Allocation *a = state().find(address, 0);
  return a ? std::to_string(a->number) + "+" +
                 std::to_string(static_cast<const std::byte *>(address) - a->outside)
           : "nowhere";
}

void addKernel(const std::string &path, const std::string &name, int parameters, KernelBody body) {
  auto guard = lock();
  state().files[path].kernels[name] = {
      name, parameters,
      [body = std::move(body)](dim3 grid, dim3 block, size_t, const std::vector<int64_t> &values) {
        body(grid, block, values);
      }};
}

} // namespace omnibal::fake

namespace omnibal::fake {
namespace {

thread_local cudaError_t lastError = cudaSuccess; ///< of allocations

void enqueueWhenReady(cudaStream_t stream, const char *name, std::function<bool()> ready,
                      std::function<void()> run) {
  auto guard = lock();
  state().note(stream, name);
  state().push(*stream, {std::move(run), nullptr, nullptr, std::move(ready)});
  state().wander();
}

void pass(int64_t nanoseconds) {
  auto guard = lock();
  state().passed += std::chrono::nanoseconds(nanoseconds);
}

} // namespace

const StreamInterface streamInterface{enqueueWhenReady, at, pass};

} // namespace omnibal::fake

using namespace omnibal::fake;

extern "C" {

const char *cudaGetErrorName(cudaError_t error) {
  switch (error) {
  case cudaSuccess:
    return "cudaSuccess";
  case cudaErrorInvalidValue:
    return "cudaErrorInvalidValue";
  case cudaErrorMemoryAllocation:
    return "cudaErrorMemoryAllocation";
  case cudaErrorInsufficientDriver:
    return "cudaErrorInsufficientDriver";
  case cudaErrorNoDevice:
    return "cudaErrorNoDevice";
  case cudaErrorFileNotFound:
    return "cudaErrorFileNotFound";
  case cudaErrorSymbolNotFound:
    return "cudaErrorSymbolNotFound";
  case cudaErrorNotReady:
    return "cudaErrorNotReady";
  case cudaErrorCapturedEvent:
    return "cudaErrorCapturedEvent";
  case cudaErrorStreamCaptureIsolation:
    return "cudaErrorStreamCaptureIsolation";
  case cudaErrorStreamCaptureInvalidated:
    return "cudaErrorStreamCaptureInvalidated";
  case cudaErrorStreamCaptureUnsupported:
    return "cudaErrorStreamCaptureUnsupported";
  case cudaErrorLaunchFailure:
    return "cudaErrorLaunchFailure";
  }
  return "unknown";
}
const char *cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() { return std::exchange(lastError, cudaSuccess); }

cudaError_t cudaDriverGetVersion(int *version) {
  *version = device().driverVersion;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count) { // as the real one, leaves its argument on an error
  if (device().driverVersion < 13000)
    return cudaErrorInsufficientDriver;
  if (device().devices == 0)
    return cudaErrorNoDevice;
  *count = device().devices;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
  std::strcpy(properties->name, "Fake");
  properties->totalGlobalMem = device().memory;
  properties->major = device().major;
  properties->minor = device().minor;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *name, int bytes, int number) {
  std::snprintf(name, bytes, "0000:%02x:00.0", number);
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int number) {
  return number < device().devices ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaDeviceSynchronize() {
  auto guard = lock();
  ++state().waits;
  if (refuseWhileCapturing())
    return cudaErrorStreamCaptureUnsupported;
  for (size_t i = 0; i < state().streams.size(); ++i) // others may make more meanwhile
    state().finish(*state().streams[i]);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  auto guard = lock();
  *total = device().memory;
  *free = device().memory - state().bytes;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
  auto guard = lock();
  auto &made = state().streams.emplace_back(std::make_unique<CUstream_st>());
  made->number = static_cast<int>(state().streams.size());
  *stream = made.get();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { // its work is still done
  auto guard = lock();
  state().finish(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  auto guard = lock();
  ++state().waits;
  if (stream->capture) {
    stream->capture->valid = false;
    return cudaErrorStreamCaptureUnsupported;
  }
  state().finish(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  auto guard = lock();
  if (!event->token)
    return cudaSuccess;
  state().note(stream, "wait for stream " + std::to_string(event->token->stream->number));
  state().push(*stream, {nullptr, event->token, nullptr});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->timed = !(flags & cudaEventDisableTiming);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto guard = lock();
  event->token = std::make_shared<Token>();
  event->token->stream = stream;
  state().push(*stream, {nullptr, nullptr, event->token});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  auto guard = lock();
  if (!event->token)
    return cudaSuccess;
  state().waits += !event->token->done;
  if (event->token->captured)
    return cudaErrorCapturedEvent;
  state().wander();
  while (!event->token->done && state().approach(event->token) && device().direct)
    ;
  if (device().failed)
    return cudaErrorLaunchFailure;
  return event->token->done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  auto guard = lock();
  if (!begin->timed || !end->timed || !begin->token || !end->token)
    return cudaErrorInvalidValue;
  if (!begin->token->done || !end->token->done)
    return cudaErrorNotReady;
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->token->when - begin->token->when).count();
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream) {
  auto guard = lock();
  State &s = state();
  if (s.bytes + static_cast<int64_t>(bytes) > s.device.memory)
    return lastError = cudaErrorMemoryAllocation;
  const int64_t page = sysconf(_SC_PAGESIZE);
  Allocation a;
  a.number = s.allocations++;
  a.bytes = bytes;
  a.mapped = (bytes + page - 1) / page * page;
  int file = memfd_create("fake device memory", 0);
  if (file < 0 || ftruncate(file, a.mapped))
    return cudaErrorMemoryAllocation;
  a.inside = static_cast<std::byte *>(
      mmap(nullptr, a.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  a.outside =
      s.device.direct
          ? a.inside
          : static_cast<std::byte *>(mmap(nullptr, a.mapped, PROT_NONE, MAP_SHARED, file, 0));
  close(file);
  s.memory[a.outside] = a;
  s.bytes += a.bytes;
  s.largest = std::max(s.largest, s.bytes);
  s.note(stream, "allocate " + std::to_string(bytes));
  if (stream->capture)
    stream->capture->memory.push_back(a.outside);
  *memory = a.outside;
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream) {
  {
    auto guard = lock();
    if (stream->capture && std::erase(stream->capture->memory, memory)) {
      stream->capture->memory.push_back(memory); // until the graph goes
      return cudaSuccess;
    }
  }
  enqueue(stream, "free " + nameOf(memory), [memory] { state().free(memory); });
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned) {
  auto guard = lock();
  if (refuseWhileCapturing())
    return cudaErrorStreamCaptureUnsupported;
  auto *made = new std::byte[bytes];
  state().pinned[made] = bytes;
  *memory = made;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void *memory) { // waits for the device, as the real one
  (void)cudaDeviceSynchronize();
  auto guard = lock();
  state().pinned.erase(static_cast<std::byte *>(memory));
  delete[] static_cast<std::byte *>(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  auto guard = lock();
  bool toDevice = kind != cudaMemcpyDeviceToHost, fromDevice = kind != cudaMemcpyHostToDevice;
  std::string name = "copy " + std::to_string(bytes) + " " +
                     (fromDevice ? "device " + nameOf(from) : "host") + " to " +
                     (toDevice ? "device " + nameOf(to) : "host");
  enqueue(stream, name, [=] {
    void *target = toDevice ? at(to, bytes) : pinnedAt(to, bytes);
    std::vector<std::byte> data(bytes);
    std::memcpy(data.data(), fromDevice ? at(from, bytes) : pinnedAt(from, bytes), bytes);
    std::memcpy(target, data.data(), bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  auto guard = lock();
  enqueue(stream, "fill " + std::to_string(bytes) + " device " + nameOf(to),
          [=] { std::memset(at(to, bytes), value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path, cudaJitOption *,
                                    void **, unsigned, cudaLibraryOption *, void **, unsigned) {
  auto guard = lock();
  State &s = state();
  if (!s.files.count(path)) {
    KernelFinder finder = s.openCode ? s.openCode(path) : nullptr;
    if (!finder)
      return cudaErrorFileNotFound;
    s.files[path].find = std::move(finder);
  }
  *library = &s.files[path];
  return cudaSuccess;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t) { return cudaSuccess; }
cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
  auto guard = lock();
  auto found = library->kernels.find(name);
  if (found == library->kernels.end()) {
    FoundKernel made = library->find ? library->find(name) : FoundKernel();
    if (!made.body)
      return cudaErrorSymbolNotFound;
    found = library->kernels.emplace(name, CUkern_st{name, made.parameters, made.body}).first;
  }
  *kernel = &found->second;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t sharedBytes, cudaStream_t stream) {
  auto *kernel = static_cast<const CUkern_st *>(function);
  std::vector<int64_t> values; // read at the call, as the real one does
  for (int i = 0; i < kernel->parameters; ++i)
    values.push_back(*static_cast<int64_t *>(arguments[i]));
  enqueue(stream,
          "launch " + kernel->name + " " + std::to_string(grid.x) + " x " + std::to_string(block.x),
          [=] { kernel->body(grid, block, sharedBytes, values); });
  return cudaSuccess;
}

} // extern "C"
