//===- ModelFile.cpp - Reading and checking an ONNX file ---------------------------------===//
#include "importers/onnx/ModelFile.h"
#include "importers/onnx/Diagnostics.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include <google/protobuf/io/coded_stream.h>
#include <limits>

using namespace mlir;

namespace omnibal::onnx {

namespace {
constexpr int64_t kMinIrVersion = 3, kMaxIrVersion = 13;
/// Nested messages: graphs in attributes of nodes in graphs; real models stay below ten.
constexpr int kRecursionLimit = 64;
} // namespace

LogicalResult parseFile(llvm::StringRef path, google::protobuf::MessageLite &message,
                        Location where) {
  uint64_t size = 0;
  if (std::error_code error = llvm::sys::fs::file_size(path, size))
    return emitError(where) << "cannot read '" << path << "': " << error.message();
  if (llvm::sys::fs::is_directory(path))
    return emitError(where) << "'" << path << "' is a folder, not an ONNX file";
  if (size > uint64_t(std::numeric_limits<int32_t>::max()))
    return notSupported(where) << "'" << path << "' has " << size
                               << " bytes, more than the 2 GiB an ONNX file can have; export the "
                                  "weights as external data";
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return emitError(where) << "cannot read '" << path << "': " << buffer.getError().message();
  google::protobuf::io::CodedInputStream stream(
      reinterpret_cast<const uint8_t *>((*buffer)->getBufferStart()),
      static_cast<int>((*buffer)->getBufferSize()));
  stream.SetRecursionLimit(kRecursionLimit);
  stream.SetTotalBytesLimit(std::numeric_limits<int32_t>::max());
  if (size == 0 || !message.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return invalidModel(where)
           << "'" << path << "' (" << size
           << " bytes) is truncated or not an ONNX file; export or copy it again";
  return success();
}

bool isDefaultDomain(llvm::StringRef domain) { return domain.empty() || domain == "ai.onnx"; }

int64_t defaultOpset(const google::protobuf::RepeatedPtrField<OperatorSetIdProto> &imports) {
  for (const OperatorSetIdProto &import : imports)
    if (isDefaultDomain(import.domain()))
      return import.version();
  return -1;
}

LogicalResult readModel(llvm::StringRef path, ModelProto &model, Location where) {
  if (failed(parseFile(path, model, where)))
    return failure();
  if (!model.has_graph() || model.graph().output_size() == 0)
    return invalidModel(where) << "'" << path
                               << "' holds no graph with outputs; it is truncated or not a model";
  if (!model.has_ir_version() || model.ir_version() < 1)
    return invalidModel(where) << "'" << path << "' has no ir_version";
  if (model.ir_version() < kMinIrVersion || model.ir_version() > kMaxIrVersion)
    return notSupported(where) << "ONNX IR version " << model.ir_version() << " (" << kMinIrVersion
                               << " to " << kMaxIrVersion << " are)";
  int64_t opset = defaultOpset(model.opset_import());
  if (opset < 0)
    return invalidModel(where) << "'" << path
                               << "' imports no opset of the default domain (opset_import)";
  if (opset < kMinOpset || opset > kMaxOpset)
    return notSupported(where) << "opset " << opset << " (" << kMinOpset << " to " << kMaxOpset
                               << " are); export with opset_version=18 or convert with "
                                  "onnx.version_converter";
  if (model.training_info_size() != 0)
    return notSupported(where) << "a model with training information; export the inference graph, "
                                  "the backward pass is derived here";
  if (model.graph().sparse_initializer_size() != 0)
    return notSupported(where) << "sparse initializers; store them dense";
  return success();
}

} // namespace omnibal::onnx
