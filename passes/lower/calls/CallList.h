//===- CallList.h - Calls on roots, before buffers have offsets --------------------------===//
#ifndef PASSES_LOWER_CALLS_CALLLIST_H
#define PASSES_LOWER_CALLS_CALLLIST_H

#include "passes/lower/Lowering.h"
#include "passes/lower/calls/Place.h"

namespace omnibal::lower {

/// A piece of memory: a formal, or a temporary.
struct Root {
  rt::DType dtype = rt::DType::F32;
  SymbolicShape shape; ///< dense; of a formal its declared shape
  SymbolicDim elements = 0;
  int formal = -1; ///< index into CallList::formals
};

struct Call {
  std::string kernel;
  std::vector<std::pair<std::string, Place>> operands;
  nlohmann::json attributes = nlohmann::json::object();
  std::string label;
};

struct FormalRoot {
  Formal formal;
  int root = -1;
};

struct CallList {
  std::string name;
  std::vector<FormalRoot> formals;
  std::vector<Root> roots;
  std::vector<Call> calls;
  std::vector<ConstantData> constants;
};
/// As kernels read it: a number, or [constant, per tile, per token].
nlohmann::json toJson(const SymbolicDim &dim);

/// Gives temporaries offsets in the workspace (64-byte aligned, sizes at the caps with rows rounded
/// up, memory shared by values that do not live at the same time) and builds the function.
LoweredFunction assignBuffers(CallList list, const LoweringOptions &options);

} // namespace omnibal::lower
#endif // PASSES_LOWER_CALLS_CALLLIST_H
