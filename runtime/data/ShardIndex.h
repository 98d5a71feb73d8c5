//===- ShardIndex.h - What a shard holds, in a file beside it ---------------------------------===//
//
// An index says where the samples of one shard and their pictures lie. Finding that out takes a
// read per member, so for shards of many members it is kept in SHARD.tar.index and used as long as
// the shard has the same size and time of change. The file is mapped: the processes of a machine
// share one copy in memory. docs/data.md describes its format.
//
//===-----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DATA_SHARDINDEX_H
#define RUNTIME_DATA_SHARDINDEX_H

#include "runtime/data/pictures/Image.h"
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace omnibal::rt {

/// A piece of a shard.
struct Extract {
  int64_t offset = -1, bytes = 0;
};

/// A picture of a sample; its size is 0 x 0 where it was not looked at.
struct StoredPicture : Extract {
  ImageSize size;
};

/// A sample as scanning a shard finds it.
struct StoredSample {
  std::string key;
  Extract json;
  std::vector<StoredPicture> pictures;
};

/// The file that an index is for.
struct ShardStamp {
  int64_t bytes = 0, modified = 0; ///< nanoseconds since 1970
  bool operator==(const ShardStamp &) const = default;
};

class ShardIndex {
public:
  /// Returns the index of a shard that was scanned. `sized`: all pictures have their sizes.
  static Result<ShardIndex> of(const std::vector<StoredSample> &samples, const ShardStamp &stamp,
                               bool sized);
  /// Maps an index file. An error if there is none, it is damaged, of another version or for
  /// another state of the shard: then the shard has to be scanned.
  static Result<ShardIndex> map(const std::string &path, const ShardStamp &stamp);
  Status write(const std::string &path) const;

  int64_t samples() const;
  std::string_view key(int64_t sample) const;
  uint64_t keyHash(int64_t sample) const;
  Extract json(int64_t sample) const;
  int64_t pictures(int64_t sample) const;
  StoredPicture picture(int64_t sample, int64_t number) const;
  bool sized() const;
  int64_t largestPicture() const;
  /// Copies everything back, to add what is missing.
  std::vector<StoredSample> contents() const;

private:
  struct Header;
  struct SampleRecord;
  struct PictureRecord;
  ShardIndex(std::shared_ptr<const std::byte> bytes, size_t size)
      : bytes(std::move(bytes)), size(size) {}
  static bool fits(const Header &header);
  Status check(const ShardStamp &stamp) const;
  const Header &header() const;
  const SampleRecord &record(int64_t sample) const;
  const PictureRecord *pictureRecords() const;
  const char *keys() const;
  uint32_t firstPicture(int64_t sample) const;

  std::shared_ptr<const std::byte> bytes; ///< as in the file
  size_t size;
};

/// The hash of a key in an index.
uint64_t hashOfKey(std::string_view key);

} // namespace omnibal::rt
#endif // RUNTIME_DATA_SHARDINDEX_H
