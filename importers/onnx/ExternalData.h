//===- ExternalData.h - Files that hold a model's weights --------------------------------===//
//
// External data must lie in the model's folder: no absolute path, no `..`, no symbolic link on the
// way but those that FolderFiles.h admits, no hard link (its other name may be anyone's), offset
// and length inside the file. What points into a safetensors file points at exactly one of its
// tensors; the file's header says in which floating point type the bytes are. A file that is absent
// is no error here: graphs without weights are analyzed too.
//
//===------------------------------------------------------------------------------------------------===//
#ifndef IMPORTERS_ONNX_EXTERNALDATA_H
#define IMPORTERS_ONNX_EXTERNALDATA_H

#include "importers/onnx/Schema.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "runtime/support/FolderFiles.h"
#include "runtime/support/Safetensors.h"
#include "llvm/ADT/ArrayRef.h"
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace omnibal::onnx {

/// A mapped file, or the knowledge that there is none.
struct ExternalFile {
  bool absent = false;
  rt::MappedFile mapped;
  llvm::ArrayRef<char> bytes; ///< of it
  /// Set if the file is a safetensors file.
  std::shared_ptr<const rt::SafetensorsFile> safetensors;
};

/// Says where a tensor's data lies.
struct ExternalRange {
  std::string location; ///< as written in the model
  int64_t offset = 0, length = 0;
  const ExternalFile *file = nullptr;
  const rt::StoredTensor *stored = nullptr; ///< of a safetensors file
};

class ExternalFiles {
public:
  /// `weights`: a checkpoint's folder, where files that are not beside the model are looked for;
  /// may be empty.
  ExternalFiles(const std::string &modelPath, const std::vector<std::string> &linkFolders,
                const std::string &weights);

  /// The checked range of a tensor with external data. The first use of an absent file gives a
  /// warning.
  mlir::FailureOr<ExternalRange> locate(const TensorProto &tensor, mlir::Location where);
  /// The tensor's elements in the type that it is declared with: an error if the file is absent.
  mlir::FailureOr<mlir::DenseElementsAttr> value(const TensorProto &tensor, mlir::Location where);

private:
  mlir::FailureOr<const ExternalFile *> open(const std::string &location, mlir::Location where);
  /// NotFound if it is nowhere.
  rt::Result<rt::FileDescriptor> find(const std::string &location) const;

  rt::FolderFiles folder;
  std::optional<rt::FolderFiles> weights;
  std::map<std::string, std::unique_ptr<ExternalFile>> files;
};

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_EXTERNALDATA_H
