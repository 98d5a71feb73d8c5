//===- Safetensors.h - Reading and writing safetensors files -----------------------------===//
//
// The reader maps the file and checks its header completely before anything is used: size, no
// duplicate names, dtype x shape = bytes, no holes or overlaps, data ends where the file ends.
// A model is one file or a folder (sharded with model.safetensors.index.json, or not); TensorFiles
// is the view of either. The writer streams tensors into a temporary that is renamed at the end.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_SUPPORT_SAFETENSORS_H
#define RUNTIME_SUPPORT_SAFETENSORS_H

#include "runtime/support/AtomicFile.h"
#include "runtime/support/FolderFiles.h"
#include "runtime/support/MappedFile.h"
#include "runtime/support/Status.h"
#include "runtime/support/Types.h"
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace omnibal::rt {

/// Element types of safetensors files that we read.
enum class StoredType { Bool, U8, I8, U16, I16, F16, BF16, U32, I32, F32, U64, I64, F64 };
int64_t byteSize(StoredType type);
/// The name in the file's header, e.g. "BF16".
std::string_view storedTypeName(StoredType type);
/// The type that holds a runtime type without conversion.
StoredType storedTypeOf(DType type);

/// A tensor inside a mapped file; valid as long as the SafetensorsFile lives.
struct StoredTensor {
  std::string name;
  StoredType dtype = StoredType::F32;
  std::vector<int64_t> shape;
  int64_t elements = 1;
  const std::byte *data = nullptr; ///< dense row-major; not necessarily aligned
  int64_t bytes = 0;
  int64_t fileOffset = 0; ///< of `data` from the start of the file
  bool mapped = false;    ///< from the file, by us
};

/// Whether it holds floating point numbers.
bool isFloat(StoredType type);

/// Takes the pages of elements [first, first + count) out of the process's memory; reading them
/// again reads the file. A pass over a checkpoint therefore takes no memory in proportion to it.
void releasePages(const StoredTensor &tensor, int64_t first, int64_t count);
/// Elements of a tensor that are read at once before their pages are released.
int64_t elementsAtOnce(const StoredTensor &tensor);

/// Writes elements [first, first + count) of `tensor`, converted, to `out` (dense). Every type
/// converts to F32, F64 and BF16 (nearest even); integers and booleans convert to I32, I64 and Bool
/// when the value fits; anything else is InvalidArgument with the tensor's name.
Status convertTensor(const StoredTensor &tensor, DType to, void *out, int64_t first, int64_t count);
/// The whole tensor.
Status convertTensor(const StoredTensor &tensor, DType to, void *out);

/// Writes numbers to `out` in a floating point type, rounded once to nearest even. Returns the
/// place of the first finite number that became infinite, or -1.
int64_t encodeFloats(StoredType to, const float *values, int64_t count, void *out);
int64_t encodeFloats(StoredType to, const double *values, int64_t count, void *out);

/// One mapped file.
class SafetensorsFile {
public:
  static Result<std::shared_ptr<const SafetensorsFile>> open(const std::string &path);
  /// `label` names the file in errors.
  static Result<std::shared_ptr<const SafetensorsFile>> open(FileDescriptor file,
                                                             std::string label);
  /// Reads bytes that someone else mapped and that must outlive the result. `label` names them in
  /// errors.
  static Result<std::shared_ptr<const SafetensorsFile>> view(std::span<const std::byte> bytes,
                                                             std::string label);
  SafetensorsFile(const SafetensorsFile &) = delete;
  SafetensorsFile &operator=(const SafetensorsFile &) = delete;

  const std::string &path() const { return label; }
  /// The tensors in the order of their data.
  const std::vector<StoredTensor> &tensors() const { return list; }
  /// Null if there is none of that name.
  const StoredTensor *find(std::string_view name) const;
  /// The tensor whose data is exactly [fileOffset, fileOffset + bytes); null if there is none. This
  /// is how ONNX external data finds its parameter's name.
  const StoredTensor *findAt(int64_t fileOffset, int64_t bytes) const;
  const std::map<std::string, std::string> &metadata() const { return meta; }
  /// The bytes of the file before the data.
  std::span<const std::byte> header() const {
    return list.empty() ? bytes : bytes.first(static_cast<size_t>(list.front().fileOffset));
  }

private:
  SafetensorsFile() = default;
  Status parse();

  std::string label;
  MappedFile file; ///< empty if someone else mapped the bytes
  std::span<const std::byte> bytes;
  std::vector<StoredTensor> list;
  std::map<std::string, size_t, std::less<>> byName;
  std::map<std::string, std::string> meta;
};

/// All tensors of a model: `path` is a .safetensors file, a model.safetensors.index.json, or a
/// folder with either (a folder with exactly one .safetensors file of another name will do). Links
/// in the folder are followed as FolderFiles.h says; a file that is named itself is the user's
/// word.
class TensorFiles {
public:
  static Result<TensorFiles> open(const std::string &path,
                                  const std::vector<std::string> &linkFolders = {});

  /// Null if there is none of that name.
  const StoredTensor *find(std::string_view name) const;
  /// Sorted by name.
  std::vector<std::string> names() const;
  const std::vector<std::shared_ptr<const SafetensorsFile>> &files() const { return parts; }
  /// The folder that holds the files (configuration files lie beside them).
  const std::string &folder() const { return around.folder(); }
  const FolderFiles &beside() const { return around; }
  const std::string &path() const { return given; }

private:
  Status readSingle(Result<std::shared_ptr<const SafetensorsFile>> file);
  Status readIndex(const std::string &name, Result<std::string> text);
  Result<std::shared_ptr<const SafetensorsFile>> openPart(const std::string &name) const;

  std::string given;
  FolderFiles around;
  std::vector<std::shared_ptr<const SafetensorsFile>> parts;
  std::map<std::string, const StoredTensor *, std::less<>> index;
};

struct TensorHeader {
  std::string name;
  StoredType dtype = StoredType::F32;
  std::vector<int64_t> shape;
};

/// The header of a file and where each tensor's data lies.
struct SafetensorsLayout {
  std::string header;           ///< length field and JSON, a multiple of 8 bytes
  std::vector<int64_t> offsets; ///< from the start of the file, one per tensor
  int64_t fileBytes = 0;
};
/// Lays the tensors out in the given order, without gaps.
Result<SafetensorsLayout> layOut(const std::vector<TensorHeader> &tensors,
                                 const std::map<std::string, std::string> &metadata = {});

/// Writes one file: layout first, then every tensor's bytes in the order of the layout, in pieces
/// of any size. The file appears under its name only when finish() succeeds.
class SafetensorsWriter {
public:
  static Result<SafetensorsWriter> create(const std::string &path,
                                          const std::vector<TensorHeader> &layout,
                                          const std::map<std::string, std::string> &metadata = {});
  Status append(const void *data, size_t bytes);
  /// Fails if the bytes written are not those of the layout; otherwise flushes and renames.
  Status finish();

private:
  explicit SafetensorsWriter(AtomicFile file) : file(std::move(file)) {}
  AtomicFile file;
  int64_t expected = 0, written = 0;
};

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_SAFETENSORS_H
