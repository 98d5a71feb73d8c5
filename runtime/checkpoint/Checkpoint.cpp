#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/RunningChecksum.h"
#include "runtime/checkpoint/TensorBytes.h"
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

/// Calls use(first, count) for the elements in pieces, which leave the process's memory again.
template <typename Use> Status inPieces(const StoredTensor &stored, Use use) {
  const int64_t step = elementsAtOnce(stored);
  for (int64_t first = 0; first < stored.elements; first += step) {
    const int64_t count = std::min(step, stored.elements - first);
    OMNIBAL_RETURN_IF_ERROR(use(first, count));
    releasePages(stored, first, count);
  }
  return Status::ok();
}

Status addTo(RunningChecksum &sum, const StoredTensor &stored) {
  const int64_t size = byteSize(stored.dtype);
  return inPieces(stored, [&](int64_t first, int64_t count) {
    sum.add(stored.data + first * size, count * size);
    return Status::ok();
  });
}

/// Codes, which lie in the file as in memory.
Status fillCodes(const StoredTensor &stored, const NamedTensor &tensor) {
  return throughHostCopy(tensor, [&](const NamedTensor &here) {
    std::memcpy(here.data, stored.data + here.first, static_cast<size_t>(elementsOf(here)));
    return Status::ok();
  });
}

Status fillFrom(const StoredTensor &stored, const NamedTensor &tensor) {
  if (tensor.codes)
    return fillCodes(stored, tensor);
  auto convert = [&](float *to) {
    return inPieces(stored, [&](int64_t first, int64_t count) {
      return convertTensor(stored, DType::F32, to + first, first, count);
    });
  };
  return throughHostCopy(tensor, [&](const NamedTensor &here) {
    const bool isDense = !here.transposed && !here.held;
    if (here.isPart() && isDense)
      return convertTensor(stored, DType::F32, here.data, here.first, here.count);
    if (isDense)
      return convert(here.data);
    std::vector<float> dense(static_cast<size_t>(stored.elements));
    OMNIBAL_RETURN_IF_ERROR(convert(dense.data()));
    unstreamTensor(here, dense.data());
    return Status::ok();
  });
}

} // namespace

Result<Checkpoint> Checkpoint::openStep(const std::string &folder) {
  OMNIBAL_ASSIGN_OR_RETURN(const Manifest manifest, readManifest(folder));
  Checkpoint checkpoint;
  checkpoint.folder = folder;
  checkpoint.run = manifest.state;
  for (const ManifestFile &file : manifest.files) {
    OMNIBAL_RETURN_IF_ERROR(verifySize(folder, file));
    OMNIBAL_ASSIGN_OR_RETURN(auto shard, SafetensorsFile::open(folder + "/" + file.name));
    checkpoint.shards.push_back({std::move(shard), file, false});
  }
  return checkpoint;
}

Result<std::vector<std::string>> Checkpoint::candidates(const std::string &path) {
  std::error_code error;
  if (fs::exists(path + "/manifest.json", error))
    return std::vector<std::string>{path};
  if (!fs::is_directory(path, error))
    return Status(Code::NotFound, path + ": no such checkpoint folder");
  // `latest` tells which one was finished last; older ones are the fall-back.
  std::vector<std::string> names = listCheckpoints(path);
  if (auto latest = readWholeFile(path + "/latest")) {
    const std::string name = latest->substr(0, latest->find('\n'));
    auto it = std::find(names.begin(), names.end(), name);
    if (it != names.end())
      std::rotate(names.begin(), it, it + 1);
  }
  if (names.empty())
    return Status(Code::DataLoss, path + ": the folder holds no checkpoint (step-...)");
  for (std::string &name : names)
    name = path + "/" + name;
  return names;
}

Result<Checkpoint> Checkpoint::open(const std::string &path, std::vector<std::string> *notices) {
  OMNIBAL_ASSIGN_OR_RETURN(const std::vector<std::string> folders, candidates(path));
  std::string reasons;
  for (const std::string &folder : folders) {
    auto checkpoint = openStep(folder);
    Status status = checkpoint.status();
    for (size_t i = 0; status && i < checkpoint->shards.size(); ++i)
      status = checkpoint->readShard(checkpoint->shards[i], {});
    if (status || folder == path)
      return status ? std::move(checkpoint) : Result<Checkpoint>(status);
    reasons += "\n  " + status.message();
    if (notices)
      notices->push_back("passed over: " + status.message());
  }
  return Status(Code::DataLoss, path + ": no checkpoint is complete:" + reasons);
}

std::vector<std::string> Checkpoint::tensors() const {
  std::vector<std::string> names;
  for (const Shard &shard : shards)
    for (const StoredTensor &tensor : shard.file->tensors())
      names.push_back(tensor.name);
  return names;
}

const StoredTensor *Checkpoint::find(const std::string &name) const {
  for (const Shard &shard : shards)
    if (const StoredTensor *tensor = shard.file->find(name))
      return tensor;
  return nullptr;
}

void Checkpoint::trust() {
  for (Shard &shard : shards)
    shard.verified = true;
}

Status Checkpoint::read(std::span<const NamedTensor> tensors) {
  std::vector<std::vector<const NamedTensor *>> wanted(shards.size());
  for (const NamedTensor &tensor : tensors) {
    size_t at = 0;
    while (at < shards.size() && !shards[at].file->find(tensor.name))
      ++at;
    if (at == shards.size())
      return {Code::NotFound, folder + ": no shard holds the tensor \"" + tensor.name +
                                  "\" (the checkpoint belongs to another model or freezing)"};
    const StoredTensor *stored = shards[at].file->find(tensor.name);
    if (stored->shape != tensor.shape ||
        stored->dtype != (tensor.codes ? StoredType::U8 : StoredType::F32))
      return {Code::InvalidArgument, shards[at].file->path() + ": tensor \"" + tensor.name +
                                         "\" has another shape than the program's parameter "
                                         "(the checkpoint belongs to another model)"};
    wanted[at].push_back(&tensor);
  }
  for (size_t i = 0; i < shards.size(); ++i)
    if (!wanted[i].empty())
      OMNIBAL_RETURN_IF_ERROR(readShard(shards[i], wanted[i]));
  return Status::ok();
}

/// In the order of the file, which the disk reads once: what is counted is then still in memory.
Status Checkpoint::readShard(Shard &shard, const std::vector<const NamedTensor *> &wanted) const {
  std::multimap<std::string_view, const NamedTensor *> places; // parts have one name
  for (const NamedTensor *tensor : wanted)
    places.emplace(tensor->name, tensor);
  RunningChecksum sum;
  const std::vector<StoredTensor> &stored = shard.file->tensors();
  if (!shard.verified)
    sum.add(shard.file->header().data(), static_cast<int64_t>(shard.file->header().size()));
  for (const StoredTensor &tensor : stored) {
    if (!shard.verified)
      OMNIBAL_RETURN_IF_ERROR(addTo(sum, tensor));
    const auto [begin, end] = places.equal_range(tensor.name);
    for (auto place = begin; place != end; ++place)
      OMNIBAL_RETURN_IF_ERROR(fillFrom(tensor, *place->second));
  }
  if (!shard.verified && sum.value() != shard.entry.crc32)
    return {Code::DataLoss,
            shard.file->path() + ": damaged: its checksum is not that of the manifest"};
  shard.verified = true;
  return Status::ok();
}

} // namespace omnibal::rt
