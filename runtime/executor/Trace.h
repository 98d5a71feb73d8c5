//===- Trace.h - What a rank did when, for Perfetto --------------------------------------===//
#ifndef RUNTIME_EXECUTOR_TRACE_H
#define RUNTIME_EXECUTOR_TRACE_H

#include "runtime/device/Backend.h"
#include "runtime/program/Program.h"
#include "runtime/support/TraceWriter.h"
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace omnibal::rt {

struct PlannedStep;

enum class Lane { Compute, Send, Receive, Reduce };

/// Events of one rank in Chrome's trace format. Times count from start(), which all ranks call
/// right after a barrier: this aligns the clocks of several machines.
class Trace {
public:
  /// `part` of the stage, where several ranks run it together; else -1.
  Trace(int rank, int stage, int part = -1);

  void start() { origin = Clock::now(); }
  /// What follows belongs to steps of this train mode, which actions and messages then tell.
  void enterMode(const std::string &name) { mode = name; }
  /// A message of so many bytes, or an action of a chunk.
  void span(Lane lane, const std::string &name, Clock::time_point begin, Clock::time_point end,
            int32_t microbatch, int64_t tiles, int64_t tokens, int64_t bytes = 0,
            std::optional<int32_t> chunk = {});
  /// What a step's plan says of this stage, as if it began at `begin`: in a process of its own with
  /// a lane for each step, because a plan may take longer than its step.
  void plan(const PlannedStep &planned, Clock::time_point begin);
  /// A message leaves (begins) or arrives (ends); `id` is the same at both ends.
  void flow(Lane lane, int64_t id, Clock::time_point when, bool begins);
  void memory(Clock::time_point when, int64_t activationBytes);
  /// One kernel call of a function, on a lane of its own; cheap, formatted only by take().
  void kernel(const KernelCall &call, std::span<const TensorView> operands, Event begin, Event end);
  /// Looks up when the kernels ran; the backend has reached their events.
  void settle(const Backend &backend);

  /// Returns the events, separated by commas, to be put between "[" and "]" with those of other
  /// ranks.
  std::string take();

private:
  int64_t nanos(Clock::time_point t) const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t - origin).count();
  }
  TraceWriter::Place placeOf(Lane lane) const { return {rank, static_cast<int64_t>(lane)}; }

  int rank, stage, part;
  std::string mode;  ///< none: the program has one
  int64_t plans = 0; ///< that were drawn
  Clock::time_point origin = Clock::now();
  struct KernelSpan {
    const KernelCall *call;
    std::string shapes;
    Clock::time_point begin, end;
  };
  TraceWriter events;
  struct MarkedKernel {
    const KernelCall *call;
    std::string shapes; ///< "a 128x64, b 64x64, c 128x64"
    Event begin, end;
  };
  std::vector<KernelSpan> kernels;
  std::vector<MarkedKernel> marked;
};

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_TRACE_H
