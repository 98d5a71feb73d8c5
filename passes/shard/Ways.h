//===- Ways.h - In which layouts an op may be run --------------------------------------------===//
//
// An op of a layer is run in one of four ways:
// * whole operands give whole results;
// * copied operands give copied results: every part does all of the work;
// * along letters of its rule: what has them is split along them, other operands are copied, and
//   results without them are partial, or whole where the parts tell each other what these need;
// * operands in which it is linear are partial, others copied, and results partial.
// Integers have no gradient, so whole and copied are the same for them.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_SHARD_WAYS_H
#define PASSES_SHARD_WAYS_H

#include "dialects/omnibal/ir/FactorRule.h"
#include <string>

namespace omnibal::shard {

/// What is wrong with the layouts in which an op reads its operands and gives its results: nothing,
/// or a sentence that begins with the constraint (layout_c2 or layout_c3).
std::string findFault(mlir::Operation *op, const std::optional<FactorRule> &rule,
                      llvm::ArrayRef<LayoutAttr> reads, llvm::ArrayRef<LayoutAttr> layouts);
/// The same with the op's own rule.
std::string findFault(mlir::Operation *op, llvm::ArrayRef<LayoutAttr> reads,
                      llvm::ArrayRef<LayoutAttr> layouts);

} // namespace omnibal::shard
#endif // PASSES_SHARD_WAYS_H
