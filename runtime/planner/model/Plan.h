//===- Plan.h - Cuts, rematerialization and action lists ---------------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_PLAN_H
#define RUNTIME_PLANNER_MODEL_PLAN_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace omnibal::planner {

enum class ActionKind {
  Forward,    ///< F
  Backward,   ///< B: recompute + input gradient + weight gradient
  InputGrad,  ///< I: recompute + input gradient
  WeightGrad, ///< W
};

inline constexpr std::string_view actionLetters = "FBIW"; ///< in the order of ActionKind

constexpr char letterOf(ActionKind kind) { return actionLetters[static_cast<size_t>(kind)]; }

/// Returns the action of a letter, or none for any other letter.
constexpr std::optional<ActionKind> actionOf(char letter) {
  size_t place = actionLetters.find(letter);
  return place == actionLetters.npos ? std::nullopt : std::optional(static_cast<ActionKind>(place));
}

struct Action {
  ActionKind kind = ActionKind::Forward;
  int64_t microbatch = 0;
  int64_t chunk = 0;
};

/// What one stage does and needs, as predicted by the simulator.
struct StageFigures {
  int64_t forwardNs = 0, backwardNs = 0, recomputeNs = 0;
  int64_t peakBytes = 0, limitBytes = 0; ///< limit 0: none
  int64_t idleNs = 0;
};

struct Plan {
  std::vector<int64_t> cuts;       ///< chunk c holds layers cuts[c] .. cuts[c+1]-1
  std::vector<int64_t> chunkStage; ///< the stage that runs a chunk
  std::vector<std::string> remat;  ///< one option name a layer
  std::string schedule;
  std::vector<std::vector<Action>> actions; ///< per stage, in order
  int64_t stepNs = 0;
  std::vector<StageFigures> stages;
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_PLAN_H
