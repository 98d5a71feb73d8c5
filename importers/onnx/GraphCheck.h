//===- GraphCheck.h - A graph's tables, checked before any op is built -------------------===//
#ifndef IMPORTERS_ONNX_GRAPHCHECK_H
#define IMPORTERS_ONNX_GRAPHCHECK_H

#include "importers/onnx/Schema.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/StringSet.h"
#include <string>
#include <vector>

namespace omnibal::onnx {

using NodeList = google::protobuf::RepeatedPtrField<NodeProto>;

/// How an error calls a node: its op and its name, or its first output where it has no name.
std::string nodeLabel(const NodeProto &node);

/// Checks that every value has one definition and every use a definition among `outer` (names of
/// the enclosing graphs), `given` (inputs and initializers) and the nodes; orders the nodes so that
/// definitions precede uses (keeping their order otherwise) and keeps those that `wanted` values
/// need. A cycle is an error that names its nodes.
mlir::FailureOr<std::vector<const NodeProto *>> orderNodes(const NodeList &nodes,
                                                           const llvm::StringSet<> &outer,
                                                           const std::vector<std::string> &given,
                                                           const std::vector<std::string> &wanted,
                                                           mlir::Location where);

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_GRAPHCHECK_H
