#include "runtime/data/Dataset.h"
#include "runtime/data/Member.h"
#include "runtime/data/SampleReader.h"
#include "runtime/data/ShardScan.h"
#include "runtime/data/pictures/Image.h"
#include "runtime/data/pictures/Patchify.h"
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
  int64_t largestPicture = 0, transformBytes = 0;
  std::optional<PictureGrid> grid;
  std::optional<PictureTransform> transform;

  Status open();
  Status checkPictures();
  Result<int64_t> checkPictures(size_t shard) const;
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
  ImageSize sizeAt(const Place &sample, int64_t picture) const {
    return indexes[sample.shard].picture(sample.sample, picture).size;
  }
  int64_t picturesOf(const Place &sample) const {
    return indexes[sample.shard].pictures(sample.sample);
  }
  Result<PictureUnits> findUnits(const ImageSize &size) const;
  /// With a grid; that every picture has units was checked on opening.
  PictureUnits unitsAt(const Place &sample, int64_t picture) const {
    return *findUnits(sizeAt(sample, picture));
  }
  std::vector<PictureUnits> unitsOfSample(int64_t index) const;
  Result<Image> decode(const Place &sample, int64_t picture, const ImageSize &wanted,
                       std::vector<uint8_t> &bytes) const;
  Result<std::vector<Image>> tilesOf(const Place &sample, int64_t picture, const ImageSize &wanted,
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
    OMNIBAL_ASSIGN_OR_RETURN(found[s], indexOf(shards[s], grid || transform));
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
  if (grid || transform)
    OMNIBAL_RETURN_IF_ERROR(checkPictures());
  return sortKeys();
}

/// The units of a picture of that size in the shard.
Result<PictureUnits> Dataset::Impl::findUnits(const ImageSize &size) const {
  if (!transform)
    return unitsOf(size, *grid);
  OMNIBAL_ASSIGN_OR_RETURN(const TileLayout layout, transform->layoutOf(size));
  return unitsOf(layout.canvas, *grid);
}

/// That the model takes all pictures, by their sizes alone.
Status Dataset::Impl::checkPictures() {
  std::vector<int64_t> bytes(shards.size());
  OMNIBAL_RETURN_IF_ERROR(inParallel(static_cast<int64_t>(shards.size()), [&](int64_t s) {
    OMNIBAL_ASSIGN_OR_RETURN(bytes[s], checkPictures(static_cast<size_t>(s)));
    return Status::ok();
  }));
  transformBytes = *std::max_element(bytes.begin(), bytes.end());
  return Status::ok();
}

/// Returns the most bytes that the transform of a picture takes.
Result<int64_t> Dataset::Impl::checkPictures(size_t shard) const {
  const ShardIndex &index = indexes[shard];
  int64_t most = 0;
  for (int64_t s = 0; s < index.samples(); ++s)
    for (int64_t p = 0; p < index.pictures(s); ++p) {
      const ImageSize size = index.picture(s, p).size;
      const Status status = grid ? findUnits(size).status() : transform->layoutOf(size).status();
      if (!status)
        return Status(status.code(), wherePicture({shard, s}, p) + " " + status.message());
      if (transform)
        most = std::max(most, (3 + decoderBytesPerPixel) * size.height * size.width +
                                  transform->bytesFor(size));
    }
  return most;
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
  for (int64_t p = 0; grid && p < picturesOf(place); ++p)
    units.push_back(unitsAt(place, p));
  return units;
}

Dataset::Dataset(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Dataset::~Dataset() = default;

Result<std::shared_ptr<const Dataset>>
Dataset::open(const std::vector<std::string> &shards, const std::optional<PictureGrid> &grid,
              const std::optional<PictureTransform> &transform) {
  auto impl = std::make_unique<Impl>();
  impl->grid = grid;
  impl->transform = transform;
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

int64_t Dataset::pictures(int64_t index) const { return impl->picturesOf(impl->placeOf(index)); }

int64_t Dataset::tiles(int64_t index) const {
  const Place place = impl->placeOf(index);
  const int64_t pictures = impl->picturesOf(place);
  if (!impl->grid && !impl->transform)
    return pictures;
  int64_t tiles = 0;
  for (int64_t p = 0; p < pictures; ++p)
    tiles += impl->grid ? impl->unitsAt(place, p).count()
                        : impl->transform->layoutOf(impl->sizeAt(place, p))->tiles();
  return tiles;
}

int64_t Dataset::squaredTiles(int64_t index) const {
  const Place place = impl->placeOf(index);
  const int64_t pictures = impl->grid ? impl->picturesOf(place) : 0;
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
int64_t Dataset::transformBytes() const { return impl->transformBytes; }

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

/// What the model sees of a picture; without a transform, the picture if it has the wanted size.
Result<std::vector<Image>> Dataset::Impl::tilesOf(const Place &sample, int64_t picture,
                                                  const ImageSize &wanted,
                                                  std::vector<uint8_t> &bytes) const {
  const ImageSize known = sizeAt(sample, picture);
  OMNIBAL_ASSIGN_OR_RETURN(Image image, decode(sample, picture, transform ? known : wanted, bytes));
  if ((grid || transform) && ImageSize(image) != known)
    return Status(Code::DataLoss, wherePicture(sample, picture) +
                                      " has another size than when the data set was opened");
  if (transform)
    return transform->apply(image);
  std::vector<Image> one;
  one.push_back(std::move(image));
  return one;
}

Result<std::vector<Image>> Dataset::picture(int64_t index, int64_t picture) const {
  std::vector<uint8_t> bytes;
  return impl->tilesOf(impl->placeOf(index), picture, {}, bytes);
}

Status Dataset::decodeTiles(int64_t index, const Preprocess &preprocess, int64_t height,
                            int64_t width, float *out) const {
  const Place entry = impl->placeOf(index);
  std::vector<uint8_t> bytes;
  for (int64_t p = 0; p < impl->picturesOf(entry); ++p) {
    OMNIBAL_ASSIGN_OR_RETURN(std::vector<Image> tiles,
                             impl->tilesOf(entry, p, {height, width}, bytes));
    for (const Image &tile : tiles) {
      if (tile.height != height || tile.width != width)
        return invalid(impl->wherePicture(entry, p) + " is " + std::to_string(tile.width) + " x " +
                       std::to_string(tile.height) + " pixels, the model's tiles are " +
                       std::to_string(width) + " x " + std::to_string(height) +
                       " (prepare the data with the model's own processor)");
      preprocess.apply(tile.rgb.data(), height, width, out);
      out += 3 * height * width;
    }
  }
  return Status::ok();
}

Status Dataset::decodePatches(int64_t index, const Preprocess &preprocess, float *out) const {
  const Place entry = impl->placeOf(index);
  std::vector<uint8_t> bytes;
  for (int64_t p = 0; p < impl->picturesOf(entry); ++p) {
    OMNIBAL_ASSIGN_OR_RETURN(std::vector<Image> seen,
                             impl->tilesOf(entry, p, impl->sizeAt(entry, p), bytes));
    patchify(seen.front(), preprocess, *impl->grid, out);
    out += impl->unitsAt(entry, p).count() * impl->grid->valuesPerUnit();
  }
  return Status::ok();
}

} // namespace omnibal::rt
