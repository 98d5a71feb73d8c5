//===- Incremental.h - Models that may go on from kept keys and values ------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_INCREMENTAL_H
#define DIALECTS_OMNIBAL_IR_INCREMENTAL_H

#include "llvm/ADT/StringRef.h"

namespace omnibal {

/// On a module this attribute says that tokens of a sample see each other only through attention
/// that looks back. A later token then needs nothing of earlier ones but their keys and values.
constexpr llvm::StringLiteral incrementalAttrName = "omnibal.incremental";

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_IR_INCREMENTAL_H
