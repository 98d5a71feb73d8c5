//===- main.cpp - omnibal-run: trains, evaluates and runs programs -----------------------===//
#include "runtime/checkpoint/ModelFolder.h"
#include "runtime/comm/Gather.h"
#include "runtime/comm/launch/Launch.h"
#include "runtime/data/DataLoader.h"
#include "runtime/data/pictures/GridFile.h"
#include "runtime/executor/BackendPlugin.h"
#include "runtime/executor/StepRuns.h"
#include "runtime/program/Names.h"
#include "runtime/program/Printer.h"
#include "runtime/program/RankGrid.h"
#include "runtime/program/Workspace.h"
#include "runtime/support/Checksum.h"
#include "runtime/support/RecordSignal.h"
#include "runtime/support/StopSignals.h"
#include "runtime/training/checkpoints/ExportCheckpoint.h"
#include "runtime/training/checkpoints/RunCheckpoints.h"
#include "runtime/training/checkpoints/RunIdentity.h"
#include "runtime/training/checkpoints/SaveTrained.h"
#include "runtime/training/evaluation/FindReferences.h"
#include "runtime/training/report/ProcessMemory.h"
#include "runtime/training/report/Report.h"
#include "runtime/training/session/ResidentMemory.h"
#include "runtime/training/session/Session.h"
#include "tools/omnibal-run/Options.h"
#include "tools/omnibal-run/PrintSteps.h"
#include "tools/omnibal-run/ShowSample.h"
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>
#include <unistd.h>

namespace omnibal::rt {

namespace {

/// How the pictures of the shards are resized and cut, where the file says it. Its tiles must be
/// the program's.
Result<std::optional<PictureTransform>> readTransform(const std::string &path,
                                                      const Program &program) {
  OMNIBAL_ASSIGN_OR_RETURN(std::optional<PictureTransform> transform, PictureTransform::read(path));
  const std::vector<int64_t> &shape = program.info.tileShape;
  if (!transform || (!program.info.grid && shape.size() != 3))
    return transform;
  const std::optional<ImageSize> tile = transform->tileSize();
  const std::string other = path + ": omnibal.original_pictures makes ";
  if (tile.has_value() == program.info.grid.has_value())
    return invalid(other + (tile ? "tiles of one size" : "pictures of their own sizes") +
                   ", but the program takes " +
                   (tile ? "pictures of their own sizes" : "tiles of one size") +
                   "; take the file that prepare.py wrote for that model");
  if (tile && *tile != ImageSize{shape[1], shape[2]})
    return invalid(other + "tiles of " + std::to_string(tile->width) + " x " +
                   std::to_string(tile->height) + " pixels, but the program's are " +
                   std::to_string(shape[2]) + " x " + std::to_string(shape[1]));
  return transform;
}

Result<std::shared_ptr<const Dataset>> openDataset(const std::vector<std::string> &shards,
                                                   const RunOptions &options,
                                                   const Program &program) {
  std::optional<PictureTransform> transform;
  if (!options.preprocess.empty()) {
    OMNIBAL_ASSIGN_OR_RETURN(transform, readTransform(options.preprocess, program));
  }
  return Dataset::open(shards, program.info.grid, transform);
}

} // namespace

Result<DataSource> openData(const std::vector<std::string> &shards, const RunOptions &options,
                            const Program &program) {
  DataSource data;
  OMNIBAL_ASSIGN_OR_RETURN(data.dataset, openDataset(shards, options, program));
  bool pixels = false;
  for (const Stage &stage : program.stageList)
    for (const auto &[name, mode] : stage.modes)
      pixels |= readsPixels(stage, name);
  if (!options.preprocess.empty()) {
    OMNIBAL_ASSIGN_OR_RETURN(data.preprocess, Preprocess::read(options.preprocess));
    if (program.info.grid)
      OMNIBAL_RETURN_IF_ERROR(checkSameUnits(options.preprocess, *program.info.grid));
  } else if (pixels) {
    return invalid("--preprocess is required: the model's preprocessor_config.json says how "
                   "pictures become numbers");
  }
  if (pixels && !program.info.grid &&
      (program.info.tileShape.size() != 3 || program.info.tileShape[0] != 3))
    return invalid("the model's pictures are not [3, height, width]; it cannot be fed from shards");
  return data;
}

namespace {

/// Ended early with a checkpoint, as it was asked for: the same command line with --resume auto
/// goes on. The number is BSD's EX_TEMPFAIL.
constexpr int exitStopped = 75;

int fail(const Status &status) {
  std::cerr << "omnibal-run: error: " << status.message() << std::endl;
  return 1;
}

Status checkWritable(const std::filesystem::path &folder, const std::string &flag) {
  std::error_code error;
  std::string name = folder.empty() ? "." : folder.string();
  if (!std::filesystem::is_directory(name, error))
    return invalid(flag + ": " + name + " is no folder" +
                   (error ? " (" + error.message() + ")" : "") + "; create it or choose another");
  if (::access(name.c_str(), W_OK | X_OK))
    return invalid(flag + ": " + name + " is not writable; choose another place");
  return Status::ok();
}

/// A result in place of its source is wanted in so many words only.
Status checkOverwriting(const RunOptions &o, const std::string &folder, const std::string &flag) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<fs::path> sources = {o.weights};
  if (!fs::is_directory(o.weights, ignored))
    sources = {fs::absolute(o.weights).parent_path(),
               fs::weakly_canonical(o.weights, ignored).parent_path()};
  for (const fs::path &source : sources)
    if (!o.overwrite && fs::equivalent(folder, source, ignored))
      return invalid(flag + ": " + folder +
                     " is the folder of --weights; choose another, or replace these weights with "
                     "--overwrite");
  return Status::ok();
}

/// Finds out before the work, not after it, that its result cannot be written.
Status checkOutputs(const RunOptions &o) {
  const bool trains = o.trains(), saves = trains || !o.exportCheckpoint.empty();
  auto isMade = [&](const std::string &file) {
    std::error_code ignored;
    return (trains || o.findReferences) && !std::filesystem::is_regular_file(file, ignored);
  };
  for (auto [folder, flag] :
       {std::pair{&o.save, "--save"}, std::pair{&o.saveAverages, "--save-ema"},
        std::pair{&o.checkpoint, "--checkpoint"}, std::pair{&o.profile, "--profile"}}) {
    if (folder->empty() || !saves || (folder == &o.profile && !trains))
      continue;
    if (folder == &o.save || folder == &o.saveAverages)
      OMNIBAL_RETURN_IF_ERROR(checkOverwriting(o, *folder, flag));
    std::error_code error;
    std::filesystem::create_directories(*folder, error);
    if (error)
      return invalid(std::string(flag) + ": " + *folder +
                     ": creating the folder failed: " + error.message());
    OMNIBAL_RETURN_IF_ERROR(checkWritable(*folder, flag));
  }
  for (auto [file, flag, used] :
       {std::tuple{&o.trace, "--trace", trains},
        std::tuple{&o.saveGradients, "--save-gradients", trains},
        std::tuple{&o.reference, "--reference", isMade(o.reference)},
        std::tuple{&o.evaluateReference, "--evaluate-reference", isMade(o.evaluateReference)},
        std::tuple{&o.output, "-o", !o.forward.empty()},
        std::tuple{&o.calibrate, "--calibrate", true}}) {
    if (file->empty() || !used)
      continue;
    std::error_code ignored;
    if (std::filesystem::is_directory(*file, ignored))
      return invalid(std::string(flag) + ": " + *file + " is a folder; a file name is expected");
    OMNIBAL_RETURN_IF_ERROR(checkWritable(std::filesystem::path(*file).parent_path(), flag));
  }
  return Status::ok();
}

/// The first that holds a stage, or its part, reads for all of them.
Status openWeights(const RunOptions &options, const Program &program, int rank,
                   TensorFiles &weights, AdapterStart &adapters) {
  OMNIBAL_RETURN_IF_ERROR(checkAdapterFlags(options, program.adapters, options.program));
  OMNIBAL_RETURN_IF_ERROR(checkMergeFlag(options, program));
  OMNIBAL_RETURN_IF_ERROR(checkAverageFlags(options, program));
  adapters.seed = options.seed;
  const RankPlace place = RankGrid(program).placeOf(rank);
  if (options.weights.empty() || place.replica > 0 || (place.part > 0 && !program.hasOwnParts()))
    return Status::ok(); // none are needed for measuring
  std::vector<std::string> linkFolders;
  if (!options.linkRoot.empty())
    linkFolders.push_back(options.linkRoot);
  OMNIBAL_ASSIGN_OR_RETURN(weights, TensorFiles::open(options.weights, linkFolders));
  if (!options.adapter.empty()) {
    OMNIBAL_ASSIGN_OR_RETURN(adapters.folder,
                             openAdapterFolder(options.adapter, program.adapters, linkFolders));
  }
  return rank == 0 && options.savesModel() ? checkModelFolderSource(weights) : Status::ok();
}

/// How the ranks lie in processes.
struct Processes {
  bool alone = false;                ///< every rank has one of its own
  int ranksHere = 1;                 ///< on this machine
  ResidentMemory before;             ///< of the one of all ranks
  std::atomic<bool> stopped = false; ///< before the last step, as it was asked for
};

/// What a process opens for its ranks.
struct Opened {
  LoadedProgram loaded;
  BackendKind *backend = nullptr;
  DataSource data;
  std::shared_ptr<StepPlans> stepPlans; ///< where steps are planned
  int ranks() const { return RankGrid(loaded.program).ranks(); }
};

/// The rest, when the program is there.
Status openWhatItNeeds(const RunOptions &options, bool alone, Opened &opened) {
  const Program &program = opened.loaded.program;
  auto backend = backendForTarget(program.target);
  if (!backend)
    return std::move(backend).status().context(options.program);
  opened.backend = *backend;
  if (!program.stepProblem.empty() && options.trains()) {
    OMNIBAL_ASSIGN_OR_RETURN(
        opened.stepPlans,
        openStepPlans(program, alone ? 1 : int64_t{program.stages} * program.modelParallel));
  }
  if (!options.calibrate.empty()) {
    if (!options.data.empty()) {
      OMNIBAL_ASSIGN_OR_RETURN(opened.data.dataset, openDataset(options.data, options, program));
    }
  } else if (options.forward.empty()) {
    OMNIBAL_ASSIGN_OR_RETURN(opened.data, openData(options.data, options, program));
    if (options.trains())
      opened.data.steps = openSteps(options, program, *opened.data.dataset);
    if (options.trains() && options.evaluateEvery > 0) {
      auto held = openData(options.evaluateData, options, program);
      OMNIBAL_RETURN_IF_ERROR(held.status().context("--evaluate-data"));
      opened.data.evaluation = std::make_shared<const DataSource>(*std::move(held));
    }
  }
  return Status::ok();
}

/// Opens a process's files once the ranks have met, so that a slow disk of one of them, for which
/// the others wait, does not keep it from the meeting. Rank 0 reads and verifies the whole program
/// for all.
Status openTogether(const RunOptions &options, const LaunchEnvironment &place,
                    Communicator &communicator, Opened &opened) {
  const int rank = communicator.rank();
  Agreement agree = agreementOver(communicator);
  OMNIBAL_RETURN_IF_ERROR(agree.after([&] {
    OMNIBAL_ASSIGN_OR_RETURN(opened.loaded, rank == 0 ? loadProgram(options.program)
                                                      : loadProgramOfRank(options.program, rank));
    return Status::ok();
  }));
  OMNIBAL_RETURN_IF_ERROR(agree(rank == 0 ? checkNumber(place, communicator, opened.ranks(),
                                                        RankGrid(opened.loaded.program).product())
                                          : Status::ok()));
  OMNIBAL_RETURN_IF_ERROR(communicator.checkEqual(opened.loaded.identity, "programs"));
  return agree.after([&] { return openWhatItNeeds(options, /*alone=*/true, opened); });
}

Status runRank(const RunOptions &options, const Opened &opened, int threads, Processes &processes,
               RankContext &context) {
  const LoadedProgram &loaded = opened.loaded;
  const DataSource *data = &opened.data;
  BackendKind &backend = *opened.backend;
  const ResidentMemory before = processes.alone ? residentMemory() : processes.before;
  Communicator &communicator = context.communicator;
  Agreement agree = agreementOver(communicator);
  OMNIBAL_RETURN_IF_ERROR(
      agree.after([&] { return communicator.rank() == 0 ? checkOutputs(options) : Status::ok(); }));
  OMNIBAL_RETURN_IF_ERROR(agree(data->steps.status()));
  TensorFiles weights;
  AdapterStart adapters;
  OMNIBAL_RETURN_IF_ERROR(agree.after([&] {
    return openWeights(options, loaded.program, communicator.rank(), weights, adapters);
  }));
  ExecutorOptions executorOptions;
  executorOptions.threads = threads;
  executorOptions.backend = &backend;
  executorOptions.localRank = context.localRank;
  executorOptions.stepPlans = opened.stepPlans;
  executorOptions.rehearses = !options.calibrate.empty();
  executorOptions.fingerprints = !options.checkpoint.empty() || !options.resume.empty();
  const char *guard = std::getenv("OMNIBAL_GUARD");
  executorOptions.guarded = guard && std::string(guard) == "1";
  auto executor = Executor::prepare(loaded, communicator, executorOptions);
  OMNIBAL_RETURN_IF_ERROR(agree(executor.status()));
  auto kept = std::make_shared<Session>(
      Session{options, loaded, std::move(weights), communicator, agree, *std::move(executor)});
  context.kept = kept; // messages under way use its memory
  Session &session = *kept;
  // Ranks that share a process share its device.
  const int devices = context.localRank >= 0 ? communicator.size() : 1;
  session.peakFlops =
      devices * (options.peakTflops > 0 ? options.peakTflops * 1e12
                                        : backend.peakFlops(loaded.program.compute));
  session.ranksHere = processes.ranksHere;
  session.device = backend.description();
  OMNIBAL_RETURN_IF_ERROR(agree(options.weights.empty()
                                    ? session.executor->initializeForRehearsal()
                                    : session.executor->initialize(session.weights, adapters)));
  const std::vector<WorkspaceUse> own = session.executor->backend().workspaceOf();
  OMNIBAL_ASSIGN_OR_RETURN(auto beside,
                           gatherTexts(communicator, own.empty() ? ""
                                                                 : bytesToString(totalOf(own)) +
                                                                       " of the backend's (" +
                                                                       describe(own) + ")"));
  if (session.leads())
    std::cerr << banner(loaded.program, threads, beside) << std::flush;
  if (options.trains()) {
    OMNIBAL_ASSIGN_OR_RETURN(session.stagesCheckpoints, stagesCheckpoints(session));
  }
  if (loaded.program.target == "host" && data->dataset && options.calibrate.empty()) {
    OMNIBAL_ASSIGN_OR_RETURN(auto text, describeProcesses(session, *data, before, processes.alone));
    std::cerr << text << std::flush;
  }
  if (!options.calibrate.empty())
    return calibrate(session, *data);
  if (!options.forward.empty())
    return forward(session);
  OMNIBAL_RETURN_IF_ERROR(findReferences(session, *data, adapters));
  if (options.evaluate)
    return evaluate(session, *data);
  if (options.findReferences)
    return Status::ok();
  bool stopped = false;
  OMNIBAL_RETURN_IF_ERROR(train(session, *data, stopped));
  if (stopped)
    processes.stopped = true;
  return Status::ok();
}

/// A model's folder of a checkpoint, without a program.
int runExport(const RunOptions &options) {
  Status status = checkOutputs(options);
  std::vector<std::string> notices;
  if (status)
    status = exportCheckpoint(options, notices);
  for (const std::string &notice : notices)
    std::cerr << "omnibal-run: " << notice << std::endl;
  return status ? 0 : fail(status);
}

int run(const RunOptions &options) {
  if (!options.exportCheckpoint.empty())
    return runExport(options);
  auto place = readLaunchEnvironment();
  if (!place)
    return fail(place.status());
  Opened opened;
  Processes processes;
  processes.alone = place->launcher != Launcher::None;
  if (!processes.alone || options.print || !options.showSample.empty()) {
    auto loaded = loadProgram(options.program);
    if (!loaded)
      return fail(loaded.status());
    opened.loaded = *std::move(loaded);
    if (options.print) {
      const Program &program = opened.loaded.program;
      auto text = options.loads.empty() ? Result<std::string>(printProgram(program))
                                        : printSteps(program, options);
      if (!text)
        return fail(text.status());
      std::cout << *text;
      return 0;
    }
    if (!options.showSample.empty()) {
      const Status shown = showSample(opened.loaded.program, options, std::cout);
      return shown ? 0 : fail(shown);
    }
    if (Status status = openWhatItNeeds(options, processes.alone, opened); !status)
      return fail(status);
    processes.before = residentMemory();
  }
  processes.ranksHere = processes.alone ? place->localRanks : opened.ranks();
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int threads =
      options.threads > 0 ? options.threads : std::max(1, cores / processes.ranksHere);
  const LaunchOptions launched{processes.alone ? 0 : opened.ranks(), fnv1a(options.program)};
  const int code = launch(*place, launched, [&](RankContext &context) -> Status {
    if (processes.alone)
      OMNIBAL_RETURN_IF_ERROR(openTogether(options, *place, context.communicator, opened));
    return runRank(options, opened, threads, processes, context);
  });
  return code == 0 && processes.stopped ? exitStopped : code;
}

/// What nobody caught, such as a thread's lack of memory for the words of its own error, still ends
/// the process with a message. Nothing is allocated for it.
[[noreturn]] void onTerminate() {
  const char *what = "internal: a thread was left behind";
  if (std::exception_ptr thrown = std::current_exception())
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc &) {
      what = "out of memory";
    } catch (const std::exception &e) {
      what = e.what();
    } catch (...) {
      what = "internal: an exception of an unknown kind";
    }
  for (const char *part : {"omnibal-run: error: ", what, "\n"}) [[maybe_unused]]
    ssize_t ignored = ::write(STDERR_FILENO, part, std::strlen(part));
  std::_Exit(1);
}

} // namespace
} // namespace omnibal::rt

int main(int argc, char **argv) {
  std::set_terminate(omnibal::rt::onTerminate);
  omnibal::rt::RunOptions options;
  int exitCode = 0;
  if (!omnibal::rt::parseCommandLine(argc, argv, options, exitCode))
    return exitCode;
  // Past `ulimit -f` writing fails with an error that says so, instead of killing the process.
  std::signal(SIGXFSZ, SIG_IGN);
  // Where nothing is trained, or could be kept, signals end the run at once.
  if (options.trains() && !options.checkpoint.empty())
    omnibal::rt::catchStopSignals();
  if (options.trains() && !options.profile.empty())
    omnibal::rt::catchRecordSignal();
  omnibal::rt::returnFreedMemory();
  try {
    return omnibal::rt::run(options);
  } catch (const std::exception &e) {
    return omnibal::rt::fail(
        {omnibal::rt::Code::Unavailable, e.what() + std::string(" (while starting)")});
  }
}
