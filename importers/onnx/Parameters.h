//===- Parameters.h - Which initializers are parameters, and their names -----------------===//
//
// A parameter is a float initializer with external data or one that the checkpoint of --weights
// holds; every other initializer is a constant. Where a model has all data inline and there is no
// checkpoint, its float initializers are the parameters. Names are those of the checkpoint.
//
//===------------------------------------------------------------------------------------------------===//
#ifndef IMPORTERS_ONNX_PARAMETERS_H
#define IMPORTERS_ONNX_PARAMETERS_H

#include "importers/onnx/ExternalData.h"
#include "importers/onnx/OnnxImporter.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

namespace omnibal::onnx {

struct Initializer {
  const TensorProto *tensor = nullptr;
  mlir::RankedTensorType type; ///< in the graph
  int uses = 0;                ///< by nodes that are built
  bool isParameter = false;
  std::string parameter; ///< the checkpoint's name
  /// The checkpoint holds the transpose (folded by the exporter): the parameter has the
  /// checkpoint's shape and the graph reads its transpose.
  bool transposed = false;
};

/// Initializers by name; `uses` counts those that are read. Reports wrong sizes, types and names.
using Initializers = llvm::StringMap<Initializer>;

/// Decides for every initializer that is used, and creates the parameter ops at the builder's
/// insertion point, in the graph's order.
mlir::LogicalResult classifyInitializers(const GraphProto &graph, Initializers &initializers,
                                         ExternalFiles &files, const ImportOptions &options,
                                         mlir::OpBuilder &builder, mlir::Location where);

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_PARAMETERS_H
