//===- main.cpp - omnibal-batch: groups of equal load for every rank and step ---------------===//
#include "runtime/batching/io/CheckBatches.h"
#include "runtime/batching/io/CostFile.h"
#include "runtime/support/AtomicFile.h"
#include "tools/omnibal-batch/Input.h"
#include "tools/omnibal-batch/LengthGroupsRun.h"
#include "tools/omnibal-batch/Options.h"
#include "tools/omnibal-batch/Report.h"
#include "tools/omnibal-batch/StreamSteps.h"
#include "tools/omnibal-batch/Summary.h"
#include "tools/report/Progress.h"
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace omnibal::rt {
namespace {

int fail(const Status &status) {
  std::cerr << "omnibal-batch: error: " << status.message() << std::endl;
  return 1;
}

/// The most memory the process has had. Linux counts in getrusage what it had before exec, too.
int64_t peakRssBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:"))
      return std::strtoll(line.c_str() + 6, nullptr, 10) * 1024;
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

/// Finds out before the work, not after it, that its result cannot be written.
Status checkOutputs(const ToolOptions &o) {
  std::error_code error;
  if (!o.output.empty()) {
    std::filesystem::create_directories(o.output, error);
    if (error || !std::filesystem::is_directory(o.output))
      return invalid("-o: " + o.output + " is no folder and cannot be made one" +
                     (error ? ": " + error.message() : "") + "; choose another");
    if (::access(o.output.c_str(), W_OK | X_OK))
      return invalid("-o: " + o.output + " is not writable; choose another folder");
  }
  if (!o.report.empty()) {
    std::string folder = std::filesystem::path(o.report).parent_path().string();
    if (std::filesystem::is_directory(o.report, error))
      return invalid("--report: " + o.report + " is a folder; a file name is expected");
    if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK))
      return invalid("--report: the folder of " + o.report + " does not exist or is not writable");
  }
  return Status::ok();
}

/// Seconds that packing takes, roughly, for the line of progress.
double expectedSeconds(BatchMethod method, int64_t samples) {
  double nanoseconds = method == BatchMethod::Isf ? 4000 : 150;
  return static_cast<double>(samples) * nanoseconds / 1e9;
}

/// Adds the input's name, and the flags that help.
Status explain(const Status &status, const SampleLengths &lengths, const ToolOptions &options) {
  const BatchOptions &o = options.batching;
  std::string input = options.inputs.empty() ? "--mix" : options.inputs[0];
  bool oversize = false;
  for (int64_t i = 0; i < lengths.size(); ++i)
    oversize |= lengths.tiles[i] > o.tilesCap || lengths.tokens[i] > o.tokensCap;
  std::string hint = oversize && o.oversize == Oversize::Error
                         ? " (--tiles, --tokens; --oversize own-group; --oversize skip)"
                         : "";
  return Status(status.code(), input + ": " + status.message() + hint);
}

/// The costs of --cost; for --auto without it, those of a reference model.
Result<CostFile> readCosts(const ToolOptions &options) {
  if (!options.cost.empty()) {
    OMNIBAL_ASSIGN_OR_RETURN(CostFile file, readCostFile(options.cost));
    if (options.memoryLimitBytes > 0 && !file.hasMemory)
      return invalid(options.cost + ": --memory-limit-bytes needs tile_bytes and token_bytes (and "
                                    "fixed_bytes) in this file");
    return file;
  }
  if (!options.autoCaps)
    return CostFile();
  std::cerr << "omnibal-batch: without --cost, --auto assumes a reference model of 0.3 billion "
               "parameters for pictures and 1.8 billion for language, and that the memory limit "
               "is one for activations\n";
  return referenceCosts();
}

/// Fills the caps of `batching`; returns what is said about the choice.
Result<nlohmann::ordered_json> chooseCaps(const ToolOptions &options, const SampleLengths &lengths,
                                          const CostFile &costs, BatchOptions &batching) {
  AutoCapsOptions question;
  question.memory = costs.memory;
  question.memory.limitBytes = options.memoryLimitBytes;
  question.step = costs.step;
  question.ranks = batching.ranks;
  question.samplesPerStep = options.samplesPerStep;
  question.tokensPerStep = options.tokensPerStep;
  question.seed = batching.seed;
  Progress progress("choosing caps", 3);
  OMNIBAL_ASSIGN_OR_RETURN(AutoCaps answer, rt::chooseCaps(lengths, question));
  batching.tilesCap = answer.chosen.tiles;
  batching.tokensCap = answer.chosen.tokens;
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  std::istringstream text(answer.explanation);
  for (std::string line; std::getline(text, line);)
    lines.push_back(line);
  return nlohmann::ordered_json{{"microbatches", answer.chosen.microbatches},
                                {"samples_per_step", answer.chosen.samplesPerStep},
                                {"step_ns", answer.chosen.stepNs},
                                {"memory_bytes", answer.chosen.bytes},
                                {"explanation", lines}};
}

/// Everything about one epoch, all samples at once.
class Epoch {
public:
  explicit Epoch(const ToolOptions &options) : options(options) {}

  Status run() {
    record.options = options.batching;
    OMNIBAL_ASSIGN_OR_RETURN(CostFile costs, readCosts(options));
    if (!options.cost.empty())
      record.options.cost = costs.step.cost;
    OMNIBAL_RETURN_IF_ERROR(readInput());
    if (options.autoCaps) {
      OMNIBAL_ASSIGN_OR_RETURN(choice, chooseCaps(options, sampled(), costs, record.options));
    }
    OMNIBAL_RETURN_IF_ERROR(balanceSamples());
    record.after = statistics(sampled(), batches, record.options.ranks, record.options.cost);
    record.before = unbalancedStatistics(sampled(), batches, record.options.ranks,
                                         record.options.seed, record.options.cost);
    return write();
  }

private:
  /// The samples of the epoch.
  const SampleLengths &sampled() const { return record.mix.isSet() ? drawn.lengths : lengths; }

  Status readInput() {
    OMNIBAL_ASSIGN_OR_RETURN(std::vector<WeightedInput> mix, parseMix(options.mix));
    OMNIBAL_ASSIGN_OR_RETURN(ShardPictures pictures, readPictures());
    auto read = mix.empty() ? readLengths(options.inputs, pictures, record.options.cost)
                            : readMix(mix, pictures, record.options.cost, record.mix);
    OMNIBAL_RETURN_IF_ERROR(read.status());
    lengths = *std::move(read);
    if (record.mix.isSet()) {
      OMNIBAL_ASSIGN_OR_RETURN(std::vector<MixPhase> later, parseMixPhases(options.mixAt));
      record.mix.phases.insert(record.mix.phases.end(), later.begin(), later.end());
      if (options.epochSamples > 0)
        record.mix.samples = options.epochSamples;
      OMNIBAL_ASSIGN_OR_RETURN(
          drawn, drawEpoch(lengths, record.mix, record.options.seed, record.options.epoch));
    }
    record.samples = sampled().size();
    record.knowsPictures = lengths.knowsPictures();
    return Status::ok();
  }

  Result<ShardPictures> readPictures() const {
    OMNIBAL_ASSIGN_OR_RETURN(ShardPictures pictures, readShardPictures(options.preprocess));
    if (!options.preprocess.empty() && !pictures.grid && !pictures.transform)
      std::cerr << "omnibal-batch: " << options.preprocess
                << " has no merge_size: pictures have one size, and each counts as one tile\n";
    return pictures;
  }

  Status balanceSamples() {
    auto start = std::chrono::steady_clock::now();
    auto balanced = [&] {
      Progress progress("balancing " + std::to_string(record.samples) + " samples",
                        expectedSeconds(record.options.method, record.samples));
      return balance(sampled(), record.options);
    }();
    record.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    record.peakRssBytes = peakRssBytes();
    if (!balanced)
      return explain(std::move(balanced).status(), sampled(), options);
    batches = *std::move(balanced);
    return checkBatches(sampled(), record.options, batches);
  }

  Status write() {
    std::string table = summary(sampled(), batches, record);
    std::string notice = oversizeNotice(sampled(), batches, record.options);
    if (!options.report.empty())
      OMNIBAL_RETURN_IF_ERROR(
          writeFileAtomically(options.report, htmlReport(sampled(), batches, record)));
    if (record.mix.isSet())
      renumber(drawn, batches);
    nlohmann::ordered_json description = describe(record, batches);
    if (!choice.is_null())
      description["auto"] = choice;
    if (!options.output.empty())
      OMNIBAL_RETURN_IF_ERROR(writeBatchesFolder(options.output, lengths, batches, description));
    if (!notice.empty())
      std::cerr << "omnibal-batch: " << notice << "\n";
    for (const auto &line :
         choice.is_null() ? nlohmann::ordered_json::array() : choice["explanation"])
      (options.json ? std::cerr : std::cout) << line.get<std::string>() << "\n";
    std::cout << (options.json ? description.dump(2) + "\n" : table) << std::flush;
    if (!std::cout)
      return {Code::Unavailable, "writing to the standard output failed"};
    return Status::ok();
  }

  const ToolOptions &options;
  BatchesRecord record;
  SampleLengths lengths;
  MixedEpoch drawn; ///< of a mix
  nlohmann::ordered_json choice;
  Batches batches;
};

Status run(const ToolOptions &options) {
  OMNIBAL_RETURN_IF_ERROR(checkOutputs(options));
  if (!options.lengthGroups.empty())
    return runLengthGroups(options, peakRssBytes);
  if (options.window == 0)
    return Epoch(options).run();
  BatchOptions batching = options.batching;
  OMNIBAL_ASSIGN_OR_RETURN(CostFile costs, readCosts(options));
  batching.cost = costs.step.cost;
  return streamSteps(options, batching);
}

} // namespace
} // namespace omnibal::rt

int main(int argc, char **argv) {
  using namespace omnibal::rt;
  // Past `ulimit -f` writing fails with an error that says so, instead of killing the process.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    ToolOptions options;
    int exitCode = 0;
    if (!parseCommandLine(argc, argv, options, exitCode))
      return exitCode;
    Status status = run(options);
    return status ? 0 : fail(status);
  } catch (const std::bad_alloc &) {
    return fail({Code::OutOfMemory, "there is not enough memory for these samples"});
  } catch (const std::exception &e) {
    return fail({Code::Internal, e.what()});
  }
}
