//===- ExternalData.h - Files that hold a model's weights --------------------------------===//
//
// External data must lie in the model's folder: no absolute path, no `..`, no symbolic link on the
// way, no hard link (its other name may be anyone's), offset and length inside the file. Folders
// that links may lead into can be admitted (the Hugging Face cache consists of links). A file that
// is absent is no error here: graphs without weights are analysed too.
//
//===------------------------------------------------------------------------------------------------===//
#ifndef IMPORTERS_ONNX_EXTERNALDATA_H
#define IMPORTERS_ONNX_EXTERNALDATA_H

#include "importers/onnx/Schema.h"
#include "mlir/IR/Location.h"
#include "runtime/core/Safetensors.h"
#include "llvm/ADT/ArrayRef.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace omnibal::onnx {

/// A mapped file, or the knowledge that there is none.
class ExternalFile {
public:
  ExternalFile() = default;
  ~ExternalFile();
  ExternalFile(const ExternalFile &) = delete;
  ExternalFile &operator=(const ExternalFile &) = delete;

  bool absent = false;
  llvm::ArrayRef<char> bytes;
  /// Set if the file is a safetensors file.
  std::shared_ptr<const rt::SafetensorsFile> safetensors;
};

/// Where a tensor's data lies.
struct ExternalRange {
  std::string location; ///< as written in the model
  int64_t offset = 0, length = 0;
  const ExternalFile *file = nullptr;
};

class ExternalFiles {
public:
  ExternalFiles(std::string modelPath, std::vector<std::string> linkFolders);

  /// The checked range of a tensor with external data. The first use of an absent file gives a
  /// warning.
  mlir::FailureOr<ExternalRange> locate(const TensorProto &tensor, mlir::Location where);
  /// The bytes of the tensor: an error if the file is absent.
  mlir::FailureOr<llvm::ArrayRef<char>> read(const TensorProto &tensor, mlir::Location where);

private:
  mlir::FailureOr<const ExternalFile *> open(const std::string &location, mlir::Location where);
  /// A descriptor, or -1 with errno set.
  int openInside(const std::string &location, std::string &problem) const;

  std::string folder;
  std::vector<std::string> linkFolders;
  std::map<std::string, std::unique_ptr<ExternalFile>> files;
};

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_EXTERNALDATA_H
