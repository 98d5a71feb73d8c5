//===- SafetensorsFuzz.cpp - Weights: one file, or shards and their index --------------------===//
//
// Switches: 0 the bytes are the file as it is; else a header, a zero byte and data, or with 1 as
// much data as the header claims; 2 the file is mapped; 3 the text is the index of a folder.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/support/Safetensors.h"
#include "test/fuzz/Fuzz.h"

namespace omnibal::fuzz {

const Allowance allowance;

namespace {

using namespace rt;

constexpr DType types[] = {DType::F32,  DType::I32, DType::I64,
                           DType::Bool, DType::F64, DType::BF16};

void convert(const StoredTensor &tensor) {
  const auto count = static_cast<size_t>(tensor.elements);
  for (DType type : types) {
    std::vector<std::byte> out(count * static_cast<size_t>(byteSize(type)));
    (void)convertTensor(tensor, type, out.data());
  }
}

/// What a file holds, written anew, is read as the same.
void writeAndRead(const SafetensorsFile &file) {
  std::vector<TensorHeader> headers;
  for (const StoredTensor &t : file.tensors())
    headers.push_back({t.name, t.dtype, t.shape});
  auto layout = layOut(headers, file.metadata());
  require(layout.status());
  std::string bytes = layout->header;
  for (const StoredTensor &t : file.tensors())
    bytes.append(reinterpret_cast<const char *>(t.data), static_cast<size_t>(t.bytes));
  auto again = SafetensorsFile::view(std::as_bytes(std::span(bytes)), "again");
  require(again.status());
  require((*again)->metadata() == file.metadata(), "the metadata changed");
  require((*again)->tensors().size() == file.tensors().size(), "the number of tensors changed");
  for (const StoredTensor &t : file.tensors()) {
    const StoredTensor *other = (*again)->find(t.name);
    require(other && other->dtype == t.dtype && other->shape == t.shape, "a tensor changed");
  }
}

void use(const SafetensorsFile &file) {
  for (const StoredTensor &tensor : file.tensors()) {
    require(file.find(tensor.name) == &tensor, "a tensor is not found by its name");
    require(file.findAt(tensor.fileOffset, tensor.bytes), "a tensor is not found by its place");
    convert(tensor);
  }
  writeAndRead(file);
}

void openFolder(std::string_view index) {
  static const MemoryFolder folder;
  static const bool written = [] {
    const std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                               R"("y":{"dtype":"BF16","shape":[1,2],"data_offsets":[8,12]}})";
    folder.write("a.safetensors", safetensorsOf(header, "", true));
    folder.write("b.safetensors", safetensorsOf(R"({"z":{"dtype":"U8","shape":[],)"
                                                R"("data_offsets":[0,1]}})",
                                                "", true));
    return true;
  }();
  require(written, "the folder is empty");
  folder.write("model.safetensors.index.json", index);
  auto files = TensorFiles::open(folder.path());
  if (!files)
    return;
  for (const std::string &name : files->names())
    convert(*files->find(name));
}

} // namespace

void run(std::string_view input) {
  const Switches switches = takeSwitches(input);
  if (switches[3])
    return openFolder(input);
  std::string bytes(input);
  if (!switches[0]) {
    const size_t end = std::min(input.find('\0'), input.size());
    const std::string_view data = input.substr(std::min(end + 1, input.size()));
    bytes = safetensorsOf(input.substr(0, end), data, switches[1]);
  }
  static MemoryFile memory;
  if (switches[2])
    memory.set(bytes);
  auto file = switches[2] ? SafetensorsFile::open(memory.path())
                          : SafetensorsFile::view(std::as_bytes(std::span(bytes)), "input");
  if (file)
    use(**file);
}

} // namespace omnibal::fuzz
