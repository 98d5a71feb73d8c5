//===- LayerLayouts.h - Layouts as attributes of layers, their ops and parameters ------------===//
#ifndef PASSES_SHARD_LAYERLAYOUTS_H
#define PASSES_SHARD_LAYERLAYOUTS_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include <tuple>

namespace omnibal::shard {

/// On an op of a layer: a layout for each operand, as the op reads it.
inline constexpr llvm::StringLiteral readsAttrName = "omnibal.reads";
/// On an op of a layer: a layout for each result.
inline constexpr llvm::StringLiteral layoutsAttrName = "omnibal.layouts";
/// On a layer: a layout for each input, then for each output.
inline constexpr llvm::StringLiteral bordersAttrName = "omnibal.borders";
/// On a parameter: how the parts hold it; without it, whole.
inline constexpr llvm::StringLiteral heldAttrName = "omnibal.held";

/// Returns the layouts under a name, or none if there is a list of another length or of something
/// else. An absent list is an empty one.
std::optional<llvm::SmallVector<LayoutAttr>> findLayouts(mlir::Operation *op, llvm::StringRef name,
                                                         size_t count);
void writeLayouts(mlir::Operation *op, llvm::StringRef name, llvm::ArrayRef<LayoutAttr> layouts);
/// Returns how the parts hold a parameter of a layer; none if the attribute is something else.
std::optional<LayoutAttr> findHeld(mlir::Value parameter);
/// The same for whoever asks often; a module of large models has thousands of symbols.
std::optional<LayoutAttr> findHeld(mlir::Value parameter, mlir::SymbolTableCollection &symbols);

/// The types of a layer's outputs as each part has them: whole, or its rows.
llvm::SmallVector<mlir::Type> outputTypesOfPart(LayerOp layer);

/// Whether a parameter that is held so may be read so: as it is, whole where it is copied, or
/// partial where it is whole. It moves for nothing then.
bool readsFree(LayoutAttr held, LayoutAttr read);

/// Whether a layer, or one of its ops, has layouts: then parts may run different things in it.
bool hasLayouts(LayerOp layer);
/// Of how many parts a module's stages are: as its plan says, or its cluster.
int64_t partsOf(mlir::ModuleOp module);
/// Whether a module's parts are replicas that run a micro-batch together, a context group. They
/// hold all of every parameter, and their gradients are summed as those of replicas are.
bool areReplicas(mlir::ModuleOp module);
/// Whether parts hold different values of some parameter, or run different functions: then each has
/// a layout of memory of its own.
bool hasPartsApart(mlir::ModuleOp module);
/// What `part` of `parts` holds of a parameter.
mlir::RankedTensorType heldType(ParameterOp parameter, int64_t parts, int64_t part);

/// The sizes of a value's dimensions; empty if one of them is open.
SymbolicShape shapeOf(mlir::Value value);
/// Whether parts have the same of a value of this type under both layouts. One without a gradient
/// may be called whole or copied.
bool areAlike(mlir::RankedTensorType type, LayoutAttr one, LayoutAttr other);

/// Whether a value that parts have in both layouts moves to another one from `one` rather than from
/// `other`: from where value and gradient send least, else from the first by kind, dimension and
/// units.
bool isNearer(LayoutAttr one, LayoutAttr other, LayoutAttr to, int64_t parts);

/// From and to which layouts parts send in a function, and of what whole shape, in its order.
using Moves = llvm::SmallVector<std::tuple<mlir::Attribute, mlir::Attribute, mlir::Attribute>>;
Moves sentMoves(mlir::Operation *function);

} // namespace omnibal::shard
#endif // PASSES_SHARD_LAYERLAYOUTS_H
