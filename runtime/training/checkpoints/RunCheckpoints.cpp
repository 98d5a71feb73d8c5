#include "runtime/training/checkpoints/RunCheckpoints.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/comm/Gather.h"
#include "runtime/program/MomentShapes.h"
#include "runtime/program/Names.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/training/checkpoints/RunIdentity.h"
#include "runtime/training/session/ResidentMemory.h"
#include <algorithm>
#include <filesystem>
#include <iostream>

namespace omnibal::rt {
namespace {

/// How many steps of the list were taken, where an update takes several.
constexpr const char *entriesKey = "list_steps";
/// Rows of the epoch before the step that it begins with (DataPosition); absent where there are
/// none.
constexpr const char *firstRowKey = "epoch_first_row";

using nlohmann::json;

/// Copies may take this share of the memory that is free when the run begins.
constexpr int64_t shareOfFree = 2;

constexpr const char *keptKey = "kept";
constexpr const char *weight = "weight/", *moment1 = "moment1/", *moment2 = "moment2/",
                     *averaged = "average/";
constexpr const char *scales1 = "moment1_scales/", *scales2 = "moment2_scales/";

/// The shape of codes: as training has the parameter, whose blocks go by that order.
std::vector<int64_t> shapeOfCodes(const Parameter &q) {
  return q.transposed ? std::vector<int64_t>{q.shape[1], q.shape[0]} : q.shape;
}

/// What a checkpoint has of a parameter that trains, in the order of writtenTensors().
std::vector<TensorHeader> headersOf(const Program &program, const Parameter &q) {
  std::vector<TensorHeader> list = {{weight + q.name, StoredType::F32, q.shape}};
  const bool coded = isCoded(program.optimizer);
  if (!coded)
    for (const std::vector<int64_t> &shape :
         momentShapes(program.optimizer, q.shape, q.orthogonalized))
      list.push_back({(list.size() == 1 ? moment1 : moment2) + q.name, StoredType::F32, shape});
  if (program.averages)
    list.push_back({averaged + q.name, StoredType::F32, q.shape});
  for (auto [codes, scales] : {std::pair{moment1, scales1}, std::pair{moment2, scales2}})
    if (coded) {
      list.push_back({codes + q.name, StoredType::U8, shapeOfCodes(q)});
      list.push_back({scales + q.name, StoredType::F32, {scalesOf(q.elements())}});
    }
  return list;
}

bool hasShares(const Session &s) { return s.program().zero > 0; }

/// Whether this rank has anything of its own to write.
bool writes(const Session &s) {
  return (s.executor->part() == 0 || s.program().hasOwnParts()) &&
         (s.executor->replica() == 0 || hasShares(s));
}

/// Whether several ranks write a stage's shard.
bool isWrittenTogether(const Session &s) { return hasShares(s) || s.program().hasOwnParts(); }

NamedTensor namedTensor(const Session &s, const Parameter &q, const std::string &kind,
                        float *data) {
  NamedTensor tensor{kind + q.name, q.shape, data, q.transposed, &s.executor->backend()};
  tensor.held = q.held;
  const OptimizerKind optimizer = s.program().optimizer;
  if (isFactored(optimizer, q.shape.size()) && (kind == moment1 || kind == moment2)) {
    const auto shapes = momentShapes(optimizer, q.shape, q.orthogonalized);
    tensor.shape = kind == moment1 ? shapes.front() : shapes.back();
    tensor.transposed = false; // they lie as the checkpoint has them
  }
  return tensor;
}

/// Something of a parameter that this rank's optimizer knows, under its name in a checkpoint.
NamedTensor stateTensor(const Session &s, const OptimizerState &state, const std::string &kind,
                        float *data) {
  NamedTensor tensor = namedTensor(s, *state.parameter, kind, data);
  if (hasShares(s)) {
    tensor.first = state.first;
    tensor.count = state.count;
  }
  return tensor;
}

/// Moments of 8 bits, in the order of memory.
void addCodes(const Session &s, const OptimizerState &state, std::vector<NamedTensor> &list) {
  const Parameter &q = *state.parameter;
  auto add = [&](const std::string &kind, std::vector<int64_t> shape, float *data,
                 int64_t perEntry) {
    NamedTensor &tensor = list.emplace_back();
    tensor.name = kind + q.name;
    tensor.shape = std::move(shape);
    tensor.data = data;
    tensor.memory = &s.executor->backend();
    tensor.codes = perEntry == 1;
    if (hasShares(s)) {
      tensor.first = state.first / perEntry;
      tensor.count = (state.count + perEntry - 1) / perEntry;
    }
  };
  for (auto [codes, scales, moment] :
       {std::tuple{moment1, scales1, state.coded1}, std::tuple{moment2, scales2, state.coded2}}) {
    if (!moment.codes)
      continue;
    add(codes, shapeOfCodes(q), reinterpret_cast<float *>(moment.codes), 1);
    add(scales, {scalesOf(q.elements())}, moment.scales, codedBlock);
  }
}

/// What this rank writes of its stage's shard.
std::vector<NamedTensor> writtenTensors(const Session &s) {
  std::vector<NamedTensor> list;
  for (const OptimizerState &state : s.executor->optimizerStates()) {
    if (!s.executor->counts(*state.parameter) || !writes(s))
      continue;
    for (auto [kind, data] :
         {std::pair{weight, state.weight}, std::pair{moment1, state.moment1},
          std::pair{moment2, state.moment2}, std::pair{averaged, state.average}})
      if (data)
        list.push_back(stateTensor(s, state, kind, data));
    addCodes(s, state, list);
  }
  return list;
}

/// What the shard has where several ranks write it.
std::vector<TensorHeader> sharedLayout(const Session &s) {
  std::vector<TensorHeader> layout;
  for (const Parameter &q : s.executor->stageInfo().parameters)
    if (q.trainable && q.counted && isWrittenTogether(s))
      for (TensorHeader &header : headersOf(s.program(), q))
        layout.push_back(std::move(header));
  return layout;
}

/// What this rank reads for all that hold it; `averages`: these too.
std::vector<NamedTensor> readTensors(const Session &s, bool averages) {
  std::vector<NamedTensor> list;
  const bool coded = isCoded(s.program().optimizer);
  for (const Parameter &q : s.executor->stageInfo().parameters) {
    if (!q.trainable || !s.executor->reads(q))
      continue;
    for (auto [kind, offset] :
         {std::pair{weight, q.weightOffset()}, std::pair{moment1, coded ? -1 : q.moment1Offset},
          std::pair{moment2, coded ? -1 : q.moment2Offset},
          std::pair{averaged, averages ? q.averageOffset : -1}})
      if (offset >= 0)
        list.push_back(namedTensor(s, q, kind, s.executor->at(offset)));
  }
  if (!hasShares(s))
    for (const OptimizerState &state : s.executor->optimizerStates())
      if (s.executor->reads(*state.parameter))
        addCodes(s, state, list);
  return list;
}

/// Its own share of the moments and averages, which no other replica holds.
std::vector<NamedTensor> shareTensors(const Session &s, bool averages) {
  std::vector<NamedTensor> list;
  if (hasShares(s))
    for (const OptimizerState &state : s.executor->optimizerStates()) {
      for (auto [kind, data] :
           {std::pair{moment1, state.moment1}, std::pair{moment2, state.moment2},
            std::pair{averaged, averages ? state.average : nullptr}})
        if (data)
          list.push_back(stateTensor(s, state, kind, data));
      addCodes(s, state, list);
    }
  return list;
}

void tellAll(const std::vector<std::string> &notices) {
  for (const std::string &notice : notices)
    std::cerr << "omnibal-run: notice: " << notice << "\n";
}

/// Groups of a step, and of a row, in a run with these settings; 0: its steps say themselves.
struct GroupsOf {
  explicit GroupsOf(const json &settings) {
    const json microbatches = settings.value("microbatches", json()),
               replicas = settings.value("data_parallel", json());
    if (isFew(microbatches) && isFew(replicas))
      row = replicas.get<int64_t>(), step = row * microbatches.get<int64_t>();
  }
  static bool isFew(const json &count) {
    return count.is_number_integer() && count >= 1 && count < (int64_t{1} << 24);
  }
  int64_t row = 0, step = 0;
};

/// Whether a step takes another number of groups of the same list than it did.
bool stepsAreOthers(const json &then, const json &now) {
  const GroupsOf before(then), after(now);
  return before.step != after.step && before.step > 0 && after.step > 0;
}

/// The epoch that holds a step of the list, of which its epoch has had so many before it; none
/// where that cannot be. If a step takes other groups, the next one is the same (or, where a row
/// begins elsewhere, the first of its row), and the steps of the epoch count from here.
std::optional<DataPosition> positionIn(const json &then, const json &now, int64_t steps,
                                       int64_t entry) {
  constexpr int64_t most = int64_t{1} << 40;
  const GroupsOf before(then), after(now);
  DataPosition position{then.value("epoch", int64_t{0}), entry - steps,
                        then.value(firstRowKey, int64_t{0})};
  if (position.epoch < 0 || position.firstStep < 0 || position.firstRow < 0 ||
      position.firstRow > most / std::max<int64_t>(before.row, 1))
    return std::nullopt;
  if (before.row == 0 || after.row == 0)
    return position;
  int64_t groups = position.firstRow * before.row;
  if (before.step != after.step) {
    if (steps > (most - groups) / before.step)
      return std::nullopt;
    groups += steps * before.step;
    position.firstStep = entry;
  }
  position.firstRow = groups / after.row;
  return position;
}

} // namespace

std::vector<NamedTensor> trainedTensors(const Session &s) {
  std::vector<NamedTensor> mine;
  for (const Parameter &q : s.executor->stageInfo().parameters)
    if (q.trainable && s.executor->counts(q) && s.executor->readsWeights())
      mine.push_back(namedTensor(s, q, "", s.executor->at(q.weightOffset())));
  return mine;
}

int64_t stagingBytes(const Session &s) { return TensorStaging::bytesOf(writtenTensors(s)); }

Result<bool> stagesCheckpoints(const Session &s) {
  if (s.options.checkpoint.empty() || s.options.checkpointBuffer == 0)
    return false;
  // The ranks of a machine share its memory; the largest of them stands for all that write.
  double mine[] = {0, 0};
  std::vector<double> bytes(static_cast<size_t>(s.communicator.size()));
  bytes[static_cast<size_t>(s.communicator.rank())] = static_cast<double>(stagingBytes(s));
  const std::vector<int> everyone = s.communicator.everyone();
  OMNIBAL_RETURN_IF_ERROR(s.communicator.allReduce(std::span<double>(bytes), everyone));
  const double most = *std::max_element(bytes.begin(), bytes.end());
  const bool limited = s.options.checkpointBuffer > 0;
  const int32_t writersOfStage = (hasShares(s) ? s.program().dataParallel : 1) *
                                 (s.program().hasOwnParts() ? s.program().modelParallel : 1);
  const double writers = s.program().stages * writersOfStage;
  const double writersHere = limited ? 1 : std::min<double>(s.ranksHere, writers);
  const double limit =
      static_cast<double>(limited ? s.options.checkpointBuffer : availableMemory() / shareOfFree);
  mine[0] = most * writersHere > limit;
  OMNIBAL_RETURN_IF_ERROR(s.communicator.allReduce(std::span<double>(mine), everyone));
  if (mine[0] == 0)
    return true;
  if (s.leads())
    std::cerr << "omnibal-run: notice: a copy of what a checkpoint holds takes "
              << bytesToString(static_cast<int64_t>(most))
              << " on a rank, more than is to spare: training waits while checkpoints are written "
                 "(--checkpoint-buffer)\n";
  return false;
}

RunCheckpoints::RunCheckpoints(Session &session, const DataSource &data, int64_t steps)
    : s(session), data(data), steps(steps) {
  if (!areKept())
    return;
  CheckpointWriteOptions options;
  options.folder = s.options.checkpoint;
  options.stage = s.executor->stage();
  options.stages = s.program().stages;
  options.layout = sharedLayout(s);
  options.begins = s.executor->isFirstHolder();
  options.writes = writes(s);
  options.leads = s.leads();
  options.retention = {s.options.keepCheckpoints, s.options.keepEvery};
  saver.emplace(options, s.communicator, s.executor->backend(), s.executor->pool(),
                s.stagesCheckpoints);
}

Status RunCheckpoints::open() {
  if (areKept() || !s.options.resume.empty()) {
    OMNIBAL_ASSIGN_OR_RETURN(described, describeRun(s, data, steps));
  }
  return s.agree.after([&] { return s.leads() && areKept() ? claim() : Status::ok(); });
}

Status RunCheckpoints::claim() {
  std::vector<std::string> notices;
  OMNIBAL_ASSIGN_OR_RETURN(folder, CheckpointFolder::claim(s.options.checkpoint, &notices));
  tellAll(notices);
  const std::vector<std::string> present = folder.checkpoints();
  if (present.empty() || continuesFolder())
    return Status::ok();
  if (!s.options.overwrite)
    return invalid("--checkpoint: " + s.options.checkpoint +
                   " holds checkpoints of another run, the newest of step " +
                   std::to_string(stepOf(present.front())) +
                   "; go on from it with --resume auto, choose another folder, or let this run "
                   "replace them with --overwrite");
  replaced = present;
  return Status::ok();
}

/// Whether the run goes on from what its folder of checkpoints holds.
bool RunCheckpoints::continuesFolder() const {
  namespace fs = std::filesystem;
  if (s.options.resume.empty())
    return false;
  std::error_code ignored;
  const fs::path from = fs::weakly_canonical(s.options.resumesFrom(), ignored);
  const fs::path here = fs::weakly_canonical(s.options.checkpoint, ignored);
  return from == here || from.parent_path() == here;
}

Status RunCheckpoints::writeConfig() const {
  if (!s.leads() || !areKept() || s.options.config.empty())
    return Status::ok();
  const std::string mark = "# Written by omnibal-run as it began; the next run that goes on here "
                           "writes its own.\n";
  const std::string path = s.options.checkpoint + "/omnibal.toml";
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    OMNIBAL_ASSIGN_OR_RETURN(const std::string present, readWholeFile(path));
    if (!present.starts_with(mark)) {
      std::cerr << "omnibal-run: notice: " << path
                << " was not written by a run, so it stays as it is, and this run's options are "
                   "not written beside its checkpoints\n";
      return Status::ok();
    }
  }
  return writeFileAtomically(path, mark + s.options.config);
}

/// The leader finds the checkpoint and tells what it says. Those ranks read it that tell the others
/// what they hold too, each from the shards that have it, and verify these while they read. A
/// damaged one is passed over.
Result<RunCheckpoints::Start> RunCheckpoints::resume() {
  Start start;
  if (s.options.resume.empty())
    return start;
  std::vector<std::string> folders; // the leader's
  OMNIBAL_RETURN_IF_ERROR(
      s.agree.after([&] { return s.leads() ? findCandidates(folders) : Status::ok(); }));
  for (size_t next = 0;; ++next) {
    std::string path = next < folders.size() ? folders[next] : ""; // names of files are any bytes
    OMNIBAL_RETURN_IF_ERROR(s.communicator.broadcast(path, 0));
    if (path.empty() && next > 0)
      return Status(s.leads() ? Code::DataLoss : Code::Aborted,
                    s.options.resumesFrom() + ": no checkpoint is complete");
    if (path.empty())
      return start;
    std::optional<Checkpoint> opened;
    std::string told;
    Status damage;
    OMNIBAL_RETURN_IF_ERROR(s.agree.after([&] {
      Status status = s.leads() ? openCandidate(path, opened, told) : Status::ok();
      if (status.code() == Code::DataLoss)
        std::swap(status, damage);
      return status;
    }));
    OMNIBAL_RETURN_IF_ERROR(s.communicator.broadcast(told, 0));
    if (!told.empty()) {
      OMNIBAL_RETURN_IF_ERROR(s.agree(takeState(path, json::parse(told), start)));
      OMNIBAL_RETURN_IF_ERROR(s.agree.after([&] { return readState(opened, path, damage); }));
    }
    OMNIBAL_ASSIGN_OR_RETURN(const bool passed, passOver(path, damage));
    if (passed)
      continue;
    OMNIBAL_RETURN_IF_ERROR(s.executor->shareParameters(true));
    OMNIBAL_RETURN_IF_ERROR(s.executor->refreshCopies());
    OMNIBAL_RETURN_IF_ERROR(s.agree.after([&] { return readShare(opened, path); }));
    if (!readsAverages)
      OMNIBAL_RETURN_IF_ERROR(s.executor->beginAverages());
    if (s.leads())
      std::cerr << "omnibal-run: continuing after step " << start.step << " from " << path << "\n";
    return start;
  }
}

/// None is no error for --resume auto.
Status RunCheckpoints::findCandidates(std::vector<std::string> &folders) {
  if (s.options.resumesIfPresent() && folder.checkpoints().empty())
    return Status::ok();
  OMNIBAL_ASSIGN_OR_RETURN(folders, Checkpoint::candidates(s.options.resumesFrom()));
  return Status::ok();
}

Status RunCheckpoints::openCandidate(const std::string &path, std::optional<Checkpoint> &opened,
                                     std::string &told) {
  OMNIBAL_ASSIGN_OR_RETURN(opened, Checkpoint::openStep(path));
  OMNIBAL_RETURN_IF_ERROR(checkSameModel(*opened, s.program(), described));
  const RunState &state = opened->state();
  told = json({{"step", state.step},
               {"data_position", state.dataPosition},
               {"settings", state.settings}})
             .dump();
  return Status::ok();
}

/// What the user changed since is told and taken; where the data is other, it begins anew.
Status RunCheckpoints::takeState(const std::string &path, const json &told, Start &start) {
  const json &then = told["settings"];
  const RunDifferences found = compareRuns(then, described);
  start.step = told["step"].get<int64_t>();
  start.entry = then.value(entriesKey, start.step);
  const auto position =
      positionIn(then, described, told["data_position"].get<int64_t>(), start.entry);
  if (!position)
    return {Code::DataLoss, path + ": the position in the data is damaged"};
  start.position = *position;
  start.otherData = found.data;
  if (found.data)
    start.position = {0, start.entry};
  else if (s.options.steps == 0 && stepsAreOthers(then, described))
    return invalid(path + ": a step of that run took other groups of the list than one of this "
                          "program does (micro-batches x data-parallel ranks), so the list does "
                          "not say how many steps the run has; give --steps");
  if (start.step > steps)
    return invalid(path + ": the checkpoint is of step " + std::to_string(start.step) +
                   ", this run has only " + std::to_string(steps) + " (--steps)");
  s.executor->setAdamStep(then.value("updates", start.step));
  start.kept = then.value(keptKey, json::object());
  readsAverages = s.program().averages && then.contains(averageKey);
  if (!s.leads())
    return Status::ok();
  if (s.program().averages && !readsAverages)
    std::cerr << "omnibal-run: notice: the checkpoint has no moving averages, which begin with its "
                 "weights\n";
  if (!s.program().averages && then.contains(averageKey))
    std::cerr << "omnibal-run: notice: the checkpoint has moving averages, which end here, as the "
                 "program keeps none (omnibal-compile --ema)\n";
  if (found.data)
    std::cerr << "omnibal-run: notice: the groups of samples are other ones than the "
                 "checkpoint's; they are read from their beginning\n";
  for (const std::string &change : found.settings)
    std::cerr << "omnibal-run: notice: changed since the checkpoint: " << change << "\n";
  return Status::ok();
}

Status RunCheckpoints::readState(std::optional<Checkpoint> &opened, const std::string &path,
                                 Status &damage) {
  const std::vector<NamedTensor> wanted = readTensors(s, readsAverages);
  if (wanted.empty() || !s.executor->readsWeights())
    return Status::ok();
  Status status;
  if (!opened) {
    auto here = Checkpoint::openStep(path);
    status = here.status();
    if (here)
      opened = *std::move(here);
  }
  if (status)
    status = opened->read(wanted);
  if (status.code() == Code::DataLoss)
    std::swap(status, damage);
  return status;
}

/// The first of the holders has verified the checksums.
Status RunCheckpoints::readShare(std::optional<Checkpoint> &opened, const std::string &path) {
  const std::vector<NamedTensor> wanted = shareTensors(s, readsAverages);
  if (wanted.empty())
    return Status::ok();
  if (!opened) {
    OMNIBAL_ASSIGN_OR_RETURN(opened, Checkpoint::openStep(path));
    opened->trust();
  }
  return opened->read(wanted);
}

/// Whether some rank found the checkpoint damaged. Then the next one is tried, unless the user
/// named this one.
Result<bool> RunCheckpoints::passOver(const std::string &path, const Status &damage) {
  OMNIBAL_ASSIGN_OR_RETURN(auto texts, gatherTexts(s.communicator, damage.message()));
  std::string why; // of the lowest rank
  for (auto text = texts.rbegin(); text != texts.rend(); ++text)
    if (!text->empty())
      why = *text;
  OMNIBAL_RETURN_IF_ERROR(s.communicator.broadcast(why, 0));
  if (why.empty())
    return false;
  if (path == s.options.resumesFrom())
    return Status(s.leads() ? Code::DataLoss : Code::Aborted, why);
  if (s.leads())
    tellAll({"passed over: " + why});
  return true;
}

bool RunCheckpoints::isDue() const {
  return s.leads() && areKept() && !saver->phase().underWay &&
         s.options.isCheckpointTime(Clock::now() - lastSave);
}

Status RunCheckpoints::save(int64_t completed, int64_t entry, DataPosition position,
                            const json &kept, int64_t best) {
  RunState state;
  state.step = completed;
  state.dataPosition = entry - position.firstStep;
  state.settings = described;
  state.settings["updates"] = s.executor->adamStep();
  state.settings["epoch"] = position.epoch;
  if (position.firstRow > 0)
    state.settings[firstRowKey] = position.firstRow;
  if (entry != completed)
    state.settings[entriesKey] = entry;
  if (!kept.empty())
    state.settings[keptKey] = kept;
  lastSave = Clock::now();
  return saver->start(state, writtenTensors(s), std::exchange(replaced, {}), best);
}

Status RunCheckpoints::finish() { return saver ? saver->finish() : Status::ok(); }

int64_t RunCheckpoints::tell(StepOptions &options) const {
  if (!saver)
    return 0;
  options.saving = saver->isBusy();
  options.saveFailed = saver->hasFailed();
  return saver->phase().number;
}

Status RunCheckpoints::hear(const StepResult &result, int64_t phase) {
  if (!saver || !saver->phase().underWay || saver->phase().number != phase ||
      (result.saving && !result.saveFailed))
    return Status::ok();
  return saver->advance();
}

} // namespace omnibal::rt
