#include "runtime/data/ShardScan.h"
#include "runtime/data/Member.h"
#include "runtime/data/TarIndex.h"
#include <algorithm>
#include <charconv>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unordered_map>

namespace omnibal::rt {
namespace {

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

/// Collects the members of one shard into samples, in the order of their first members.
class ShardScan {
public:
  explicit ShardScan(const std::string &path) : path(path) {}

  Result<std::vector<StoredSample>> run(const std::vector<TarMember> &members) {
    for (const TarMember &member : members)
      OMNIBAL_RETURN_IF_ERROR(add(member, members.size()));
    for (const StoredSample &sample : samples) {
      if (sample.json.offset < 0)
        return Status(Code::DataLoss, path + ": " + sample.key +
                                          ".json is missing, though pictures of that sample are "
                                          "there");
      for (size_t p = 0; p < sample.pictures.size(); ++p)
        if (sample.pictures[p].offset < 0)
          return missing(sample, p);
    }
    return std::move(samples);
  }

private:
  Status missing(const StoredSample &sample, size_t picture) const {
    return {Code::DataLoss, path + ": " + sample.key + "." + std::to_string(picture) +
                                ".png (or jpg, webp) is missing, though later pictures of that "
                                "sample are there"};
  }
  Status add(const TarMember &member, size_t members) {
    std::optional<MemberName> name = splitName(member.name);
    if (!name)
      return Status::ok();
    auto [slot, added] = byKey.try_emplace(name->key, samples.size());
    if (added)
      samples.push_back({name->key, {}, {}});
    StoredSample &sample = samples[slot->second];
    if (name->picture >= static_cast<int64_t>(members)) // before room is made for so many
      return missing(sample, 0);
    if (name->picture >= static_cast<int64_t>(sample.pictures.size()))
      sample.pictures.resize(size_t(name->picture) + 1);
    Extract &place = name->picture < 0 ? sample.json : sample.pictures[size_t(name->picture)];
    if (place.offset >= 0)
      return {Code::DataLoss, path + ": the member " + member.name + " occurs twice"};
    place = {member.offset, member.bytes};
    return Status::ok();
  }

  const std::string &path;
  std::vector<StoredSample> samples;
  std::unordered_map<std::string, size_t> byKey;
};

/// Most pictures tell their size in the first bytes; a JPEG may have a thumbnail or a color
/// profile before it.
Result<ImageSize> readSize(const std::string &shard, const Extract &picture) {
  constexpr int64_t usual = 4096, factor = 16;
  OpenMember member(shard, picture.offset, picture.bytes);
  std::vector<uint8_t> bytes;
  for (int64_t length = std::min(usual, picture.bytes);;
       length = std::min(length * factor, picture.bytes)) {
    const int64_t have = static_cast<int64_t>(bytes.size());
    bytes.resize(static_cast<size_t>(length));
    member.next(bytes.data() + have, length - have);
    OMNIBAL_RETURN_IF_ERROR(member.status);
    Result<ImageSize> size = imageSize(bytes);
    if (size || length == picture.bytes)
      return size;
  }
}

Status measure(const std::string &shard, std::vector<StoredSample> &samples) {
  for (StoredSample &sample : samples)
    for (size_t p = 0; p < sample.pictures.size(); ++p) {
      Result<ImageSize> size = readSize(shard, sample.pictures[p]);
      if (!size)
        return std::move(size).status().context(shard + ": " + sample.key + ", picture " +
                                                std::to_string(p));
      sample.pictures[p].size = *size;
    }
  return Status::ok();
}

/// Held while one process makes an index file.
class ShardLock {
public:
  explicit ShardLock(const std::string &shard) : fd(::open(shard.c_str(), O_RDWR | O_CLOEXEC)) {
    if (fd < 0) // NFS gives a lock only to who may write
      fd = ::open(shard.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
      while (::flock(fd, LOCK_EX) && errno == EINTR) // without locks each process does the work
        ;
  }
  ShardLock(const ShardLock &) = delete;
  ShardLock &operator=(const ShardLock &) = delete;
  ~ShardLock() {
    if (fd >= 0)
      ::close(fd);
  }

private:
  int fd;
};

/// What can be told of a shard without reading it.
struct KnownShard {
  explicit KnownShard(const std::string &shard, const std::string &file) : stamp(stampOf(shard)) {
    if (!stamp)
      return;
    if (Result<ShardIndex> read = ShardIndex::map(file, *stamp))
      index = *std::move(read);
  }
  bool suffices(bool sized) const { return index && (index->sized() || !sized); }

  std::optional<ShardStamp> stamp;
  std::optional<ShardIndex> index;
};

/// `file`: where the index is left; empty if it cannot be.
Result<ShardIndex> scan(const std::string &shard, bool sized, const KnownShard &known,
                        const std::string &file) {
  std::vector<StoredSample> samples;
  int64_t members = membersOfIndexFile;
  if (known.index) {
    samples = known.index->contents();
  } else {
    OMNIBAL_ASSIGN_OR_RETURN(std::vector<TarMember> list, indexTar(shard));
    members = static_cast<int64_t>(list.size());
    OMNIBAL_ASSIGN_OR_RETURN(samples, ShardScan(shard).run(list));
  }
  if (sized)
    OMNIBAL_RETURN_IF_ERROR(measure(shard, samples));
  Result<ShardIndex> made = ShardIndex::of(samples, known.stamp.value_or(ShardStamp()), sized);
  OMNIBAL_RETURN_IF_ERROR(made.status().context(shard));
  // One that changed while it was read gets no index; the reader will notice by itself.
  if (!file.empty() && members >= membersOfIndexFile && known.stamp &&
      stampOf(shard) == known.stamp)
    (void)made->write(file); // it only saves time
  return made;
}

} // namespace

std::optional<ShardStamp> stampOf(const std::string &shard) {
  struct stat info{};
  if (::stat(shard.c_str(), &info) || !S_ISREG(info.st_mode) || ::access(shard.c_str(), R_OK))
    return std::nullopt; // opening it tells why
  return ShardStamp{info.st_size,
                    info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec};
}

Result<ShardIndex> indexOf(const std::string &shard, bool sized) {
  const std::string file = shard + ".index";
  KnownShard known(shard, file);
  if (known.suffices(sized))
    return *std::move(known.index);
  const std::string folder = std::filesystem::path(shard).parent_path().string();
  if (!known.stamp || ::access(folder.empty() ? "." : folder.c_str(), W_OK))
    return scan(shard, sized, known, "");
  const ShardLock lock(shard);
  known = KnownShard(shard, file); // another process may have made it meanwhile
  if (known.suffices(sized))
    return *std::move(known.index);
  return scan(shard, sized, known, file);
}

} // namespace omnibal::rt
