//===- ModelFile.h - Reading and checking an ONNX file -----------------------------------===//
#ifndef IMPORTERS_ONNX_MODELFILE_H
#define IMPORTERS_ONNX_MODELFILE_H

#include "importers/onnx/Schema.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/StringRef.h"

namespace omnibal::onnx {

/// The opsets of the default domain that the importer knows.
constexpr int64_t kMinOpset = 13, kMaxOpset = 23;

/// Parses `path` into `message`, with limits on size and nesting. `where` locates errors.
mlir::LogicalResult parseFile(llvm::StringRef path, google::protobuf::MessageLite &message,
                              mlir::Location where);
/// Reads a model and checks its versions.
mlir::LogicalResult readModel(llvm::StringRef path, ModelProto &model, mlir::Location where);
/// The imported version of the default domain; -1 if there is none.
int64_t defaultOpset(const google::protobuf::RepeatedPtrField<OperatorSetIdProto> &imports);
/// "" and "ai.onnx" are one domain.
bool isDefaultDomain(llvm::StringRef domain);

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_MODELFILE_H
