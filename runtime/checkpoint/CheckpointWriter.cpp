#include "runtime/checkpoint/CheckpointWriter.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/RunningChecksum.h"
#include "runtime/checkpoint/SharedFile.h"
#include "runtime/checkpoint/TensorBytes.h"
#include "runtime/support/Json.h"
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

/// What is handed to the file at once: between two pieces cancellation is looked at.
constexpr size_t pieceBytes = size_t{1} << 20;

/// Where several ranks make the same folder, one of them does.
Status makeFolder(const std::string &path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error)
    return {Code::Unavailable, path + ": creating the folder failed: " + error.message()};
  return syncFolder(fs::absolute(path).parent_path().string());
}

std::string shardName(int stage) { return "stage-" + std::to_string(stage) + ".safetensors"; }
/// Tells the leader about a shard; it is gone from a complete checkpoint.
std::string noteName(int stage) { return "stage-" + std::to_string(stage) + ".json"; }
std::string incompleteFolder(const CheckpointWriteOptions &options, int64_t step) {
  return options.folder + "/" + stepName(step) + ".incomplete";
}

Status endedBefore(const std::string &name) {
  return {Code::Aborted, name + ": the run ended before it was written"};
}

/// A shard whose size and checksum are found while it is written.
class Shard {
public:
  Shard(ManifestFile entry, SafetensorsWriter writer, const std::atomic<bool> &canceled)
      : entry(std::move(entry)), writer(std::move(writer)), canceled(canceled) {}

  Status append(const void *data, size_t bytes) {
    auto at = static_cast<const std::byte *>(data);
    for (size_t done = 0; done < bytes; done += pieceBytes) {
      if (canceled)
        return endedBefore(entry.name);
      const size_t piece = std::min(pieceBytes, bytes - done);
      count(at + done, piece);
      OMNIBAL_RETURN_IF_ERROR(writer.append(at + done, piece));
    }
    return Status::ok();
  }
  void count(const void *data, size_t bytes) {
    sum.add(data, static_cast<int64_t>(bytes));
    entry.crc32 = sum.value();
    entry.bytes += static_cast<int64_t>(bytes);
  }
  Result<ManifestFile> finish() {
    OMNIBAL_RETURN_IF_ERROR(writer.finish());
    return entry;
  }

private:
  ManifestFile entry;
  RunningChecksum sum;
  SafetensorsWriter writer;
  const std::atomic<bool> &canceled;
};

Result<ManifestFile> readNote(const std::string &folder, int stage) {
  OMNIBAL_ASSIGN_OR_RETURN(const std::string text, readWholeFile(folder + "/" + noteName(stage)));
  OMNIBAL_ASSIGN_OR_RETURN(const nlohmann::json note,
                           parseJson(text, folder + "/" + noteName(stage)));
  return parseManifestFile(note);
}

StoredType storedTypeOf(const NamedTensor &tensor) {
  return tensor.codes ? StoredType::U8 : StoredType::F32;
}

/// Codes of a tensor, or of its part, at their place.
Status writeCodes(SharedFile &file, const NamedTensor &anywhere, int64_t place) {
  return withHostCopy(anywhere, [&](const NamedTensor &tensor) {
    return file.write(tensor.data, static_cast<size_t>(elementsOf(tensor)), place + tensor.first);
  });
}

/// Parts of a shard at their places.
Status writeParts(const CheckpointWriteOptions &options, const std::string &path,
                  const std::vector<NamedTensor> &tensors, const std::atomic<bool> &canceled) {
  OMNIBAL_ASSIGN_OR_RETURN(const SafetensorsLayout places, layOut(options.layout));
  std::map<std::string_view, int64_t> offsets;
  for (size_t i = 0; i < options.layout.size(); ++i)
    offsets.emplace(options.layout[i].name, places.offsets[i]);
  SharedFile file(path, path);
  OMNIBAL_RETURN_IF_ERROR(file.openOrCreate());
  if (options.begins) {
    OMNIBAL_RETURN_IF_ERROR(file.resize(places.fileBytes));
    OMNIBAL_RETURN_IF_ERROR(file.write(places.header.data(), places.header.size(), 0));
  }
  for (const NamedTensor &tensor : tensors) {
    const auto place = offsets.find(tensor.name);
    if (place == offsets.end())
      return {Code::Internal, path + " has no place for tensor \"" + tensor.name + "\""};
    auto write = [&](const float *values, int64_t count, int64_t element) {
      constexpr auto most = static_cast<int64_t>(pieceBytes / sizeof(float));
      for (int64_t done = 0; done < count; done += most) {
        if (canceled)
          return endedBefore(path);
        const int64_t piece = std::min(most, count - done);
        OMNIBAL_RETURN_IF_ERROR(
            file.write(values + done, static_cast<size_t>(piece) * sizeof(float),
                       place->second + (element + done) * int64_t{sizeof(float)}));
      }
      return Status::ok();
    };
    OMNIBAL_RETURN_IF_ERROR(tensor.codes ? writeCodes(file, tensor, place->second)
                                         : streamRuns(tensor, write));
  }
  return file.flush();
}

} // namespace

Status describeShard(const CheckpointWriteOptions &options, int64_t step,
                     const std::atomic<bool> &canceled) {
  const std::string folder = incompleteFolder(options, step), name = shardName(options.stage);
  std::ifstream file(folder + "/" + name, std::ios::binary);
  std::vector<char> buffer(pieceBytes);
  ManifestFile entry{name, 0, 0};
  RunningChecksum sum;
  while (file) {
    if (canceled)
      return endedBefore(name);
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    sum.add(buffer.data(), file.gcount());
    entry.bytes += file.gcount();
  }
  if (!file.eof())
    return {Code::Unavailable, folder + "/" + name + ": reading what was written failed"};
  entry.crc32 = sum.value();
  return writeFileAtomically(folder + "/" + noteName(options.stage), toJson(entry).dump() + "\n");
}

Status writeShard(const CheckpointWriteOptions &options, int64_t step,
                  const std::vector<NamedTensor> &tensors, const std::atomic<bool> &canceled) {
  const std::string folder = incompleteFolder(options, step);
  OMNIBAL_RETURN_IF_ERROR(makeFolder(folder));
  if (!options.layout.empty())
    return writeParts(options, folder + "/" + shardName(options.stage), tensors, canceled);
  std::vector<TensorHeader> layout;
  for (const NamedTensor &tensor : tensors)
    layout.push_back({tensor.name, storedTypeOf(tensor), tensor.shape});
  OMNIBAL_ASSIGN_OR_RETURN(const SafetensorsLayout places, layOut(layout));
  const std::string name = shardName(options.stage);
  OMNIBAL_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                           SafetensorsWriter::create(folder + "/" + name, layout));
  Shard shard({name, 0, 0}, std::move(writer), canceled);
  shard.count(places.header.data(), places.header.size());
  for (const NamedTensor &tensor : tensors)
    OMNIBAL_RETURN_IF_ERROR(streamTensor(
        tensor, [&](const void *data, size_t bytes) { return shard.append(data, bytes); }));
  OMNIBAL_ASSIGN_OR_RETURN(const ManifestFile entry, shard.finish());
  return writeFileAtomically(folder + "/" + noteName(options.stage), toJson(entry).dump() + "\n");
}

Status commitCheckpoint(const CheckpointWriteOptions &options, const RunState &state) {
  const std::string incomplete = incompleteFolder(options, state.step);
  Manifest manifest;
  manifest.state = state;
  for (int stage = 0; stage < options.stages; ++stage) {
    OMNIBAL_ASSIGN_OR_RETURN(ManifestFile file, readNote(incomplete, stage));
    manifest.files.push_back(std::move(file));
  }
  std::error_code ignored;
  for (int stage = 0; stage < options.stages; ++stage)
    fs::remove(incomplete + "/" + noteName(stage), ignored);
  OMNIBAL_RETURN_IF_ERROR(writeFileAtomically(incomplete + "/manifest.json", manifest.print()));
  const std::string name = stepName(state.step), final = options.folder + "/" + name;
  OMNIBAL_RETURN_IF_ERROR(publishFolder(incomplete, final));
  OMNIBAL_RETURN_IF_ERROR(syncFolder(options.folder));
  OMNIBAL_RETURN_IF_ERROR(writeFileAtomically(options.folder + "/latest", name + "\n"));
  OMNIBAL_RETURN_IF_ERROR(writeBest(options.folder, options.best));
  pruneCheckpoints(options.folder, options.retention, state.step, options.obsolete);
  return Status::ok();
}

void discardCheckpoint(const CheckpointWriteOptions &options, int64_t step) {
  std::error_code ignored;
  fs::remove_all(incompleteFolder(options, step), ignored);
}

} // namespace omnibal::rt
