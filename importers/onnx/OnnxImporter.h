//===- OnnxImporter.h - ONNX models as modules of the omnibal dialect --------------------===//
//
// Builds form I of docs/contract-compiler.md. Errors are diagnostics of three kinds, told by their
// first words: "invalid model" (the file breaks the ONNX rules), "not supported" (valid ONNX that
// this importer does not take) and "internal error" (a bug here); each names the node.
//
//===------------------------------------------------------------------------------------------------===//
#ifndef IMPORTERS_ONNX_ONNXIMPORTER_H
#define IMPORTERS_ONNX_ONNXIMPORTER_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include <string>
#include <vector>

namespace omnibal {

struct ImportOptions {
  /// The checkpoint (safetensors file or folder) whose tensors are the parameters; may be empty.
  std::string weights;
  /// Folders that symbolic links of external data may lead into (the Hugging Face cache).
  std::vector<std::string> linkFolders;
  /// Keep every graph output and take inputs of any name. Otherwise a graph with an output `logits`
  /// is a language model: its other outputs are dropped and key/value cache inputs are an error.
  bool anyGraph = false;
  /// Graph inputs that are constants in the result.
  llvm::StringMap<mlir::ElementsAttr> boundInputs;
};

/// Reads the model at `path`; diagnostics go to `context`'s handlers.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(llvm::StringRef path, const ImportOptions &options, mlir::MLIRContext &context);

/// Reads a file that holds one serialized TensorProto, as the ONNX test data does. Element types
/// are those of imported graphs: every integer i64, float16 and bfloat16 f32.
mlir::FailureOr<mlir::DenseElementsAttr> importOnnxTensor(llvm::StringRef path,
                                                          mlir::MLIRContext &context);

} // namespace omnibal
#endif // IMPORTERS_ONNX_ONNXIMPORTER_H
