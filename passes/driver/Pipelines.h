//===- Pipelines.h - The compiler as pipelines of passes ---------------------------------===//
//
// Each phase is a registered pipeline, and so is the whole: what omnibal-compile runs, omnibal-opt
// runs as `--omnibal-compile="tiles=4 tokens=64 output=program"`. docs/passes.md lists the passes
// in this order.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_DRIVER_PIPELINES_H
#define PASSES_DRIVER_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "passes/shard/search/Passes.h"
#include <memory>
#include <string>

namespace omnibal {

// Groups of options, so that phases and the whole have the same ones.

/// The largest micro-batch.
struct CapsOptions : virtual mlir::detail::PassOptions {
  Option<int64_t> tiles{*this, "tiles", llvm::cl::init(1),
                        llvm::cl::desc("Largest number of tiles of a micro-batch")};
  Option<int64_t> tokens{*this, "tokens", llvm::cl::init(128),
                         llvm::cl::desc("Largest number of tokens of a micro-batch")};
};

/// What trains, and for what loss.
struct TrainingOptions : virtual mlir::detail::PassOptions {
  ListOption<std::string> freeze{*this, "freeze",
                                 llvm::cl::desc("Do not train: vision, projector, language")};
  Option<std::string> freezeMatch{
      *this, "freeze-match",
      llvm::cl::desc("Regular expression over names of parameters that do not train")};
  Option<std::string> lora{
      *this, "lora",
      llvm::cl::desc("Regular expression over names of weights that get low-rank adapters, beside "
                     "which nothing else trains")};
  Option<int64_t> loraRank{*this, "lora-rank", llvm::cl::init(16),
                           llvm::cl::desc("Rank of the adapters")};
  Option<double> loraAlpha{*this, "lora-alpha", llvm::cl::init(32),
                           llvm::cl::desc("The adapters' scale is this / rank")};
  Option<double> loraDropout{*this, "lora-dropout", llvm::cl::init(0),
                             llvm::cl::desc("Share of the adapters' input that is dropped")};
  Option<bool> rslora{*this, "rslora", llvm::cl::init(false),
                      llvm::cl::desc("The adapters' scale is alpha / sqrt(rank)")};
  Option<bool> dora{*this, "dora", llvm::cl::init(false),
                    llvm::cl::desc("Adapters train the norms of the weights' rows apart (DoRA)")};
  Option<std::string> modulesToSave{
      *this, "modules-to-save",
      llvm::cl::desc("Regular expression over parameters whose modules train beside adapters")};
  Option<std::string> quantizeFrozen{
      *this, "quantize-frozen",
      llvm::cl::desc("int8 or nf4: how frozen weights of linear layers are stored; empty: as they "
                     "are")};
  Option<std::string> quantizeMatch{
      *this, "quantize-match",
      llvm::cl::desc("Regular expression over names of weights that quantize-frozen is about; "
                     "empty: those below adapters")};
  Option<std::string> loss{*this, "loss", llvm::cl::init("cross-entropy"),
                           llvm::cl::desc("cross-entropy, or dpo for samples that are pairs of "
                                          "answers")};
  Option<double> dpoBeta{*this, "dpo-beta", llvm::cl::init(0.1),
                         llvm::cl::desc("With loss dpo: what rewards are multiplied by")};
  Option<double> labelSmoothing{
      *this, "label-smoothing", llvm::cl::init(0),
      llvm::cl::desc(
          "Share of a label that all tokens have alike; with loss dpo the share of pairs "
          "taken as labeled wrongly")};
  Option<double> zLoss{*this, "z-loss", llvm::cl::init(0),
                       llvm::cl::desc("Factor of the squared log sum exp of a token's logits")};
  Option<std::string> dropout{
      *this, "dropout", llvm::cl::init("model"),
      llvm::cl::desc("What the model drops in training: model, hidden (all but probabilities of "
                     "attention) or a ratio in [0, 1) for all of that")};
  Option<double> neftune{*this, "neftune", llvm::cl::init(0),
                         llvm::cl::desc("Alpha of the noise on embedded words, 0: none")};
  Option<std::string> optimizer{*this, "optimizer", llvm::cl::init("adamw"),
                                llvm::cl::desc("adamw, lion, sgd, muon, adamw8bit or adafactor")};
  Option<bool> ema{*this, "ema", llvm::cl::init(false),
                   llvm::cl::desc("Keep a moving average of what trains")};
  Option<std::string> routerLossCoefficient{
      *this, "router-loss-coefficient",
      llvm::cl::desc("What the routers' loss counts, 0: nothing; empty: as the graph says")};
};

/// Whose kernels compute, and in which numbers.
struct TargetOptions : virtual mlir::detail::PassOptions {
  Option<std::string> target{*this, "target", llvm::cl::init("host"),
                             llvm::cl::desc("host or cuda")};
  Option<std::string> compute{
      *this, "compute",
      llvm::cl::desc("float32 or bfloat16; empty: float32 on host, bfloat16 on cuda")};
};

/// What a plan is for, and what is decided of it beforehand.
struct PlanningOptions : virtual mlir::detail::PassOptions {
  Option<std::string> cluster{*this, "cluster", llvm::cl::desc("Cluster description (JSON file)")};
  Option<int64_t> stages{*this, "stages", llvm::cl::init(1), llvm::cl::desc("Pipeline stages")};
  Option<int64_t> dataParallel{*this, "data-parallel", llvm::cl::init(1),
                               llvm::cl::desc("Replicas")};
  Option<int64_t> zero{*this, "zero", llvm::cl::init(0),
                       llvm::cl::desc("1: replicas divide the optimizer's state")};
  Option<int64_t> parts{*this, "parts", llvm::cl::init(1),
                        llvm::cl::desc("Ranks that run a stage of a replica together; with ranks "
                                       "also 0, for whatever is best")};
  Option<std::string> rankOrder{
      *this, "rank-order", llvm::cl::init("stage"),
      llvm::cl::desc("Which ranks are neighbors: the stages of a replica (stage), or the replicas "
                     "of a stage (replica); with ranks also empty, for whatever is best")};
  Option<std::string> layouts{
      *this, "layouts", llvm::cl::init(searchedLayouts),
      llvm::cl::desc("What parts do: search, a JSON file that says how they hold parameters, or "
                     "none or nothing, and all of them do the same")};
  Option<double> layoutPrice{
      *this, "layout-price", llvm::cl::init(-1),
      llvm::cl::desc(
          "With layouts that are searched: nanoseconds that a byte of a rank's memory is "
          "worth; below 0: the least time of a micro-batch for all of it")};
  Option<int64_t> ranks{*this, "ranks", llvm::cl::init(0),
                        llvm::cl::desc("Ranks to divide into parts, stages and replicas; 0: as "
                                       "`parts`, `stages` and `data-parallel` say, which with "
                                       "ranks are 0, and `zero` -1, for whatever is best")};
  Option<int64_t> groups{*this, "groups", llvm::cl::init(0),
                         llvm::cl::desc("With `ranks`: micro-batches of a step, of all replicas")};
  Option<int64_t> memoryLimitBytes{*this, "memory-limit-bytes", llvm::cl::init(0),
                                   llvm::cl::desc("Memory of one rank; 0: as the cluster says")};
  Option<std::string> device{
      *this, "device",
      llvm::cl::desc("Entry of the device table; empty: as the cluster says, "
                     "else cpu on host, h100 on cuda")};
  ListOption<std::string> calibration{*this, "calibration",
                                      llvm::cl::desc("Tables of omnibal-run --calibrate")};
  Option<std::string> batches{*this, "batches", llvm::cl::desc("Folder of omnibal-batch")};
  Option<std::string> method{*this, "method", llvm::cl::init("search"),
                             llvm::cl::desc("search, layers, parameters or greedy")};
  Option<std::string> remat{*this, "remat", llvm::cl::init("auto"),
                            llvm::cl::desc("auto, none, full or selective-N")};
  Option<std::string> schedule{
      *this, "schedule", llvm::cl::init("1f1b"),
      llvm::cl::desc("gpipe, 1f1b, interleaved:V, zb-h1, auto or per-step")};
  Option<int64_t> microbatches{*this, "microbatches", llvm::cl::init(4),
                               llvm::cl::desc("Micro-batches of a step")};
  Option<bool> subMicrobatches{
      *this, "sub-microbatches", llvm::cl::init(true),
      llvm::cl::desc("Whether plans of single steps may divide micro-batches by their tiles")};
  Option<std::string> plan{*this, "plan", llvm::cl::desc("Plan by hand (JSON file)")};
};

/// How many training modes a program has.
struct ModesOptions : virtual mlir::detail::PassOptions {
  Option<bool> trainModes{
      *this, "train-modes", llvm::cl::init(false),
      llvm::cl::desc("A training mode for each length group of `batches`; tiles and tokens are the "
                     "largest caps, micro-batches are the groups' own")};
};

/// Length groups to choose among.
struct LengthGroupOptions : virtual mlir::detail::PassOptions {
  Option<std::string> lengthGroups{
      *this, "length-groups",
      llvm::cl::desc("File of candidates to write; then a program is made only with batches")};
  Option<std::string> lengths{*this, "lengths", llvm::cl::desc("Lengths of the samples (CSV)")};
  ListOption<int64_t> degrees{*this, "degrees",
                              llvm::cl::desc("Ranks that may share a sample; only 1 is known")};
  Option<int64_t> tokensPerStep{
      *this, "tokens-per-step", llvm::cl::init(0),
      llvm::cl::desc("Tokens of a step of length groups, about; 0: by microbatches")};
};

/// The program directory.
struct ProgramOptions : virtual mlir::detail::PassOptions {
  Option<std::string> output{*this, "output",
                             llvm::cl::desc("Program directory to write; empty: none")};
  Option<std::string> model{*this, "model", llvm::cl::desc("Name of the model, for display")};
  Option<std::string> cpu{*this, "cpu", llvm::cl::init("x86-64-v3"),
                          llvm::cl::desc("Processor that generated code is for")};
  Option<std::string> gpuCode{
      *this, "gpu-code", llvm::cl::init("device"),
      llvm::cl::desc("How code is made of GPU kernels: device, or a way that the build registers")};
  Option<std::string> cudaToolkit{*this, "cuda-toolkit",
                                  llvm::cl::desc("Folder of ptxas and fatbinary; empty: found")};
};

struct FindLayersOptions : mlir::PassPipelineOptions<FindLayersOptions>,
                           virtual CapsOptions,
                           virtual TrainingOptions {};
struct PlanStagesOptions : mlir::PassPipelineOptions<PlanStagesOptions>,
                           virtual CapsOptions,
                           virtual TargetOptions,
                           virtual PlanningOptions {};
struct CompileOptions : mlir::PassPipelineOptions<CompileOptions>,
                        virtual CapsOptions,
                        virtual TrainingOptions,
                        virtual TargetOptions,
                        virtual PlanningOptions,
                        virtual ModesOptions,
                        virtual LengthGroupOptions,
                        virtual ProgramOptions {
  /// Length groups alone are a result of their own.
  bool makesProgram() const {
    return lengthGroups.empty() || (!output.empty() && !batches.empty());
  }
};

struct CompileRecord;

/// `omnibal-find-layers`: form I to form L with a loss.
void buildFindLayersPipeline(mlir::OpPassManager &passes, const CapsOptions &caps,
                             const TrainingOptions &training);
/// `omnibal-plan-stages`: form L with a loss to form P with costs, verified.
void buildPlanStagesPipeline(mlir::OpPassManager &passes, const PlanStagesOptions &options);
/// `omnibal-program`: form P with costs to form C with the messages and actions of its plan. The
/// plan is verified first.
void buildProgramPipeline(mlir::OpPassManager &passes);
/// Form L with a loss to form C with messages and actions, within the memory limits, and laid out;
/// with `trainModes` a module for each mode.
void buildFittedProgramPipeline(mlir::OpPassManager &passes, const CompileOptions &options,
                                const std::shared_ptr<CompileRecord> &record);
/// `omnibal-compile`: form I to a program directory, all that omnibal-compile does with a model; or
/// to a file of length groups.
/// What stands in no attribute is left in `record`.
void buildCompilePipeline(mlir::OpPassManager &passes, const CompileOptions &options,
                          const std::shared_ptr<CompileRecord> &record);

/// Registers every pass and named pipeline of omnibal (omnibal-opt, tests).
void registerAllPasses();

} // namespace omnibal
#endif // PASSES_DRIVER_PIPELINES_H
