//===- Options.cpp -----------------------------------------------------------------------===//
#include "tools/omnibal-compile/Options.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/support/Formats.h"
#include "tools/NumberChecks.h"
#include "tools/WordChecks.h"
#include "tools/config/CommandLine.h"
#include "tools/omnibal-compile/AdapterOptions.h"
#include "tools/omnibal-compile/LengthGroupOptions.h"
#include <CLI/CLI.hpp>
#include <cmath>

namespace omnibal::compile {
namespace {

constexpr const char *example = R"(Example:
  omnibal-compile model.onnx --tiles 9 --tokens 4096 --stages 2 --microbatches 8 -o program/
then train with
  omnibal-run program/ --weights model.safetensors --data data-*.tar --preprocess preprocessor_config.json \
      --steps-file steps.jsonl)";

/// What a number may be, and what it is for the word auto.
struct NumberOrAuto {
  int64_t least, most, automatic;
};

void addNumberOrAuto(CLI::App &app, const char *flag, int64_t &value, NumberOrAuto range,
                     const char *help) {
  CLI::Validator check(
      [range](std::string &text) {
        return text == "auto" ? std::string() : rt::wholeNumber(range.least, range.most)(text);
      },
      "or auto");
  app.add_option_function<std::string>(
         flag,
         [&value, range](const std::string &text) {
           value = text == "auto" ? range.automatic : std::strtoll(text.c_str(), nullptr, 10);
         },
         help)
      ->type_name("INT")
      ->default_str(std::to_string(value))
      ->check(check);
}

constexpr int64_t mostRanks = int64_t{1} << 20;
constexpr int64_t mostOfMicrobatch = int64_t{1} << 30;
constexpr int64_t mostOfStep = int64_t{1} << 40;

// A function each for what --help lists together.

void describeMicrobatches(CLI::App &app, Options &o) {
  app.option_defaults()->group("Model and micro-batches");
  app.add_option("model", o.model, "exported model (ONNX)")->required()->check(CLI::ExistingFile);
  app.add_option("-o,--output", o.output, "program directory to write");
  app.add_option("--tiles", o.tiles,
                 "largest number of image tiles in a micro-batch (required unless --batches has "
                 "length groups, which say it)")
      ->check(rt::wholeNumber(0, mostOfMicrobatch));
  app.add_option("--tokens", o.tokens, "largest number of tokens in a micro-batch (as --tiles)")
      ->check(rt::wholeNumber(1, mostOfMicrobatch));
  app.add_option("--microbatches", o.microbatches,
                 "micro-batches of a step per replica (those of length groups, if there are some)")
      ->capture_default_str()
      ->check(rt::wholeNumber(1, mostRanks));
  app.add_option(
         "--batches", o.batches,
         "folder of omnibal-batch: predict for the loads of its micro-batches instead of full "
         "ones of one sample; with length groups the program has a training mode for each")
      ->check(CLI::ExistingDirectory);
  app.add_option("--weights", o.weights,
                 "checkpoint (safetensors file or folder) to match by content; external data that "
                 "is not beside the model is looked for in it")
      ->check(CLI::ExistingPath);
  app.add_option("--allow-links-within", o.linkRoot,
                 "follow symbolic links of external data into this folder too (a snapshot of the "
                 "Hugging Face cache needs no such flag)")
      ->check(CLI::ExistingDirectory);
}

void describeRanks(CLI::App &app, Options &o) {
  app.option_defaults()->group("Ranks");
  addNumberOrAuto(app, "--stages", o.stages, {1, mostRanks, 0},
                  "pipeline stages; with --ranks also auto");
  addNumberOrAuto(app, "--data-parallel", o.dataParallel, {1, mostRanks, 0},
                  "data-parallel replicas; with --ranks also auto");
  addNumberOrAuto(
      app, "--zero", o.zero, {0, 1, -1},
      "1: the replicas divide the optimizer's moments, and its float32 values where the "
      "model computes in bfloat16, among themselves (ZeRO-1); with --ranks also auto");
  addNumberOrAuto(
      app, "--model-parallel", o.modelParallel, {1, 65536, 0},
      "ranks that run a stage of a replica together, as its parts; with --ranks also auto");
  app.add_option("--rank-order", o.rankOrder,
                 "which ranks are neighbors: the stages of a replica (stage), or the replicas of a "
                 "stage (replica); with --ranks also auto")
      ->capture_default_str()
      ->check(rt::word({"stage", "replica", "auto"}));
  app.add_option("--layouts", o.layouts,
                 "with --model-parallel: what the parts do: search, a file that says how they hold "
                 "parameters (JSON), or none, and all of them do the same")
      ->capture_default_str()
      ->check(CLI::ExistingFile | CLI::IsMember({"search", "none"}));
  app.add_option("--layout-price", o.layoutPrice,
                 "with --layouts search: nanoseconds that a byte of a rank's memory is worth; by "
                 "default the least time of a micro-batch for all of it")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--ranks", o.ranks,
                 "ranks to divide into parts, stages and replicas, and whether with --zero, by "
                 "search")
      ->check(rt::wholeNumber(1, mostRanks));
  app.add_option("--groups", o.groups,
                 "with --ranks: micro-batches of a step, of all replicas together")
      ->check(rt::wholeNumber(1, mostOfStep));
}

void describePlan(CLI::App &app, Options &o) {
  app.option_defaults()->group("Plan of the pipeline");
  app.add_option("--memory-limit-bytes", o.memoryLimitBytes,
                 "memory of one stage, bytes, as 8e10 or in digits")
      ->type_name("BYTES")
      ->transform(rt::byteCount());
  app.add_option("--partition", o.partition, "how stages are cut")
      ->capture_default_str()
      ->check(rt::word({"search", "layers", "parameters", "greedy"}));
  app.add_option("--remat", o.remat,
                 "rematerialization: as memory demands, none, or every layer, in full or in part")
      ->capture_default_str()
      ->check(rt::word({"auto", "none", "selective-1", "selective-2", "selective-3", "full"}));
  CLI::Validator schedule(
      [](std::string &name) {
        bool known = name == "auto" || name == "per-step" || planner::chunksPerStage(name);
        return known ? std::string()
                     : "no such schedule: " + name + " (known: " + planner::scheduleNames +
                           ", auto, per-step)";
      },
      "SCHEDULE");
  app.add_option(
         "--schedule", o.schedule,
         "gpipe, 1f1b, interleaved:V, zb-h1; auto: as the search orders the work; per-step: "
         "planned anew for the loads of every step")
      ->capture_default_str()
      ->check(schedule);
  app.add_option_function<std::string>(
         "--sub-microbatches", [&](const std::string &word) { o.subMicrobatches = word == "auto"; },
         "with --schedule per-step: whether large vision inputs may run in parts, which pays where "
         "a step has fewer than twice as many micro-batches as stages")
      ->default_str("auto")
      ->check(rt::word({"auto", "off"}));
  app.add_option("--plan", o.plan, "plan by hand (JSON; `cuts` alone are enough)")
      ->check(CLI::ExistingFile);
}

void describeCosts(CLI::App &app, Options &o) {
  app.option_defaults()->group("Costs that the plan is made from");
  app.add_option(
         "--calibration", o.calibration,
         "table of omnibal-run --calibrate: its times, and its links unless --cluster gives "
         "some, instead of the device's (may be given several times: the first that knows a "
         "function counts)")
      ->check(CLI::ExistingFile);
  app.add_option("--cluster", o.cluster, "cluster description (JSON)")->check(CLI::ExistingFile);
  app.add_option("--device", o.device,
                 "device whose speed predictions use (default: cpu; for cuda h100)");
}

void describeTraining(CLI::App &app, Options &o) {
  app.option_defaults()->group("What trains");
  app.add_option("--freeze", o.freeze, "parts that do not train: vision,projector,language")
      ->delimiter(',')
      ->check(rt::word({"vision", "projector", "language"}));
  app.add_option("--freeze-match", o.freezeMatch,
                 "regular expression over parameter names that do not train");
  addAdapterOptions(app, o);
  app.add_option("--router-loss-coefficient", o.routerLossCoefficient,
                 "what the balancing loss of routers counts beside the mean loss of a token; 0: it "
                 "is left out (default: as the model has it)")
      ->check(CLI::NonNegativeNumber);
  app.add_option(
         "--optimizer", o.optimizer,
         "how parameters are updated: adamw keeps two moments of each, adamw8bit these in 8 "
         "bits, lion and sgd (with momentum) one, muon one of the matrices, which it "
         "orthogonalizes, and adafactor of a matrix one of each row and column")
      ->capture_default_str()
      ->check(rt::word({"adamw", "lion", "sgd", "muon", "adamw8bit", "adafactor"}));
  app.add_flag("--ema", o.ema,
               "keep a moving average of every value that trains (omnibal-run --ema-decay), which "
               "is four bytes more of each");
  app.add_option(
         "--loss", o.loss,
         "what is minimized: the cross entropy of label tokens, or dpo, for samples that are "
         "pairs of a chosen and a rejected answer")
      ->capture_default_str()
      ->check(rt::word({"cross-entropy", "dpo"}));
  app.add_option("--dpo-beta", o.dpoBeta,
                 "with --loss dpo, what the log-probabilities beyond those of the reference are "
                 "multiplied by")
      ->capture_default_str()
      ->check(rt::number(0, true));
  app.add_option(
         "--label-smoothing", o.labelSmoothing,
         "share of every label that all tokens of the vocabulary have alike, in [0, 1); with "
         "--loss dpo, share of the pairs that is taken to be labeled wrongly, below 0.5")
      ->capture_default_str()
      ->check(rt::number(0, false, std::nextafter(1.0, 0.0)));
  app.add_option("--z-loss", o.zLoss,
                 "factor of the squared log of the sum of a token's exponentiated logits, which is "
                 "added to its loss")
      ->capture_default_str()
      ->check(rt::number(0));
  app.add_option("--dropout", o.dropout,
                 "what the model drops in training: model (as its graph says), hidden (the same "
                 "without probabilities of attention, which cannot be dropped), or a share in "
                 "[0, 1) for all that hidden drops; 0: nothing")
      ->capture_default_str()
      ->check(rt::word({"model", "hidden"}) | rt::number(0, false, std::nextafter(1.0, 0.0)));
  app.add_option("--neftune", o.neftune,
                 "NEFTune's alpha: noise in +-alpha / sqrt(tokens x columns) on the embedded words "
                 "of a sample in training; 0: none")
      ->capture_default_str()
      ->check(rt::number(0));
}

void describeTarget(CLI::App &app, Options &o) {
  app.option_defaults()->group("Target");
  app.add_option("--target", o.target, "backend that runs the program")
      ->capture_default_str()
      ->check(rt::word({"host", "cuda"}));
  app.add_option("--dtype", o.dtype,
                 "numbers of activations and products (default: float32 on the host, bfloat16 on "
                 "cuda)")
      ->check(rt::word({"float32", "bfloat16"}));
  app.add_option("--cpu", o.cpu, "processor that generated code is for")
      ->capture_default_str()
      ->check(rt::word({"x86-64-v3", "native"}));
  app.add_option("--cuda-toolkit", o.cudaToolkit,
                 "CUDA toolkit whose ptxas and fatbinary assemble generated code (default: "
                 "CUDA_HOME, PATH, /usr/local/cuda)")
      ->check(CLI::ExistingDirectory);
  // Builds with tests register a way for machines without a GPU (docs/testing.md).
  if (lower::gpuCodeNames().size() > 1)
    app.add_option("--gpu-code", o.gpuCode, "how code is made of GPU kernels")->group("");
}

void describeLengthGroups(CLI::App &app, Options &o) {
  app.option_defaults()->group("Length groups");
  app.add_option("--emit-length-groups", o.emitLengthGroups,
                 "write candidates for training modes (JSON), for omnibal-batch --length-groups, "
                 "and print those that some length wants; no program is written without -o and "
                 "--batches")
      ->needs(app.add_option("--lengths", o.lengths,
                             "with --emit-length-groups: table of the samples' lengths (CSV)")
                  ->check(CLI::ExistingFile));
  app.add_option(
         "--degrees", o.degrees,
         "with --emit-length-groups: how many replicas may run a micro-batch together, as in "
         "1,2,4 (default: 1)")
      ->delimiter(',')
      ->check(rt::wholeNumber(1, mostRanks));
  app.add_option("--tokens-per-step", o.tokensPerStep,
                 "with --emit-length-groups: tokens of a step, about (default: those of "
                 "--microbatches of the longest sample in every replica)")
      ->check(rt::wholeNumber(1, mostOfStep));
}

void describeOutputs(CLI::App &app, Options &o) {
  app.option_defaults()->group("Reports and files for other tools");
  app.add_option("--report", o.report, "write the plan as a self-contained HTML page");
  app.add_option("--trace", o.trace, "write the predicted step as Chrome trace JSON");
  app.add_option("--emit-batch-cost", o.emitBatchCost,
                 "write what a tile, a token and a squared sample length cost (JSON), for "
                 "omnibal-batch --cost");
  app.add_option("--emit-problem", o.emitProblem, "write the planning problem (JSON)");
  app.add_option("--emit-choice", o.emitChoice,
                 "with --ranks: write what divisions of the ranks are planned on (JSON), for "
                 "omnibal-plan");
  app.add_option("--emit-step-problem", o.emitStepProblem,
                 "with --schedule per-step: write what plans of steps are made from (JSON), for "
                 "omnibal-plan --steps");
  app.add_flag("--dry-run", o.dryRun, "plan and print only; write no program");
  app.add_flag(
      "--dump-pass-pipeline", o.dumpPassPipeline,
      "print the passes that would run, as omnibal-opt --pass-pipeline takes them, and stop");
}

void describe(CLI::App &app, Options &o) {
  describeMicrobatches(app, o);
  describeRanks(app, o);
  describePlan(app, o);
  describeCosts(app, o);
  describeTraining(app, o);
  describeTarget(app, o);
  describeLengthGroups(app, o);
  describeOutputs(app, o);
}

/// What is wrong with how ranks are divided; empty: nothing. With --ranks, what is not given is as
/// is best.
std::string checkRanks(const CLI::App &app, Options &options) {
  auto isGiven = [&](const char *name) { return app.count(name) > 0; };
  if (!isGiven("--ranks")) {
    if (isGiven("--groups"))
      return "--groups needs --ranks; a replica's own are --microbatches";
    for (auto [flag, isAuto] : {std::pair("--stages", options.stages == 0),
                                {"--data-parallel", options.dataParallel == 0},
                                {"--model-parallel", options.modelParallel == 0},
                                {"--zero", options.zero < 0},
                                {"--rank-order", options.rankOrder == "auto"}})
      if (isAuto)
        return std::string(flag) + " auto needs --ranks";
    return "";
  }
  for (const char *flag : {"--microbatches", "--plan", "--batches", "--emit-length-groups"})
    if (isGiven(flag))
      return std::string(flag) +
             " is about replicas that are known, and --ranks searches for them; "
             "leave one of the two out";
  if (!isGiven("--groups"))
    return "--ranks needs --groups, the micro-batches of a step of all replicas together";
  options.stages = isGiven("--stages") ? options.stages : 0;
  options.dataParallel = isGiven("--data-parallel") ? options.dataParallel : 0;
  options.modelParallel = isGiven("--model-parallel") ? options.modelParallel : 0;
  options.rankOrder = isGiven("--rank-order") ? options.rankOrder : "auto";
  // These need matrices whole, which shares of the optimizer's state are not.
  const bool needsMatrices = options.optimizer == "muon" || options.optimizer == "adafactor";
  options.zero = isGiven("--zero") ? options.zero : needsMatrices ? 0 : -1;
  return "";
}

/// The flag that parts which differ do not go together with; empty: there is none.
std::string againstParts(const Options &options) {
  if (options.layouts == "none")
    return "";
  for (auto [flag, isWrong] : {std::pair("--schedule per-step", options.schedule == "per-step"),
                               {"--emit-length-groups", !options.emitLengthGroups.empty()},
                               {"--quantize-frozen", // with a number: checkQuantizeOptions
                                options.modelParallel == 0 && !options.quantizeFrozen.empty()}})
    if (isWrong)
      return flag;
  return "";
}

/// What is wrong with what the parts of stages do; empty: nothing. Where their number is to be
/// searched, but they cannot be used, there is one.
std::string checkLayouts(const CLI::App &app, Options &options) {
  std::string given;
  for (const char *flag : {"--layouts", "--layout-price"})
    if (given.empty() && app.count(flag) > 0)
      given = flag;
  if (options.modelParallel == 1)
    return given.empty() ? "" : given + " needs --model-parallel, the number of parts of a stage";
  if (app.count("--layout-price") > 0 && options.layouts != "search")
    return "--layout-price is of layouts that are searched; leave it or --layouts out";
  const std::string wrong = againstParts(options);
  if (wrong.empty())
    return "";
  if (options.modelParallel > 1 || !given.empty())
    return wrong + " does not go together with parts that differ yet; --layouts none lets all "
                   "parts do the same";
  options.modelParallel = 1;
  options.withoutParts = wrong;
  return "";
}

/// What is wrong with the options of the loss; empty: nothing.
std::string checkLossOptions(const CLI::App &app, const Options &options) {
  if (options.loss != "dpo")
    return app.count("--dpo-beta") > 0 ? "--dpo-beta needs --loss dpo" : "";
  if (options.labelSmoothing >= 0.5)
    return "--label-smoothing: with --loss dpo it is the share of pairs that is taken to be "
           "labeled "
           "wrongly, which must be below 0.5";
  if (options.zLoss != 0)
    return "--z-loss is added to the cross entropy of tokens, which --loss dpo does not minimize";
  return "";
}

/// What is wrong with the options that length groups are made by; empty: nothing.
std::string checkLengthGroups(const CLI::App &app, const Options &options) {
  const bool emits = !options.emitLengthGroups.empty();
  for (const char *flag : {"--lengths", "--degrees", "--tokens-per-step"})
    if (!emits && app.count(flag) > 0)
      return std::string(flag) + " needs --emit-length-groups";
  if (plansProgram(options))
    return "";
  for (const char *flag :
       {"--tiles", "--tokens", "--output", "--partition", "--remat", "--plan", "--batches",
        "--emit-problem", "--emit-batch-cost", "--trace", "--report"})
    if (app.count(flag) > 0)
      return std::string(flag) +
             " is about a program, and with --emit-length-groups none is made unless -o and "
             "--batches are given (and --dry-run is not); leave it out";
  return "";
}

} // namespace

bool parseOptions(int argc, char **argv, Options &options, int &exitCode) {
  CLI::App app(
      "omnibal-compile: an exported vision-language model becomes a pipelined training program",
      "omnibal-compile");
  app.footer(example);
  app.set_version_flag(
      "--version", rt::formats::versionText("omnibal-compile", OMNIBAL_VERSION,
                                            {rt::formats::program, rt::formats::stepProgram,
                                             rt::formats::modesProgram, rt::formats::stepProblem,
                                             rt::formats::plan, rt::formats::planProblem,
                                             rt::formats::planChoice, rt::formats::calibration}));
  config::addConfigOptions(app);
  describe(app, options);
  if (!config::parseCommandLine(app, argc, argv, exitCode))
    return false;
  // One line: much of it is about files, which --help does not explain.
  auto refuse = [&](const std::string &wrong) {
    std::cerr << "omnibal-compile: " << wrong << std::endl;
    exitCode = 2;
    return false;
  };
  if (!options.emitStepProblem.empty() && options.schedule != "per-step")
    return refuse("--emit-step-problem needs --schedule per-step");
  if (!options.emitChoice.empty() && options.ranks == 0)
    return refuse("--emit-choice needs --ranks");
  if (!options.emitChoice.empty() && (options.remat != "auto" || options.partition != "search"))
    return refuse("--emit-choice leaves cuts and rematerialization to who reads it; leave --remat "
                  "and --partition out");
  std::string wrong = checkRanks(app, options);
  if (wrong.empty())
    wrong = checkLayouts(app, options);
  if (wrong.empty())
    wrong = checkAdapterOptions(app, options);
  if (wrong.empty())
    wrong = checkQuantizeOptions(app, options);
  if (wrong.empty())
    wrong = checkLossOptions(app, options);
  if (wrong.empty())
    wrong = checkLengthGroups(app, options);
  if (!wrong.empty())
    return refuse(wrong);
  auto isGiven = [&](const char *name) { return app.count(name) > 0; };
  const GivenOptions given{isGiven("--tiles"), isGiven("--tokens"), isGiven("--microbatches"),
                           isGiven("--schedule"), isGiven("--remat")};
  if (rt::Status status =
          plansProgram(options) ? applyLengthGroups(options, given) : rt::Status::ok();
      !status)
    return refuse(status.message());
  if (options.dividesStages() && options.hasModes())
    return refuse(
        "--batches " + options.batches +
        " has several length groups, which do not go together with parts that differ yet; "
        "--layouts none lets all parts do the same");
  options.deviceGiven = app.count("--device") > 0;
  if (!options.deviceGiven && options.target == "cuda")
    options.device = "h100";
  if (options.dtype.empty())
    options.dtype = options.target == "cuda" ? "bfloat16" : "float32";
  if (options.target == "host" && options.dtype != "float32")
    return refuse("--dtype bfloat16 needs --target cuda; the host backend computes in float32");
  const std::vector<std::string> ways = lower::gpuCodeNames();
  if (std::find(ways.begin(), ways.end(), options.gpuCode) == ways.end())
    return refuse("--gpu-code: " + options.gpuCode + " not in " + CLI::detail::generate_set(ways));
  if (plansProgram(options) && options.output.empty() && !options.dryRun)
    return refuse("give -o PROGRAM/ (or --dry-run to plan only)");
  return true;
}

} // namespace omnibal::compile
