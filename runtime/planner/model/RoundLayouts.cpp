//===- RoundLayouts.cpp ------------------------------------------------------------------===//
#include "runtime/planner/model/RoundLayouts.h"
#include "runtime/planner/model/Partition.h"
#include "runtime/planner/model/ScheduleRules.h"

namespace omnibal::planner {
namespace {

/// Cuts that keep the vision layers apart from the others.
std::vector<int64_t> cutsApart(const std::vector<int64_t> &work, int64_t vision,
                               int64_t visionChunks, int64_t otherChunks) {
  std::vector<int64_t> cuts = levelCuts({work.begin(), work.begin() + vision}, visionChunks);
  for (int64_t cut : levelCuts({work.begin() + vision, work.end()}, otherChunks))
    if (cut > 0)
      cuts.push_back(vision + cut);
  return cuts;
}

} // namespace

std::vector<RoundLayout> roundLayouts(const std::vector<int64_t> &work, int64_t vision,
                                      int64_t stages, int64_t mostRounds) {
  auto layers = static_cast<int64_t>(work.size());
  std::vector<RoundLayout> layouts;
  auto add = [&](int64_t visionRounds, int64_t rounds, const std::vector<int64_t> &cuts) {
    int64_t all = visionRounds + rounds;
    for (bool wave : {false, true})
      if (!wave || all > 1)
        layouts.push_back(
            {visionRounds, rounds, wave, cuts, stagesInRounds(all * stages, stages, wave)});
  };
  for (int64_t k = 1; k <= mostRounds && k * stages <= layers; ++k)
    add(0, k, levelCuts(work, k * stages));
  for (int64_t v = 1; v <= mostRounds && v * stages <= vision; ++v)
    for (int64_t l = 1; l <= mostRounds && l * stages <= layers - vision; ++l)
      add(v, l, cutsApart(work, vision, v * stages, l * stages));
  return layouts;
}

} // namespace omnibal::planner
