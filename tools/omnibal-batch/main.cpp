//===- main.cpp - omnibal-batch: groups of equal load for every rank and step ---------------===//
#include "runtime/batching/CheckBatches.h"
#include "runtime/core/AtomicFile.h"
#include "tools/omnibal-batch/Input.h"
#include "tools/omnibal-batch/Options.h"
#include "tools/omnibal-batch/Progress.h"
#include "tools/omnibal-batch/Report.h"
#include "tools/omnibal-batch/Summary.h"
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
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
    if (line.rfind("VmHWM:", 0) == 0)
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
Status explain(Status status, const SampleLengths &lengths, const ToolOptions &options) {
  const BatchOptions &o = options.batching;
  bool oversize = false;
  for (int64_t i = 0; i < lengths.size(); ++i)
    oversize |= lengths.tiles[i] > o.tilesCap || lengths.tokens[i] > o.tokensCap;
  std::string hint = oversize && o.oversize == Oversize::Error
                         ? " (--tiles, --tokens; --oversize own-group; --oversize skip)"
                         : "";
  return Status(status.code(), options.inputs[0] + ": " + status.message() + hint);
}

Status run(const ToolOptions &options) {
  OMNIBAL_RETURN_IF_ERROR(checkOutputs(options));
  BatchesRecord record;
  record.options = options.batching;
  if (!options.cost.empty()) {
    OMNIBAL_ASSIGN_OR_RETURN(record.options.cost, readCostFile(options.cost));
  }
  OMNIBAL_ASSIGN_OR_RETURN(SampleLengths lengths, readLengths(options.inputs));
  record.samples = lengths.size();

  auto start = std::chrono::steady_clock::now();
  auto balanced = [&] {
    Progress progress("balancing " + std::to_string(lengths.size()) + " samples",
                      expectedSeconds(record.options.method, lengths.size()));
    return balance(lengths, record.options);
  }();
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  record.peakRssBytes = peakRssBytes();
  if (!balanced)
    return explain(std::move(balanced).status(), lengths, options);
  Batches batches = *std::move(balanced);
  OMNIBAL_RETURN_IF_ERROR(checkBatches(lengths, record.options, batches));
  record.after = statistics(lengths, batches, record.options.ranks, record.options.cost);
  record.before = unbalancedStatistics(lengths, batches, record.options.ranks, record.options.seed,
                                       record.options.cost);

  nlohmann::ordered_json description = describe(record, batches);
  if (!options.output.empty())
    OMNIBAL_RETURN_IF_ERROR(writeBatchesFolder(options.output, lengths, batches, description));
  if (!options.report.empty())
    OMNIBAL_RETURN_IF_ERROR(
        writeFileAtomically(options.report, htmlReport(lengths, batches, record)));
  if (std::string notice = oversizeNotice(lengths, batches, record.options); !notice.empty())
    std::cerr << "omnibal-batch: " << notice << "\n";
  std::cout << (options.json ? description.dump(2) + "\n" : summary(lengths, batches, record));
  std::cout.flush();
  if (!std::cout)
    return {Code::Unavailable, "writing to the standard output failed"};
  return Status::ok();
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
