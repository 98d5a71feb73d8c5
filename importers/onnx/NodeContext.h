//===- NodeContext.h - One ONNX node, as the builder functions see it --------------------===//
#ifndef IMPORTERS_ONNX_NODECONTEXT_H
#define IMPORTERS_ONNX_NODECONTEXT_H

#include "importers/onnx/Emit.h"
#include "importers/onnx/Schema.h"
#include "llvm/ADT/StringMap.h"

namespace omnibal::onnx {

/// Attributes that a function's nodes refer to by ref_attr_name.
using AttributeTable = llvm::StringMap<const AttributeProto *>;
/// A sequence value: its tensors (sequences exist during import only).
using Sequence = llvm::SmallVector<mlir::Value, 4>;

class NodeContext {
public:
  /// What the graph builder provides beyond values.
  class Graph {
  public:
    virtual ~Graph() = default;
    /// Builds the body of an If branch in place; `results` are the branch's outputs.
    virtual mlir::LogicalResult buildBranch(const GraphProto &branch,
                                            llvm::SmallVectorImpl<mlir::Value> &results) = 0;
    /// The elements of a tensor attribute.
    virtual mlir::FailureOr<mlir::DenseElementsAttr> readTensor(const TensorProto &tensor,
                                                                mlir::Location where) = 0;
  };

  NodeContext(const NodeProto &node, int64_t opset, const AttributeTable *references, Emitter &emit,
              Graph &graph)
      : node(node), opset(opset), e(emit), graph(graph), references(references) {}

  const NodeProto &node;
  const int64_t opset;
  Emitter &e;
  Graph &graph;

  // Filled by the graph builder.
  llvm::SmallVector<mlir::Value, 6> inputs;         ///< null for absent ones and sequences
  llvm::SmallVector<const Sequence *, 2> sequences; ///< by input; null for tensors
  mlir::RankedTensorType declared;                  ///< of output 0, null if not known
  // Filled by the builder function.
  llvm::SmallVector<mlir::Value, 4> outputs;
  std::optional<Sequence> sequenceOutput;
  bool isPartial = false; ///< further outputs are errors where they are read only

  /// Null if absent.
  mlir::Value input(size_t i) const { return i < inputs.size() ? inputs[i] : mlir::Value(); }
  bool hasOutput(int i) const { return i < node.output_size() && !node.output(i).empty(); }
  mlir::LogicalResult give(mlir::Value result) {
    outputs.assign(1, result);
    return mlir::success(bool(result));
  }
  mlir::LogicalResult give(llvm::ArrayRef<mlir::Value> results) {
    outputs.assign(results.begin(), results.end());
    return mlir::success();
  }

  // Attributes, with the references of a function body resolved.
  const AttributeProto *attribute(llvm::StringRef name) const;
  int64_t getInt(llvm::StringRef name, int64_t otherwise) const;
  double getFloat(llvm::StringRef name, double otherwise) const;
  std::string getString(llvm::StringRef name, llvm::StringRef otherwise) const;
  std::optional<llvm::SmallVector<int64_t>> getInts(llvm::StringRef name) const;
  bool has(llvm::StringRef name) const { return attribute(name) != nullptr; }

private:
  const AttributeTable *references;
};

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_NODECONTEXT_H
