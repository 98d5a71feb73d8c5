#include "runtime/data/Dataset.h"
#include "runtime/data/Image.h"
#include "runtime/data/SampleInternal.h"
#include "runtime/data/TarIndex.h"
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <unistd.h>
#include <unordered_map>

namespace omnibal::rt {
namespace {

struct Extract {
  int64_t offset = -1, bytes = 0;
};

struct Entry {
  std::string key;
  int32_t shard = 0;
  Extract json;
  std::vector<Extract> pictures;
};

/// "KEY.json" -> KEY, no number; "KEY.3.png" -> KEY, 3; anything else is not ours. A folder belongs
/// to the key, but not the "./" that `tar -cf FILE .` puts in front.
struct MemberName {
  std::string key;
  int64_t picture = -1;
};
std::optional<MemberName> splitName(std::string_view name) {
  while (name.starts_with("./"))
    name.remove_prefix(2);
  auto cut = [&]() {
    size_t dot = name.rfind('.');
    std::string_view tail = dot == std::string_view::npos ? "" : name.substr(dot + 1);
    name = name.substr(0, dot == std::string_view::npos ? 0 : dot);
    return tail;
  };
  std::string_view extension = cut();
  if (extension == "json" && !name.empty())
    return MemberName{std::string(name), -1};
  if (extension != "png" && extension != "jpg" && extension != "jpeg" && extension != "webp")
    return std::nullopt;
  std::string_view number = cut();
  int64_t picture = 0;
  auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), picture);
  if (number.empty() || number.size() > 6 || error != std::errc() ||
      end != number.data() + number.size() || picture < 0 || name.empty())
    return std::nullopt;
  return MemberName{std::string(name), picture};
}

Result<std::vector<std::string>> listShards(const std::vector<std::string> &given) {
  namespace fs = std::filesystem;
  std::vector<std::string> shards;
  for (const std::string &path : given) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      shards.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto &entry : fs::directory_iterator(path, error))
      if (entry.path().extension() == ".tar")
        inside.push_back(entry.path().string());
    if (error)
      return Status(Code::Unavailable, path + ": " + error.message());
    if (inside.empty())
      return Status(Code::NotFound, path + ": the folder holds no .tar shard");
    std::sort(inside.begin(), inside.end());
    shards.insert(shards.end(), inside.begin(), inside.end());
  }
  if (shards.empty())
    return invalid("no data shards given");
  return shards;
}

} // namespace

struct Dataset::Impl {
  std::vector<std::string> shards;
  std::vector<Entry> samples;
  std::unordered_map<std::string, int64_t> byKey;

  Status addShard(int32_t shard);
  template <typename Byte>
  Status read(int32_t shard, const Extract &what, std::vector<Byte> &out) const;
  std::string where(const Entry &sample, const std::string &member) const {
    return shards[size_t(sample.shard)] + ": " + sample.key + member;
  }
};

Status Dataset::Impl::addShard(int32_t shard) {
  const std::string &path = shards[size_t(shard)];
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<TarMember> members, indexTar(path));
  auto twice = [&](const TarMember &member) {
    return Status(Code::DataLoss, path + ": the member " + member.name + " occurs twice");
  };
  size_t first = samples.size();
  for (const TarMember &member : members) {
    std::optional<MemberName> name = splitName(member.name);
    if (!name)
      continue;
    auto [slot, added] = byKey.try_emplace(name->key, static_cast<int64_t>(samples.size()));
    if (added)
      samples.push_back({name->key, shard, {}, {}});
    Entry &sample = samples[size_t(slot->second)];
    if (sample.shard != shard)
      return Status(Code::DataLoss, path + ": the sample \"" + name->key + "\" occurs in " +
                                        shards[size_t(sample.shard)] + " too; keys must be unique");
    Extract where{member.offset, member.bytes};
    if (name->picture < 0) {
      if (sample.json.offset >= 0)
        return twice(member);
      sample.json = where;
      continue;
    }
    if (size_t(name->picture) >= sample.pictures.size())
      sample.pictures.resize(size_t(name->picture) + 1);
    Extract &picture = sample.pictures[size_t(name->picture)];
    if (picture.offset >= 0)
      return twice(member);
    picture = where;
  }
  for (size_t i = first; i < samples.size(); ++i) {
    if (samples[i].json.offset < 0)
      return Status(Code::DataLoss, where(samples[i], ".json is missing, though pictures of that "
                                                      "sample are there"));
    for (size_t p = 0; p < samples[i].pictures.size(); ++p)
      if (samples[i].pictures[p].offset < 0)
        return Status(Code::DataLoss, where(samples[i], "." + std::to_string(p)) +
                                          ".png (or jpg, webp) is missing, though later pictures "
                                          "of that sample are there");
  }
  return Status::ok();
}

template <typename Byte>
Status Dataset::Impl::read(int32_t shard, const Extract &what, std::vector<Byte> &out) const {
  const std::string &path = shards[size_t(shard)];
  // Opened anew: the number of shards may exceed the limit of open files.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return {Code::Unavailable, path + ": " + std::strerror(errno)};
  out.resize(static_cast<size_t>(what.bytes));
  int64_t done = 0;
  while (done < what.bytes) {
    ssize_t got = ::pread(fd, out.data() + done, size_t(what.bytes - done), what.offset + done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0) {
      std::string why = got < 0 ? std::strerror(errno) : "the file became shorter";
      ::close(fd);
      return {Code::Unavailable, path + ": reading failed: " + why};
    }
    done += got;
  }
  ::close(fd);
  return Status::ok();
}

Dataset::Dataset(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Dataset::~Dataset() = default;

Result<std::shared_ptr<const Dataset>> Dataset::open(const std::vector<std::string> &shards) {
  auto impl = std::make_unique<Impl>();
  OMNIBAL_ASSIGN_OR_RETURN(impl->shards, listShards(shards));
  for (size_t s = 0; s < impl->shards.size(); ++s)
    OMNIBAL_RETURN_IF_ERROR(impl->addShard(static_cast<int32_t>(s)));
  if (impl->samples.empty())
    return invalid(impl->shards.front() + ": no sample (KEY.json) in any shard");
  return std::shared_ptr<const Dataset>(new Dataset(std::move(impl)));
}

int64_t Dataset::size() const { return static_cast<int64_t>(impl->samples.size()); }
const std::string &Dataset::key(int64_t index) const { return impl->samples[size_t(index)].key; }

int64_t Dataset::find(std::string_view key) const {
  auto it = impl->byKey.find(std::string(key));
  return it == impl->byKey.end() ? -1 : it->second;
}

int64_t Dataset::tiles(int64_t index) const {
  return static_cast<int64_t>(impl->samples[size_t(index)].pictures.size());
}

std::string Dataset::describe(int64_t index) const {
  return impl->where(impl->samples[size_t(index)], "");
}

Result<Sample> Dataset::sample(int64_t index) const {
  const Entry &entry = impl->samples[size_t(index)];
  std::string where = impl->where(entry, ".json");
  std::vector<char> text;
  OMNIBAL_RETURN_IF_ERROR(impl->read(entry.shard, entry.json, text));
  OMNIBAL_ASSIGN_OR_RETURN(Sample sample,
                           parseSample({text.data(), text.size()}, entry.key, where));
  if (sample.tiles != tiles(index))
    return Status(Code::DataLoss, where + ": field \"images\" is " + std::to_string(sample.tiles) +
                                      ", but the shard holds " + std::to_string(tiles(index)) +
                                      " pictures of that sample");
  return sample;
}

Status Dataset::decodeTiles(int64_t index, const Preprocess &preprocess, int64_t height,
                            int64_t width, float *out) const {
  const Entry &entry = impl->samples[size_t(index)];
  std::vector<uint8_t> bytes;
  for (size_t p = 0; p < entry.pictures.size(); ++p) {
    std::string where = impl->where(entry, ", picture " + std::to_string(p));
    OMNIBAL_RETURN_IF_ERROR(impl->read(entry.shard, entry.pictures[p], bytes));
    Result<Image> image = decodeImage(bytes);
    if (!image)
      return std::move(image).status().context(where);
    if (image->height != height || image->width != width)
      return invalid(where + " is " + std::to_string(image->width) + " x " +
                     std::to_string(image->height) + " pixels, the model's tiles are " +
                     std::to_string(width) + " x " + std::to_string(height) +
                     " (prepare the data with the model's own processor)");
    preprocess.apply(image->rgb.data(), height, width,
                     out + static_cast<int64_t>(p) * 3 * height * width);
  }
  return Status::ok();
}

} // namespace omnibal::rt
