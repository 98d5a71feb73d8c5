//===- ThreadPool.cpp - Dynamic tasks over a fixed set of threads ------------------------===//
//
// Workers join a job while it is open and leave when no task is left; the caller closes the job and
// waits only for those that joined. So a worker that the operating system keeps off its core delays
// nobody, which matters when ranks or other processes share the cores. Waiting spins shortly, and
// only while the process has no more compute threads than cores; then it sleeps in the kernel.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/support/ThreadPool.h"
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace omnibal::rt {
namespace {

constexpr size_t alignment = 64;
constexpr int spins = 2000; // about 20-60 microseconds
constexpr uint32_t openBit = uint32_t{1} << 31;

/// Compute threads of all pools of the process (each pool counts its caller).
std::atomic<int> processThreads{0};

bool maySpin() {
  static const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return processThreads.load(std::memory_order_relaxed) <= cores;
}

void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

struct FreeScratch {
  void operator()(void *pointer) const { ::operator delete(pointer, std::align_val_t{alignment}); }
};

} // namespace

struct ThreadPool::State {
  explicit State(size_t bytes) : scratchBytes((bytes + alignment - 1) / alignment * alignment) {}

  // Written by the caller while the job is closed, read by workers that joined it.
  const std::function<void(int64_t, int)> *body = nullptr;
  int64_t tasks = 0;

  alignas(alignment) std::atomic<int64_t> next{0};
  /// openBit while workers may join, plus the number of workers inside.
  alignas(alignment) std::atomic<uint32_t> gate{0};
  /// Changes with every job and at the end; what idle workers wait on.
  alignas(alignment) std::atomic<uint32_t> epoch{0};
  std::atomic<bool> stopping{false};

  /// The first exception of a task of the job; the caller throws it on.
  std::mutex failing;
  std::exception_ptr failure;

  size_t scratchBytes;
  std::vector<std::unique_ptr<void, FreeScratch>> scratch;
  std::vector<std::thread> workers;

  void runTasks(int worker) {
    try {
      for (;;) {
        int64_t task = next.fetch_add(1, std::memory_order_relaxed);
        if (task >= tasks)
          return;
        (*body)(task, worker);
      }
    } catch (...) {
      std::lock_guard lock(failing);
      if (!failure)
        failure = std::current_exception();
      next.store(tasks, std::memory_order_relaxed); // what has not begun need not
    }
  }

  bool join() {
    uint32_t value = gate.load(std::memory_order_relaxed);
    while (value & openBit)
      if (gate.compare_exchange_weak(value, value + 1, std::memory_order_acquire))
        return true;
    return false;
  }

  void leave() {
    if (gate.fetch_sub(1, std::memory_order_release) == 1) // closed, and the last one out
      gate.notify_one();
  }

  void work(int worker) {
    uint32_t seen = 0;
    while (!stopping.load(std::memory_order_acquire)) {
      if (join()) {
        runTasks(worker);
        leave();
      }
      for (int i = 0; i < spins && maySpin() && epoch.load(std::memory_order_acquire) == seen; ++i)
        pauseCpu();
      epoch.wait(seen, std::memory_order_acquire);
      seen = epoch.load(std::memory_order_acquire);
    }
  }
};

ThreadPool::ThreadPool(int threads, size_t scratchBytes)
    : state(std::make_unique<State>(scratchBytes)) {
  threads = std::max(1, threads);
  for (int i = 0; i < threads; ++i)
    state->scratch.emplace_back(
        ::operator new(std::max(state->scratchBytes, alignment), std::align_val_t{alignment}));
  state->workers.reserve(threads);
  processThreads += threads;
  try {
    for (int i = 1; i < threads; ++i)
      state->workers.emplace_back([s = state.get(), i] { s->work(i); });
  } catch (const std::system_error &) {
    // The system refuses more threads: those that there are do all the work, with the same results.
  }
}

ThreadPool::~ThreadPool() {
  state->stopping.store(true, std::memory_order_release);
  state->epoch.fetch_add(1, std::memory_order_release);
  state->epoch.notify_all();
  for (std::thread &worker : state->workers)
    worker.join();
  processThreads -= threads();
}

int ThreadPool::threads() const { return static_cast<int>(state->scratch.size()); }

size_t ThreadPool::scratchBytes() const { return state->scratchBytes; }

void *ThreadPool::scratch(int worker) { return state->scratch[worker].get(); }

void ThreadPool::parallelFor(int64_t tasks, const std::function<void(int64_t, int)> &body) {
  State &s = *state;
  if (tasks <= 1 || s.workers.empty()) {
    for (int64_t task = 0; task < tasks; ++task)
      body(task, 0);
    return;
  }
  s.body = &body;
  s.tasks = tasks;
  s.next.store(0, std::memory_order_relaxed);
  s.gate.store(openBit, std::memory_order_release);
  s.epoch.fetch_add(1, std::memory_order_release);
  s.epoch.notify_all();
  s.runTasks(0);
  uint32_t inside = s.gate.fetch_and(~openBit, std::memory_order_acq_rel) & ~openBit;
  for (int i = 0; i < spins && maySpin() && inside != 0; ++i) {
    pauseCpu();
    inside = s.gate.load(std::memory_order_acquire);
  }
  while (inside != 0) {
    s.gate.wait(inside, std::memory_order_acquire);
    inside = s.gate.load(std::memory_order_acquire);
  }
  if (s.failure) // nobody else is inside any more
    std::rethrow_exception(std::exchange(s.failure, nullptr));
}

} // namespace omnibal::rt
