#include "test/support/fake_cuda/FakeCuda.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

struct Token;

struct Work {
  std::function<void()> run;
  std::shared_ptr<Token> waits, completes;
};

} // namespace

struct CUstream_st {
  int number = 0;
  std::deque<Work> work;
};

namespace {

/// A recorded event: done when its stream has got there.
struct Token {
  CUstream_st *stream = nullptr;
  bool done = false;
  Clock::time_point when;
};

} // namespace

struct CUevent_st {
  std::shared_ptr<Token> token;
  bool timed = false;
};
struct CUkern_st {
  std::string name;
  int parameters = 0;
  decltype(omnibal::fake::FoundKernel::body) body;
};
struct CUlib_st {
  omnibal::fake::KernelFinder find;
  std::map<std::string, CUkern_st> kernels;
};

namespace omnibal::fake {
namespace {

/// Device memory twice in the address space: where the program believes it is, without access, and
/// where work reaches it.
struct Allocation {
  int number;
  std::byte *outside, *inside;
  int64_t bytes, mapped;
};

struct State {
  std::recursive_mutex mutex;
  Device device;
  uint64_t seed = 0;
  std::mt19937_64 random;
  std::vector<std::unique_ptr<CUstream_st>> streams;
  std::map<const std::byte *, Allocation> memory; ///< by `outside`
  std::map<const std::byte *, int64_t> pinned;
  std::map<std::string, CUlib_st> files;
  KernelFinder (*openCode)(const std::string &path) = nullptr;
  int allocations = 0;
  int64_t bytes = 0, largest = 0;
  std::vector<std::string> calls, mistakes;
  std::vector<std::byte> nobodys;

  void mistake(const std::string &text) { mistakes.push_back(text); }

  const Allocation *find(const void *address, int64_t bytes) {
    auto *start = static_cast<const std::byte *>(address);
    auto after = memory.upper_bound(start);
    if (after == memory.begin())
      return nullptr;
    const Allocation &a = std::prev(after)->second;
    return start + bytes <= a.outside + a.bytes ? &a : nullptr;
  }

  /// Performs the next work of a stream unless it waits for another one's.
  bool step(CUstream_st &stream) {
    if (device.stuck || stream.work.empty())
      return false;
    if (auto &waits = stream.work.front().waits; waits && !waits->done)
      return false;
    Work work = std::move(stream.work.front());
    stream.work.pop_front();
    if (work.run)
      work.run();
    if (work.completes) {
      work.completes->done = true;
      work.completes->when = Clock::now();
    }
    return true;
  }

  /// Something that another device might do first.
  void wander() {
    if (seed == 0 || streams.empty())
      return;
    for (uint64_t steps = random() % 4; steps > 0; --steps)
      step(*streams[random() % streams.size()]);
  }

  /// One step on the way to an event; false if there is none to take.
  bool approach(const std::shared_ptr<Token> &token) {
    std::shared_ptr<Token> next = token;
    while (!next->done && !next->stream->work.empty()) {
      auto &waits = next->stream->work.front().waits;
      if (!waits || waits->done)
        break;
      next = waits;
    }
    return !next->done && step(*next->stream);
  }

  /// New work of a stream.
  void push(CUstream_st &stream, Work work) {
    stream.work.push_back(std::move(work));
    while (device.direct && step(stream))
      ;
  }

  void finish(CUstream_st &stream) {
    auto last = std::make_shared<Token>();
    last->stream = &stream;
    stream.work.push_back({nullptr, nullptr, last});
    while (!last->done && !device.stuck)
      approach(last);
  }

  void note(cudaStream_t stream, const std::string &text) {
    if (!device.direct)
      calls.push_back("stream " + std::to_string(stream->number) + ": " + text);
  }
};

State &state() {
  static State *one = new State; // threads of a test may outlive main's statics
  return *one;
}

std::unique_lock<std::recursive_mutex> lock() {
  return std::unique_lock<std::recursive_mutex>(state().mutex);
}

void release(const Allocation &a) {
  munmap(a.outside, a.mapped);
  if (a.inside != a.outside)
    munmap(a.inside, a.mapped);
  state().bytes -= a.bytes;
}

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
    release(allocation);
  s.memory.clear();
  s.pinned.clear();
  s.streams.clear();
  s.files.clear();
  s.calls.clear();
  s.mistakes.clear();
  s.allocations = 0;
  s.bytes = s.largest = 0;
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
  case cudaErrorLaunchFailure:
    return "cudaErrorLaunchFailure";
  }
  return "unknown";
}
const char *cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() { return cudaSuccess; }

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
cudaError_t cudaSetDevice(int number) {
  return number < device().devices ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaDeviceSynchronize() {
  auto guard = lock();
  for (auto &stream : state().streams)
    state().finish(*stream);
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

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus *status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *) { return cudaSuccess; }
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
    return cudaErrorMemoryAllocation;
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
  *memory = a.outside;
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream) {
  enqueue(stream, "free " + nameOf(memory), [memory] {
    auto found = state().memory.find(static_cast<std::byte *>(memory));
    if (found == state().memory.end())
      return state().mistake("memory freed twice");
    release(found->second);
    state().memory.erase(found);
  });
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned) {
  auto guard = lock();
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
