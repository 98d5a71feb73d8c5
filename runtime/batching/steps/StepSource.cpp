#include "runtime/batching/steps/StepSource.h"
#include "runtime/batching/steps/MixCourse.h"
#include "runtime/support/Checksum.h"
#include <chrono>
#include <future>
#include <new>
#include <span>
#include <system_error>

namespace omnibal::rt {

/// Groups of an epoch and their checksum.
struct Composed {
  EpochGroups groups;
  uint64_t checksum = 0;
};

struct StepSource::Epoch {
  std::shared_future<Result<Composed>> groups;

  bool isComposed() const {
    // A future that runs in the caller's thread never becomes ready by itself.
    return groups.wait_for(std::chrono::seconds(0)) != std::future_status::timeout;
  }
};

namespace {

/// Epochs whose begin a reader remembers; readers look a few steps ahead.
constexpr size_t rememberedEpochs = 64;

/// From a row on, which the modes of steps do without.
int64_t stepsOf(const EpochGroups &groups, const StepSource::Layout &layout, int64_t firstRow = 0) {
  if (!groups.modes.empty())
    return static_cast<int64_t>(groups.modes.size());
  const int64_t ranks = layout.ranks(0), perStep = layout.microbatches * ranks,
                rest = groups.batches.groups() - firstRow * ranks;
  return rest > 0 ? (rest + perStep - 1) / perStep : 0;
}

void countGroups(EpochGroups &groups, const StepSource::Layout &layout) {
  groups.firstGroups.assign(groups.modes.empty() ? 0 : 1, 0);
  for (size_t step = 0; step < groups.modes.size(); ++step)
    groups.firstGroups.push_back(groups.firstGroups.back() +
                                 (groups.firstRows[step + 1] - groups.firstRows[step]) *
                                     layout.ranks(static_cast<size_t>(groups.modes[step])));
}

uint64_t checksumOf(const EpochGroups &groups, uint64_t state) {
  const Batches &batches = groups.batches;
  for (const std::vector<int64_t> *list : {&batches.samples, &batches.offsets})
    state = fnv1aWords(std::span<const int64_t>(*list), state) ^ list->size();
  if (groups.modes.empty())
    return state;
  state = fnv1aWords(std::span<const int32_t>(groups.modes), state) ^ groups.modes.size();
  return fnv1aWords(std::span<const int64_t>(groups.firstRows), state);
}

Result<Composed> composed(const Compose &compose, const StepSource::Layout &layout,
                          int64_t number) {
  std::string where = "composing epoch " + std::to_string(number) + " of the batches";
  try {
    Result<EpochGroups> result = compose(number);
    if (!result)
      return std::move(result).status().context(where);
    if (result->batches.groups() < 1)
      return Status(Code::Internal, where + " gave no group");
    countGroups(*result, layout);
    uint64_t checksum = checksumOf(*result, fnv1a(""));
    return Composed{*std::move(result), checksum};
  } catch (const std::bad_alloc &) {
    return Status(Code::OutOfMemory, where + ": out of memory");
  }
}

std::shared_future<Result<Composed>>
inBackground(const Compose &compose, const StepSource::Layout &layout, int64_t number) {
  auto work = [compose, layout, number] { return composed(compose, layout, number); };
  try {
    return std::async(std::launch::async, work).share();
  } catch (const std::system_error &) { // no thread to be had: when it is needed
    return std::async(std::launch::deferred, work).share();
  }
}

} // namespace

StepSource::StepSource(EpochGroups groups, Layout layout, Compose compose, uint64_t identity,
                       std::shared_ptr<MixCourse> mix)
    : layout(std::move(layout)), compose(std::move(compose)), course(std::move(mix)),
      first(std::make_shared<Epoch>()) {
  countGroups(groups, this->layout);
  print = checksumOf(groups, identity ^ fnv1a(""));
  std::promise<Result<Composed>> promise;
  promise.set_value(Composed{std::move(groups), print});
  first->groups = promise.get_future().share();
}

std::shared_ptr<StepSource> StepSource::create(EpochGroups first, Layout layout, Compose compose,
                                               uint64_t identity, std::shared_ptr<MixCourse> mix) {
  return std::shared_ptr<StepSource>(new StepSource(std::move(first), std::move(layout),
                                                    std::move(compose), identity, std::move(mix)));
}

int64_t StepSource::steps() const { return stepsOf(first->groups.get()->groups, layout); }

const Batches &StepSource::firstGroups() const { return first->groups.get()->groups.batches; }

int64_t StepSource::endOf(DataPosition epoch, const EpochGroups &groups) const {
  const int64_t past = epoch.firstStep + stepsOf(groups, layout, epoch.firstRow);
  return course ? course->endOf(epoch, past, groups.batches, layout.microbatches) : past;
}

std::shared_ptr<StepSource::Epoch> StepSource::epoch(int64_t number) {
  if (!compose || (number == 0 && !(course && course->changesFirst())))
    return first;
  std::lock_guard lock(mutex);
  std::shared_ptr<Epoch> result = later[number].lock();
  if (!result) {
    std::erase_if(later, [](const auto &entry) { return entry.second.expired(); });
    result = std::make_shared<Epoch>();
    result->groups = inBackground(compose, layout, number);
    later[number] = result;
  }
  return result;
}

std::unique_ptr<StepReader> StepSource::reader(int64_t replica, DataPosition start, int64_t end) {
  return std::make_unique<StepReader>(shared_from_this(), replica, start, end);
}

StepReader::StepReader(std::shared_ptr<StepSource> source, int64_t replica, DataPosition start,
                       int64_t end)
    : source(std::move(source)), replica(replica), end(end) {
  enter(start);
}

StepReader::~StepReader() = default;

void StepReader::enter(DataPosition position) {
  at = position;
  current = next ? std::move(next) : source->epoch(at.epoch);
  next = nullptr;
  begins[at.firstStep] = {at.epoch, at.firstRow, 0};
  if (begins.size() > rememberedEpochs)
    begins.erase(begins.begin());
}

Result<bool> StepReader::advance(int64_t step, bool wait) {
  for (;;) {
    if (!wait && !current->isComposed())
      return false;
    const Result<Composed> &groups = current->groups.get();
    if (!groups)
      return groups.status();
    begins[at.firstStep].checksum = groups->checksum;
    int64_t past = source->endOf(at, groups->groups);
    if (!next && past < end)
      next = source->epoch(at.epoch + 1); // its composition begins now
    if (step < past)
      return true;
    enter({at.epoch + 1, past});
  }
}

bool StepReader::ready(int64_t step) {
  Result<bool> result = advance(step, false);
  return !result || *result; // an error needs no waiting either
}

Result<const EpochGroups *> StepReader::groupsOf(int64_t step) {
  OMNIBAL_ASSIGN_OR_RETURN([[maybe_unused]] bool there, advance(step, true));
  if (step < at.firstStep)
    return Status(Code::Internal, "step " + std::to_string(step + 1) + " is asked for after step " +
                                      std::to_string(at.firstStep + 1));
  return &current->groups.get()->groups;
}

Result<size_t> StepReader::mode(int64_t step) {
  OMNIBAL_ASSIGN_OR_RETURN(const EpochGroups *groups, groupsOf(step));
  return groups->modes.empty() ? 0 : static_cast<size_t>(groups->modes[step - at.firstStep]);
}

Result<double> StepReader::meanOfEpoch(int64_t step, std::span<const int32_t> ofSamples) {
  OMNIBAL_ASSIGN_OR_RETURN(const EpochGroups *groups, groupsOf(step));
  int64_t sum = 0;
  for (int64_t sample : groups->batches.samples)
    sum += ofSamples[sample];
  return static_cast<double>(sum) / static_cast<double>(stepsOf(*groups, source->layout));
}

Result<std::vector<int64_t>> StepReader::samples(int64_t step, int64_t microbatch) {
  OMNIBAL_ASSIGN_OR_RETURN(const EpochGroups *groups, groupsOf(step));
  const Batches &batches = groups->batches;
  const int64_t ofEpoch = step - at.firstStep;
  const StepSource::Layout &layout = source->layout;
  const bool isGrouped = !groups->modes.empty();
  const size_t mode = isGrouped ? static_cast<size_t>(groups->modes[ofEpoch]) : 0;
  if (isGrouped && groups->firstRows[ofEpoch] + microbatch >= groups->firstRows[ofEpoch + 1])
    return std::vector<int64_t>{};
  const int64_t firstGroup =
      isGrouped ? groups->firstGroups[ofEpoch]
                : (at.firstRow + ofEpoch * layout.microbatches) * layout.ranks(mode);
  const int64_t group =
      firstGroup + microbatch * layout.ranks(mode) + replica / layout.degreeOf(mode);
  if (group >= batches.groups())
    return std::vector<int64_t>{}; // the last step of an epoch is filled with empty groups
  return std::vector<int64_t>(batches.samples.begin() + batches.offsets[group],
                              batches.samples.begin() + batches.offsets[group + 1]);
}

DataPosition StepReader::position(int64_t step) const {
  if (step >= at.firstStep && current->isComposed() && current->groups.get()) {
    int64_t past = source->endOf(at, current->groups.get()->groups);
    return step < past ? at : DataPosition{at.epoch + 1, past};
  }
  auto after = begins.upper_bound(step);
  if (after == begins.begin())
    return at;
  auto holds = std::prev(after);
  return {holds->second.epoch, holds->first, holds->second.firstRow};
}

Result<uint64_t> StepReader::checksum(int64_t step) {
  if (step >= at.firstStep) {
    OMNIBAL_ASSIGN_OR_RETURN([[maybe_unused]] bool there, advance(step, true));
  }
  auto after = begins.upper_bound(step);
  if (after == begins.begin())
    return Status(Code::Internal,
                  "the epoch of step " + std::to_string(step + 1) + " is forgotten");
  return std::prev(after)->second.checksum;
}

} // namespace omnibal::rt
