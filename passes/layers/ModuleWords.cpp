//===- ModuleWords.cpp -------------------------------------------------------------------===//
#include "passes/layers/ModuleWords.h"

using namespace mlir;

namespace omnibal::layers {

std::optional<LayerKind> componentOfModule(StringRef path) {
  // Earlier entries win: "vision_projector" is a projector.
  static const std::pair<llvm::StringLiteral, LayerKind> words[] = {
      {"projector", LayerKind::Projector}, {"connector", LayerKind::Projector},
      {"merger", LayerKind::Projector},    {"resampler", LayerKind::Projector},
      {"vision", LayerKind::Vision},       {"visual", LayerKind::Vision},
      {"language", LayerKind::Language},   {"text_model", LayerKind::Language},
      {"lm_head", LayerKind::Head},
  };
  for (const auto &[word, kind] : words)
    if (path.contains(word))
      return kind;
  return std::nullopt;
}

StringRef modulePathOf(Operation *op) {
  auto name = dyn_cast<NameLoc>(op->getLoc());
  auto module = name ? dyn_cast<NameLoc>(name.getChildLoc()) : NameLoc();
  return module ? module.getName().getValue() : StringRef();
}

} // namespace omnibal::layers
