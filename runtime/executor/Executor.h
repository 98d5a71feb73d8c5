//===- Executor.h - Runs the action lists of one rank ------------------------------------===//
//
// prepare() does everything that can fail because of the program or the machine: kernels, arena,
// addresses. initialize() loads the weights. After that a step only executes actions: it allocates
// nothing for the arena and makes no decision that depends on data.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_EXECUTOR_EXECUTOR_H
#define RUNTIME_EXECUTOR_EXECUTOR_H

#include "runtime/backends/host/HostBackend.h"
#include "runtime/data/MicrobatchSource.h"
#include "runtime/device/Backend.h"
#include "runtime/executor/AdapterStart.h"
#include "runtime/executor/Completions.h"
#include "runtime/executor/FunctionTable.h"
#include "runtime/executor/StepPlanFacts.h"
#include "runtime/executor/Trace.h"
#include "runtime/support/Safetensors.h"
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace omnibal::rt {

class StepPlans; // runtime/schedule/StepPlans.h

struct ExecutorOptions {
  int threads = 1;
  /// The arena; guards are checked after every action, and after every step whether ranks that hold
  /// the same parameter have the same bits of it.
  bool guarded = false;
  /// The backend of the program's target; it outlives the executor.
  BackendKind *backend = &hostBackendKind();
  int localRank = -1; ///< as in BackendOptions
  /// Plans of single steps, shared by the ranks that are threads of one process; null: a rank whose
  /// program needs them makes its own.
  std::shared_ptr<StepPlans> stepPlans = nullptr;
  /// Whether rehearse() is called, which may need more memory than the program.
  bool rehearses = false;
  /// Whether frozenFingerprints() are wanted, which takes a second look at their weights.
  bool fingerprints = false;
};

/// Receives a result of the mode, in host memory, after the action that wrote it and before the run
/// ends (on the stage that makes it).
using ResultSink = std::function<Status(int32_t microbatch, const BatchValue &result,
                                        const std::byte *data, const PackedMicrobatch &batch)>;

/// Called with how long a layer call of a computing action took. The time of a chunk's first call
/// includes writing the batch values that the action reads.
using LayerClock =
    std::function<void(const LayerCall &call, ActionKind kind, Clock::duration duration)>;

struct Rehearsal {
  int64_t actions = 0;
  Clock::duration total{}; ///< of the computing actions, with what they do around their layer calls
};

struct StepOptions {
  UpdateOptions update;        ///< kind, step and gradientScale are set by the executor
  double clip = 1.0;           ///< of the global norm; 0 or less = off
  double averageDecay = 0.999; ///< of the moving averages, where the program keeps them
  int64_t step = 0;            ///< for messages
  size_t mode = 0;             ///< of Program::trainModes
  /// Whether a run of further micro-batches follows that belongs to the step: until then gradients
  /// and losses stay sums, and nothing is updated.
  bool goesOn = false;
  /// The number of this run, where steps have several; none: `step`.
  std::optional<int64_t> run = std::nullopt;
  /// What the sum of the step's losses is divided by before its gradient is used; none: how many
  /// there are.
  std::optional<double> lossDivisor = std::nullopt;
  /// Whether a replica's loss counts 1 / (replicas x its samples), times the step's samples.
  bool bySamples = false;
  /// What this rank asks all ranks for; they hear of it with the step's counts.
  bool stop = false, save = false, record = false;
  /// What this rank tells of its part of a checkpoint that is being saved (CheckpointSaver).
  bool saving = false, saveFailed = false;
  /// Called between the reductions and the update with what gradients are divided by (0: no
  /// update).
  std::function<Status(double divisor)> beforeUpdate;
};

/// Means over pairs of answers: the rewards of both, and how often the chosen one has the greater.
struct PairRewards {
  double chosen = 0, rejected = 0, accuracy = 0;
  double margin() const { return chosen - rejected; }
};

/// The result of a step; it is the same on all ranks except for the times.
struct StepResult {
  double loss = 0, gradientNorm = 0; ///< as PyTorch's; norm before clipping
  /// The parts of the loss: the mean loss of a label token, or of a pair of answers, and the mean
  /// balancing loss of a micro-batch with tokens, which counts as many times as the program says.
  double tokenLoss = 0, routerLoss = 0;
  std::optional<PairRewards> rewards; ///< where samples are pairs
  int64_t labelTokens = 0, samples = 0, tokens = 0, tiles = 0;
  int64_t losses = 0; ///< that tokenLoss is the mean of
  /// A rank asked for it (StepOptions).
  bool stop = false, save = false, record = false;
  bool saving = false, saveFailed = false; ///< a rank told it
  /// Some rank's micro-batches were damaged (MicrobatchSource): nothing was updated, and loss and
  /// norm mean nothing.
  bool dropped = false;
  /// Why nothing was updated: which sum is not a finite number. Nothing is updated in the steps
  /// that were started after it either.
  std::string undefined;
  int64_t paddedTokens = 0; ///< that kernels worked on beside `tokens` (row buckets)
  double bubble = 0;        ///< 1 - computing time / pipeline time, over all ranks
  double flops = 0;         ///< that the model needs for the step (ModelWork.h)
  double idle = 0;          ///< 1 - time of any work of a rank / time of the step, over all ranks
  /// Of each stage: the norm of its gradients, whose squares add up to that of gradientNorm, and
  /// what `idle` is of its ranks.
  std::vector<double> normOfStage, idleOfStage;
  double stepSeconds = 0; ///< from the end of the step before, if that was under way, to its end
  double pipelineSeconds = 0; ///< from this rank's first action to the last of any rank
  double epilogueSeconds = 0; ///< what follows
  /// What a rank sent through the communicator since the step before, on average over the ranks.
  double messages = 0, messageBytes = 0;
  std::optional<StepPlanFacts> plan; ///< of this replica's step, where steps are planned
};

/// What the optimizer knows of some elements of a parameter, as they lie in the arena.
struct OptimizerState {
  const Parameter *parameter = nullptr;
  int64_t first = 0, count = 0;
  float *weight = nullptr, *moment1 = nullptr, *moment2 = nullptr; ///< of the first one; no moment
  float *average = nullptr; ///< of the first one, where the program keeps averages
  /// In place of the moments, where the optimizer keeps codes.
  CodedMoment coded1 = {}, coded2 = {};
};

// ExecutorInternal.h
struct PreparedMode;
struct StepUnderWay;

class Executor {
public:
  /// Prepares a rank, which has its place in the program's RankGrid. `program` and `communicator`
  /// outlive the executor.
  static Result<std::unique_ptr<Executor>>
  prepare(const LoadedProgram &program, Communicator &communicator, const ExecutorOptions &options);
  ~Executor();

  /// True if this rank reads a parameter's values from files. If several ranks hold it, the first
  /// one reads it; if stages share it, the first stage does.
  bool reads(const Parameter &parameter) const;
  /// True if this rank reads any files of weights: what nobody before it holds.
  bool readsWeights() const {
    return theReplica == 0 && (thePart == 0 || loaded.program.hasOwnParts());
  }
  /// Whether this part of its stage has the parameter counted in the norm, and written: its own
  /// units, or, of what all parts hold alike, part 0.
  bool counts(const Parameter &parameter) const {
    return parameter.counted && (thePart == 0 || parameter.held);
  }
  /// Connects the ranks, which all call it, and loads this stage's parameters and constants;
  /// gradients and moments become zero, and moving averages begin. `weights` are looked at where
  /// readsWeights(), and so is where adapters begin. An error of one rank is an error of all.
  Status initialize(const TensorFiles &weights, const AdapterStart &adapters = {});
  /// Of the weights that this rank has read for parameters that do not train, by name.
  const std::map<std::string, std::string> &frozenFingerprints() const { return frozen; }
  /// Sends parameters, and the optimizer's moments and averages, for which reads() names this rank
  /// to all other ranks that hold them; all ranks call it.
  Status shareParameters(bool moments);
  /// Makes every moving average the value as it is now.
  Status beginAverages();
  /// Between two steps, all ranks call this: exchanges what trains and its moving averages, so that
  /// the model computes with these. A second time undoes it.
  Status exchangeAverages();

  /// Runs a whole step of a train mode with its epilogue (Epilogue.cpp).
  Result<StepResult> trainStep(MicrobatchSource &source, const StepOptions &options);
  /// Runs a step in two halves, so that the host may be a step ahead of its device. This half
  /// enqueues a step, or a run of it (StepOptions::goesOn); nothing of `source` is needed
  /// afterwards.
  Status startStep(MicrobatchSource &source, const StepOptions &options);
  /// Waits for the oldest step that was started. If its loss or norm is not a finite number, that
  /// is an error, and neither that step nor a later one has updated anything.
  Result<StepResult> finishStep();
  /// Goes on after a step whose loss or norm was not a finite number, as if neither it nor what was
  /// started after it had been run; `updates` were done before it. Nothing may be under way.
  Status forgetUndefinedStep(int64_t updates);
  /// Of the step that was started last, before it has ended: StepResult::dropped.
  bool wasDropped() const;
  int stepsUnderWay() const;
  /// What was sent since the last step counts for no step.
  void forgetTraffic();
  /// Runs any mode without an epilogue.
  Status run(const std::string &mode, MicrobatchSource &source, const ResultSink &sink);

  /// Does the same with small numbers as parameters, for rehearsals without weights.
  Status initializeForRehearsal();
  /// Runs the computing actions of a train mode in their order, for measuring. There are no
  /// messages (what would be received is filled with small numbers) and no epilogue, so nothing
  /// waits for another rank and no parameter changes.
  Result<Rehearsal> rehearse(MicrobatchSource &source, const LayerClock &clock, size_t mode = 0);
  /// The part of the arena that holds nothing between runs.
  std::span<std::byte> scratch(); ///< device memory
  Backend &backend() { return *device.backend; }
  Transport &transport() { return *device.transport; }

  int stage() const { return theStage; }
  int replica() const { return theReplica; }
  /// Of the ranks of its stage that have micro-batches of their own in a mode, the one that has
  /// this rank's.
  int dataRank(const std::string &mode) const { return theReplica / loaded.program.degreeOf(mode); }
  /// Of the ranks that run the replica's stage together, which have equal values.
  int part() const { return thePart; }
  /// Whether this is the first of the ranks that hold its stage: it reads and writes for all.
  bool isFirstHolder() const { return theReplica == 0 && thePart == 0; }
  const Stage &stageInfo() const;
  /// Returns an address in the arena, which is device memory (Backend.h); offset -1 gives null.
  float *at(int64_t offset);
  /// Updates what kernels read after float32 values of parameters were changed from outside. Where
  /// replicas divide those (Parameter::weightOffset), this also takes this rank's share.
  Status refreshCopies();
  /// What this rank's optimizer knows: its shares, or everything.
  std::vector<OptimizerState> optimizerStates();
  /// Between two steps, all ranks call these: makes Parameter::weightOffset the place of all of a
  /// stage's float32 values; and undoes that.
  Status bringWeights();
  Status forgetWeights();
  /// Gives this rank, before an update, all of its stage's summed gradients; all ranks call it.
  Status gatherGradients();
  /// Says which of UpdateOptions::rates each parameter of the stage is updated with. Without this
  /// those that decay have the first, and the others the second.
  void assignRates(const std::function<int32_t(const Parameter &)> &rateOf);
  int64_t adamStep() const { return updates; }
  void setAdamStep(int64_t count) { updates = count; }
  ThreadPool &pool() { return *device.pool; }

  /// Records the next runs into `trace` until it is reset with null.
  void setTrace(Trace *trace) { tracing = trace; }
  /// Returns the last actions, the newest last, for messages about failures.
  std::string recentActions() const;

  struct Impl; // ExecutorInternal.h

private:
  /// The members are in the order in which they are made; they are destroyed in the reverse order.
  struct Device {
    std::unique_ptr<ThreadPool> pool;
    std::unique_ptr<Backend> backend;
    FunctionTable functions;
    std::unique_ptr<Arena> arena;
    std::unique_ptr<Transport> transport;
  };

  Executor(const LoadedProgram &program, Communicator &communicator, const ExecutorOptions &options,
           Device device);

  void joinParts(const std::string &name, PreparedMode &prepared);
  Status connect();
  /// Where guards are checked: whether all ranks that hold a parameter have the same bits of it.
  Status checkCopies();
  Status loadParameters(const TensorFiles &weights, const AdapterStart &adapters);
  Status loadConstants();
  Status zeroState();
  Status runActions(const std::string &modeName, MicrobatchSource &source, const ResultSink &sink,
                    const StepOptions *options, StepUnderWay *step);
  Status runPlan(const std::string &modeName, const RunPlan &plan, const Completions &completions,
                 MicrobatchSource &source, const ResultSink &sink, const StepOptions *options,
                 StepUnderWay *step);
  Result<Transport::Handle> startSum(std::span<const FloatRun> runs, std::span<const int> ranks,
                                     std::optional<Event> after);
  Status reduceShared(int32_t group);
  Status reduceBucket(int32_t number);
  Status scatterBucket(int32_t number);
  Status gatherBucket(int32_t number);
  Status gatherParameters(int32_t bucket);
  Result<std::optional<Event>> weighBucket(int32_t bucket, std::span<const FloatRun> runs);
  Status waitForSums();
  Status weighLosses(MicrobatchSource &source, const StepOptions &options, StepUnderWay &step);
  Status countRun(MicrobatchSource &source, const StepOptions &options, StepUnderWay &step);
  Status reduceScalars(MicrobatchSource &source, const StepOptions &options, StepUnderWay &step);
  Status update(const StepOptions &options, const StepUnderWay &step);
  Status readSums(StepUnderWay &step);
  /// `slots`: what all ranks told of the step (StepSums.h).
  std::vector<double> normsOfStages(std::span<const float> slots, double divisor) const;
  Status measure(StepUnderWay &step);
  std::vector<int> ranksOfStages(const std::function<bool(const Stage &)> &which) const;
  /// Those that sum gradients with this one: the same part of its stage in all replicas.
  std::vector<int> ranksOfReplicas() const;
  /// All that have this rank's parameters.
  std::vector<int> ranksOfHolders() const;
  std::vector<int> ranksOfShared(int32_t group) const;
  std::vector<FloatRun> gradients();
  std::vector<FloatRun> countedGradients(std::vector<int> &owners);
  std::vector<OwnedPiece> bucketGradients(int32_t number);
  std::vector<FloatRun> foreignGradients();
  int64_t grain() const;
  void addMoments(OptimizerState &state, int64_t moment1, int64_t moment2, int64_t first,
                  int64_t room);
  std::vector<UpdatedTensor> updated();
  std::vector<AveragedTensor> averaged();
  Status takeShares();
  bool bringsWeights() const;

  const LoadedProgram &loaded;
  Communicator &communicator;
  ExecutorOptions options;
  int theStage = 0, theReplica = 0, thePart = 0;
  Device device;
  Trace *tracing = nullptr;
  int64_t updates = 0; ///< completed updates
  std::map<std::string, std::string> frozen;
  std::unique_ptr<Impl> impl;
};

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_EXECUTOR_H
