#include "runtime/checkpoint/SharedTensorFile.h"
#include "runtime/checkpoint/SharedFile.h"
#include "runtime/checkpoint/TensorBytes.h"
#include "runtime/support/AtomicFile.h"
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <unistd.h>
#include <unordered_map>

namespace omnibal::rt {
namespace {

constexpr int64_t elementsEncodedAtOnce = int64_t{1} << 18;

/// Writes pieces of one tensor, in its order, at its place.
class Placed {
public:
  Placed(SharedFile &file, const TensorHeader &header, int64_t offset)
      : file(file), header(header), begin(offset), at(offset) {}

  /// The element that comes next.
  void goTo(int64_t element) { at = begin + element * byteSize(header.dtype); }

  Status bytes(const void *data, int64_t count) {
    OMNIBAL_RETURN_IF_ERROR(file.write(data, static_cast<size_t>(count), at));
    at += count;
    return Status::ok();
  }

  template <typename Number> Status numbers(const Number *values, int64_t count) {
    const int64_t size = byteSize(header.dtype);
    if (header.dtype == (sizeof(Number) == 8 ? StoredType::F64 : StoredType::F32))
      return bytes(values, count * size);
    for (int64_t first = 0; first < count; first += elementsEncodedAtOnce) {
      const int64_t n = std::min(elementsEncodedAtOnce, count - first);
      buffer.resize(static_cast<size_t>(n * size));
      if (int64_t lost = encodeFloats(header.dtype, values + first, n, buffer.data()); lost >= 0)
        return invalid("tensor \"" + header.name + "\" holds " +
                       std::to_string(values[first + lost]) + ", more than a number of type " +
                       std::string(storedTypeName(header.dtype)) +
                       " can be; save with --save-dtype float32");
      OMNIBAL_RETURN_IF_ERROR(bytes(buffer.data(), n * size));
    }
    return Status::ok();
  }

private:
  SharedFile &file;
  const TensorHeader &header;
  int64_t begin, at;
  std::vector<std::byte> buffer;
};

Status writeTrained(const NamedTensor &tensor, Placed place) {
  return streamRuns(tensor, [&](const float *values, int64_t count, int64_t element) {
    place.goTo(element);
    return place.numbers(values, count);
  });
}

template <typename Number>
Status writeConverted(const StoredTensor &tensor, DType through, Placed place) {
  const int64_t step = elementsAtOnce(tensor);
  std::vector<Number> numbers;
  for (int64_t first = 0; first < tensor.elements; first += step) {
    const int64_t count = std::min(step, tensor.elements - first);
    numbers.resize(static_cast<size_t>(count));
    OMNIBAL_RETURN_IF_ERROR(convertTensor(tensor, through, numbers.data(), first, count));
    releasePages(tensor, first, count);
    OMNIBAL_RETURN_IF_ERROR(place.numbers(numbers.data(), count));
  }
  return Status::ok();
}

Status writeCopied(const StoredTensor &tensor, StoredType type, Placed place) {
  if (type != tensor.dtype)
    return tensor.dtype == StoredType::F64
               ? writeConverted<double>(tensor, DType::F64, std::move(place))
               : writeConverted<float>(tensor, DType::F32, std::move(place));
  const int64_t step = elementsAtOnce(tensor), size = byteSize(tensor.dtype);
  for (int64_t first = 0; first < tensor.elements; first += step) {
    const int64_t count = std::min(step, tensor.elements - first);
    OMNIBAL_RETURN_IF_ERROR(place.bytes(tensor.data + first * size, count * size));
    releasePages(tensor, first, count);
  }
  return Status::ok();
}

/// Says where each tensor lies.
struct PlaceInFiles {
  size_t file = 0, tensor = 0;
};

class Writing {
public:
  Writing(const std::vector<SharedTensorFile> &files,
          const std::map<std::string, std::string> &metadata)
      : files(files) {
    for (size_t f = 0; f < files.size() && status; ++f) {
      auto layout = layOut(files[f].layout, metadata);
      status = layout.status();
      if (!layout)
        return;
      layouts.push_back(*std::move(layout));
      for (size_t t = 0; t < files[f].layout.size(); ++t)
        places.emplace(files[f].layout[t].name, PlaceInFiles{f, t});
    }
  }

  Status create() {
    OMNIBAL_RETURN_IF_ERROR(status);
    for (size_t f = 0; f < files.size(); ++f) {
      SharedFile file(files[f].path, temporaryOf(files[f]));
      OMNIBAL_RETURN_IF_ERROR(file.create(layouts[f].fileBytes));
      OMNIBAL_RETURN_IF_ERROR(file.write(layouts[f].header.data(), layouts[f].header.size(), 0));
      OMNIBAL_RETURN_IF_ERROR(file.flush());
    }
    return Status::ok();
  }

  Status write(const SharedTensors &tensors, bool leads) {
    OMNIBAL_RETURN_IF_ERROR(status);
    // File by file, so that each is open and flushed once.
    std::vector<std::vector<const NamedTensor *>> mine(files.size());
    std::vector<std::vector<const StoredTensor *>> copied(files.size());
    for (const NamedTensor &tensor : tensors.mine) {
      const PlaceInFiles *place = placeOf(tensor.name, tensor.shape);
      if (!place || !isFloat(header(*place).dtype))
        return unknown(tensor.name);
      mine[place->file].push_back(&tensor);
    }
    for (const StoredTensor *tensor :
         leads ? tensors.copied : std::vector<const StoredTensor *>()) {
      const PlaceInFiles *place = placeOf(tensor->name, tensor->shape);
      if (!place || (header(*place).dtype != tensor->dtype &&
                     !(isFloat(header(*place).dtype) && isFloat(tensor->dtype))))
        return unknown(tensor->name);
      copied[place->file].push_back(tensor);
    }
    for (size_t f = 0; f < files.size(); ++f) {
      if (mine[f].empty() && copied[f].empty())
        continue;
      SharedFile file(files[f].path, temporaryOf(files[f]));
      OMNIBAL_RETURN_IF_ERROR(file.open());
      for (const NamedTensor *tensor : mine[f])
        OMNIBAL_RETURN_IF_ERROR(writeTrained(*tensor, placed(file, tensor->name)));
      for (const StoredTensor *tensor : copied[f])
        OMNIBAL_RETURN_IF_ERROR(writeCopied(*tensor, header(places.at(tensor->name)).dtype,
                                            placed(file, tensor->name)));
      OMNIBAL_RETURN_IF_ERROR(file.flush());
    }
    return Status::ok();
  }

private:
  const TensorHeader &header(const PlaceInFiles &place) const {
    return files[place.file].layout[place.tensor];
  }
  const PlaceInFiles *placeOf(const std::string &name, const std::vector<int64_t> &shape) const {
    auto it = places.find(name);
    return it == places.end() || header(it->second).shape != shape ? nullptr : &it->second;
  }
  Placed placed(SharedFile &file, const std::string &name) const {
    const PlaceInFiles &place = places.at(name);
    return {file, header(place), layouts[place.file].offsets[place.tensor]};
  }
  static Status unknown(const std::string &name) {
    return {Code::Internal, "tensor \"" + name + "\" is not in the layout of the files"};
  }

  const std::vector<SharedTensorFile> &files;
  std::vector<SafetensorsLayout> layouts;
  std::unordered_map<std::string, PlaceInFiles> places;
  Status status;
};

} // namespace

std::string temporaryOf(const SharedTensorFile &file) { return file.path + ".incomplete"; }

Status nameFinished(const std::vector<SharedTensorFile> &files) {
  for (const SharedTensorFile &file : files)
    if (::rename(temporaryOf(file).c_str(), file.path.c_str()))
      return SharedFile(file.path, temporaryOf(file)).error("finishing the file");
  for (const SharedTensorFile &file : files) {
    std::string folder = std::filesystem::path(file.path).parent_path().string();
    OMNIBAL_RETURN_IF_ERROR(syncFolder(folder.empty() ? "." : folder));
  }
  return Status::ok();
}

Status writeSharedTensorFiles(const std::vector<SharedTensorFile> &files,
                              const std::map<std::string, std::string> &metadata,
                              const SharedTensors &tensors, bool leads, const Agreement &agree,
                              const std::function<Status()> &commit) {
  Writing writing(files, metadata);
  // Every rank agrees as often, whatever it knows of the files.
  Status status = agree.after([&] { return leads ? writing.create() : Status::ok(); });
  if (status)
    status = agree.after([&] {
      return leads || !tensors.mine.empty() ? writing.write(tensors, leads) : Status::ok();
    });
  if (status)
    status = agree.after([&] { return leads ? commit() : Status::ok(); });
  if (leads && !status)
    for (const SharedTensorFile &file : files)
      ::unlink(temporaryOf(file).c_str());
  return status;
}

Status writeSharedTensorFile(const SharedTensorFile &file, const std::vector<NamedTensor> &mine,
                             bool leads, const Agreement &agree) {
  const std::vector<SharedTensorFile> files = {file};
  return writeSharedTensorFiles(files, {}, {mine, {}}, leads, agree,
                                [&] { return nameFinished(files); });
}

} // namespace omnibal::rt
