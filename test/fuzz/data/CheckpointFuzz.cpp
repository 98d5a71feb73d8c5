//===- CheckpointFuzz.cpp - A step's folder: manifest and shards -----------------------------===//
//
// The parts are manifest.json and the header of a shard. Entries of the manifest's files that say
// no size or no checksum get those of the shard.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/RunningChecksum.h"
#include "runtime/support/Json.h"
#include "test/fuzz/Fuzz.h"
#include <algorithm>

namespace omnibal::fuzz {

const Allowance allowance;

namespace {

using namespace rt;
using nlohmann::json;

constexpr const char *shardName = "stage-0.safetensors";

std::string sealed(std::string_view text, const std::string &shard) {
  auto manifest = parseJson(text, "manifest");
  if (!manifest || !manifest->is_object() || !manifest->contains("files") ||
      !(*manifest)["files"].is_array())
    return std::string(text);
  RunningChecksum sum;
  sum.add(shard.data(), static_cast<int64_t>(shard.size()));
  for (json &entry : (*manifest)["files"])
    if (entry.is_object()) {
      entry.emplace("bytes", shard.size());
      entry.emplace("crc32", sum.value());
    }
  return manifest->dump();
}

/// Whether the manifest says of this shard what is true, and nothing of others.
bool isTrue(const Manifest &manifest, const std::string &shard) {
  RunningChecksum sum;
  sum.add(shard.data(), static_cast<int64_t>(shard.size()));
  return std::all_of(manifest.files.begin(), manifest.files.end(), [&](const ManifestFile &file) {
    return file.name == shardName && file.bytes == static_cast<int64_t>(shard.size()) &&
           file.crc32 == sum.value();
  });
}

void use(Checkpoint &checkpoint) {
  for (const std::string &name : checkpoint.tensors()) {
    const StoredTensor *stored = checkpoint.find(name);
    require(stored, "a tensor is not found by its name");
    std::vector<float> values(static_cast<size_t>(stored->elements));
    NamedTensor tensor;
    tensor.name = name;
    tensor.shape = stored->shape;
    tensor.data = values.data();
    (void)checkpoint.read(tensor);
  }
}

} // namespace

void run(std::string_view input) {
  static const MemoryFolder folder;
  std::vector<std::string_view> parts = partsOf(input);
  parts.resize(2);
  const std::string shard = safetensorsOf(parts[1].empty() ? "{}" : parts[1], "", true);
  folder.write(shardName, shard);
  const std::string text = sealed(parts[0], shard);
  folder.write("manifest.json", text);
  bool sound = false;
  if (auto manifest = Manifest::parse(text, "manifest.json")) {
    sound = isTrue(*manifest, shard) &&
            SafetensorsFile::view(std::as_bytes(std::span(shard)), shardName).isOk();
    auto again = Manifest::parse(manifest->print(), "again");
    require(again.status());
    require(again->print() == manifest->print() &&
                again->state.settings == manifest->state.settings,
            "the manifest changed when it was written and read");
  }
  auto checkpoint = Checkpoint::open(folder.path());
  if (checkpoint)
    use(*checkpoint);
  else if (sound)
    broken(checkpoint.status().message());
}

} // namespace omnibal::fuzz
