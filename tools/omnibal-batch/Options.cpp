#include "tools/omnibal-batch/Options.h"
#include "runtime/batching/io/BatchesFolder.h"
#include "tools/NumberChecks.h"
#include "tools/WordChecks.h"
#include "tools/config/CommandLine.h"
#include <CLI/CLI.hpp>
#include <charconv>

namespace omnibal::rt {
namespace {

constexpr const char *example = R"(Examples:
  Groups of at most 9 tiles and 4096 tokens for 8 data-parallel ranks:
    omnibal-batch lengths.csv --tiles 9 --tokens 4096 --ranks 8 --seed 1 -o batches/
  The same from shards, with a page of pictures and the statistics as JSON:
    omnibal-batch shards/ --tiles 9 --tokens 4096 --ranks 8 -o batches/ --report batches.html --json
  Three quarters of each epoch from one data set, the rest from another; caps chosen:
    omnibal-batch --mix a.csv=3 b.csv=1 --auto --samples-per-step 256 --memory-limit-bytes 3e10 \
        --cost cost.json --ranks 8 -o batches/
  Lengths that never end, 65536 samples at a time:
    make_lengths | omnibal-batch - --window 65536 --tiles 9 --tokens 4096 --ranks 8

lengths.csv has a header with vit_num,token_num (tiles and tokens of a sample), perhaps with
vit_square_sum (sum over its pictures of their squared numbers of units; other columns are ignored),
and a line a sample; the first is sample 0. batches/ holds samples.npy (sample numbers, group after
group), groups.npy (offsets into it), lengths.npy, perhaps squares.npy, and batches.json. Groups
k * ranks to k * ranks + ranks - 1 run at the same time, one on each rank.)";

constexpr int64_t largestCap = int64_t(1) << 40;
constexpr int64_t mostStages = 1 << 20;

/// What --auto needs and excludes.
std::string checkAuto(const ToolOptions &o) {
  bool caps = o.batching.tilesCap > 0 || o.batching.tokensCap > 0;
  bool targets = o.samplesPerStep > 0 || o.tokensPerStep > 0;
  if (o.autoCaps && caps)
    return "--auto chooses the caps; --tiles and --tokens are for caps of your own";
  if (o.autoCaps && (o.samplesPerStep > 0) == (o.tokensPerStep > 0))
    return "--auto needs either --samples-per-step or --tokens-per-step, of all ranks together";
  if (!o.autoCaps && (targets || o.memoryLimitBytes > 0))
    return "--memory-limit-bytes, --samples-per-step and --tokens-per-step are for --auto";
  if (!o.autoCaps && (o.batching.tilesCap == 0 || o.batching.tokensCap == 0))
    return "--tiles and --tokens are required: the most tiles and tokens of a group (or --auto)";
  return "";
}

/// What --length-groups excludes, and what is for it alone.
std::string checkLengthGroups(const ToolOptions &o) {
  if (o.lengthGroups.empty())
    return o.hbp                   ? "--method hbp is for --length-groups"
           : o.curriculumSteps > 0 ? "--curriculum is for --length-groups"
                                   : "";
  if (o.autoCaps || o.batching.tilesCap > 0 || o.batching.tokensCap > 0)
    return "--length-groups has caps of its own; it excludes --tiles, --tokens and --auto";
  if (!o.mix.empty() || o.window > 0)
    return "--length-groups is for one table at once; it excludes --mix and --window";
  if (o.samplesPerStep > 0 || o.memoryLimitBytes > 0)
    return "--samples-per-step and --memory-limit-bytes are for --auto";
  if (o.batching.oversize != Oversize::Error)
    return "--length-groups leaves out no sample and has no groups over the caps; it excludes "
           "--oversize";
  if (o.batching.method != BatchMethod::Plan)
    return "--length-groups has the methods plan and hbp";
  return "";
}

/// W or W:J.
bool parseCurriculum(const std::string &text, ToolOptions &o) {
  size_t colon = std::min(text.find(':'), text.size());
  auto whole = [&](size_t begin, size_t end, auto &value) {
    auto [last, error] = std::from_chars(text.data() + begin, text.data() + end, value);
    return error == std::errc() && last == text.data() + end && value >= 1;
  };
  return whole(0, colon, o.curriculumSteps) &&
         (colon == text.size() || whole(colon + 1, text.size(), o.curriculumModes));
}

/// What is needed for what; an empty string if all is well.
std::string check(const ToolOptions &o) {
  if (o.inputs.empty() == o.mix.empty())
    return "either a table of lengths (or shards) or --mix is required";
  if (o.mix.empty() && (!o.mixAt.empty() || o.epochSamples > 0))
    return "--mix-at and --epoch-samples need --mix";
  if (o.window > 0 && (!o.mixAt.empty() || o.epochSamples > 0))
    return "--window has no epochs; it excludes --mix-at and --epoch-samples";
  if (std::string problem = checkLengthGroups(o); !problem.empty())
    return problem;
  if (std::string problem = o.lengthGroups.empty() ? checkAuto(o) : ""; !problem.empty())
    return problem;
  if (o.window > 0) {
    if (o.autoCaps || o.json || !o.output.empty() || !o.report.empty())
      return "--window prints steps as they come; it excludes --auto, --json, --report and -o";
    return "";
  }
  if (o.output.empty() && !o.json && o.report.empty())
    return "-o FOLDER is required (or --json or --report, to see the statistics only)";
  return "";
}

void addLengthGroupFlags(CLI::App &app, ToolOptions &o, std::string &curriculum) {
  app.add_option("--length-groups", o.lengthGroups,
                 "Several training modes: a file of candidates, or tokens:degree,... as in "
                 "4096,32768:4 with --cost, --ranks and --tokens-per-step");
  app.add_option("--max-groups", o.maxGroups, "For --length-groups: most groups to choose")
      ->check(wholeNumber(1, 16))
      ->capture_default_str();
  app.add_option("--min-gain", o.minGain,
                 "For --length-groups: one more group must save this share")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option(
      "--curriculum", curriculum,
      "For --length-groups: STEPS[:MODES], the first steps of epoch 0 are of the shortest "
      "modes (1)");
}

} // namespace

bool parseCommandLine(int argc, char **argv, ToolOptions &o, int &exitCode) {
  CLI::App app("omnibal-batch: sample lengths in, groups of equal load for every rank and step out",
               "omnibal-batch");
  app.footer(example);
  // A flag given twice: the last one counts, as when a script adds to a fixed command.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version", "omnibal-batch " OMNIBAL_VERSION);
  config::addConfigOptions(app);
  BatchOptions &b = o.batching;
  app.add_option("lengths", o.inputs,
                 "Table of lengths (.csv), or WebDataset shards (.tar) or folders with them")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option(
         "--mix", o.mix,
         "FILE=WEIGHT ...: several data sets instead of one; each has its weight's share of "
         "an epoch, which has as many samples as they have together. Samples are numbered "
         "in one go, in this order")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--mix-at", o.mixAt,
                 "EPOCH=WEIGHT,WEIGHT,... ...: with --mix, weights of its data sets, in its order, "
                 "from an epoch on")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--epoch-samples", o.epochSamples,
                 "With --mix: samples of an epoch (default: as many as the data sets have "
                 "together)")
      ->check(wholeNumber(1, int64_t{1} << 40));
  app.add_option("--preprocess", o.preprocess,
                 "preprocessor_config.json of a model of dynamic resolution: tiles are then the "
                 "pictures' units of merge_size x merge_size patches, which become one token each; "
                 "or that of shards which hold pictures as they are, which says how they are cut");
  app.add_option("--tiles", b.tilesCap, "Most tiles of a group")->check(wholeNumber(1, largestCap));
  app.add_option("--tokens", b.tokensCap, "Most tokens of a group")
      ->check(wholeNumber(1, largestCap));
  CLI::Option *ranks =
      app.add_option("--ranks", b.ranks, "Data-parallel ranks (with --length-groups: replicas)")
          ->check(wholeNumber(1, mostStages))
          ->capture_default_str();
  app.add_option("--seed", b.seed, "Groups are a function of lengths, flags, seed and epoch")
      ->check(wholeNumber(0, INT64_MAX))
      ->capture_default_str();
  app.add_option("--epoch", b.epoch, "Each epoch has its own composition")
      ->check(wholeNumber(0, largestEpoch))
      ->capture_default_str();
  std::string curriculum, method = name(b.method), oversize = name(b.oversize);
  app.add_option("--method", method,
                 "plan: patterns of a linear program, rows of equal sums; the others to compare "
                 "(hbp with --length-groups)")
      ->check(word({"plan", "isf", "random", "sorted", "hbp"}))
      ->capture_default_str();
  app.add_option("--oversize", oversize,
                 "Samples over a cap: error names them, own-group gives each a group to itself, "
                 "skip leaves them out")
      ->check(word({"error", "own-group", "skip"}))
      ->capture_default_str();
  app.add_option(
      "--cost", o.cost,
      "JSON file {\"tile_ns\": .., \"token_ns\": .., \"square_ns\": .., \"tile_square_ns\": ..}: "
      "balance what groups cost (a tile, a token, a squared token length of a sample, a squared "
      "number of units of a picture), not only counts");
  app.add_flag("--auto", o.autoCaps,
               "Choose the caps by predicted step time, with the figures of --cost, and say why");
  app.add_option("--memory-limit-bytes", o.memoryLimitBytes,
                 "For --auto: memory of a rank in bytes, as 3e10 or in digits (default: no limit)")
      ->type_name("BYTES")
      ->transform(byteCount());
  app.add_option("--samples-per-step", o.samplesPerStep,
                 "For --auto: samples of a step, all ranks together")
      ->check(wholeNumber(1, largestCap));
  app.add_option("--tokens-per-step", o.tokensPerStep,
                 "For --auto and --length-groups: tokens of a step, all ranks together")
      ->check(wholeNumber(1, largestCap));
  app.add_option(
         "--window", o.window,
         "Balance so many samples at a time and print each step as a line "
         "{\"groups\": [[sample, ..], ..]} at once: for tables that never end (a pipe; - is "
         "the standard input)")
      ->check(wholeNumber(1, (int64_t(1) << 31) - 1));
  app.add_option("-o,--output", o.output, "Folder for the batches");
  app.add_option("--report", o.report, "Page with pictures of the balance (.html)");
  app.add_flag("--json", o.json, "Print batches.json's object instead of the table");
  addLengthGroupFlags(app, o, curriculum);
  if (!config::parseCommandLine(app, argc, argv, exitCode))
    return false;
  o.ranksGiven = ranks->count() > 0;
  o.hbp = method == "hbp";
  b.method = o.hbp ? BatchMethod::Plan : *batchMethodNamed(method);
  b.oversize = *oversizeNamed(oversize);
  std::string problem = !curriculum.empty() && !parseCurriculum(curriculum, o)
                            ? "--curriculum " + curriculum + ": steps, or steps:modes, are expected"
                            : check(o);
  if (!problem.empty())
    return config::refuse(app, problem, exitCode);
  return true;
}

} // namespace omnibal::rt
