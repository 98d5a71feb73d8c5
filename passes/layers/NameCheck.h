//===- NameCheck.h - Whether components found in the graph are called so ----------------------===//
#ifndef PASSES_LAYERS_NAMECHECK_H
#define PASSES_LAYERS_NAMECHECK_H

#include "passes/layers/LayerSearch.h"

namespace omnibal::layers {

/// Warns if a parameter's or module's name suggests another component of the model than the layer
/// in which the graph places it. It changes nothing, because names decide nothing.
void warnAboutNames(llvm::ArrayRef<LayerPlan> layers, const ContentOps &content);

} // namespace omnibal::layers
#endif // PASSES_LAYERS_NAMECHECK_H
