#include "tools/omnibal-run/Options.h"
#include "runtime/support/Formats.h"
#include "tools/NumberChecks.h"
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>

namespace omnibal::rt {
namespace {

constexpr const char *example = R"(Examples:
  Train (all ranks as threads of this process):
    omnibal-run program/ --weights model.safetensors --data train-*.tar \
        --preprocess preprocessor_config.json --steps-file steps.jsonl --log run.jsonl --save out/
  One rank a process (stages x data-parallel ranks of the program, x parts):
    mpirun -n 2 omnibal-run program/ --weights model.safetensors --data train-*.tar \
        --preprocess preprocessor_config.json --steps-file steps.jsonl
  Measure on held-out data, while training and afterwards:
    omnibal-run program/ ... --checkpoint checkpoints/ --evaluate-every 500 --evaluate-data held-out/ --keep-best
    omnibal-run program/ --weights out/ --data test-*.tar --preprocess preprocessor_config.json --evaluate
  The graph's own inputs and outputs (rows are run one by one, padding by attention_mask is removed;
  outputs at padded positions are zeros):
    omnibal-run program/ --weights out/ --forward inputs.safetensors -o outputs.safetensors
  Measure this program's layers on this machine, for omnibal-compile --calibration:
    omnibal-run program/ --calibrate table.json
  A model's folder of a checkpoint, without training:
    omnibal-run --export-checkpoint checkpoints/ --weights model/ --save out/
  What the program does:
    omnibal-run --print program/
  What a run reads of a sample, and its pictures as files:
    omnibal-run program/ --data train-*.tar --preprocess preprocessor_config.json --show-sample KEY -o seen/
  What it would do in steps of these loads, where it plans every step:
    omnibal-run --print program/ --loads loads.jsonl

Environment: OMNIBAL_DEADLINE_SECONDS limits every wait for another rank (default 600);
OMNIBAL_GUARD=1 poisons and guards the memory of every rank (slow, for finding faults).)";

/// What is needed for what; an empty string if all is well.
std::string check(const RunOptions &o) {
  if (!o.exportCheckpoint.empty())
    return o.weights.empty() ? "--export-checkpoint needs --weights, with which its run began"
           : o.save.empty()  ? "--export-checkpoint needs --save FOLDER"
                             : "";
  if (o.program.empty())
    return "the program's directory is required, which omnibal-compile makes";
  if (!o.loads.empty() && !o.print)
    return "--loads goes with --print";
  if (o.print)
    return "";
  if (!o.showSample.empty())
    return o.data.empty() ? "--show-sample needs --data: shards (.tar) or folders with them" : "";
  if (!o.calibrate.empty())
    return o.evaluate || !o.forward.empty()
               ? "--calibrate measures only; leave out --evaluate and --forward"
               : "";
  if (o.weights.empty())
    return "--weights is required (a .safetensors file or a folder with the model's weights)";
  if (o.evaluate && !o.forward.empty())
    return "--evaluate and --forward exclude each other";
  if (!o.forward.empty())
    return o.output.empty() ? "--forward needs -o OUTPUTS.safetensors" : "";
  if (o.data.empty())
    return "--data is required: WebDataset shards (.tar) or folders with them";
  if (o.evaluate)
    return "";
  if (o.stepsFile.empty() == o.batches.empty())
    return "training needs either --steps-file or --batches";
  if (std::string problem = problemOf(o.rate); !problem.empty())
    return problem;
  if ((o.evaluateEvery > 0) != !o.evaluateData.empty())
    return o.evaluateEvery > 0 ? "--evaluate-every needs --evaluate-data, what to evaluate with"
                               : "--evaluate-data needs --evaluate-every, how often to evaluate";
  if (o.keepBest && (o.evaluateEvery == 0 || o.checkpoint.empty()))
    return "--keep-best needs --evaluate-every, which finds the best, and --checkpoint FOLDER";
  if (o.earlyStop > 0 && o.evaluateEvery == 0)
    return "--early-stop needs --evaluate-every, whose losses it watches";
  if (o.mergeAdapters && o.save.empty())
    return "--merge-adapters needs --save FOLDER";
  if (o.checkpointEvery > 0 && o.checkpoint.empty())
    return "--checkpoint-every needs --checkpoint FOLDER";
  if (o.timeLimit > 0 && o.checkpoint.empty())
    return "--time-limit needs --checkpoint FOLDER, for what was trained until then";
  if (o.resumesIfPresent() && o.checkpoint.empty())
    return "--resume auto needs --checkpoint FOLDER, where it looks";
  return "";
}

const std::map<std::string, std::optional<StoredType>> saveTypes = {
    {"source", std::nullopt},
    {"float32", StoredType::F32},
    {"bfloat16", StoredType::BF16},
    {"float16", StoredType::F16},
};

constexpr int64_t manyBytes = int64_t{1} << 60;
constexpr int64_t manySteps = 1'000'000'000'000;
constexpr int64_t manyRuns = 1'000'000;
constexpr int64_t manyThreads = 1024;
constexpr int64_t manyTracedSteps = 100;
/// With a beta of 1 the first update divides zero by zero.
const double belowOne = std::nextafter(1.0, 0.0);

/// What differs for some parameters. Each flag may be given several times.
void addGroupOptions(CLI::App &app, GroupOptions &groups) {
  auto add = [&](const std::string &flag, std::vector<GroupRule> &rules, bool whole,
                 const std::string &what) {
    app.add_option_function<std::vector<std::string>>(
           flag,
           [flag, whole, &rules](const std::vector<std::string> &texts) {
             for (const std::string &text : texts) {
               const Result<GroupRule> rule = parseGroupRule(flag, text);
               if (!rule)
                 throw CLI::ValidationError(rule.status().message());
               if (whole && (rule->value != std::floor(rule->value) || rule->value > manySteps))
                 throw CLI::ValidationError(flag + " " + text + ": no whole number of steps");
               rules.push_back(*rule);
             }
           },
           what)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
  };
  add("--lr-of", groups.rates, false,
      "PATTERN=LR: learning rate of the parameters that the pattern finds, a component (vision, "
      "projector, language) or a regular expression (POSIX extended) that is searched in names");
  add("--weight-decay-of", groups.decays, false,
      "PATTERN=DECAY: weight decay of those with at least two dimensions");
  add("--warmup-of", groups.warmups, true, "PATTERN=STEPS: their --warmup-steps");
  app.add_option("--layer-decay", groups.layerDecay,
                 "Learning rates of the vision tower fall by this factor with each layer from its "
                 "output to its input")
      ->check(number(0, true, 1));
}

} // namespace

bool parseCommandLine(int argc, char **argv, RunOptions &o, int &exitCode) {
  CLI::App app("omnibal-run: trains, evaluates or runs a program made by omnibal-compile");
  app.footer(example);
  // A flag given twice: the last one counts, as when a script adds to a fixed command.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version",
                       formats::versionText("omnibal-run", OMNIBAL_VERSION,
                                            {formats::program, formats::stepProgram,
                                             formats::modesProgram, formats::calibration,
                                             "checkpoint " + std::to_string(formats::checkpoint)}));
  app.set_config("--config", "", "TOML file that can hold any of these flags");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.add_option("program", o.program, "Program directory made by omnibal-compile");
  app.add_option("--weights", o.weights,
                 "Weights: a .safetensors file or a folder (sharded or not), in float32, bfloat16, "
                 "float16 or float64");
  app.add_option("--allow-links-within", o.linkRoot,
                 "Follow symbolic links of the --weights folder into this folder too (a snapshot "
                 "of the Hugging Face cache needs no such flag)")
      ->check(CLI::ExistingDirectory);
  app.add_option("--data", o.data, "WebDataset shards (.tar) or folders with them")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--preprocess", o.preprocess, "preprocessor_config.json of the model");
  app.add_option("--steps-file", o.stepsFile, "steps.jsonl: the groups of samples of every step");
  app.add_option("--batches", o.batches, "Folder written by omnibal-batch");
  app.add_option("--steps", o.steps,
                 "Steps to train, counted from the start of the run (default: the whole list once; "
                 "after it a steps file begins again, --batches goes on with new groups)")
      ->check(wholeNumber(1, manySteps));
  app.add_option("--lr", o.rate.peak, "Learning rate")->check(number(0))->capture_default_str();
  app.add_option("--schedule-lr", o.rate.schedule,
                 "Learning rate after the warm-up: constant; linear, cosine or polynomial decay to "
                 "the last step; several cosines (cosine-restarts); or constant with a decay over "
                 "the last steps (wsd)")
      ->transform(CLI::CheckedTransformer(learningRateSchedules()))
      ->default_str("constant");
  app.add_option("--decay-steps", o.rate.decaySteps, "Steps of the decay at the end (wsd)")
      ->check(wholeNumber(1, manySteps));
  app.add_option("--decay-shape", o.rate.decayShape,
                 "The decay at the end (wsd): linear, cosine or 1-sqrt (default: cosine)")
      ->transform(CLI::CheckedTransformer(decayShapes()));
  app.add_option("--lr-cycles", o.rate.cycles, "Cosines in a row (cosine-restarts; default: 1)")
      ->check(wholeNumber(1, manySteps));
  app.add_option("--lr-power", o.rate.power,
                 "Power of what is left of the run (polynomial; default: 1)")
      ->check(number(0, true));
  app.add_option("--warmup-steps", o.rate.warmupSteps,
                 "Steps of linear warm-up: step s (from 0) runs at (s + 1) / warm-up")
      ->check(wholeNumber(0, manySteps))
      ->capture_default_str();
  app.add_option("--min-lr-ratio", o.rate.leastRatio, "The schedule's end as a part of --lr")
      ->check(number(0, false, 1))
      ->capture_default_str();
  app.add_option(
         "--loss-normalizer", o.lossNormalizer,
         "What the sum of a step's losses is divided by: its label tokens (step), those of "
         "a step of the epoch on average (epoch), or on each data-parallel rank its samples "
         "x the step's label tokens a sample, and then a mean over ranks (samples)")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, LossNormalizer>{{"step", LossNormalizer::Step},
                                                {"epoch", LossNormalizer::Epoch},
                                                {"samples", LossNormalizer::Samples}}))
      ->default_str("step");
  app.add_option("--beta1", o.adamW.beta1, "AdamW")
      ->check(number(0, false, belowOne))
      ->capture_default_str();
  app.add_option("--beta2", o.adamW.beta2, "AdamW")
      ->check(number(0, false, belowOne))
      ->capture_default_str();
  app.add_option("--eps", o.adamW.epsilon, "AdamW")->check(number(0, true))->capture_default_str();
  app.add_option("--weight-decay", o.weightDecay,
                 "AdamW, decoupled, on parameters with at least two dimensions")
      ->check(number(0))
      ->capture_default_str();
  addGroupOptions(app, o.groups);
  app.add_option("--clip", o.clip, "Largest global gradient norm; 0 = no clipping")
      ->check(number(0))
      ->capture_default_str();
  app.add_option("--accumulate", o.accumulate,
                 "Steps of the list whose gradients are summed before an update; --steps and the "
                 "schedule count updates")
      ->check(wholeNumber(1, manyRuns))
      ->capture_default_str();
  app.add_option("--log", o.log,
                 "JSON lines, one a step (truncated at the start, appended on --resume)");
  app.add_option("--tensorboard", o.tensorboard,
                 "Folder that gets an event file with the numbers of every step of training, for "
                 "TensorBoard (a new file at every start)");
  app.add_option("--trace", o.trace,
                 "Chrome trace of one step (the third, or the last of fewer), for Perfetto");
  app.add_option("--trace-steps", o.traceSteps,
                 "Steps in a row that --trace records, from the third on; a traced step is slower, "
                 "as every kernel is timed by itself")
      ->check(wholeNumber(1, manyTracedSteps))
      ->capture_default_str();
  app.add_option("--peak-tflops", o.peakTflops,
                 "Dense TFLOP/s of a device, for the share of it that is used (default: by the "
                 "device's name where that is known)")
      ->check(number(0, true));
  app.add_option(
      "--save", o.save,
      "Folder for the trained weights, loadable by Transformers, or for trained adapters, loadable "
      "by PEFT");
  app.add_option_function<std::string>(
         "--save-dtype", [&o](const std::string &name) { o.saveType = saveTypes.at(name); },
         "Numbers that --save writes: as the source has each tensor (what was frozen is then "
         "copied "
         "byte by byte), or all in one type, rounded to nearest even")
      ->check(CLI::IsMember(saveTypes))
      ->default_str("source");
  app.add_option("--adapter", o.adapter,
                 "Folder of adapters, as PEFT writes it, whose values a program with adapters "
                 "begins with (default: fresh ones, which leave the model as it is)");
  app.add_option("--seed", o.seed, "Seed of fresh adapters")->capture_default_str();
  app.add_flag("--merge-adapters", o.mergeAdapters,
               "Let --save write the whole model with its adapters added to the weights, in place "
               "of a folder of adapters");
  app.add_option(
         "--shard-bytes", o.shardBytes,
         "Weights of more bytes are saved in several files of at most so many, and an index")
      ->check(wholeNumber(1, manyBytes))
      ->capture_default_str();
  app.add_flag("--overwrite", o.overwrite,
               "Let --save replace the weights that --weights reads, and --checkpoint the "
               "checkpoints of another run");
  app.add_option("--save-gradients", o.saveGradients,
                 "Gradients of the first step's mean loss, before clipping (.safetensors)");
  app.add_option("--threads", o.threads,
                 "Compute threads a rank (default: cores / ranks on this machine)")
      ->check(wholeNumber(1, manyThreads));
  app.add_option("--loader-threads", o.loaderThreads,
                 "Threads of a rank that read samples and decode pictures ahead of training "
                 "(default: half of --threads where the rank reads pictures, else one)")
      ->check(wholeNumber(1, manyThreads));
  app.add_option("--checkpoint", o.checkpoint,
                 "Folder for checkpoints; one is written at the end too");
  auto *bySteps = app.add_option("--checkpoint-every", o.checkpointEvery,
                                 "Steps between checkpoints (default: by time)")
                      ->check(wholeNumber(1, manySteps));
  app.add_option("--checkpoint-minutes", o.checkpointMinutes,
                 "Minutes between checkpoints; 0 = only at the end")
      ->check(number(0))
      ->capture_default_str()
      ->excludes(bySteps);
  app.add_option("--checkpoint-buffer", o.checkpointBuffer,
                 "Memory of a rank, in bytes, for the copy that a checkpoint is written from while "
                 "training goes on; 0: training waits (default: up to half of the memory that is "
                 "free)")
      ->check(wholeNumber(0, manyBytes));
  app.add_option("--keep", o.keepCheckpoints, "Newest checkpoints that stay on the disk")
      ->check(wholeNumber(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--keep-every", o.keepEvery,
                 "Checkpoints of every so many steps stay too, whatever their age")
      ->check(wholeNumber(1, manySteps));
  app.add_option("--time-limit", o.timeLimit,
                 "Seconds that the run may take: it ends with a checkpoint before them (exit code "
                 "75, as after SIGTERM, SIGINT or SIGUSR1)")
      ->check(number(0, true));
  app.add_option("--skip-bad-samples", o.skipBadSamples,
                 "Samples that may be left out because they cannot be read; each is named, and in "
                 "the log of its step")
      ->check(wholeNumber(0, manySteps))
      ->capture_default_str();
  app.add_option("--skip-nonfinite", o.skipNonfinite,
                 "Steps in a row that may be skipped because their loss or gradient norm is not a "
                 "finite number; each is named, and in the log")
      ->check(wholeNumber(0, manySteps))
      ->capture_default_str();
  app.add_option("--resume", o.resume,
                 "Folder of checkpoints (or one step's) to continue from, bit by bit; auto: from "
                 "the newest one in --checkpoint if there is one, else from the start");
  app.add_flag("--evaluate", o.evaluate,
               "Loss, token accuracy and share of answers entirely right");
  app.add_option("--evaluate-every", o.evaluateEvery,
                 "Training: evaluate with --evaluate-data after every so many steps and after the "
                 "last one; training itself is as without")
      ->check(wholeNumber(1, manySteps));
  app.add_option("--evaluate-data", o.evaluateData,
                 "WebDataset shards (.tar) or folders with them, for --evaluate-every; results are "
                 "told for each folder too")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--keep-best", o.keepBest,
               "Keep the checkpoint with the lowest loss of --evaluate-every too, whose name the "
               "file `best` in --checkpoint holds");
  app.add_option("--early-stop", o.earlyStop,
                 "End the run, as after its last step, when so many evaluations in a row had no "
                 "lower loss than the best one before")
      ->check(wholeNumber(1, manySteps));
  app.add_option("--forward", o.forward, "Run the graph on the inputs in this .safetensors file");
  app.add_option(
      "-o,--output", o.output,
      "Where --forward writes the outputs (.safetensors), and --show-sample the pictures "
      "(a folder)");
  app.add_option("--calibrate", o.calibrate,
                 "Measure the program's layer functions and messages on this machine and write the "
                 "table for omnibal-compile --calibration. Needs neither --weights nor --data; "
                 "with --data the share of tokens with labels is taken from there");
  app.add_option(
      "--export-checkpoint", o.exportCheckpoint,
      "Write a checkpoint (a folder of them, or one step's) as the model's folder --save; "
      "needs --weights, as its run, and no program");
  app.add_flag("--print", o.print, "Print the program: actions, kernel calls, parameters, memory");
  app.add_option(
      "--loads", o.loads,
      "With --print: print the plans of these steps in place of the program, which plans "
      "every step (--schedule per-step); lines as for omnibal-plan --steps");
  app.add_option("--show-sample", o.showSample,
                 "Print what the program reads of the sample of this key in --data: its tokens, "
                 "which of them have a label, and its pictures; nothing is run");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    exitCode = app.exit(error) == 0 ? 0 : 2;
    return false;
  }
  if (std::string problem = check(o); !problem.empty()) {
    std::cerr << "omnibal-run: " << problem << "\nRun with --help for more information.\n";
    exitCode = 2;
    return false;
  }
  return true;
}

} // namespace omnibal::rt
