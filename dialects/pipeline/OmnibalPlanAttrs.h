//===- OmnibalPlanAttrs.h - Costs and plans as attributes --------------------------------===//
#ifndef DIALECTS_PIPELINE_OMNIBALPLANATTRS_H
#define DIALECTS_PIPELINE_OMNIBALPLANATTRS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>
#include <string>

#include "dialects/pipeline/OmnibalPlanDialect.h.inc"

#include "dialects/pipeline/LayoutEnums.h.inc"
#include "dialects/pipeline/OmnibalPlanEnums.h.inc"

namespace omnibal {
/// One of ActionsAttr's.
struct PlannedAction {
  RunKind kind = RunKind::Forward;
  int64_t microbatch = 0;
  int64_t chunk = 0;
  friend bool operator==(const PlannedAction &, const PlannedAction &) = default;
};
llvm::hash_code hash_value(const PlannedAction &action);
/// "forward(0, 0)", as it prints.
std::string toString(const PlannedAction &action);
} // namespace omnibal

#define GET_ATTRDEF_CLASSES
#include "dialects/pipeline/OmnibalPlanAttrs.h.inc"

namespace omnibal {
/// The most ranks that run a stage of a replica together; that of programs.
inline constexpr int64_t mostParts = 65536;

inline constexpr llvm::StringLiteral costAttrName = "omnibal.cost";
/// On the module, a unit: plans of single steps choose order, places and what is kept, and
/// `omnibal.plan` is what serves every step.
inline constexpr llvm::StringLiteral stepPlannedAttrName = "omnibal.step_planned";
/// What people call that.
inline constexpr llvm::StringLiteral perStepSchedule = "per-step";
/// On a layer, by option: sixteen numbers, what forward, backward, input_grad and weight_grad take
/// each, in ns fixed, per tile, per token and per squared token of a sample.
inline constexpr llvm::StringLiteral timeModelsAttrName = "omnibal.time_models";
/// On the module: a #plan.optimizer; without it, AdamW.
inline constexpr llvm::StringLiteral optimizerAttrName = "omnibal.optimizer";
/// On a parameter: a matrix whose update Muon orthogonalizes.
inline constexpr llvm::StringLiteral orthogonalizedAttrName = "omnibal.orthogonalized";
/// On the module: ns that a computing action takes besides its layers.
inline constexpr llvm::StringLiteral actionNsAttrName = "omnibal.action_ns";
inline constexpr llvm::StringLiteral planAttrName = "omnibal.plan";
inline constexpr llvm::StringLiteral rematAttrName = "omnibal.remat";
/// On a layer where plans of single steps choose what is recomputed: an option for each variant of
/// its chunk, the fastest variant first, the one that keeps least last.
inline constexpr llvm::StringLiteral rematVariantsAttrName = "omnibal.remat_variants";
inline constexpr llvm::StringLiteral chunkAttrName = "omnibal.chunk";
/// On a call of a layer: a layer_fn for each part of its stage, where they differ.
inline constexpr llvm::StringLiteral calleesAttrName = "omnibal.callees";
inline constexpr llvm::StringLiteral buffersAttrName = "omnibal.buffers";
inline constexpr llvm::StringLiteral clusterAttrName = "omnibal.cluster";
/// On a module that is one training mode of the program around it: a TrainModeAttr.
inline constexpr llvm::StringLiteral trainModeAttrName = "omnibal.train_mode";
/// On a module of training modes, where people gave them: the cuts that all of them have.
inline constexpr llvm::StringLiteral givenCutsAttrName = "omnibal.given_cuts";
/// On a program: digest of the model that its length groups were made for (cost::modelDigest).
inline constexpr llvm::StringLiteral givenModelAttrName = "omnibal.given_model";
/// This attribute of the module is a dense array with the bytes of each stage that a plan leaves
/// free of what it counts.
inline constexpr llvm::StringLiteral reservedAttrName = "omnibal.reserved";
/// The target whose kernels the costs of a module are for: "host" (also without it) or "cuda".
inline constexpr llvm::StringLiteral targetAttrName = "omnibal.target";
/// Load of each micro-batch: an array of LoadAttr.
inline constexpr llvm::StringLiteral loadsAttrName = "omnibal.loads";

/// Whether `name` is a way to rematerialize: "keep", "full", or "selective-N" with N >= 1.
bool isRematName(llvm::StringRef name);
} // namespace omnibal

#endif // DIALECTS_PIPELINE_OMNIBALPLANATTRS_H
