//===- RunOptions.h - What a run is told to do --------------------------------------------===//
#ifndef RUNTIME_TRAINING_SESSION_RUNOPTIONS_H
#define RUNTIME_TRAINING_SESSION_RUNOPTIONS_H

#include "runtime/batching/io/MixAt.h"
#include "runtime/device/Optimizer.h"
#include "runtime/support/Safetensors.h"
#include "runtime/training/rates/LearningRate.h"
#include "runtime/training/rates/ParameterGroups.h"
#include "runtime/training/rates/UpdateSettings.h"
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace omnibal::rt {

/// What the sum of a step's losses is divided by.
enum class LossNormalizer {
  Step,   ///< the step's label tokens
  Epoch,  ///< those of a step of the epoch on average
  Samples ///< a rank's samples x the step's label tokens a sample, and a mean over ranks
};

struct RunOptions {
  std::string program;
  std::string weights, linkRoot, preprocess, stepsFile, batches;
  std::vector<std::string> data;
  std::vector<WeightsFrom> mixAt;           ///< of a mix, from steps on, which count from 1
  std::string reference, evaluateReference; ///< files of References
  int64_t steps = 0;                        ///< 0: every step of the file once
  LearningRateOptions rate;
  double weightDecay = 0.05;
  GroupOptions groups;   ///< where rate and weight decay are others
  UpdateSettings update; ///< of the program's optimizer
  double clip = 1.0;
  int64_t accumulate = 1; ///< steps of the list that an update takes
  LossNormalizer lossNormalizer = LossNormalizer::Step;
  std::string log, tensorboard, trace, save, saveGradients;
  std::string saveAverages;           ///< folder for the moving averages of what `save` has
  std::optional<StoredType> saveType; ///< none: the source's
  int64_t shardBytes = 5'000'000'000;
  bool mergeAdapters = false; ///< `save` is the model with them, not a folder of adapters
  std::string adapter;        ///< folder of adapters to begin with
  uint64_t seed = 0;          ///< of fresh adapters, dropout and noise
  bool overwrite = false;
  int64_t traceSteps = 1;
  std::string profile;            ///< folder of traces of single steps
  std::vector<int64_t> profileAt; ///< steps to put there, from 1
  std::string heartbeat, prometheus;
  bool partNorms = false; ///< of gradients, of the model's parts
  double peakTflops = 0;  ///< of a device; 0: by its name
  int threads = 0;        ///< 0: cores / ranks on this machine
  int loaderThreads = 0;  ///< of a rank; 0: by what it reads
  /// Steps behind the one at work whose samples are read (DataLoaderOptions::stepsAhead).
  std::optional<int64_t> loaderStepsAhead;
  std::string checkpoint, resume; ///< resume "auto": what `checkpoint` holds, if anything
  int64_t checkpointEvery = 0;    ///< steps; 0: by time
  double checkpointMinutes = 10;  ///< where no steps are given; 0: only at the end
  int64_t checkpointBuffer = -1;  ///< bytes of a rank for copies; 0: none; -1: by what is free
  int keepCheckpoints = 2;
  int64_t keepEvery = 0;
  int64_t skipBadSamples = 0; ///< that many may be left out
  int64_t skipNonfinite = 0;  ///< steps in a row
  double timeLimit = 0;       ///< seconds since `started`; 0: none
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  bool evaluate = false, print = false;
  bool findReferences = false; ///< `reference` is made, and nothing is trained
  int64_t evaluateEvery = 0;   ///< steps of training between evaluations of `evaluateData`; 0: none
  std::vector<std::string> evaluateData;
  int64_t sampleEvery = 0; ///< steps of training between answers of the model; 0: none
  int64_t sampleCount = 4, sampleTokens = 64; ///< how many answers, and how long at most
  bool evaluateAverages = false;              ///< `evaluateEvery` is about the moving averages
  bool keepBest = false;  ///< the checkpoint of the lowest loss of an evaluation
  int64_t earlyStop = 0;  ///< evaluations in a row without a lower loss that end the run; 0: none
  std::string showSample; ///< key of what is printed in place of a run
  std::string loads;      ///< of steps whose plans are printed in place of the program
  std::string forward, output;
  std::string calibrate;        ///< table to write; nothing is trained
  std::string exportCheckpoint; ///< to write as a model's folder; nothing is trained
  std::string config; ///< all of these, as a file for --config, which stands beside checkpoints

  bool trains() const {
    return !evaluate && !findReferences && forward.empty() && calibrate.empty() &&
           exportCheckpoint.empty();
  }
  /// Whether some trained model is written as a folder.
  bool savesModel() const { return !save.empty() || !saveAverages.empty(); }
  double averageDecay() const { return update.averageDecay.value_or(usualAverageDecay); }
  /// Whether a checkpoint is due so long after the last one; never where --checkpoint-every counts
  /// steps.
  bool isCheckpointTime(std::chrono::duration<double> sinceLast) const;
  /// --resume auto: from what `checkpoint` holds, if anything.
  bool resumesIfPresent() const { return resume == "auto"; }
  /// The folder of checkpoints, or one step's.
  const std::string &resumesFrom() const { return resumesIfPresent() ? checkpoint : resume; }
};

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_SESSION_RUNOPTIONS_H
