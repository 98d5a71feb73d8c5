//===- ExecutorInternal.h - Modes with everything looked up that can be ------------------===//
#ifndef RUNTIME_EXECUTOR_EXECUTORINTERNAL_H
#define RUNTIME_EXECUTOR_EXECUTORINTERNAL_H

#include "runtime/executor/CapturedGraphs.h"
#include "runtime/executor/Completions.h"
#include "runtime/executor/Executor.h"
#include "runtime/executor/ModelWork.h"
#include "runtime/executor/StepRuns.h"
#include <array>
#include <deque>
#include <map>
#include <set>
#include <tuple>

namespace omnibal::rt {

/// A binding: an address, plus the offset of the micro-batch's region if there is one, plus what
/// depends on the micro-batch's size.
struct PreparedBinding {
  std::byte *base = nullptr;
  int32_t region = -1;
  Extent offset;
  int64_t bytesOfTile = 0; ///< of its value, where tiles lie one after the other
};

struct PreparedLayer {
  const LayerCall *call = nullptr;
  std::vector<PreparedBinding> bindings;
  PreparedBinding workspace;
};

/// What one computing action of a chunk does.
struct PreparedPhase {
  std::vector<PreparedLayer> layers;
  std::vector<Segment> segments;    ///< of `layers`
  std::vector<int32_t> batchValues; ///< read here; numbers in Mode::batchValues
  std::vector<int32_t> results;     ///< written here; numbers in Mode::results
  /// Bytes that outlive a forward or an input_grad, for the trace's memory curve.
  std::vector<Extent> kept;
};

struct PreparedMode {
  const Mode *mode = nullptr;
  /// Which of the ranks that run a micro-batch of the mode together this one is, and of how many.
  int32_t part = 0, parts = 1;
  /// Whom its moves are with, in the order of their parts; none: it makes none.
  std::vector<int> meeting;
  std::shared_ptr<const ModelWork> work; ///< what this rank counts of the model's operations
  /// Kernels run for N rounded up to a multiple of this: the program's row bucket, or 1 if a
  /// message or a result has its tokens in a dimension other than the leading one.
  int64_t rowBucket = 1;
  int64_t rows(int64_t tokens) const { return (tokens + rowBucket - 1) / rowBucket * rowBucket; }
  std::vector<std::array<PreparedPhase, 4>> chunks; ///< by ActionKind Forward..WeightGrad
  std::vector<FunctionCalls> calls;                 ///< of each micro-batch
  RunPlan plan;                                     ///< the mode's own
  Completions completions;                          ///< of that plan
};

/// The sets of ranks that have something to tell each other: for each part, the stages of each
/// shared parameter and the replicas of each stage; where there are several parts, all that hold a
/// stage; and the parts, and context groups of each degree, that make moves.
RankGroups rankGroups(const Program &program);
PreparedMode prepareMode(const Program &program, const Stage &stage, const Mode &mode,
                         std::byte *arena);
/// Functions that any mode of the stage calls.
std::vector<int32_t> usedFunctions(const Stage &stage);

/// A batch value in a packed micro-batch.
struct BatchData {
  const void *data = nullptr; ///< lines, one after the other,
  int64_t lines = 1;
  int64_t bytes = 0;    ///< of each of them
  int64_t padding = 0;  ///< values of 4 bytes that follow a line in the program's buffer,
  int32_t padValue = 0; ///< each this: tokens that belong to no sample
};
/// Returns the data of a value for kernels that run for `rows` tokens, or an error if the
/// micro-batch has no such value of that size.
Result<BatchData> batchData(const BatchValue &value, const PackedMicrobatch &batch, int64_t rows);

/// A training step whose work is enqueued, until its numbers are asked for.
struct StepUnderWay {
  int64_t step = 0;
  StepResult result; ///< what the host knows by itself
  HostCopy sums;     ///< of all ranks (StepSums.h)
  Event begin, runBegin, pipelineEnd, end;
  std::vector<double> counts;    ///< of this rank's micro-batches so far
  bool damaged = false;          ///< some of these
  double divisor = 0;            ///< of the sum of losses; 0: no update
  double routedMicrobatches = 0; ///< of all replicas, those with a balancing loss of routers
  std::vector<std::pair<Event, Event>> busy; ///< computing actions
  std::vector<std::pair<Event, Event>> tail; ///< this device's own work after them
};

struct Executor::Impl {
  std::map<std::string, PreparedMode> modes;
  std::unique_ptr<StepRuns> stepRuns; ///< where steps of mode "train" are planned one by one
  CapturedGraphs graphs;
  std::vector<int32_t> rates; ///< of the stage's parameters, in UpdateOptions::rates

  struct Note {
    const char *mode = "";
    Action action;
  };
  std::array<Note, 16> ring;
  size_t notes = 0;

  float routerLossWeight = 0;   ///< of the step at hand
  double replicaWeight = 1;     ///< of its gradients in those of all replicas
  std::vector<int32_t> numbers; ///< made for the batch value that is being provided

  // State of one run.
  std::set<std::pair<int32_t, Unit>> provided;                   ///< batch value, unit
  std::map<std::pair<int32_t, Unit>, Transport::Handle> handles; ///< transfer, unit
  std::vector<std::pair<Event, Event>> busy; ///< begin and end of the computing actions
  /// For each bucket's number, where its gradients were complete; and the sums that have begun.
  std::map<int32_t, Event> complete;
  std::vector<Transport::Handle> sums;
  bool updated = false;               ///< by the step's update
  std::function<TimeSpan()> sumClock; ///< of the action's sum, where a trace asks for it
  /// Results on their way to the host.
  struct PendingResult {
    int32_t microbatch;
    const BatchValue *value;
    const PackedMicrobatch *batch;
    HostCopy bytes;
  };
  std::vector<PendingResult> results;
  int64_t resultBytes = 0;
  struct TimedCall {
    const LayerCall *call;
    ActionKind kind;
    Event begin, end;
  };
  std::vector<TimedCall> clocked;            ///< layer calls whose times are not known yet
  std::vector<std::function<void()>> traced; ///< run when the times of their events are known
  int64_t activationBytes = 0;
  std::optional<StepUnderWay> begun;        ///< more runs of it follow
  std::deque<StepUnderWay> steps;           ///< oldest first
  std::optional<Clock::time_point> lastEnd; ///< of the step before the oldest one
  Communicator::Traffic lastTraffic;        ///< at the end of the step before

  void startRun() {
    provided.clear();
    handles.clear();
    busy.clear();
    complete.clear();
    sums.clear();
    results.clear();
    clocked.clear();
    traced.clear();
    resultBytes = activationBytes = 0;
  }
};

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_EXECUTORINTERNAL_H
