//===- ThreadPool.h - The compute threads of one rank ----------------------------------------===//
#ifndef RUNTIME_SUPPORT_THREADPOOL_H
#define RUNTIME_SUPPORT_THREADPOOL_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace omnibal::rt {

/// A rank's compute threads (the caller is one of them). Work is a number of tasks fixed by shape,
/// never by thread count, so no result depends on the number of threads.
class ThreadPool {
public:
  /// `threads` >= 1. Each worker owns `scratchBytes` of aligned scratch for the kernels it runs.
  explicit ThreadPool(int threads, size_t scratchBytes = size_t{4} << 20);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int threads() const;
  size_t scratchBytes() const;
  /// Runs body(task, worker) for every task in [0, tasks), handed out dynamically; worker in
  /// [0, threads()). Returns when all are done, or throws the first exception of a task. Not
  /// reentrant.
  void parallelFor(int64_t tasks, const std::function<void(int64_t task, int worker)> &body);
  /// 64-byte aligned scratch of a worker; contents undefined at the start of a task.
  void *scratch(int worker);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_THREADPOOL_H
