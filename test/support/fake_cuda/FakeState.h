//===- FakeState.h - What the fake device holds ----------------------------------------------===//
#ifndef TEST_SUPPORT_FAKE_CUDA_FAKESTATE_H
#define TEST_SUPPORT_FAKE_CUDA_FAKESTATE_H

#include "test/support/fake_cuda/FakeCuda.h"
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

namespace omnibal::fake {

using Clock = std::chrono::steady_clock;

struct Token;

struct Work {
  std::function<void()> run;
  std::shared_ptr<Token> waits, completes;
  std::function<bool()> ready = nullptr; ///< what another device must have done, if anything
};

/// Of every stream.
extern const StreamInterface streamInterface;

/// Work of a stream that is recorded instead of performed.
struct Capture {
  std::vector<std::function<void()>> work;
  std::vector<void *> memory; ///< allocated in it: the graph's own
  bool valid = true;
  ~Capture();
};

/// A recorded event: done when its stream has got there.
struct Token {
  CUstream_st *stream = nullptr;
  bool done = false, captured = false;
  Clock::time_point when;
};

} // namespace omnibal::fake

struct CUstream_st : omnibal::fake::StreamBase {
  CUstream_st() : StreamBase{&omnibal::fake::streamInterface} {}
  int number = 0;
  std::deque<omnibal::fake::Work> work;
  std::shared_ptr<omnibal::fake::Capture> capture; ///< while it records
};
struct CUevent_st {
  std::shared_ptr<omnibal::fake::Token> token;
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
struct CUgraph_st {
  std::shared_ptr<omnibal::fake::Capture> work;
};
struct CUgraphExec_st {
  std::shared_ptr<omnibal::fake::Capture> work;
  int number = 0;
};

namespace omnibal::fake {

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
  std::chrono::nanoseconds passed{0}; ///< on the device's clock besides the host's time
  int64_t waits = 0;                  ///< questions of the host about the device's progress
  int graphs = 0, liveGraphs = 0;     ///< instantiated so far, and now
  std::vector<std::string> calls, mistakes;
  std::vector<std::byte> nobodys;

  void mistake(const std::string &text) { mistakes.push_back(text); }
  void release(const Allocation &a);
  void free(void *address);

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
    if (auto &ready = stream.work.front().ready; ready && !ready())
      return false;
    Work work = std::move(stream.work.front());
    stream.work.pop_front();
    if (work.run)
      work.run();
    if (work.completes) {
      work.completes->done = true;
      work.completes->when = Clock::now() + passed;
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
    if (next->done)
      return false;
    if (step(*next->stream))
      return true;
    // What waits for another rank lets every stream go on: that rank may be of this process.
    bool moved = false;
    for (size_t i = 0; i < streams.size(); ++i)
      moved |= step(*streams[i]);
    return moved;
  }

  /// New work of a stream; recorded where it captures.
  void push(CUstream_st &stream, Work work) {
    if (stream.capture) {
      // What waits for another stream's work outside would tear the recording apart.
      stream.capture->valid &= !work.waits;
      if (work.completes)
        work.completes->captured = true;
      if (work.run)
        stream.capture->work.push_back(std::move(work.run));
      return;
    }
    stream.work.push_back(std::move(work));
    while (device.direct && step(stream))
      ;
    if (device.direct && !stream.work.empty())
      goOnAlone();
  }

  /// From now on streams go on although the host asks for nothing, as those of a device do: ranks
  /// of other processes wait for their work.
  void goOnAlone();

  /// Lets other threads call in between: what is waited for may be theirs to enqueue.
  void finish(CUstream_st &stream) {
    auto last = std::make_shared<Token>();
    last->stream = &stream;
    stream.work.push_back({nullptr, nullptr, last});
    while (!last->done && !device.stuck) {
      if (approach(last))
        continue;
      mutex.unlock();
      std::this_thread::yield();
      mutex.lock();
    }
  }

  void note(cudaStream_t stream, const std::string &text) {
    if (!device.direct)
      calls.push_back("stream " + std::to_string(stream->number) + ": " + text);
  }
};

State &state();
std::unique_lock<std::recursive_mutex> lock();
/// Whether this thread records a stream: calls that are no work of a stream are then refused, and
/// end the recording.
bool refuseWhileCapturing();

} // namespace omnibal::fake
#endif // TEST_SUPPORT_FAKE_CUDA_FAKESTATE_H
