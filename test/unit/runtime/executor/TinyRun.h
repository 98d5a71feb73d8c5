//===- TinyRun.h - Data and an independent trainer for the tiny program ------------------===//
#ifndef TEST_UNIT_RUNTIME_EXECUTOR_TINYRUN_H
#define TEST_UNIT_RUNTIME_EXECUTOR_TINYRUN_H

#include "runtime/executor/Executor.h"
#include "test/unit/runtime/program/TinyProgram.h"
#include <string>
#include <vector>

namespace omnibal::rt {

/// Token and label of every position of one group of samples.
using TinyGroup = std::vector<std::vector<std::pair<int32_t, int32_t>>>; ///< (id, label) per sample

/// Groups of a step, the same on every call with one seed; some are empty.
std::vector<TinyGroup> tinyStep(uint32_t seed, int groups);
/// Those of a train mode's step: groups of one sample where its caps are smaller than others'.
std::vector<TinyGroup> tinyStepOf(uint32_t seed, const Program &program, size_t mode);
PackedMicrobatch packTiny(const TinyGroup &group);

/// The groups of one replica. It tells what those of `following`, the step after it, weigh.
class TinySource final : public MicrobatchSource {
public:
  TinySource(const std::vector<TinyGroup> &step, int dataParallel, int replica,
             const std::vector<TinyGroup> &following = {}) {
    for (size_t g = replica; g < step.size(); g += dataParallel)
      list.push_back(packTiny(step[g]));
    for (size_t g = replica; g < following.size(); g += dataParallel)
      weights.push_back(weightOf(packTiny(following[g])));
  }
  Result<const PackedMicrobatch *> get(int32_t m) override { return &list[m]; }
  std::vector<MicrobatchWeight> next() const override { return weights; }

private:
  std::vector<PackedMicrobatch> list;
  std::vector<MicrobatchWeight> weights;
};

/// Writes table and weight, seeded, and returns the path of the file.
std::string writeTinyWeights(const std::string &folder);

/// Double precision, written from the formulas: loss, gradient norm and AdamW.
class TinyReference {
public:
  TinyReference(const std::string &weights, bool tied);
  struct Step {
    double loss, gradientNorm;
  };
  /// `weights` are what the losses of a group count in the gradient; none: 1 / the step's labels.
  Step step(const std::vector<TinyGroup> &groups, const StepOptions &options,
            const std::vector<double> &weights = {});
  const std::vector<double> &table() const { return parameters[0]; }
  const std::vector<double> &weight() const { return parameters[1]; }

private:
  bool tied;
  int64_t updates = 0;
  std::vector<double> parameters[2], moments1[2], moments2[2];
  int rateOf[2] = {0, 0}; ///< in UpdateOptions::rates
};

struct TinyOutcome {
  std::vector<StepResult> steps;
  std::vector<std::vector<float>> parameters; ///< after the last step, of all ranks in order
  std::vector<std::string> read;              ///< the same as bytes that kernels read
  Status status;
};

/// Prepares one rank and trains `steps` steps.
TinyOutcome trainTiny(const LoadedProgram &program, const std::string &weights,
                      Communicator &communicator, int steps, const StepOptions &options,
                      const ExecutorOptions &executorOptions = {});
/// All ranks as threads; the outcome of rank 0 with everyone's parameters. The status is that of
/// the first rank that failed on its own.
TinyOutcome trainTinyThreads(const LoadedProgram &program, const std::string &weights, int steps,
                             const StepOptions &options = {},
                             const ExecutorOptions &executorOptions = {});

LoadedProgram loadedTiny(const TinyOptions &options);

} // namespace omnibal::rt
#endif // TEST_UNIT_RUNTIME_EXECUTOR_TINYRUN_H
