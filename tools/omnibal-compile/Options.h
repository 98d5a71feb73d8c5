//===- Options.h - The command line of omnibal-compile -----------------------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_OPTIONS_H
#define TOOLS_OMNIBAL_COMPILE_OPTIONS_H

#include "passes/cost/ModesFile.h"
#include "passes/lower/GpuCode.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace omnibal::compile {

struct Options {
  std::string model, output;
  /// Of several training modes the largest caps; each mode has its own micro-batches.
  int64_t tiles = 0, tokens = 0, microbatches = 4;
  int64_t stages = 1, dataParallel = 1, zero = 0;
  int64_t modelParallel = 1; ///< ranks that run a stage together; as stages
  std::string rankOrder = "stage";
  std::string withoutParts; ///< with ranks: what parts do not go together with, empty: nothing
  std::string layouts = "search"; ///< of what they do: search, none or a file
  double layoutPrice = -1;        ///< of layouts that are searched
  /// To divide into parts, stages and replicas, of which 0 are as many as is best (of zero: -1); 0:
  /// the division is given.
  int64_t ranks = 0;
  int64_t groups = 0; ///< with ranks: micro-batches of a step, of all replicas
  /// The length groups of `batches`, where it has some; one is no more than caps and micro-batches.
  std::optional<cost::ModesDescription> lengthGroups;
  std::string schedule = "1f1b", partition = "search", remat = "auto";
  std::string plan, cluster, weights, device = "cpu", target = "host", cpu = "x86-64-v3";
  std::string dtype; ///< float32 | bfloat16; parseOptions fills the default in
  std::string gpuCode = lower::deviceCode;
  std::string cudaToolkit; ///< empty: found
  bool deviceGiven = false;
  bool subMicrobatches = true; ///< that plans of single steps may run
  std::vector<std::string> freeze;
  std::string freezeMatch, linkRoot;
  std::string lora, modulesToSave; ///< regular expressions; lora empty: no adapters
  int64_t loraRank = 16;
  double loraAlpha = 32, loraDropout = 0;
  bool rslora = false, dora = false;
  std::string quantizeFrozen, quantizeMatch;   ///< int8 or nf4 (empty: no); which weights
  std::optional<double> routerLossCoefficient; ///< none: the graph's
  std::string loss = "cross-entropy";
  double dpoBeta = 0.1, labelSmoothing = 0, zLoss = 0;
  std::string dropout = "model"; ///< model, hidden or a ratio
  double neftune = 0;            ///< 0: no noise
  std::string optimizer = "adamw";
  bool ema = false;
  int64_t memoryLimitBytes = 0; ///< 0: none
  std::string batches;
  std::vector<std::string> calibration;
  std::string emitProblem, emitChoice, emitStepProblem, emitBatchCost, trace, report;
  std::string emitLengthGroups, lengths; ///< candidates to write, and of what
  std::vector<int64_t> degrees;
  int64_t tokensPerStep = 0; ///< 0: not given
  bool dryRun = false, dumpPassPipeline = false;

  /// Whether the parts of a stage may do different things.
  bool dividesStages() const { return modelParallel > 1 && layouts != "none"; }
  /// Whether the program's training modes are those of the length groups, as caps and micro-batches
  /// alone do not say all of them.
  bool hasModes() const {
    return lengthGroups &&
           (lengthGroups->modes.size() > 1 || !lengthGroups->cuts.empty() ||
            !lengthGroups->modes.front().remat.empty() || lengthGroups->modes.front().degree > 1);
  }
};

/// Whether a program is planned; length groups alone are a result of their own.
inline bool plansProgram(const Options &options) {
  return options.emitLengthGroups.empty() ||
         (!options.output.empty() && !options.batches.empty() && !options.dryRun);
}

/// Parses argv. Returns true when there is work to do; otherwise `exitCode` is what main returns
/// (0 after --help or --version, 2 for wrong usage).
bool parseOptions(int argc, char **argv, Options &options, int &exitCode);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_OPTIONS_H
