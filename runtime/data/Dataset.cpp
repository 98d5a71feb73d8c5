#include "runtime/data/Dataset.h"
#include "runtime/data/Image.h"
#include "runtime/data/Member.h"
#include "runtime/data/Patchify.h"
#include "runtime/data/SampleReader.h"
#include "runtime/data/ShardScan.h"
#include "runtime/support/Beside.h"
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <tuple>

namespace omnibal::rt {
namespace {

Result<std::vector<std::string>> listShards(const std::vector<std::string> &given) {
  namespace fs = std::filesystem;
  std::vector<std::string> shards;
  for (const std::string &path : given) {
    if (path.ends_with(".tar.index")) // a pattern of the shell meant the shards
      continue;
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

/// Runs `task` for 0, 1, ... on a few threads, which mostly wait for files, and returns the error
/// of the lowest number that failed.
Status inParallel(int64_t count, const std::function<Status(int64_t)> &task) {
  constexpr int64_t most = 16;
  std::vector<Status> results(count);
  std::atomic<int64_t> next = 0;
  auto work = [&] {
    for (int64_t i = next++; i < count; i = next++) {
      results[i] = task(i);
      if (!results[i])
        next = count; // those below it are being worked on
    }
  };
  workBeside(static_cast<int>(std::min(count, most)) - 1, work);
  for (Status &result : results)
    OMNIBAL_RETURN_IF_ERROR(std::move(result));
  return Status::ok();
}

/// A sample's number in its shard.
struct Place {
  size_t shard;
  int64_t sample;
};

} // namespace

struct Dataset::Impl {
  std::vector<std::string> shards;
  std::vector<ShardIndex> indexes;   ///< one a shard
  std::vector<int64_t> firstSamples; ///< of each shard; the number of all samples comes last
  std::vector<uint32_t> byHash;      ///< numbers of samples in the order of their keys' hashes
  int64_t largestPicture = 0;
  std::optional<PictureGrid> grid;

  Status open();
  Status checkGrid(size_t shard) const;
  Status sortKeys();
  Place placeOf(int64_t index) const {
    const size_t shard = std::upper_bound(firstSamples.begin(), firstSamples.end(), index) -
                         firstSamples.begin() - 1;
    return {shard, index - firstSamples[shard]};
  }
  std::string_view keyOf(int64_t index) const {
    const Place place = placeOf(index);
    return indexes[place.shard].key(place.sample);
  }
  uint64_t hashOf(int64_t index) const {
    const Place place = placeOf(index);
    return indexes[place.shard].keyHash(place.sample);
  }
  /// With a grid; that every picture has units was checked on opening.
  PictureUnits unitsAt(const Place &sample, int64_t picture) const {
    return *unitsOf(indexes[sample.shard].picture(sample.sample, picture).size, *grid);
  }
  std::vector<PictureUnits> unitsOfSample(int64_t index) const;
  Result<Image> decode(const Place &sample, int64_t picture, const ImageSize &wanted,
                       std::vector<uint8_t> &bytes) const;
  std::string wherePicture(const Place &sample, int64_t picture) const {
    return where(sample, ", picture " + std::to_string(picture));
  }
  std::string where(const Place &sample, const std::string &member) const {
    return shards[sample.shard] + ": " + std::string(indexes[sample.shard].key(sample.sample)) +
           member;
  }
};

Status Dataset::Impl::open() {
  std::vector<std::optional<ShardIndex>> found(shards.size());
  OMNIBAL_RETURN_IF_ERROR(inParallel(static_cast<int64_t>(shards.size()), [&](int64_t s) {
    OMNIBAL_ASSIGN_OR_RETURN(found[s], indexOf(shards[s], grid.has_value()));
    return Status::ok();
  }));
  firstSamples.assign(1, 0);
  for (std::optional<ShardIndex> &index : found) {
    largestPicture = std::max(largestPicture, index->largestPicture());
    firstSamples.push_back(firstSamples.back() + index->samples());
    indexes.push_back(*std::move(index));
  }
  if (firstSamples.back() == 0)
    return invalid(shards.front() + ": no sample (KEY.json) in any shard");
  if (firstSamples.back() > std::numeric_limits<uint32_t>::max())
    return invalid(shards.front() + ": more than 4294967295 samples in all shards");
  if (grid)
    OMNIBAL_RETURN_IF_ERROR(inParallel(static_cast<int64_t>(shards.size()), [&](int64_t s) {
      return checkGrid(static_cast<size_t>(s));
    }));
  return sortKeys();
}

Status Dataset::Impl::checkGrid(size_t shard) const {
  const ShardIndex &index = indexes[shard];
  for (int64_t s = 0; s < index.samples(); ++s)
    for (int64_t p = 0; p < index.pictures(s); ++p)
      if (Result<PictureUnits> units = unitsOf(index.picture(s, p).size, *grid); !units)
        return {units.status().code(),
                wherePicture({shard, s}, p) + " " + units.status().message()};
  return Status::ok();
}

/// Keys are unique over all shards.
Status Dataset::Impl::sortKeys() {
  struct Hashed {
    uint64_t hash;
    uint32_t sample;
  };
  std::vector<Hashed> list;
  list.reserve(firstSamples.back());
  for (size_t shard = 0; shard < indexes.size(); ++shard)
    for (int64_t s = 0; s < indexes[shard].samples(); ++s)
      list.push_back({indexes[shard].keyHash(s), static_cast<uint32_t>(firstSamples[shard] + s)});
  std::sort(list.begin(), list.end(), [](const Hashed &x, const Hashed &y) {
    return std::tie(x.hash, x.sample) < std::tie(y.hash, y.sample);
  });
  byHash.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    for (size_t j = i; j > 0 && list[j - 1].hash == list[i].hash; --j)
      if (keyOf(list[j - 1].sample) == keyOf(list[i].sample))
        return {Code::DataLoss, shards[placeOf(list[i].sample).shard] + ": the sample \"" +
                                    std::string(keyOf(list[i].sample)) + "\" occurs in " +
                                    shards[placeOf(list[j - 1].sample).shard] +
                                    " too; keys must be unique"};
    byHash.push_back(list[i].sample);
  }
  return Status::ok();
}

std::vector<PictureUnits> Dataset::Impl::unitsOfSample(int64_t index) const {
  std::vector<PictureUnits> units;
  const Place place = placeOf(index);
  for (int64_t p = 0; grid && p < indexes[place.shard].pictures(place.sample); ++p)
    units.push_back(unitsAt(place, p));
  return units;
}

Dataset::Dataset(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Dataset::~Dataset() = default;

Result<std::shared_ptr<const Dataset>> Dataset::open(const std::vector<std::string> &shards,
                                                     const std::optional<PictureGrid> &grid) {
  auto impl = std::make_unique<Impl>();
  impl->grid = grid;
  OMNIBAL_ASSIGN_OR_RETURN(impl->shards, listShards(shards));
  OMNIBAL_RETURN_IF_ERROR(impl->open());
  return std::shared_ptr<const Dataset>(new Dataset(std::move(impl)));
}

int64_t Dataset::size() const { return impl->firstSamples.back(); }
std::string Dataset::key(int64_t index) const { return std::string(impl->keyOf(index)); }

int64_t Dataset::find(std::string_view key) const {
  const uint64_t hash = hashOfKey(key);
  auto it = std::lower_bound(impl->byHash.begin(), impl->byHash.end(), hash,
                             [&](uint32_t sample, uint64_t h) { return impl->hashOf(sample) < h; });
  for (; it != impl->byHash.end() && impl->hashOf(*it) == hash; ++it)
    if (impl->keyOf(*it) == key)
      return *it;
  return -1;
}

const std::optional<PictureGrid> &Dataset::grid() const { return impl->grid; }

int64_t Dataset::tiles(int64_t index) const {
  const Place place = impl->placeOf(index);
  const int64_t pictures = impl->indexes[place.shard].pictures(place.sample);
  if (!impl->grid)
    return pictures;
  int64_t units = 0;
  for (int64_t p = 0; p < pictures; ++p)
    units += impl->unitsAt(place, p).count();
  return units;
}

int64_t Dataset::squaredTiles(int64_t index) const {
  const Place place = impl->placeOf(index);
  const int64_t pictures = impl->grid ? impl->indexes[place.shard].pictures(place.sample) : 0;
  int64_t squares = 0;
  for (int64_t p = 0; p < pictures; ++p) {
    const int64_t units = impl->unitsAt(place, p).count();
    squares += units * units;
  }
  return squares;
}

const std::vector<std::string> &Dataset::shards() const { return impl->shards; }

size_t Dataset::shardOf(int64_t index) const { return impl->placeOf(index).shard; }

std::string Dataset::describe(int64_t index) const { return impl->where(impl->placeOf(index), ""); }

int64_t Dataset::largestPicture() const { return impl->largestPicture; }

Result<Sample> Dataset::sample(int64_t index, const SampleNeeds &needs) const {
  const Place place = impl->placeOf(index);
  const ShardIndex &shard = impl->indexes[place.shard];
  std::string where = impl->where(place, ".json");
  const Extract json = shard.json(place.sample);
  OpenMember member(impl->shards[place.shard], json.offset, json.bytes);
  OMNIBAL_RETURN_IF_ERROR(member.status);
  auto text = std::make_unique<ShortenedJson>(member);
  SampleReader reader(needs);
  nlohmann::json::sax_parse(ShortenedJson::Iterator(*text), ShortenedJson::Iterator(), &reader);
  OMNIBAL_RETURN_IF_ERROR(member.status);
  OMNIBAL_ASSIGN_OR_RETURN(Sample sample, sampleOf(reader, key(index), where, needs));
  const int64_t pictures = shard.pictures(place.sample);
  if (sample.tiles != pictures)
    return Status(Code::DataLoss, where + ": field \"images\" is " + std::to_string(sample.tiles) +
                                      ", but the shard holds " + std::to_string(pictures) +
                                      " pictures of that sample");
  sample.tiles = tiles(index);
  sample.pictures = impl->unitsOfSample(index);
  return sample;
}

/// `bytes` is room for the file; a picture of another size is told without its pixels.
Result<Image> Dataset::Impl::decode(const Place &sample, int64_t picture, const ImageSize &wanted,
                                    std::vector<uint8_t> &bytes) const {
  const Extract place = indexes[sample.shard].picture(sample.sample, picture);
  OpenMember member(shards[sample.shard], place.offset, place.bytes);
  bytes.resize(static_cast<size_t>(place.bytes));
  member.next(bytes.data(), static_cast<int64_t>(bytes.size()));
  OMNIBAL_RETURN_IF_ERROR(member.status);
  Result<Image> image = decodeImage(bytes, wanted.height, wanted.width);
  if (!image)
    return std::move(image).status().context(wherePicture(sample, picture));
  return image;
}

Result<Image> Dataset::picture(int64_t index, int64_t picture) const {
  std::vector<uint8_t> bytes;
  return impl->decode(impl->placeOf(index), picture, {}, bytes);
}

Status Dataset::decodeTiles(int64_t index, const Preprocess &preprocess, int64_t height,
                            int64_t width, float *out) const {
  const Place entry = impl->placeOf(index);
  std::vector<uint8_t> bytes;
  for (int64_t p = 0; p < impl->indexes[entry.shard].pictures(entry.sample); ++p) {
    OMNIBAL_ASSIGN_OR_RETURN(Image image, impl->decode(entry, p, {height, width}, bytes));
    if (image.height != height || image.width != width)
      return invalid(impl->wherePicture(entry, p) + " is " + std::to_string(image.width) + " x " +
                     std::to_string(image.height) + " pixels, the model's tiles are " +
                     std::to_string(width) + " x " + std::to_string(height) +
                     " (prepare the data with the model's own processor)");
    preprocess.apply(image.rgb.data(), height, width, out + p * 3 * height * width);
  }
  return Status::ok();
}

Status Dataset::decodePatches(int64_t index, const Preprocess &preprocess, float *out) const {
  const Place entry = impl->placeOf(index);
  const std::vector<PictureUnits> all = impl->unitsOfSample(index);
  std::vector<uint8_t> bytes;
  for (size_t p = 0; p < all.size(); ++p) {
    const PictureUnits &units = all[p];
    const int64_t unit = impl->grid->unitPixels();
    const ImageSize size{units.rows * unit, units.columns * unit};
    OMNIBAL_ASSIGN_OR_RETURN(Image image,
                             impl->decode(entry, static_cast<int64_t>(p), size, bytes));
    if (ImageSize(image) != size)
      return Status(Code::DataLoss, impl->wherePicture(entry, static_cast<int64_t>(p)) +
                                        " has another size than when the data set was opened");
    patchify(image, preprocess, *impl->grid, out);
    out += units.count() * impl->grid->valuesPerUnit();
  }
  return Status::ok();
}

} // namespace omnibal::rt
