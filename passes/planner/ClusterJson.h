//===- ClusterJson.h - The cluster part of a problem as JSON -----------------------------===//
#ifndef PASSES_PLANNER_CLUSTERJSON_H
#define PASSES_PLANNER_CLUSTERJSON_H

#include "passes/planner/Problem.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace omnibal::planner {

/// Assumed where no link is described: 10 us and 10 GB/s.
constexpr Link defaultLink{10'000, 10'000'000'000};

/// Reads `stages`, `memory_bytes` (a number, or a list of one or `stages` numbers), `link` and
/// `data_parallel`; only `stages` is required, links are `defaultLink`
/// where they are not given. Keys other than these and `alsoKnown` are errors.
/// `where` names file and key in messages.
llvm::Expected<Cluster> readCluster(const llvm::json::Object &object, llvm::StringRef where,
                                    llvm::ArrayRef<llvm::StringRef> alsoKnown = {});

} // namespace omnibal::planner
#endif // PASSES_PLANNER_CLUSTERJSON_H
