#include "tools/omnibal-run/Options.h"
#include "runtime/support/Formats.h"
#include "tools/config/CommandLine.h"
#include "tools/config/ConfigText.h"
#include "tools/omnibal-run/Flags.h"
#include <CLI/CLI.hpp>

namespace omnibal::rt {
namespace {

constexpr const char *example = R"(Examples:
  Train (all ranks as threads of this process):
    omnibal-run program/ --weights model.safetensors --data train-*.tar \
        --preprocess preprocessor_config.json --steps-file steps.jsonl --log run.jsonl --save out/
  With the options of a file, which may hold those of the other tools too (docs/running.md):
    omnibal-run --config omnibal.toml
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

/// Later weights begin later; an empty string if they do.
std::string orderProblem(const std::vector<WeightsFrom> &mixAt) {
  for (size_t i = 1; i < mixAt.size(); ++i)
    if (mixAt[i].first <= mixAt[i - 1].first)
      return "--mix-at: " + mixAtText(mixAt[i]) + " comes after " + mixAtText(mixAt[i - 1]) +
             "; give the steps in order, each once";
  return "";
}

/// What is needed for what; an empty string if all is well.
std::string check(const RunOptions &o) {
  if (!o.save.empty() && o.save == o.saveAverages)
    return "--save-ema: " + o.save + " is the folder of --save; choose another";
  if (!o.exportCheckpoint.empty())
    return o.weights.empty() ? "--export-checkpoint needs --weights, with which its run began"
           : !o.savesModel() ? "--export-checkpoint needs --save FOLDER or --save-ema FOLDER"
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
  if (o.evaluate + o.findReferences + !o.forward.empty() > 1)
    return "--evaluate, --find-references and --forward exclude each other";
  if (!o.forward.empty())
    return o.output.empty() ? "--forward needs -o OUTPUTS.safetensors" : "";
  if (o.data.empty())
    return "--data is required: WebDataset shards (.tar) or folders with them";
  if (o.findReferences && o.reference.empty())
    return "--find-references needs --reference FILE, which it makes";
  if (o.evaluate || o.findReferences)
    return "";
  if (o.stepsFile.empty() == o.batches.empty())
    return "training needs either --steps-file or --batches";
  if (std::string problem = orderProblem(o.mixAt); !problem.empty())
    return problem;
  if (!o.mixAt.empty() && o.batches.empty())
    return "--mix-at needs --batches with a folder that omnibal-batch made with --mix";
  if (std::string problem = problemOf(o.rate); !problem.empty())
    return problem;
  if ((o.evaluateEvery > 0) != !o.evaluateData.empty())
    return o.evaluateEvery > 0 ? "--evaluate-every needs --evaluate-data, what to evaluate with"
                               : "--evaluate-data needs --evaluate-every, how often to evaluate";
  if (o.keepBest && (o.evaluateEvery == 0 || o.checkpoint.empty()))
    return "--keep-best needs --evaluate-every, which finds the best, and --checkpoint FOLDER";
  if (o.earlyStop > 0 && o.evaluateEvery == 0)
    return "--early-stop needs --evaluate-every, whose losses it watches";
  if (!o.profileAt.empty() && o.profile.empty())
    return "--profile-at needs --profile FOLDER, for the traces";
  if (o.evaluateAverages && o.evaluateEvery == 0)
    return "--evaluate-ema needs --evaluate-every, how often to evaluate";
  if (o.mergeAdapters && !o.savesModel())
    return "--merge-adapters needs --save FOLDER or --save-ema FOLDER";
  if (o.checkpointEvery > 0 && o.checkpoint.empty())
    return "--checkpoint-every needs --checkpoint FOLDER";
  if (o.timeLimit > 0 && o.checkpoint.empty())
    return "--time-limit needs --checkpoint FOLDER, for what was trained until then";
  if (o.resumesIfPresent() && o.checkpoint.empty())
    return "--resume auto needs --checkpoint FOLDER, where it looks";
  return "";
}

} // namespace

bool parseCommandLine(int argc, char **argv, RunOptions &o, int &exitCode) {
  CLI::App app("omnibal-run: trains, evaluates or runs a program made by omnibal-compile",
               "omnibal-run");
  app.footer(example);
  // A flag given twice: the last one counts, as when a script adds to a fixed command.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag(
      "--version",
      formats::versionText("omnibal-run", OMNIBAL_VERSION,
                           {formats::program, formats::stepProgram, formats::modesProgram,
                            formats::calibration, formats::references,
                            "checkpoint " + std::to_string(formats::checkpoint)}));
  config::addConfigOptions(app);
  describeFlags(app, o);
  if (!config::parseCommandLine(app, argc, argv, exitCode))
    return false;
  if (std::string problem = check(o); !problem.empty())
    return config::refuse(app, problem, exitCode);
  o.config = config::configText(app);
  return true;
}

} // namespace omnibal::rt
