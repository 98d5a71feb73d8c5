#include "runtime/planner/evaluate/MemoryProfile.h"
#include <algorithm>

namespace omnibal::planner {

MemoryProfile::MemoryProfile(const PlanningModel &model, const std::vector<Action> &actions,
                             int64_t chunk) {
  Moment now;
  for (const Action &a : actions) {
    if (a.chunk != chunk)
      continue;
    changes.push_back({a.kind, model.loadOf[a.microbatch]});
    if (a.kind == ActionKind::Forward) {
      ++now.saved;
    } else if (a.kind == ActionKind::InputGrad) {
      --now.saved;
      ++now.split;
    }
    if (std::none_of(moments.begin(), moments.end(),
                     [&](const Moment &m) { return m.covers(now); })) {
      std::erase_if(moments, [&](const Moment &m) { return now.covers(m); });
      moments.push_back(now);
    }
    if (a.kind == ActionKind::Backward)
      --now.saved;
    else if (a.kind == ActionKind::WeightGrad)
      --now.split;
  }
}

int64_t MemoryProfile::held(const std::vector<int64_t> &saved,
                            const std::vector<int64_t> &split) const {
  int64_t now = 0, most = 0;
  for (const Change &change : changes) {
    if (change.kind == ActionKind::Forward)
      now += saved[change.load];
    else if (change.kind == ActionKind::InputGrad)
      now += split[change.load] - saved[change.load];
    most = std::max(most, now);
    if (change.kind == ActionKind::Backward)
      now -= saved[change.load];
    else if (change.kind == ActionKind::WeightGrad)
      now -= split[change.load];
  }
  return most;
}

std::vector<MemoryProfile> memoryProfiles(const PlanningModel &model,
                                          const std::vector<int64_t> &chunkStage,
                                          const std::vector<std::vector<Action>> &actions) {
  std::vector<MemoryProfile> profiles;
  for (size_t c = 0; c < chunkStage.size(); ++c)
    profiles.emplace_back(model, actions[chunkStage[c]], static_cast<int64_t>(c));
  return profiles;
}

} // namespace omnibal::planner
