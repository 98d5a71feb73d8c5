#include "test/unit/runtime/program/TinyModes.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

/// Every mode has functions of its own, which are laid out for its caps.
Mode shifted(Mode mode, size_t functions) {
  for (Chunk &chunk : mode.chunks)
    for (auto *list : {&chunk.forward, &chunk.backward, &chunk.inputGrad, &chunk.weightGrad})
      for (LayerCall &call : *list)
        call.function += static_cast<int32_t>(functions);
  return mode;
}

} // namespace

Program tinyModes(std::span<const TinyOptions> modes) {
  Program all;
  for (size_t i = 0; i < modes.size(); ++i) {
    const Program one = tinyProgram(modes[i]);
    const size_t before = all.functions.size();
    if (i == 0) {
      all = one;
      for (Stage &stage : all.stageList)
        stage.modes.clear();
      all.trainModes.clear();
    } else {
      all.functions.insert(all.functions.end(), one.functions.begin(), one.functions.end());
    }
    all.trainModes.push_back(one.trainModes[0]);
    all.trainModes.back().name = "G" + std::to_string(i);
    for (size_t s = 0; s < one.stageList.size(); ++s) {
      Stage &stage = all.stageList[s];
      const Stage &own = one.stageList[s];
      stage.arenaBytes = std::max(stage.arenaBytes, own.arenaBytes);
      stage.modes[trainModeName(i)] = shifted(own.modes.at("train"), before);
      if (i + 1 == modes.size())
        stage.modes["evaluate"] = shifted(own.modes.at("evaluate"), before);
    }
  }
  return all;
}

} // namespace omnibal::rt
