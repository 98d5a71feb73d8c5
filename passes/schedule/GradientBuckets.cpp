#include "passes/schedule/GradientBuckets.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <limits>
#include <tuple>

namespace omnibal::schedule {
namespace {

constexpr Completion atTheEnd{std::numeric_limits<int64_t>::max(), 0};

std::map<int32_t, Completion> completions(const rt::Mode &mode) {
  std::map<int32_t, Completion> last;
  for (size_t k = 0; k < mode.actions.size(); ++k) {
    const rt::Action &action = mode.actions[k];
    if (!rt::isCompute(action.kind))
      continue;
    const auto &calls = mode.chunks[action.index].calls(action.kind);
    for (size_t i = 0; i < calls.size(); ++i)
      for (const rt::Location &location : calls[i].bindings)
        if (location.space == rt::Space::Gradient)
          last[location.index] = {static_cast<int64_t>(k), static_cast<int64_t>(i)};
  }
  return last;
}

/// When the sum of the parameter's gradient may begin; those of several stages come last.
Completion completionOf(const TrainedParameter &parameter,
                        const std::map<int32_t, Completion> &last) {
  auto found = last.find(parameter.number);
  return found != last.end() && !parameter.isShared ? found->second : atTheEnd;
}

/// The stage's buckets as a mode completes them: when, and the bucket's number.
std::vector<std::pair<Completion, int32_t>> completedBuckets(const rt::Stage &stage,
                                                             const rt::Mode &mode) {
  const std::map<int32_t, Completion> last = completions(mode);
  std::map<int32_t, Completion> complete;
  for (const TrainedParameter &parameter : trainedParameters(stage))
    complete[parameter.number] = completionOf(parameter, last);
  std::vector<std::pair<Completion, int32_t>> order;
  for (size_t b = 0; b < stage.buckets.size(); ++b) {
    Completion ofBucket{-1, 0};
    for (int32_t parameter : stage.buckets[b].parameters)
      ofBucket = std::max(ofBucket, complete.at(parameter));
    order.push_back({ofBucket, static_cast<int32_t>(b)});
  }
  std::sort(order.begin(), order.end());
  return order;
}

bool startsMessage(const rt::Action &action) {
  return action.kind == rt::ActionKind::PostRecv || action.kind == rt::ActionKind::Send;
}

void placeReductions(const rt::Stage &stage, rt::Mode &mode) {
  const std::vector<std::pair<Completion, int32_t>> buckets = completedBuckets(stage, mode);
  std::vector<rt::Action> list;
  const std::vector<rt::Action> &old = mode.actions;
  const auto sums = std::find_if(old.begin(), old.end(), [](const rt::Action &action) {
    return rt::reducesBucket(action.kind);
  });
  size_t next = 0;
  for (size_t k = 0; k < old.size(); ++k) {
    bool place = rt::reducesBucket(old[k].kind);
    if (old[k].kind == rt::ActionKind::GatherParameters)
      for (size_t b = 0; b < buckets.size(); ++b)
        list.push_back({old[k].kind, 0, static_cast<int32_t>(b)});
    else if (!place)
      list.push_back(old[k]);
    bool more = k + 1 < old.size() && startsMessage(old[k + 1]);
    while (sums != old.end() && !more && next < buckets.size() &&
           (place || buckets[next].first.first <= static_cast<int64_t>(k)))
      list.push_back({sums->kind, 0, buckets[next++].second});
  }
  mode.actions = std::move(list);
}

} // namespace

std::vector<FilledBucket> fillBuckets(std::span<const TrainedParameter> parameters,
                                      const std::map<int32_t, Completion> &last,
                                      int64_t bucketBytes) {
  std::vector<std::tuple<Completion, const TrainedParameter *>> order;
  for (const TrainedParameter &parameter : parameters)
    order.push_back({completionOf(parameter, last), &parameter});
  // Neighbors in the arena stay neighbors.
  std::stable_sort(order.begin(), order.end(),
                   [](const auto &x, const auto &y) { return std::get<0>(x) < std::get<0>(y); });
  std::vector<FilledBucket> buckets;
  int64_t bytes = 0;
  bool shared = false;
  for (auto [completion, parameter] : order) {
    const int64_t elements =
        parameter->wholeElements > 0 ? parameter->wholeElements : parameter->elements;
    int64_t size = elements * int64_t{sizeof(float)};
    bool fits =
        !buckets.empty() && bytes + size <= bucketBytes && shared == (completion == atTheEnd);
    if (!fits) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().parameters.push_back(parameter->number);
    const int64_t grain = parameter->grain;
    buckets.back().elements += (parameter->elements + grain - 1) / grain * grain;
    bytes += size;
    shared = completion == atTheEnd;
  }
  return buckets;
}

std::vector<TrainedParameter> trainedParameters(const rt::Stage &stage, int64_t grain) {
  std::vector<TrainedParameter> list;
  for (auto [number, parameter] : llvm::enumerate(stage.parameters))
    if (parameter.trainable)
      list.push_back({static_cast<int32_t>(number), parameter.elements(),
                      parameter.sharedGroup >= 0, parameter.wholeElements(), grain});
  return list;
}

void placeGradientBuckets(rt::Stage &stage, int64_t bucketBytes) {
  auto first = stage.modes.find(rt::trainModeName(0));
  if (first == stage.modes.end())
    return;
  // Where replicas have shares, the layout needed them before.
  std::vector<rt::Bucket> before = std::move(stage.buckets);
  stage.buckets.clear();
  for (const FilledBucket &filled :
       fillBuckets(trainedParameters(stage), completions(first->second), bucketBytes)) {
    rt::Bucket &bucket = stage.buckets.emplace_back(rt::Bucket{filled.parameters, std::nullopt});
    for (const rt::Bucket &known : before)
      if (known.parameters == bucket.parameters)
        bucket.share = known.share;
  }
  for (auto &[name, mode] : stage.modes)
    if (rt::trainModeNumber(name))
      placeReductions(stage, mode);
}

} // namespace omnibal::schedule
