//===- GraphBuilder.h - Nodes to ops, functions inlined ----------------------------------===//
#ifndef IMPORTERS_ONNX_GRAPHBUILDER_H
#define IMPORTERS_ONNX_GRAPHBUILDER_H

#include "importers/onnx/GraphCheck.h"
#include "importers/onnx/NodeContext.h"
#include "importers/onnx/Parameters.h"

namespace omnibal::onnx {

/// Values by name; a subgraph sees those of the graphs around it, a function only its own.
struct Scope {
  const Scope *parent = nullptr;
  llvm::StringMap<mlir::Value> values;
  llvm::StringMap<Sequence> sequences;
};

/// What a node's meaning depends on beside its operands.
struct Frame {
  int64_t opset = 0;
  const AttributeTable *references = nullptr;
  std::string caller;      ///< names of the nodes that call the function, each followed by '/'
  mlir::StringAttr module; ///< module path of the call
  int depth = 0;
};

class GraphBuilder : public NodeContext::Graph {
public:
  GraphBuilder(const ModelProto &model, Initializers &initializers, ExternalFiles &files,
               mlir::OpBuilder builder, mlir::Location where);

  mlir::LogicalResult buildNodes(llvm::ArrayRef<const NodeProto *> nodes, Scope &scope,
                                 const Frame &frame);
  /// The value of that name, made from the initializer where it is one; null if there is none.
  mlir::Value lookUp(const Scope &scope, llvm::StringRef name);

  mlir::LogicalResult buildBranch(const GraphProto &branch,
                                  llvm::SmallVectorImpl<mlir::Value> &results) override;
  mlir::FailureOr<mlir::DenseElementsAttr> readTensor(const TensorProto &tensor,
                                                      mlir::Location where) override;

private:
  mlir::LogicalResult buildNode(const NodeProto &node, Scope &scope, const Frame &frame);
  mlir::LogicalResult buildCall(const NodeProto &node, const FunctionProto &function, Scope &scope,
                                const Frame &frame, mlir::StringAttr module);
  mlir::LogicalResult collectInputs(NodeContext &context, const Scope &scope);
  mlir::Value materialize(const Initializer &initializer);
  const FunctionProto *findFunction(const NodeProto &node) const;

  Initializers &initializers;
  ExternalFiles &files;
  mlir::OpBuilder builder;
  mlir::Location where;
  KnownInts known;
  llvm::StringMap<const ValueInfoProto *> declarations;
  llvm::StringMap<const FunctionProto *> functions;
  llvm::StringMap<mlir::Value> made;    ///< of initializers
  llvm::StringMap<std::string> unbuilt; ///< outputs that are not taken, and of which node
  // The scope and frame of the node being built, for buildBranch.
  Scope *currentScope = nullptr;
  const Frame *currentFrame = nullptr;
};

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_GRAPHBUILDER_H
