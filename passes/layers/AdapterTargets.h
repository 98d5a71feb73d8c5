//===- AdapterTargets.h - Which linear layers get adapters ------------------------------------===//
#ifndef PASSES_LAYERS_ADAPTERTARGETS_H
#define PASSES_LAYERS_ADAPTERTARGETS_H

#include "dialects/omnibal/analysis/LayerGraph.h"
#include <string>
#include <vector>

namespace omnibal::layers {

/// A weight that is nothing but the weight of linear layers.
struct AdapterTarget {
  ParameterOp weight;
  std::string module;          ///< path in the model
  std::string a, b, magnitude; ///< names of parameters to add
  int64_t in = 0, out = 0;
  bool inOut = false; ///< the checkpoint has [in, out]
};

/// A parameter that trains as it is.
struct SavedTarget {
  ParameterOp parameter;
  std::string module;
};

struct AdapterTargets {
  std::vector<AdapterTarget> linears;
  std::vector<SavedTarget> saved;
};

/// Finds the weights of linear layers whose name, or whose module's name, the regular expression
/// `match` finds, and all parameters of the modules that `save` finds (empty: none), which get no
/// adapter. Warns of matrices that match but have other uses; it is an error if an expression is
/// wrong or finds nothing.
mlir::FailureOr<AdapterTargets> findAdapterTargets(const LayerGraph &graph, llvm::StringRef match,
                                                   llvm::StringRef save);

} // namespace omnibal::layers
#endif // PASSES_LAYERS_ADAPTERTARGETS_H
