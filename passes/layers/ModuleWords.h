//===- ModuleWords.h - Words of module paths that tell a component of the model ---------------===//
//
// This is the one place in importers/ and passes/ that knows what modules are called. It decides
// nothing: NameCheck warns if names and the graph's structure disagree.
//
//===-------------------------------------------------------------------------------------------------===//
#ifndef PASSES_LAYERS_MODULEWORDS_H
#define PASSES_LAYERS_MODULEWORDS_H

#include "dialects/omnibal/ir/OmnibalOps.h"

namespace omnibal::layers {

/// Component of the model that a layer belongs to: embedding and head are modules of the language
/// model.
inline LayerKind componentOf(LayerKind kind) {
  return kind == LayerKind::Head ? LayerKind::Language : kind;
}

/// Component of the model that the path of a module or parameter names, if it holds a known word.
std::optional<LayerKind> componentOfModule(llvm::StringRef path);

/// Module path of an op (the NameLoc within the node's NameLoc), "" if it has none.
llvm::StringRef modulePathOf(mlir::Operation *op);

} // namespace omnibal::layers
#endif // PASSES_LAYERS_MODULEWORDS_H
