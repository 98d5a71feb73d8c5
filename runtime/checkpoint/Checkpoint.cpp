#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/TensorBytes.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

Status makeFolder(const std::string &path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    return {Code::Unavailable, path + ": creating the folder failed: " + error.message()};
  return syncFolder(fs::absolute(path).parent_path().string());
}

std::string shardName(int stage) { return "stage-" + std::to_string(stage) + ".safetensors"; }

Status writeShard(const std::string &path, const std::vector<NamedTensor> &tensors) {
  std::vector<TensorHeader> layout;
  for (const NamedTensor &tensor : tensors)
    layout.push_back({tensor.name, StoredType::F32, tensor.shape});
  OMNIBAL_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::create(path, layout));
  for (const NamedTensor &tensor : tensors)
    OMNIBAL_RETURN_IF_ERROR(streamTensor(
        tensor, [&](const void *data, size_t bytes) { return writer.append(data, bytes); }));
  return writer.finish();
}

/// The leader's part: manifest, the folder's final name, the pointer.
Status commitStep(const CheckpointWriteOptions &options, const RunState &state,
                  const std::string &incomplete) {
  Manifest manifest;
  manifest.state = state;
  for (int stage = 0; stage < options.stages; ++stage) {
    OMNIBAL_ASSIGN_OR_RETURN(ManifestFile file, measureFile(incomplete, shardName(stage)));
    manifest.files.push_back(std::move(file));
  }
  OMNIBAL_RETURN_IF_ERROR(writeFileAtomically(incomplete + "/manifest.json", manifest.print()));
  std::string name = stepName(state.step), final = options.folder + "/" + name;
  OMNIBAL_RETURN_IF_ERROR(publishFolder(incomplete, final));
  OMNIBAL_RETURN_IF_ERROR(syncFolder(options.folder));
  return writeFileAtomically(options.folder + "/latest", name + "\n");
}

} // namespace

Status saveCheckpoint(const CheckpointWriteOptions &options, const RunState &state,
                      const std::vector<NamedTensor> &tensors, const Agreement &agree) {
  std::string incomplete = options.folder + "/" + stepName(state.step) + ".incomplete";
  Status status;
  if (options.leads) {
    std::error_code ignored;
    fs::remove_all(incomplete, ignored); // left by a run that was killed
    status = makeFolder(options.folder);
    if (status)
      status = makeFolder(incomplete);
  }
  OMNIBAL_RETURN_IF_ERROR(agree(std::move(status)));
  if (options.writes)
    status = writeShard(incomplete + "/" + shardName(options.stage), tensors);
  status = agree(std::move(status));
  if (!status) {
    if (options.leads) {
      std::error_code ignored;
      fs::remove_all(incomplete, ignored);
    }
    return std::move(status).context("saving the checkpoint of step " + std::to_string(state.step));
  }
  if (options.leads) {
    status = commitStep(options, state, incomplete);
    if (status)
      pruneCheckpoints(options.folder, options.retention, state.step, options.obsolete);
  }
  return agree(std::move(status))
      .context("saving the checkpoint of step " + std::to_string(state.step));
}

Result<Checkpoint> Checkpoint::load(const std::string &folder, Manifest manifest, bool verified) {
  Checkpoint checkpoint;
  checkpoint.folder = folder;
  checkpoint.run = manifest.state;
  for (const ManifestFile &file : manifest.files) {
    OMNIBAL_ASSIGN_OR_RETURN(auto shard, SafetensorsFile::open(folder + "/" + file.name));
    checkpoint.shards.push_back({std::move(shard), file, verified});
  }
  return checkpoint;
}

Result<Checkpoint> Checkpoint::openVerified(const std::string &folder) {
  OMNIBAL_ASSIGN_OR_RETURN(Manifest manifest, readManifest(folder));
  return load(folder, std::move(manifest), false);
}

Result<Checkpoint> Checkpoint::open(const std::string &path, std::vector<std::string> *notices) {
  std::error_code error;
  auto load = [](const std::string &folder) -> Result<Checkpoint> {
    OMNIBAL_ASSIGN_OR_RETURN(Manifest manifest, verifyStep(folder));
    return Checkpoint::load(folder, std::move(manifest), true);
  };
  if (fs::exists(path + "/manifest.json", error))
    return load(path);
  if (!fs::is_directory(path, error))
    return Status(Code::NotFound, path + ": no such checkpoint folder");
  // `latest` tells which one was finished last; older ones are the fall-back.
  std::vector<std::string> candidates = listCheckpoints(path);
  if (auto latest = readWholeFile(path + "/latest")) {
    std::string name = latest->substr(0, latest->find('\n'));
    auto it = std::find(candidates.begin(), candidates.end(), name);
    if (it != candidates.end())
      std::rotate(candidates.begin(), it, it + 1);
  }
  std::string reasons;
  for (const std::string &name : candidates) {
    auto checkpoint = load(path + "/" + name);
    if (checkpoint)
      return checkpoint;
    reasons += "\n  " + checkpoint.status().message();
    if (notices)
      notices->push_back("passed over: " + checkpoint.status().message());
  }
  return Status(Code::DataLoss,
                path + (candidates.empty() ? ": the folder holds no checkpoint (step-...)"
                                           : ": no checkpoint is complete:" + reasons));
}

std::vector<std::string> Checkpoint::tensors() const {
  std::vector<std::string> names;
  for (const Shard &shard : shards)
    for (const StoredTensor &tensor : shard.file->tensors())
      names.push_back(tensor.name);
  return names;
}

Status Checkpoint::read(const NamedTensor &tensor) {
  for (Shard &shard : shards) {
    const StoredTensor *stored = shard.file->find(tensor.name);
    if (!stored)
      continue;
    if (!shard.verified)
      OMNIBAL_RETURN_IF_ERROR(verifyFile(folder, shard.entry));
    shard.verified = true;
    if (stored->shape != tensor.shape || stored->dtype != StoredType::F32)
      return {Code::InvalidArgument, shard.file->path() + ": tensor \"" + tensor.name +
                                         "\" has another shape than the program's parameter "
                                         "(the checkpoint belongs to another model)"};
    return throughHostCopy(tensor, [&](const NamedTensor &here) {
      if (!here.transposed)
        return convertTensor(*stored, DType::F32, here.data);
      std::vector<float> dense(static_cast<size_t>(stored->elements));
      OMNIBAL_RETURN_IF_ERROR(convertTensor(*stored, DType::F32, dense.data()));
      unstreamTensor(here, dense.data());
      return Status::ok();
    });
  }
  return {Code::NotFound, folder + ": no shard holds the tensor \"" + tensor.name +
                              "\" (the checkpoint belongs to another model or freezing)"};
}

} // namespace omnibal::rt
