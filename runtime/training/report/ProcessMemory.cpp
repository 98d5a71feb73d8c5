#include "runtime/training/report/ProcessMemory.h"
#include "runtime/comm/Gather.h"
#include "runtime/data/DataLoader.h"
#include "runtime/data/Prefetcher.h"
#include "runtime/data/pictures/Image.h"
#include "runtime/program/Names.h"
#include "runtime/program/RankGrid.h"
#include "runtime/program/Workspace.h"
#include "runtime/training/answers/Answers.h"
#include "runtime/training/checkpoints/RunCheckpoints.h"
#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>

namespace omnibal::rt {
namespace {

constexpr int64_t KiB = 1024, MiB = 1024 * KiB;

/// The memory of a thread: its stack, and the free space between small blocks that it allocated.
constexpr int64_t perThread = 1 * MiB;
/// An arena begins at a huge page, and its last one may reach beyond it.
constexpr int64_t hugePage = 2 * MiB;
/// The memory of collectives for each rank; and that of a transport between processes, for itself
/// and each peer.
constexpr int64_t stagingOfMember = 256 * KiB, transportOwn = 32 * MiB, chunkOfPeer = 2 * MiB;
/// Groups of a later epoch and what composing them takes.
constexpr int64_t epochOfSample = 64;
/// What is known of an epoch that a change of weights has ended.
constexpr int64_t endedOfSample = 32;
/// A kernel call in a trace, as events, as a rank's text and in the file's text.
constexpr int64_t traceOfCall = 2 * KiB;

int64_t tileBytes(const Program &program) {
  int64_t bytes = sizeof(float);
  for (int64_t size : program.info.tileShape)
    bytes *= size;
  return bytes;
}

/// The modes that the run's steps have, by name.
std::map<std::string, const Mode *> modesOf(const Session &s, bool evaluates) {
  std::map<std::string, const Mode *> modes;
  for (const auto &[name, mode] : s.executor->stageInfo().modes)
    if (evaluates ? name == "evaluate" : trainModeNumber(name).has_value())
      modes[name] = &mode;
  return modes;
}

/// The most tiles, and the most tokens, that all micro-batches of a step have together.
MicrobatchCaps stepCaps(const Session &s, bool evaluates) {
  MicrobatchCaps most;
  for (const auto &[name, mode] : modesOf(s, evaluates)) {
    const MicrobatchCaps caps = s.program().capsOf(name);
    most.tiles = std::max(most.tiles, mode->microbatches * caps.tiles);
    most.tokens = std::max(most.tokens, mode->microbatches * caps.tokens);
  }
  return most;
}

/// Decoded pictures that wait or are at work: the loader's, and those of the step that runs.
int64_t picturesHeld(const Session &s, int64_t ofStep) {
  const std::optional<int64_t> stepsAhead = s.options.loaderStepsAhead;
  const int64_t all = stepsHeld(stepsAhead) * ofStep,
                ahead = std::max(tilesAhead(s.program()), s.program().caps().tiles);
  return (stepsAhead ? all : std::min(all, ofStep + ahead)) * tileBytes(s.program());
}

/// Numbers that follow from pictures of their own sizes, of a step.
int64_t pictureNumbers(const Program &program, const MicrobatchCaps &ofStep) {
  const auto &grid = program.info.grid;
  if (!grid)
    return 0;
  const int64_t axes = 3, ofUnit = 4;
  const int64_t ofPatch = 2 + (grid->gridSide > 0 ? 2 * grid->tapsPerPatch() : 0);
  return 2 * axes * ofStep.tokens + 2 * ofStep.tiles * (ofUnit + ofPatch * grid->patchesPerUnit());
}

/// Lists of one number a token: a sample's, and what is made of them for a micro-batch.
int64_t tokensHeld(const Session &s, const MicrobatchCaps &ofStep) {
  const int64_t inputs = static_cast<int64_t>(s.program().info.tokenInputs.size());
  const int64_t ofSamples = 2 + inputs, packed = 6 + inputs;
  // Lists grow by doubling.
  return stepsHeld(s.options.loaderStepsAhead) * int64_t{sizeof(int32_t)} *
         (ofStep.tokens * (2 * ofSamples + packed) + pictureNumbers(s.program(), ofStep));
}

int64_t decoding(const Dataset &dataset, const Program &program) {
  if (dataset.transformBytes() > 0)
    return dataset.largestPicture() + dataset.transformBytes() + decoderChunkBytes;
  // A picture of its own size has all units of its sample.
  const auto &grid = program.info.grid;
  const int64_t pixels = grid ? program.caps().tiles * grid->unitPixels() * grid->unitPixels()
                              : tileBytes(program) / (3 * int64_t{sizeof(float)});
  return dataset.largestPicture() + (3 + decoderBytesPerPixel) * pixels + decoderChunkBytes;
}

int64_t messages(const Session &s, bool alone) {
  const int64_t members = s.communicator.size();
  // Collectives talk to ranks at distances of powers of two, the program to a replica's other
  // stages and to those that hold a stage.
  const int64_t peers = std::min(
      members - 1, 2 * static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(members))) +
                       s.program().stages +
                       int64_t{s.program().dataParallel} * s.program().modelParallel);
  return (members > 1 ? std::min(members * stagingOfMember, collectiveStaging) : 0) +
         (alone ? transportOwn + peers * chunkOfPeer : 0);
}

/// The most of a mode.
int64_t callsOfStep(const Session &s) {
  int64_t most = 0;
  for (const auto &[name, mode] : modesOf(s, !s.options.trains())) {
    int64_t calls = 0;
    for (const Chunk &chunk : mode->chunks)
      for (ActionKind kind : computeKinds)
        for (const LayerCall &call : chunk.calls(kind))
          calls += static_cast<int64_t>(s.program().functions[call.function].calls.size());
    most = std::max(most, calls * mode->microbatches);
  }
  return most;
}

int64_t largestTensor(const Stage &stage) {
  int64_t most = 0;
  for (const Parameter &q : stage.parameters)
    most = std::max(most, q.elements());
  return most * int64_t{sizeof(float)};
}

int64_t gradientBytes(const Stage &stage) {
  int64_t elements = 0;
  for (const Parameter &q : stage.parameters)
    elements += q.trainable && q.counted ? q.elements() : 0;
  return elements * int64_t{sizeof(float)};
}

/// Sums by what it is for, in the order of their first mention.
void add(std::vector<WorkspaceUse> &sums, const std::vector<WorkspaceUse> &uses) {
  for (const WorkspaceUse &use : uses) {
    auto found = std::find_if(sums.begin(), sums.end(),
                              [&](const WorkspaceUse &sum) { return sum.what == use.what; });
    if (found == sums.end())
      sums.push_back(use);
    else
      found->bytes += use.bytes;
  }
}

std::string toText(const std::vector<WorkspaceUse> &uses) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const WorkspaceUse &use : uses)
    list.push_back({use.what, use.bytes});
  return list.dump();
}

std::vector<WorkspaceUse> fromText(const std::string &text) {
  std::vector<WorkspaceUse> uses;
  for (const auto &entry : nlohmann::json::parse(text))
    uses.push_back({entry[0].get<std::string>(), entry[1].get<int64_t>()});
  return uses;
}

/// Each epoch with groups of its own is composed while the one before it runs.
int64_t epochs(const Session &s, const DataSource &data) {
  const bool composes = s.options.trains() && *data.steps && !(*data.steps)->repeats();
  const int64_t each = epochOfSample + (s.options.mixAt.empty() ? 0 : endedOfSample);
  return composes ? each * data.dataset->size() : 0;
}

/// What reading and decoding for steps, or for an evaluation, takes.
struct Reading {
  int64_t pictures = 0, samples = 0, threads = 0;
};
Reading readingOf(const Session &s, const Dataset &dataset, bool evaluates) {
  const std::string mode = evaluates ? "evaluate" : "train";
  const MicrobatchCaps ofStep = stepCaps(s, evaluates);
  Reading reading;
  reading.threads = loaderThreads(s, mode);
  reading.samples = tokensHeld(s, ofStep);
  if (readsPixels(s.executor->stageInfo(), mode)) {
    reading.pictures = picturesHeld(s, ofStep.tiles);
    reading.samples += reading.threads * decoding(dataset, s.program());
  }
  return reading;
}

/// What --sample-every takes: pictures of its prompts and of their micro-batches, keys and values
/// of a wave of answers, and at the leader the tokenizer while it is parsed.
int64_t answers(const Session &s, const DataSource &data) {
  constexpr int64_t ofParsedByte = 24;
  int64_t bytes = Answers::keptBytes(s, s.program().caps().tokens);
  if (readsPixels(s.executor->stageInfo(), "evaluate")) {
    const Dataset &dataset = *(data.evaluation ? *data.evaluation : data).dataset;
    int64_t most = 0;
    for (int64_t i = 0; i < dataset.size(); ++i)
      most = std::max(most, dataset.tiles(i));
    const Mode &mode = s.executor->stageInfo().modes.at("evaluate");
    bytes += (s.options.sampleCount + mode.microbatches) *
             std::min(most, s.program().caps().tiles) * tileBytes(s.program());
  }
  std::error_code ignored;
  if (s.leads())
    if (const auto size =
            std::filesystem::file_size(s.weights.beside().pathOf("tokenizer.json"), ignored);
        !ignored)
      bytes += ofParsedByte * static_cast<int64_t>(size);
  return bytes;
}

/// What a rank takes of its process.
std::vector<WorkspaceUse> memoryOfRank(const Session &s, const DataSource &data, bool alone) {
  const Stage &stage = s.executor->stageInfo();
  const int64_t threads = s.executor->pool().threads();
  const Reading own = readingOf(s, *data.dataset, !s.options.trains());
  Reading besides;
  if (data.evaluation) // while the pictures of the next steps wait
    besides = readingOf(s, *data.evaluation->dataset, true);
  std::vector<WorkspaceUse> uses;
  uses.push_back({"arenas", stage.arenaBytes + hugePage});
  if (s.options.trains() && s.program().target == "host")
    add(uses, workspaceOf(s.program(), stage));
  uses.push_back(
      {"kernels' scratch", threads * static_cast<int64_t>(s.executor->pool().scratchBytes())});
  if (const int64_t pictures = own.pictures + besides.pictures; pictures > 0)
    uses.push_back({"pictures", pictures});
  uses.push_back({"reading samples", own.samples + besides.samples});
  if (s.options.trains() && s.options.lossNormalizer == LossNormalizer::Epoch)
    uses.push_back({"label counts", data.dataset->size() * int64_t{sizeof(int32_t)}});
  if (s.options.trains() && s.options.sampleEvery > 0)
    if (const int64_t bytes = answers(s, data); bytes > 0)
      uses.push_back({"answers", bytes});
  if (s.program().info.learnsFromPairs()) {
    const int64_t pairs =
        data.dataset->size() + (data.evaluation ? data.evaluation->dataset->size() : 0);
    uses.push_back({"references", pairs * int64_t{sizeof(References::Entry)}});
  }
  uses.push_back({"reading weights", largestTensor(stage)});
  if (const int64_t bytes = messages(s, alone); bytes > 0)
    uses.push_back({"messages", bytes});
  if (!s.options.saveGradients.empty())
    uses.push_back({"gradients being saved", gradientBytes(stage)});
  const int64_t recorded =
      s.options.trace.empty() ? !s.options.profile.empty() : s.options.traceSteps;
  if (recorded > 0)
    uses.push_back({"the trace", traceOfCall * callsOfStep(s) * recorded});
  if (s.stagesCheckpoints && stagingBytes(s) > 0)
    uses.push_back({"checkpoints being written", stagingBytes(s)});
  uses.push_back({"threads", (threads + own.threads + besides.threads + 2) * perThread});
  return uses;
}

} // namespace

Result<std::string> describeProcesses(const Session &s, const DataSource &data,
                                      const ResidentMemory &before, bool alone) {
  std::error_code ignored;
  const auto code = std::filesystem::file_size(s.loaded.directory + "/kernels.so", ignored);
  const int64_t ofProcess =
      before.now + before.code + (ignored ? 0 : static_cast<int64_t>(code)) + epochs(s, data);
  std::vector<WorkspaceUse> mine = memoryOfRank(s, data, alone);
  mine.insert(mine.begin(), {"code and indices", ofProcess});
  OMNIBAL_ASSIGN_OR_RETURN(auto texts, gatherTexts(s.communicator, toText(mine)));
  if (!s.leads())
    return std::string();
  auto line = [&](const std::string &who, const std::vector<WorkspaceUse> &uses) {
    const int64_t most = std::max(before.most, totalOf(uses));
    return "  " + who + "  at most " + bytesToString(most) + " resident: " + describe(uses) + "\n";
  };
  std::string text;
  if (alone) {
    for (int stage = 0; stage < s.program().stages; ++stage) {
      std::vector<WorkspaceUse> most;
      for (int rank : RankGrid(s.program()).holdersOf(stage))
        if (auto uses = fromText(texts[rank]); totalOf(uses) > totalOf(most))
          most = std::move(uses);
      text += line("process of stage " + std::to_string(stage), most);
    }
    return text;
  }
  std::vector<WorkspaceUse> all;
  for (const std::string &rank : texts) {
    std::vector<WorkspaceUse> uses = fromText(rank);
    if (!all.empty())
      uses.erase(uses.begin()); // the process's own counts once
    add(all, uses);
  }
  return line("process of all ranks", all);
}

} // namespace omnibal::rt
