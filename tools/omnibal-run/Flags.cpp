#include "tools/omnibal-run/Flags.h"
#include "tools/NumberChecks.h"
#include "tools/WordChecks.h"
#include <cmath>

namespace omnibal::rt {
namespace {

const std::map<std::string, std::optional<StoredType>> saveTypes = {
    {"source", std::nullopt},
    {"float32", StoredType::F32},
    {"bfloat16", StoredType::BF16},
    {"float16", StoredType::F16},
};

const std::map<std::string, LossNormalizer> lossNormalizers = {
    {"step", LossNormalizer::Step},
    {"epoch", LossNormalizer::Epoch},
    {"samples", LossNormalizer::Samples},
};

constexpr int64_t manyBytes = int64_t{1} << 60;
constexpr int64_t manySteps = 1'000'000'000'000;
constexpr int64_t manyRuns = 1'000'000;
constexpr int64_t manyThreads = 1024, manyStepsAhead = 1024;
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

// A function each for what --help lists together.

void describeData(CLI::App &app, RunOptions &o) {
  app.option_defaults()->group("Program and data");
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
  app.add_option_function<std::vector<std::string>>(
         "--mix-at",
         [&o](const std::vector<std::string> &texts) {
           for (const std::string &text : texts) {
             Result<WeightsFrom> from = parseMixAt(text, "STEP");
             if (!from)
               throw CLI::ValidationError(from.status().message());
             o.mixAt.push_back(*std::move(from));
           }
         },
         "STEP=WEIGHT,WEIGHT,... ...: with the --batches of a mix of data sets, other weights of "
         "these, in the mix's order, from a step on (counted from 1 as on the terminal)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--reference", o.reference,
                 "Of a program that learns from pairs of answers: the file with their "
                 "log-probabilities by the weights that training begins with, which training makes "
                 "if it is not there");
  app.add_option("--skip-bad-samples", o.skipBadSamples,
                 "Samples that may be left out because they cannot be read; each is named, and in "
                 "the log of its step")
      ->check(wholeNumber(0, manySteps))
      ->capture_default_str();
}

void describeRate(CLI::App &app, RunOptions &o) {
  app.option_defaults()->group("Steps and learning rate");
  app.add_option("--steps", o.steps,
                 "Steps to train, counted from the start of the run (default: the whole list once; "
                 "after it a steps file begins again, --batches goes on with new groups)")
      ->check(wholeNumber(1, manySteps));
  app.add_option("--accumulate", o.accumulate,
                 "Steps of the list whose gradients are summed before an update; --steps and the "
                 "schedule count updates")
      ->check(wholeNumber(1, manyRuns))
      ->capture_default_str();
  app.add_option("--lr", o.rate.peak, "Learning rate")->check(number(0))->capture_default_str();
  addChoice(app, "--schedule-lr", o.rate.schedule, learningRateSchedules(),
            "Learning rate after the warm-up: constant; linear, cosine or polynomial decay to "
            "the last step; several cosines (cosine-restarts); or constant with a decay over "
            "the last steps (wsd)")
      ->default_str("constant");
  app.add_option("--warmup-steps", o.rate.warmupSteps,
                 "Steps of linear warm-up: step s (from 0) runs at (s + 1) / warm-up")
      ->check(wholeNumber(0, manySteps))
      ->capture_default_str();
  app.add_option("--min-lr-ratio", o.rate.leastRatio, "The schedule's end as a part of --lr")
      ->check(number(0, false, 1))
      ->capture_default_str();
  app.add_option("--decay-steps", o.rate.decaySteps, "Steps of the decay at the end (wsd)")
      ->check(wholeNumber(1, manySteps));
  addChoice(app, "--decay-shape", o.rate.decayShape, decayShapes(),
            "The decay at the end (wsd; default: cosine)");
  app.add_option("--lr-cycles", o.rate.cycles, "Cosines in a row (cosine-restarts; default: 1)")
      ->check(wholeNumber(1, manySteps));
  app.add_option("--lr-power", o.rate.power,
                 "Power of what is left of the run (polynomial; default: 1)")
      ->check(number(0, true));
}

void describeOptimizer(CLI::App &app, RunOptions &o) {
  app.option_defaults()->group("Losses and optimizer");
  addChoice(app, "--loss-normalizer", o.lossNormalizer, lossNormalizers,
            "What the sum of a step's losses is divided by: its label tokens (step), those of "
            "a step of the epoch on average (epoch), or on each data-parallel rank its samples "
            "x the step's label tokens a sample, and then a mean over ranks (samples)")
      ->default_str("step");
  app.add_option("--beta1", o.update.beta1, "Of AdamW (of 8 bits too), Muon and Lion (default 0.9)")
      ->check(number(0, false, belowOne));
  app.add_option("--beta2", o.update.beta2, "Of AdamW and Muon (default 0.999), and Lion (0.99)")
      ->check(number(0, false, belowOne));
  app.add_option("--eps", o.update.epsilon,
                 "Of AdamW and Muon (default 1e-08), and Adafactor (1.1920929e-07)")
      ->check(number(0, true));
  app.add_option("--beta2-decay", o.update.beta2Decay,
                 "Of Adafactor: at step t variances keep 1 - t^D of what they were (default -0.8)")
      ->check(number(-10, false, 0));
  app.add_option("--eps2", o.update.epsilon2,
                 "Of Adafactor: the least root mean square of a parameter that its steps are "
                 "relative to (default 0.001)")
      ->check(number(0));
  app.add_option("--update-clip", o.update.updateClip,
                 "Of Adafactor: the largest root mean square of a parameter's update, before its "
                 "rate (default 1)")
      ->check(number(1));
  app.add_option("--momentum", o.update.momentum, "Of SGD (default 0.9) and Muon (0.95)")
      ->check(number(0, false, belowOne));
  app.add_flag("--nesterov", o.update.nesterov, "SGD with Nesterov's momentum");
  app.add_option(
         "--ema-decay", o.update.averageDecay,
         "Of the moving averages that a program of omnibal-compile --ema keeps: after every "
         "update, average = decay x average + (1 - decay) x value (default 0.999)")
      ->check(number(0, false, belowOne));
  app.add_option(
         "--weight-decay", o.weightDecay,
         "On parameters with at least two dimensions; decoupled from the gradient but in SGD")
      ->check(number(0))
      ->capture_default_str();
  app.add_option("--clip", o.clip, "Largest global gradient norm; 0 = no clipping")
      ->check(number(0))
      ->capture_default_str();
  app.add_option("--skip-nonfinite", o.skipNonfinite,
                 "Steps in a row that may be skipped because their loss or gradient norm is not a "
                 "finite number; each is named, and in the log")
      ->check(wholeNumber(0, manySteps))
      ->capture_default_str();
}

void describeGroups(CLI::App &app, RunOptions &o) {
  app.option_defaults()->group("Parts that learn at other rates");
  addGroupOptions(app, o.groups);
}

void describeAdapters(CLI::App &app, RunOptions &o) {
  app.option_defaults()->group("Adapters");
  app.add_option("--adapter", o.adapter,
                 "Folder of adapters, as PEFT writes it, whose values a program with adapters "
                 "begins with (default: fresh ones, which leave the model as it is)");
  app.add_option("--seed", o.seed, "Seed of fresh adapters, dropout and noise")
      ->check(wholeNumberOf64Bits())
      ->capture_default_str();
  app.add_flag("--merge-adapters", o.mergeAdapters,
               "Let --save and --save-ema write the whole model with its adapters added to the "
               "weights, in place "
               "of a folder of adapters");
}

void describeCheckpoints(CLI::App &app, RunOptions &o) {
  app.option_defaults()->group("Checkpoints and stops");
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
  app.add_option("--resume", o.resume,
                 "Folder of checkpoints (or one step's) to continue from, bit by bit; auto: from "
                 "the newest one in --checkpoint if there is one, else from the start");
  app.add_flag(
      "--overwrite", o.overwrite,
      "Let --save and --save-ema replace the weights that --weights reads, and --checkpoint the "
      "checkpoints of another run");
  app.add_option("--time-limit", o.timeLimit,
                 "Seconds that the run may take: it ends with a checkpoint before them (exit code "
                 "75, as after SIGTERM, SIGINT or SIGUSR1)")
      ->check(number(0, true));
}

void describeEvaluation(CLI::App &app, RunOptions &o) {
  app.option_defaults()->group("Evaluation while training");
  app.add_option("--evaluate-every", o.evaluateEvery,
                 "Training: evaluate with --evaluate-data after every so many steps and after the "
                 "last one; training itself is as without")
      ->check(wholeNumber(1, manySteps));
  app.add_option("--evaluate-data", o.evaluateData,
                 "WebDataset shards (.tar) or folders with them, for --evaluate-every; results are "
                 "told for each folder too")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option(
         "--sample-every", o.sampleEvery,
         "Training: let the model answer a few prompts of --evaluate-data, or else of --data, "
         "after every so many steps and after the last one")
      ->check(wholeNumber(1, manySteps));
  app.add_option("--sample-count", o.sampleCount, "How many prompts --sample-every takes")
      ->check(wholeNumber(1, 1024))
      ->capture_default_str();
  app.add_option("--sample-tokens", o.sampleTokens, "The most tokens of an answer")
      ->check(wholeNumber(1, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--evaluate-reference", o.evaluateReference,
                 "What --reference is, for the pairs of --evaluate-data");
  app.add_flag("--evaluate-ema", o.evaluateAverages,
               "Evaluate the moving averages of what trains (omnibal-compile --ema)");
  app.add_flag("--keep-best", o.keepBest,
               "Keep the checkpoint with the lowest loss of --evaluate-every too, whose name the "
               "file `best` in --checkpoint holds");
  app.add_option("--early-stop", o.earlyStop,
                 "End the run, as after its last step, when so many evaluations in a row had no "
                 "lower loss than the best one before")
      ->check(wholeNumber(1, manySteps));
}

void describeSaved(CLI::App &app, RunOptions &o) {
  app.option_defaults()->group("Trained weights");
  app.add_option(
      "--save", o.save,
      "Folder for the trained weights, loadable by Transformers, or for trained adapters, loadable "
      "by PEFT");
  app.add_option("--save-ema", o.saveAverages,
                 "Folder for the same with the moving averages of what was trained "
                 "(omnibal-compile --ema)");
  addChoice(app, "--save-dtype", o.saveType, saveTypes,
            "Numbers that --save and --save-ema write: as the source has each tensor (what was "
            "frozen is then "
            "copied byte by byte), or all in one type, rounded to nearest even")
      ->default_str("source");
  app.add_option(
         "--shard-bytes", o.shardBytes,
         "Weights of more bytes are saved in several files of at most so many, and an index")
      ->check(wholeNumber(1, manyBytes))
      ->capture_default_str();
  app.add_option("--save-gradients", o.saveGradients,
                 "Gradients of the first step's mean loss, before clipping (.safetensors)");
}

void describeLogs(CLI::App &app, RunOptions &o) {
  app.option_defaults()->group("Logs and traces");
  app.add_option("--log", o.log,
                 "JSON lines, one a step (truncated at the start, appended on --resume)");
  app.add_flag(
      "--part-norms", o.partNorms,
      "Log the gradient norms of the model's parts (vision, projector, language) too, which "
      "takes one more look at all gradients");
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
  app.add_option(
      "--profile", o.profile,
      "Folder for traces of single steps: those of --profile-at, and while the run goes on "
      "the next step after SIGUSR2 or after a file `request` was made in the folder");
  app.add_option("--profile-at", o.profileAt,
                 "With --profile: steps to record, counted from 1 as on the terminal")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(wholeNumber(1, manySteps));
  app.add_option("--heartbeat", o.heartbeat,
                 "File that says step, time and phase of the run (JSON), replaced at every step");
  app.add_option(
      "--prometheus", o.prometheus,
      "File with the numbers of the newest step, replaced at every step, for the textfile "
      "collector of Prometheus' node exporter (.prom)");
  app.add_option("--peak-tflops", o.peakTflops,
                 "Dense TFLOP/s of a device, for the share of it that is used (default: by the "
                 "device's name where that is known)")
      ->check(number(0, true));
}

void describeThreads(CLI::App &app, RunOptions &o) {
  app.option_defaults()->group("Threads");
  app.add_option("--threads", o.threads,
                 "Compute threads a rank (default: cores / ranks on this machine)")
      ->check(wholeNumber(1, manyThreads));
  app.add_option("--loader-threads", o.loaderThreads,
                 "Threads of a rank that read samples and decode pictures ahead of training "
                 "(default: half of --threads where the rank reads pictures, else one)")
      ->check(wholeNumber(1, manyThreads));
  app.add_option("--loader-steps-ahead", o.loaderStepsAhead,
                 "Steps behind the one at work whose samples a rank reads and whose pictures it "
                 "decodes (default: two, with up to 256 tiles of theirs)")
      ->check(wholeNumber(0, manyStepsAhead));
}

void describeOtherWork(CLI::App &app, RunOptions &o) {
  app.option_defaults()->group("In place of training");
  app.add_flag("--evaluate", o.evaluate,
               "Loss, token accuracy and share of answers entirely right");
  app.add_flag("--find-references", o.findReferences,
               "Make the file of --reference, as training does before its first step, or look "
               "whether it is there and right");
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
      "Write a checkpoint (a folder of them, or one step's) as the model's folder --save, and "
      "its moving averages as --save-ema; "
      "needs --weights, as its run, and no program");
  app.add_flag("--print", o.print, "Print the program: actions, kernel calls, parameters, memory");
  app.add_option(
      "--loads", o.loads,
      "With --print: print the plans of these steps in place of the program, which plans "
      "every step (--schedule per-step); lines as for omnibal-plan --steps");
  app.add_option("--show-sample", o.showSample,
                 "Print what the program reads of the sample of this key in --data: its tokens, "
                 "which of them have a label, and its pictures; nothing is run");
}

} // namespace

void describeFlags(CLI::App &app, RunOptions &o) {
  describeData(app, o);
  describeRate(app, o);
  describeOptimizer(app, o);
  describeGroups(app, o);
  describeAdapters(app, o);
  describeCheckpoints(app, o);
  describeEvaluation(app, o);
  describeSaved(app, o);
  describeLogs(app, o);
  describeThreads(app, o);
  describeOtherWork(app, o);
}

} // namespace omnibal::rt
