#include "runtime/batching/steps/MixCourse.h"
#include <algorithm>
#include <utility>

namespace omnibal::rt {
namespace {

/// The samples of the groups behind so many rows.
std::vector<int64_t> samplesBehind(const Batches &groups, int64_t rows, int64_t ranks) {
  const int64_t group = std::clamp<int64_t>(rows, 0, groups.groups() / ranks) * ranks;
  return {groups.samples.begin() + groups.offsets[group], groups.samples.end()};
}

} // namespace

MixCourse::MixCourse(std::shared_ptr<const Composition> composition)
    : composition(std::move(composition)) {}

Result<Mix> MixCourse::mixOf(const Composition &composition, const Known *stretch) {
  Mix mix = composition.mix;
  if (!stretch)
    return mix;
  if (!stretch->weights.empty())
    mix.phases = {{0, stretch->weights}};
  const Result<MixStart> &start = stretch->start.get();
  OMNIBAL_RETURN_IF_ERROR(start.status());
  mix.start = *start;
  return mix;
}

/// `untrained`: what of the epoch before it no step took, where that is known; else the epoch is
/// composed once more to know it.
void MixCourse::add(MixStretch stretch, std::optional<std::vector<int64_t>> untrained) {
  std::optional<Known> before;
  if (!stretches.empty())
    before = stretches.back();
  auto find = [shared = composition, before = std::move(before), rows = stretch.rows,
               untrained = std::move(untrained),
               last = stretch.epoch - 1]() mutable -> Result<MixStart> {
    const BatchOptions &options = shared->options;
    if (options.epoch + last < 0)
      return MixStart();
    OMNIBAL_ASSIGN_OR_RETURN(const Mix mix, mixOf(*shared, before ? &*before : nullptr));
    std::vector<int64_t> rest;
    if (untrained) {
      rest = std::move(*untrained);
    } else if (rows != MixStretch::allRows) {
      OMNIBAL_ASSIGN_OR_RETURN(const Batches groups, rt::compose(*shared, mix, last));
      rest = samplesBehind(groups, rows, options.ranks);
    }
    return startAfter(mix, options.seed, options.epoch + last, rest);
  };
  stretches.push_back(
      {std::move(stretch), std::async(std::launch::deferred, std::move(find)).share()});
}

void MixCourse::begin(std::vector<MixStretch> met, std::vector<WeightsFrom> coming,
                      DataPosition start, const Batches &first) {
  std::lock_guard lock(mutex);
  if (std::exchange(begun, true))
    return;
  if (!coming.empty() && coming.front().first == start.firstStep && start.firstRow == 0) {
    // Nothing of the epoch has been trained: it is drawn anew, in place of one that ends at once.
    if (met.empty() || met.back().epoch < start.epoch)
      met.push_back({start.epoch, MixStretch::allRows, {}});
    met.back().weights = std::move(coming.front().weights);
    coming.erase(coming.begin());
  }
  for (MixStretch &stretch : met) {
    std::optional<std::vector<int64_t>> untrained;
    if (stretch.epoch == 1 && stretches.empty()) // of the folder's own groups, whoever made them
      untrained = samplesBehind(first, stretch.rows, composition->options.ranks);
    add(std::move(stretch), std::move(untrained));
  }
  changes = std::move(coming);
}

int64_t MixCourse::endOf(DataPosition epoch, int64_t past, const Batches &groups,
                         int64_t rowsPerStep) {
  std::lock_guard lock(mutex);
  const auto next = std::find_if(changes.begin(), changes.end(), [&](const WeightsFrom &change) {
    return change.first > epoch.firstStep ||
           (change.first == epoch.firstStep && epoch.firstRow > 0);
  });
  if (next == changes.end() || next->first > past)
    return past;
  if (stretches.empty() || stretches.back().epoch <= epoch.epoch) {
    const int64_t rows = epoch.firstRow + (next->first - epoch.firstStep) * rowsPerStep;
    add({epoch.epoch + 1, rows, next->weights},
        samplesBehind(groups, rows, composition->options.ranks));
  }
  return next->first;
}

bool MixCourse::changesFirst() const {
  std::lock_guard lock(mutex);
  return !stretches.empty() && stretches.front().epoch == 0;
}

Result<Batches> MixCourse::compose(int64_t epoch) const {
  std::optional<Known> stretch;
  {
    std::lock_guard lock(mutex);
    const auto last = std::find_if(stretches.rbegin(), stretches.rend(),
                                   [&](const Known &known) { return known.epoch <= epoch; });
    if (last != stretches.rend())
      stretch = *last;
  }
  OMNIBAL_ASSIGN_OR_RETURN(const Mix mix, mixOf(*composition, stretch ? &*stretch : nullptr));
  return rt::compose(*composition, mix, epoch);
}

std::vector<MixStretch> MixCourse::metUntil(int64_t epoch) const {
  std::lock_guard lock(mutex);
  std::vector<MixStretch> met;
  for (const Known &known : stretches)
    if (known.epoch <= epoch)
      met.push_back(known);
  return met;
}

} // namespace omnibal::rt
