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

struct Placed {
  rt::Bucket bucket;
  int64_t action; ///< that completes it
};

std::vector<Placed> fill(const rt::Stage &stage, int64_t bucketBytes) {
  std::map<int32_t, Moment> last = completions(stage.modes.at("train"));
  std::vector<std::tuple<Moment, int32_t>> order; // neighbors in the arena stay neighbors
  for (size_t i = 0; i < stage.parameters.size(); ++i) {
    const rt::Parameter &parameter = stage.parameters[i];
    if (!parameter.trainable)
      continue;
    auto found = last.find(static_cast<int32_t>(i));
    bool known = found != last.end() && parameter.sharedGroup < 0;
    order.push_back({known ? found->second : atTheEnd, static_cast<int32_t>(i)});
  }
  std::sort(order.begin(), order.end());
  std::vector<Placed> buckets;
  int64_t bytes = 0;
  bool shared = false;
  for (auto [moment, number] : order) {
    int64_t size = stage.parameters[number].elements() * int64_t{sizeof(float)};
    bool fits = !buckets.empty() && bytes + size <= bucketBytes && shared == (moment == atTheEnd);
    if (!fits) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().bucket.parameters.push_back(number);
    buckets.back().action = moment.first;
    bytes += size;
    shared = moment == atTheEnd;
  }
  return buckets;
}

bool startsMessage(const rt::Action &action) {
  return action.kind == rt::ActionKind::PostRecv || action.kind == rt::ActionKind::Send;
}

} // namespace

void placeGradientBuckets(rt::Stage &stage, int64_t bucketBytes) {
  auto train = stage.modes.find("train");
  if (train == stage.modes.end())
    return;
  std::vector<Placed> buckets = fill(stage, bucketBytes);
  stage.buckets.clear();
  for (const Placed &placed : buckets)
    stage.buckets.push_back(placed.bucket);
  std::vector<rt::Action> list;
  const std::vector<rt::Action> &old = train->second.actions;
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
           (place || buckets[next].action <= static_cast<int64_t>(k)))
      list.push_back({rt::ActionKind::ReduceGradients, 0, static_cast<int32_t>(next++)});
  }
  train->second.actions = std::move(list);
}

} // namespace omnibal::schedule
