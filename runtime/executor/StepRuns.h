//===- StepRuns.h - Plans of single steps as what a rank does ---------------------------------===//
#ifndef RUNTIME_EXECUTOR_STEPRUNS_H
#define RUNTIME_EXECUTOR_STEPRUNS_H

#include "runtime/data/MicrobatchSource.h"
#include "runtime/executor/Completions.h"
#include "runtime/executor/SendWaits.h"
#include "runtime/executor/StepPlanFacts.h"
#include "runtime/planner/step/StepProblem.h"
#include "runtime/schedule/StepPlans.h"
#include <array>
#include <functional>
#include <map>
#include <memory>

namespace omnibal::rt {

/// What a stage does in one planned step.
struct StepRun {
  std::vector<Action> actions;
  std::vector<std::vector<int64_t>> offsets; ///< by region; empty where the plan does not place it
  RunPlan plan;                              ///< looks at the two above or at the mode's own
  Completions completions;
  StepPlanFacts facts;
  std::shared_ptr<const PlannedStep> planned; ///< none in a rehearsal
};

/// Plans for the ranks of a process, each of which is taken so many times.
Result<std::shared_ptr<StepPlans>> openStepPlans(const Program &program, int64_t takers);

/// The steps of a program whose schedule is "per-step", for one stage of one replica. A step's plan
/// depends on the program and on what the step's micro-batches weigh, so all ranks make the same
/// one and a run that is resumed repeats it.
class StepRuns {
public:
  /// Reads the program's step problem and checks that it is about this program: a stage that
  /// trusted another one would write where something else lies. `plans` is shared by the ranks that
  /// are threads of one process; null: this rank plans for itself.
  static Result<std::unique_ptr<StepRuns>> open(const Program &program, const Stage &stage,
                                                int replica, std::shared_ptr<StepPlans> plans);

  /// Plans a step for the micro-batches of `source` and lays it out.
  Result<std::unique_ptr<StepRun>> of(int64_t step, MicrobatchSource &source);

private:
  StepRuns(const Program &program, const Stage &stage, int replica,
           std::shared_ptr<StepPlans> plans);
  Status check() const;
  Status checkBlocks() const;
  bool isThere(int32_t region, const Chunk &chunk, ActionKind kind) const;
  bool holdsInAllVariants(int32_t region,
                          const std::function<bool(const planner::Block &)> &holds) const;
  Status findTransfers();
  Status findDivided();
  Status checkDivided() const;
  Status checkDivided(bool inDividedChunk, const LayerCall &call) const;
  std::vector<Action> ownActions(const PlannedStep &planned, const StepRun &run,
                                 std::span<const RunLoad> sizes) const;
  void placeBlocks(const planner::StepPlan &plan, std::span<const RunLoad> sizes,
                   StepRun &run) const;
  Status verify(const PlannedStep &planned, const StepRun &run, const planner::StepLoads &loads,
                std::span<const RunLoad> sizes) const;

  const Program &program;
  const Stage &stage;
  const Mode &mode;
  int replica;
  std::shared_ptr<StepPlans> plans;
  const planner::StepProblem &problem; ///< of `plans`, as are the messages
  const std::vector<Message> &messages;
  std::vector<int32_t> transferOf; ///< by message: its number in Mode::transfers, or -1
  /// By chunk of the problem and variant: its number in Mode::chunks.
  std::vector<std::vector<int32_t>> chunkOf;
  std::map<std::array<int32_t, 3>, int32_t> regionOf; ///< by chunk, variant and block
  DividedMode divided;                                ///< what runs for each sub-micro-batch
  SendWaits sendWaits;
  bool verifies; ///< every step by the rules p9 and p10
};

/// What a step's micro-batches weigh, as plans count it.
Result<planner::StepLoads> loadsOf(int64_t step, int32_t microbatches, MicrobatchSource &source);
planner::StepLoads loadsOf(int64_t step, std::span<const MicrobatchWeight> weights);

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_STEPRUNS_H
