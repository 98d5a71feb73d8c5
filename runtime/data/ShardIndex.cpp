#include "runtime/data/ShardIndex.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Checksum.h"
#include "runtime/support/FolderFiles.h"
#include "runtime/support/MappedFile.h"
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <span>

namespace omnibal::rt {

static_assert(std::endian::native == std::endian::little, "index files are little-endian");

struct ShardIndex::Header {
  char magic[8];
  uint64_t checksum; ///< of the 64-bit words behind it; the file is filled up to whole words
  int64_t shardBytes, shardModified;
  int64_t samples, pictures, keyBytes;
  int64_t largestPicture;
  int64_t sized;
};
struct ShardIndex::SampleRecord {
  int64_t jsonOffset, jsonBytes;
  uint64_t keyHash;
  uint32_t keyEnd, pictureEnd; ///< those of a sample begin where those of the one before end
};
struct ShardIndex::PictureRecord {
  int64_t offset, bytes;
  uint32_t height, width;
};

namespace {

constexpr char magicOfIndex[8] = {'o', 'm', 'n', 'i', 'd', 'x', '0', '1'};

uint64_t checksumOf(const std::byte *bytes, size_t size, size_t from) {
  std::span<const uint64_t> words(reinterpret_cast<const uint64_t *>(bytes + from),
                                  (size - from) / sizeof(uint64_t));
  return fnv1aWords(words, fnv1a(""));
}

bool within(int64_t offset, int64_t bytes, int64_t all) {
  return offset >= 0 && bytes >= 0 && offset <= all && bytes <= all - offset;
}

} // namespace

uint64_t hashOfKey(std::string_view key) { return fnv1a(key); }

const ShardIndex::Header &ShardIndex::header() const {
  return *reinterpret_cast<const Header *>(bytes.get());
}
const ShardIndex::SampleRecord &ShardIndex::record(int64_t sample) const {
  return reinterpret_cast<const SampleRecord *>(bytes.get() + sizeof(Header))[sample];
}
const ShardIndex::PictureRecord *ShardIndex::pictureRecords() const {
  return reinterpret_cast<const PictureRecord *>(bytes.get() + sizeof(Header) +
                                                 header().samples * sizeof(SampleRecord));
}
const char *ShardIndex::keys() const {
  return reinterpret_cast<const char *>(pictureRecords() + header().pictures);
}
uint32_t ShardIndex::firstPicture(int64_t sample) const {
  return sample == 0 ? 0 : record(sample - 1).pictureEnd;
}

int64_t ShardIndex::samples() const { return header().samples; }
std::string_view ShardIndex::key(int64_t sample) const {
  const uint32_t begin = sample == 0 ? 0 : record(sample - 1).keyEnd;
  return {keys() + begin, record(sample).keyEnd - begin};
}
uint64_t ShardIndex::keyHash(int64_t sample) const { return record(sample).keyHash; }
Extract ShardIndex::json(int64_t sample) const {
  return {record(sample).jsonOffset, record(sample).jsonBytes};
}
int64_t ShardIndex::pictures(int64_t sample) const {
  return record(sample).pictureEnd - firstPicture(sample);
}
StoredPicture ShardIndex::picture(int64_t sample, int64_t number) const {
  const PictureRecord &r = pictureRecords()[firstPicture(sample) + number];
  return {{r.offset, r.bytes}, {r.height, r.width}};
}
bool ShardIndex::sized() const { return header().sized; }
int64_t ShardIndex::largestPicture() const { return header().largestPicture; }

std::vector<StoredSample> ShardIndex::contents() const {
  std::vector<StoredSample> list(samples());
  for (int64_t s = 0; s < samples(); ++s) {
    list[s].key = key(s);
    list[s].json = json(s);
    for (int64_t p = 0; p < pictures(s); ++p)
      list[s].pictures.push_back(picture(s, p));
  }
  return list;
}

Result<ShardIndex> ShardIndex::of(const std::vector<StoredSample> &samples, const ShardStamp &stamp,
                                  bool sized) {
  Header header{};
  std::memcpy(header.magic, magicOfIndex, sizeof header.magic);
  header.shardBytes = stamp.bytes;
  header.shardModified = stamp.modified;
  header.samples = static_cast<int64_t>(samples.size());
  header.sized = sized;
  for (const StoredSample &sample : samples) {
    header.pictures += static_cast<int64_t>(sample.pictures.size());
    header.keyBytes += static_cast<int64_t>(sample.key.size());
    for (const StoredPicture &picture : sample.pictures)
      header.largestPicture = std::max(header.largestPicture, picture.bytes);
  }
  if (!fits(header))
    return invalid("more than 4294967295 pictures or bytes of keys; write the samples to several "
                   "shards");
  size_t size = sizeof header + samples.size() * sizeof(SampleRecord) +
                header.pictures * sizeof(PictureRecord) + header.keyBytes;
  size = (size + 7) / 8 * 8;
  std::shared_ptr<std::byte> made(reinterpret_cast<std::byte *>(new uint64_t[size / 8]()),
                                  [](std::byte *p) { delete[] reinterpret_cast<uint64_t *>(p); });
  auto *records = reinterpret_cast<SampleRecord *>(made.get() + sizeof header);
  auto *pictures = reinterpret_cast<PictureRecord *>(records + samples.size());
  auto *keys = reinterpret_cast<char *>(pictures + header.pictures);
  uint32_t keyEnd = 0, pictureEnd = 0;
  for (const StoredSample &sample : samples) {
    sample.key.copy(keys + keyEnd, sample.key.size());
    keyEnd += static_cast<uint32_t>(sample.key.size());
    for (const StoredPicture &p : sample.pictures)
      pictures[pictureEnd++] = {p.offset, p.bytes, static_cast<uint32_t>(p.size.height),
                                static_cast<uint32_t>(p.size.width)};
    *records++ = {sample.json.offset, sample.json.bytes, hashOfKey(sample.key), keyEnd, pictureEnd};
  }
  std::memcpy(made.get(), &header, sizeof header);
  header.checksum = checksumOf(made.get(), size, offsetof(Header, checksum) + sizeof(uint64_t));
  std::memcpy(made.get(), &header, sizeof header);
  return ShardIndex(std::move(made), size);
}

/// Ends of keys and pictures have 32 bits.
bool ShardIndex::fits(const Header &h) {
  constexpr int64_t most = std::numeric_limits<uint32_t>::max();
  return h.samples >= 0 && h.samples <= most && h.pictures >= 0 && h.pictures <= most &&
         h.keyBytes >= 0 && h.keyBytes <= most;
}

/// Believes nothing: later reads go by these numbers.
Status ShardIndex::check(const ShardStamp &stamp) const {
  const Header &h = header();
  auto wrong = [](const char *what) { return Status(Code::DataLoss, what); };
  if (std::memcmp(h.magic, magicOfIndex, sizeof h.magic) != 0)
    return wrong("of another version, or no index");
  if (stamp != ShardStamp{h.shardBytes, h.shardModified})
    return wrong("the shard has changed");
  if (!fits(h) || size != (sizeof h + h.samples * sizeof(SampleRecord) +
                           h.pictures * sizeof(PictureRecord) + h.keyBytes + 7) /
                              8 * 8)
    return wrong("it has another size than it says");
  if (h.checksum != checksumOf(bytes.get(), size, offsetof(Header, checksum) + sizeof(uint64_t)))
    return wrong("its checksum does not fit");
  uint32_t keyEnd = 0, pictureEnd = 0;
  for (int64_t s = 0; s < h.samples; ++s) {
    const SampleRecord &r = record(s);
    if (r.keyEnd <= keyEnd || r.keyEnd > h.keyBytes || r.pictureEnd < pictureEnd ||
        r.pictureEnd > h.pictures || !within(r.jsonOffset, r.jsonBytes, h.shardBytes))
      return wrong("a sample lies outside");
    keyEnd = r.keyEnd;
    pictureEnd = r.pictureEnd;
    if (r.keyHash != hashOfKey(key(s)))
      return wrong("a key has another hash");
  }
  if (keyEnd != h.keyBytes || pictureEnd != h.pictures)
    return wrong("it has keys or pictures of no sample");
  const std::byte *end = bytes.get() + size;
  if (std::any_of(reinterpret_cast<const std::byte *>(keys() + keyEnd), end,
                  [](std::byte filling) { return filling != std::byte(0); }) ||
      (h.sized != 0 && h.sized != 1))
    return wrong("it was not written by omnibal");
  int64_t largest = 0; // room is made for it
  for (int64_t p = 0; p < h.pictures; ++p) {
    const PictureRecord &r = pictureRecords()[p];
    if (!within(r.offset, r.bytes, h.shardBytes))
      return wrong("a picture lies outside");
    if (h.sized && (r.height == 0 || r.width == 0))
      return wrong("a picture has no size");
    largest = std::max(largest, r.bytes);
  }
  if (largest != h.largestPicture)
    return wrong("the largest picture has another size");
  return Status::ok();
}

Result<ShardIndex> ShardIndex::map(const std::string &path, const ShardStamp &stamp) {
  const FileDescriptor file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // it may be a pipe
  if (!file)
    return Status(errno == ENOENT ? Code::NotFound : Code::Unavailable,
                  path + ": " + std::strerror(errno));
  Result<MappedFile> mapped = MappedFile::map(file.get());
  if (!mapped)
    return std::move(mapped).status().context(path);
  auto owner = std::make_shared<const MappedFile>(*std::move(mapped));
  const size_t size = owner->bytes().size();
  if (size < sizeof(Header) || size % 8)
    return Status(Code::DataLoss, path + ": no index");
  ShardIndex index({owner, owner->bytes().data()}, size);
  OMNIBAL_RETURN_IF_ERROR(index.check(stamp).context(path));
  return index;
}

Status ShardIndex::write(const std::string &path) const {
  return writeFileAtomically(path, {reinterpret_cast<const char *>(bytes.get()), size});
}

} // namespace omnibal::rt
