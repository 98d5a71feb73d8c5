//===- ExternalData.cpp - Files that hold a model's weights ------------------------------===//
#include "importers/onnx/ExternalData.h"
#include "importers/onnx/Diagnostics.h"
#include "importers/onnx/Tensors.h"
#include "llvm/ADT/STLExtras.h"
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>

using namespace mlir;

namespace omnibal::onnx {

ExternalFiles::ExternalFiles(const std::string &modelPath,
                             const std::vector<std::string> &linkFolders,
                             const std::string &checkpoint)
    : folder(std::filesystem::path(modelPath).parent_path().string(), linkFolders) {
  std::error_code error;
  if (!checkpoint.empty() && std::filesystem::is_directory(checkpoint, error))
    weights.emplace(checkpoint, linkFolders);
}

rt::Result<rt::FileDescriptor> ExternalFiles::find(const std::string &location) const {
  rt::Result<rt::FileDescriptor> file = folder.open(location);
  if (!file && file.status().code() == rt::Code::NotFound && weights)
    return weights->open(location);
  return file;
}

FailureOr<const ExternalFile *> ExternalFiles::open(const std::string &location, Location where) {
  auto [entry, isNew] = files.try_emplace(location);
  if (!isNew && !entry->second)
    return failure();
  if (!isNew)
    return entry->second.get();
  // A file that failed once stays a null entry: the error was given.
  auto complain = [&](const std::string &problem) {
    return invalidModel(where) << "external data file '" << location << "' " << problem;
  };
  rt::Result<rt::FileDescriptor> found = find(location);
  auto file = std::make_unique<ExternalFile>();
  if (!found && found.status().code() == rt::Code::NotFound) {
    file->absent = true;
    emitWarning(where) << "external data file '" << location << "' is absent from '"
                       << folder.folder()
                       << "'; parameters have names, shapes and types but no values";
    return (entry->second = std::move(file)).get();
  }
  if (!found)
    return complain(found.status().message());
  const int fd = found->get();
  struct stat status = {};
  if (fstat(fd, &status) != 0)
    return complain(std::string("cannot be read: ") + std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    return complain("is not a regular file");
  if (status.st_nlink != 1)
    return complain("is a hard link (" + std::to_string(status.st_nlink) +
                    " names); copy it, so that it is the model's own");
  rt::Result<rt::MappedFile> mapped = rt::MappedFile::map(fd);
  if (!mapped)
    return complain(mapped.status().message());
  file->mapped = *std::move(mapped);
  const std::span<const std::byte> bytes = file->mapped.bytes();
  file->bytes = {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
  if (llvm::StringRef(location).ends_with(".safetensors")) {
    auto view = rt::SafetensorsFile::view(bytes, location);
    if (!view)
      return complain("is damaged: " + view.status().message());
    file->safetensors = *view;
  }
  return (entry->second = std::move(file)).get();
}

namespace {

/// What the bytes hold that a tensor of this element type points at.
std::optional<rt::StoredType> storedType(int32_t dataType) {
  switch (dataType) {
  case Float:
    return rt::StoredType::F32;
  case Double:
    return rt::StoredType::F64;
  case Float16:
    return rt::StoredType::F16;
  case BFloat16:
    return rt::StoredType::BF16;
  case Int32:
    return rt::StoredType::I32;
  case Int64:
    return rt::StoredType::I64;
  case Bool:
    return rt::StoredType::Bool;
  default:
    return std::nullopt;
  }
}

/// A graph computes in float32 whatever its checkpoint is kept in, so an initializer of that type
/// may point at numbers of any floating point type; otherwise the types are equal.
bool mayPointAt(int32_t dataType, rt::StoredType stored) {
  return storedType(dataType) == stored || (dataType == Float && rt::isFloat(stored));
}

/// Points a range in a safetensors file at its tensor.
LogicalResult findStored(const TensorProto &tensor, ExternalRange &range, Location where) {
  auto complain = [&]() {
    return invalidModel(where) << "initializer '" << tensor.name() << "' points at bytes ["
                               << range.offset << ", " << range.offset << " + " << range.length
                               << ") of '" << range.location << "', ";
  };
  const rt::StoredTensor *stored = range.file->safetensors->findAt(range.offset, range.length);
  if (!stored)
    return complain() << "where no tensor lies; is it the checkpoint exported?";
  if (!mayPointAt(tensor.data_type(), stored->dtype))
    return complain() << "where tensor '" << stored->name << "' of type "
                      << rt::storedTypeName(stored->dtype) << " lies; a tensor of "
                      << dataTypeName(tensor.data_type()) << " cannot be read from that";
  if (llvm::ArrayRef<int64_t>(stored->shape) !=
      llvm::ArrayRef<int64_t>(tensor.dims().data(), size_t(tensor.dims_size())))
    return complain() << "where tensor '" << stored->name << "' lies, which has another shape";
  range.stored = stored;
  return success();
}

/// Whether a range of an absent file can hold the tensor.
bool canHold(const TensorProto &tensor, const ExternalRange &range) {
  if (range.length == rawBytes(tensor))
    return true;
  if (!llvm::StringRef(range.location).ends_with(".safetensors") || tensor.data_type() != Float)
    return false;
  int64_t elements = rawBytes(tensor) / storedBytes(Float);
  return llvm::is_contained({2 * elements, 8 * elements}, range.length);
}

} // namespace

FailureOr<ExternalRange> ExternalFiles::locate(const TensorProto &tensor, Location where) {
  ExternalRange range;
  bool hasLength = false;
  for (const StringStringEntryProto &entry : tensor.external_data()) {
    if (entry.key() == "location") {
      range.location = entry.value();
    } else if (entry.key() == "offset" || entry.key() == "length") {
      int64_t &number = entry.key() == "offset" ? range.offset : range.length;
      hasLength |= entry.key() == "length";
      if (llvm::StringRef(entry.value()).getAsInteger(10, number) || number < 0)
        return invalidModel(where) << "tensor '" << tensor.name() << "' has the external data "
                                   << entry.key() << " '" << entry.value() << "'";
    }
  }
  FailureOr<const ExternalFile *> file = open(range.location, where);
  if (failed(file))
    return failure();
  range.file = *file;
  int64_t needed = rawBytes(tensor);
  if (!hasLength)
    range.length = needed;
  const bool readable = !range.file->absent, checkpoint = range.file->safetensors != nullptr;
  if (!checkpoint && (readable ? range.length != needed : !canHold(tensor, range)))
    return invalidModel(where) << "tensor '" << tensor.name() << "' needs " << needed
                               << " bytes but its external data has length " << range.length;
  int64_t size = int64_t(range.file->bytes.size());
  if (readable && (range.offset > size || range.length > size - range.offset))
    return invalidModel(where) << "tensor '" << tensor.name() << "' lies at bytes [" << range.offset
                               << ", " << range.offset << " + " << range.length << ") of '"
                               << range.location << "', which has " << size
                               << " bytes; the file is truncated or not the one exported";
  if (checkpoint && failed(findStored(tensor, range, where)))
    return failure();
  return range;
}

FailureOr<DenseElementsAttr> ExternalFiles::value(const TensorProto &tensor, Location where) {
  FailureOr<ExternalRange> range = locate(tensor, where);
  if (failed(range))
    return failure();
  if (range->file->absent)
    return invalidModel(where) << "the value of '" << tensor.name()
                               << "' is needed, but its external data file '" << range->location
                               << "' is absent";
  if (!range->stored || storedType(tensor.data_type()) == range->stored->dtype)
    return tensorValue(
        tensor, range->file->bytes.slice(size_t(range->offset), size_t(range->length)), where);
  FailureOr<RankedTensorType> type = tensorType(tensor, where);
  if (failed(type))
    return failure();
  std::vector<float> values(static_cast<size_t>(range->stored->elements));
  if (rt::Status read = rt::convertTensor(*range->stored, rt::DType::F32, values.data()); !read)
    return invalidModel(where) << read.message();
  return DenseElementsAttr::get(*type, llvm::ArrayRef<float>(values));
}

} // namespace omnibal::onnx
