#include "runtime/support/Safetensors.h"
#include "runtime/support/Json.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <sys/mman.h>
#include <tuple>
#include <unistd.h>

namespace omnibal::rt {
namespace {

constexpr uint64_t maxHeaderBytes = 100'000'000; // the format's own limit

struct TypeName {
  StoredType type;
  const char *name;
  int64_t bytes;
};
constexpr TypeName typeNames[] = {
    {StoredType::Bool, "BOOL", 1}, {StoredType::U8, "U8", 1},   {StoredType::I8, "I8", 1},
    {StoredType::U16, "U16", 2},   {StoredType::I16, "I16", 2}, {StoredType::F16, "F16", 2},
    {StoredType::BF16, "BF16", 2}, {StoredType::U32, "U32", 4}, {StoredType::I32, "I32", 4},
    {StoredType::F32, "F32", 4},   {StoredType::U64, "U64", 8}, {StoredType::I64, "I64", 8},
    {StoredType::F64, "F64", 8},
};

const TypeName &row(StoredType type) {
  return *std::find_if(std::begin(typeNames), std::end(typeNames),
                       [&](const TypeName &t) { return t.type == type; });
}

Status damaged(const std::string &file, const std::string &what) {
  return {Code::DataLoss, file + ": not a valid safetensors file: " + what};
}

/// Fills `out` from one header entry; the data pointer is set by the caller.
Status parseEntry(const std::string &file, const std::string &name, const nlohmann::json &entry,
                  uint64_t dataBytes, StoredTensor &out, uint64_t &begin) {
  auto bad = [&](const std::string &what) {
    return damaged(file, "tensor \"" + name + "\": " + what);
  };
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets") || entry.size() != 3)
    return bad("the header entry must hold exactly dtype, shape and data_offsets");
  const auto &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
  if (!dtype.is_string())
    return bad("dtype is not a string");
  auto type = std::find_if(std::begin(typeNames), std::end(typeNames),
                           [&](const TypeName &t) { return dtype == t.name; });
  if (type == std::end(typeNames))
    return {Code::InvalidArgument,
            file + ": tensor \"" + name + "\": the element type " + dtype.get<std::string>() +
                " is not supported (F64, F32, F16, BF16, integers and BOOL are; convert the file)"};
  if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2 ||
      !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    return bad("shape must be a list and data_offsets a pair of non-negative integers");
  out.name = name;
  out.dtype = type->type;
  uint64_t elements = 1, bytes = 0;
  for (const auto &dim : shape) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > uint64_t(INT64_MAX))
      return bad("a dimension is not a non-negative integer");
    out.shape.push_back(static_cast<int64_t>(dim.get<uint64_t>()));
    if (__builtin_mul_overflow(elements, dim.get<uint64_t>(), &elements))
      return bad("the shape overflows");
  }
  if (__builtin_mul_overflow(elements, uint64_t(type->bytes), &bytes) || bytes > INT64_MAX)
    return bad("the shape overflows");
  begin = offsets[0].get<uint64_t>();
  uint64_t end = offsets[1].get<uint64_t>();
  if (end < begin || end > dataBytes)
    return bad("data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) +
               "] leave the file's " + std::to_string(dataBytes) + " bytes of data (truncated?)");
  if (end - begin != bytes)
    return bad("shape and dtype need " + std::to_string(bytes) + " bytes, data_offsets hold " +
               std::to_string(end - begin));
  out.elements = static_cast<int64_t>(elements);
  out.bytes = static_cast<int64_t>(bytes);
  return Status::ok();
}

} // namespace

int64_t byteSize(StoredType type) { return row(type).bytes; }
std::string_view storedTypeName(StoredType type) { return row(type).name; }

StoredType storedTypeOf(DType type) {
  switch (type) {
  case DType::F32:
    return StoredType::F32;
  case DType::I32:
    return StoredType::I32;
  case DType::I64:
    return StoredType::I64;
  case DType::Bool:
    return StoredType::Bool;
  case DType::F64:
    return StoredType::F64;
  case DType::BF16:
    return StoredType::BF16;
  }
  return StoredType::F32;
}

bool isFloat(StoredType type) {
  return type == StoredType::F16 || type == StoredType::BF16 || type == StoredType::F32 ||
         type == StoredType::F64;
}

void releasePages(const StoredTensor &tensor, int64_t first, int64_t count) {
  if (!tensor.mapped || count <= 0)
    return;
  // Whole pages: what else lies on them is read again like the rest.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uintptr_t>(tensor.data + first * byteSize(tensor.dtype));
  auto end = reinterpret_cast<uintptr_t>(tensor.data + (first + count) * byteSize(tensor.dtype));
  begin -= begin % page;
  ::madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

int64_t elementsAtOnce(const StoredTensor &tensor) {
  constexpr int64_t bytes = int64_t{16} << 20;
  return bytes / byteSize(tensor.dtype);
}

Result<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::open(const std::string &path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file)
    return Status(errno == ENOENT ? Code::NotFound : Code::Unavailable,
                  path + ": " + std::strerror(errno));
  return open(std::move(file), path);
}

Result<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::open(FileDescriptor descriptor,
                                                                     std::string label) {
  Result<MappedFile> mapped = MappedFile::map(descriptor.get());
  if (!mapped)
    return Status(mapped.status().code(),
                  label + ": " + mapped.status().message() + "; a .safetensors file is needed");
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile);
  file->label = std::move(label);
  file->file = *std::move(mapped);
  file->bytes = file->file.bytes();
  OMNIBAL_RETURN_IF_ERROR(file->parse());
  return std::shared_ptr<const SafetensorsFile>(std::move(file));
}

Result<std::shared_ptr<const SafetensorsFile>>
SafetensorsFile::view(std::span<const std::byte> bytes, std::string label) {
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile);
  file->label = std::move(label);
  file->bytes = bytes;
  OMNIBAL_RETURN_IF_ERROR(file->parse());
  return std::shared_ptr<const SafetensorsFile>(std::move(file));
}

Status SafetensorsFile::parse() {
  if (bytes.size() < 8)
    return damaged(label, "it has only " + std::to_string(bytes.size()) + " bytes");
  uint64_t headerBytes = 0;
  for (int i = 7; i >= 0; --i)
    headerBytes = headerBytes << 8 | std::to_integer<uint64_t>(bytes[size_t(i)]);
  if (headerBytes > maxHeaderBytes)
    return damaged(label, "the header claims " + std::to_string(headerBytes) +
                              " bytes; at most 100 MB are allowed");
  if (headerBytes > bytes.size() - 8)
    return damaged(label, "the header claims " + std::to_string(headerBytes) +
                              " bytes but the file ends before (truncated?)");
  std::string_view text(reinterpret_cast<const char *>(bytes.data()) + 8, headerBytes);
  if (text.empty() || text.front() != '{')
    return damaged(label, "the header does not start with '{'");
  Result<nlohmann::json> parsed = parseJson(text, label + ": header");
  if (!parsed)
    return std::move(parsed).status();
  const std::byte *base = bytes.data() + 8 + headerBytes;
  uint64_t dataBytes = bytes.size() - 8 - headerBytes;
  std::vector<std::pair<uint64_t, StoredTensor>> found;
  for (const auto &[name, entry] : parsed->items()) {
    if (name == "__metadata__") {
      if (!entry.is_object())
        return damaged(label, "__metadata__ is not an object");
      for (const auto &[key, value] : entry.items()) {
        if (!value.is_string())
          return damaged(label, "__metadata__ \"" + key + "\" is not a string");
        meta[key] = value.get<std::string>();
      }
      continue;
    }
    StoredTensor tensor;
    uint64_t begin = 0;
    OMNIBAL_RETURN_IF_ERROR(parseEntry(label, name, entry, dataBytes, tensor, begin));
    tensor.data = base + begin;
    tensor.fileOffset = static_cast<int64_t>(8 + headerBytes + begin);
    tensor.mapped = !file.bytes().empty();
    found.emplace_back(begin, std::move(tensor));
  }
  std::sort(found.begin(), found.end(), [](const auto &a, const auto &b) {
    return std::tie(a.first, a.second.bytes, a.second.name) <
           std::tie(b.first, b.second.bytes, b.second.name);
  });
  uint64_t at = 0;
  for (auto &[begin, tensor] : found) {
    if (begin != at)
      return damaged(
          label, "tensor \"" + tensor.name + "\": its data " +
                     (begin < at ? "overlaps that of another tensor" : "leaves a hole before it"));
    at += static_cast<uint64_t>(tensor.bytes);
    byName.emplace(tensor.name, list.size());
    list.push_back(std::move(tensor));
  }
  if (at != dataBytes)
    return damaged(label, "the header describes " + std::to_string(at) +
                              " bytes of data, the file holds " + std::to_string(dataBytes));
  return Status::ok();
}

const StoredTensor *SafetensorsFile::find(std::string_view name) const {
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : &list[it->second];
}

const StoredTensor *SafetensorsFile::findAt(int64_t fileOffset, int64_t bytes) const {
  auto it = std::lower_bound(
      list.begin(), list.end(), std::pair(fileOffset, bytes),
      [](const StoredTensor &t, const auto &at) { return std::pair(t.fileOffset, t.bytes) < at; });
  return it != list.end() && it->fileOffset == fileOffset && it->bytes == bytes ? &*it : nullptr;
}

Result<SafetensorsWriter>
SafetensorsWriter::create(const std::string &path, const std::vector<TensorHeader> &layout,
                          const std::map<std::string, std::string> &meta) {
  OMNIBAL_ASSIGN_OR_RETURN(SafetensorsLayout plan, layOut(layout, meta));
  OMNIBAL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, plan.fileBytes));
  OMNIBAL_RETURN_IF_ERROR(file.write(plan.header.data(), plan.header.size()));
  SafetensorsWriter writer(std::move(file));
  writer.expected = plan.fileBytes - static_cast<int64_t>(plan.header.size());
  return writer;
}

Status SafetensorsWriter::append(const void *data, size_t count) {
  written += static_cast<int64_t>(count);
  if (written > expected)
    return Status(Code::Internal, file.path() + ": more data than the layout announces");
  return file.write(data, count);
}

Status SafetensorsWriter::finish() {
  if (written != expected)
    return Status(Code::Internal, file.path() + ": " + std::to_string(written) + " of " +
                                      std::to_string(expected) + " bytes were written");
  return file.commit();
}

Result<SafetensorsLayout> layOut(const std::vector<TensorHeader> &tensors,
                                 const std::map<std::string, std::string> &metadata) {
  // Written by hand, in the order of the data, since that is the order readers expect to see.
  std::string text = "{";
  std::set<std::string_view> seen;
  SafetensorsLayout plan;
  int64_t at = 0;
  if (!metadata.empty())
    text += "\"__metadata__\":" + nlohmann::json(metadata).dump() + (tensors.empty() ? "" : ",");
  for (const TensorHeader &tensor : tensors) {
    if (tensor.name == "__metadata__" || !seen.insert(tensor.name).second)
      return invalid("tensor name \"" + tensor.name + "\" occurs twice or is reserved");
    int64_t bytes = byteSize(tensor.dtype);
    for (int64_t dim : tensor.shape)
      if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes))
        return invalid("tensor \"" + tensor.name + "\" has an impossible shape");
    plan.offsets.push_back(at);
    std::string name;
    try {
      name = nlohmann::json(tensor.name).dump();
    } catch (const nlohmann::json::exception &) {
      return invalid("a tensor name is not valid UTF-8");
    }
    text += (at || plan.offsets.size() > 1 ? "," : "") + name + ":{\"dtype\":\"" +
            std::string(storedTypeName(tensor.dtype)) +
            "\",\"shape\":" + nlohmann::json(tensor.shape).dump() + ",\"data_offsets\":[" +
            std::to_string(at) + "," + std::to_string(at + bytes) + "]}";
    at += bytes;
  }
  text += "}";
  while (text.size() % 8)
    text += ' ';
  plan.header.resize(8);
  for (int i = 0; i < 8; ++i)
    plan.header[size_t(i)] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  plan.header += text;
  for (int64_t &offset : plan.offsets)
    offset += static_cast<int64_t>(plan.header.size());
  plan.fileBytes = static_cast<int64_t>(plan.header.size()) + at;
  return plan;
}

} // namespace omnibal::rt
