#include "passes/schedule/GradientBuckets.h"
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace omnibal::schedule {
namespace {

/// When a gradient is complete: the action's position in the list and the layer's in the action.
using Moment = std::pair<int64_t, int64_t>;
constexpr Moment atTheEnd{std::numeric_limits<int64_t>::max(), 0};

std::map<int32_t, Moment> completions(const rt::Mode &mode) {
  std::map<int32_t, Moment> last;
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
Moment completionOf(const rt::Stage &stage, const std::map<int32_t, Moment> &last,
                    int32_t parameter) {
  auto found = last.find(parameter);
  bool known = found != last.end() && stage.parameters[parameter].sharedGroup < 0;
  return known ? found->second : atTheEnd;
}

std::vector<rt::Bucket> fill(const rt::Stage &stage, int64_t bucketBytes) {
  std::map<int32_t, Moment> last = completions(stage.modes.at(rt::trainModeName(0)));
  std::vector<std::tuple<Moment, int32_t>> order; // neighbors in the arena stay neighbors
  for (size_t i = 0; i < stage.parameters.size(); ++i)
    if (auto number = static_cast<int32_t>(i); stage.parameters[i].trainable)
      order.push_back({completionOf(stage, last, number), number});
  std::sort(order.begin(), order.end());
  std::vector<rt::Bucket> buckets;
  int64_t bytes = 0;
  bool shared = false;
  for (auto [moment, number] : order) {
    int64_t size = stage.parameters[number].elements() * int64_t{sizeof(float)};
    bool fits = !buckets.empty() && bytes + size <= bucketBytes && shared == (moment == atTheEnd);
    if (!fits) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().parameters.push_back(number);
    bytes += size;
    shared = moment == atTheEnd;
  }
  return buckets;
}

/// The stage's buckets as a mode completes them: the moment and the bucket's number.
std::vector<std::pair<Moment, int32_t>> completedBuckets(const rt::Stage &stage,
                                                         const rt::Mode &mode) {
  std::map<int32_t, Moment> last = completions(mode);
  std::vector<std::pair<Moment, int32_t>> order;
  for (size_t b = 0; b < stage.buckets.size(); ++b) {
    Moment complete{-1, 0};
    for (int32_t parameter : stage.buckets[b].parameters)
      complete = std::max(complete, completionOf(stage, last, parameter));
    order.push_back({complete, static_cast<int32_t>(b)});
  }
  std::sort(order.begin(), order.end());
  return order;
}

bool startsMessage(const rt::Action &action) {
  return action.kind == rt::ActionKind::PostRecv || action.kind == rt::ActionKind::Send;
}

void placeReductions(const rt::Stage &stage, rt::Mode &mode) {
  const std::vector<std::pair<Moment, int32_t>> buckets = completedBuckets(stage, mode);
  std::vector<rt::Action> list;
  const std::vector<rt::Action> &old = mode.actions;
  bool sums = std::any_of(old.begin(), old.end(), [](const rt::Action &action) {
    return action.kind == rt::ActionKind::ReduceGradients;
  });
  size_t next = 0;
  for (size_t k = 0; k < old.size(); ++k) {
    bool place = old[k].kind == rt::ActionKind::ReduceGradients;
    if (!place)
      list.push_back(old[k]);
    bool more = k + 1 < old.size() && startsMessage(old[k + 1]);
    while (sums && !more && next < buckets.size() &&
           (place || buckets[next].first.first <= static_cast<int64_t>(k)))
      list.push_back({rt::ActionKind::ReduceGradients, 0, buckets[next++].second});
  }
  mode.actions = std::move(list);
}

} // namespace

void placeGradientBuckets(rt::Stage &stage, int64_t bucketBytes) {
  if (!stage.modes.count(rt::trainModeName(0)))
    return;
  stage.buckets = fill(stage, bucketBytes);
  for (auto &[name, mode] : stage.modes)
    if (rt::trainModeNumber(name))
      placeReductions(stage, mode);
}

} // namespace omnibal::schedule
