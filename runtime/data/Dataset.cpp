#include "runtime/data/Dataset.h"
#include "runtime/data/Image.h"
#include "runtime/data/Member.h"
#include "runtime/data/Patchify.h"
#include "runtime/data/SampleReader.h"
#include "runtime/data/TarIndex.h"
#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
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
  std::vector<PictureUnits> units; ///< of the pictures, with a grid
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
  int64_t largestPicture = 0;
  std::optional<PictureGrid> grid;

  Status addShard(int32_t shard);
  Status measure(Entry &sample) const;
  Result<Image> decode(const Entry &sample, size_t picture, const ImageSize &wanted,
                       std::vector<uint8_t> &bytes) const;
  std::string wherePicture(const Entry &sample, size_t picture) const {
    return where(sample, ", picture " + std::to_string(picture));
  }
  std::string where(const Entry &sample, const std::string &member) const {
    return shards[size_t(sample.shard)] + ": " + sample.key + member;
  }
};

Status Dataset::Impl::addShard(int32_t shard) {
  const std::string &path = shards[size_t(shard)];
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<TarMember> members, indexTar(path));
  auto missing = [&](const Entry &sample, size_t picture) {
    return Status(Code::DataLoss, where(sample, "." + std::to_string(picture)) +
                                      ".png (or jpg, webp) is missing, though later pictures "
                                      "of that sample are there");
  };
  auto twice = [&](const TarMember &member) {
    return Status(Code::DataLoss, path + ": the member " + member.name + " occurs twice");
  };
  const size_t first = samples.size();
  for (const TarMember &member : members) {
    std::optional<MemberName> name = splitName(member.name);
    if (!name)
      continue;
    auto [slot, added] = byKey.try_emplace(name->key, static_cast<int64_t>(samples.size()));
    if (added)
      samples.push_back({name->key, shard, {}, {}, {}});
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
    if (size_t(name->picture) >= members.size()) // before room is made for so many
      return missing(sample, 0);
    largestPicture = std::max(largestPicture, where.bytes);
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
        return missing(samples[i], p);
    if (grid)
      OMNIBAL_RETURN_IF_ERROR(measure(samples[i]));
  }
  return Status::ok();
}

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

/// Reads the sizes of the sample's pictures.
Status Dataset::Impl::measure(Entry &sample) const {
  for (size_t p = 0; p < sample.pictures.size(); ++p) {
    Result<ImageSize> size = readSize(shards[size_t(sample.shard)], sample.pictures[p]);
    if (!size)
      return std::move(size).status().context(wherePicture(sample, p));
    Result<PictureUnits> units = unitsOf(*size, *grid);
    if (!units)
      return {units.status().code(), wherePicture(sample, p) + " " + units.status().message()};
    sample.units.push_back(*units);
  }
  return Status::ok();
}

Dataset::Dataset(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Dataset::~Dataset() = default;

Result<std::shared_ptr<const Dataset>> Dataset::open(const std::vector<std::string> &shards,
                                                     const std::optional<PictureGrid> &grid) {
  auto impl = std::make_unique<Impl>();
  impl->grid = grid;
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

const std::optional<PictureGrid> &Dataset::grid() const { return impl->grid; }

int64_t Dataset::tiles(int64_t index) const {
  const Entry &entry = impl->samples[size_t(index)];
  if (!impl->grid)
    return static_cast<int64_t>(entry.pictures.size());
  int64_t units = 0;
  for (const PictureUnits &picture : entry.units)
    units += picture.count();
  return units;
}

int64_t Dataset::squaredTiles(int64_t index) const {
  int64_t squares = 0;
  for (const PictureUnits &picture : impl->samples[size_t(index)].units)
    squares += picture.count() * picture.count();
  return squares;
}

std::string Dataset::describe(int64_t index) const {
  return impl->where(impl->samples[size_t(index)], "");
}

int64_t Dataset::largestPicture() const { return impl->largestPicture; }

Result<Sample> Dataset::sample(int64_t index, const SampleNeeds &needs) const {
  const Entry &entry = impl->samples[size_t(index)];
  std::string where = impl->where(entry, ".json");
  OpenMember member(impl->shards[size_t(entry.shard)], entry.json.offset, entry.json.bytes);
  OMNIBAL_RETURN_IF_ERROR(member.status);
  auto text = std::make_unique<ShortenedJson>(member);
  SampleReader reader(needs);
  nlohmann::json::sax_parse(ShortenedJson::Iterator(*text), ShortenedJson::Iterator(), &reader);
  OMNIBAL_RETURN_IF_ERROR(member.status);
  OMNIBAL_ASSIGN_OR_RETURN(Sample sample, sampleOf(reader, entry.key, where, needs));
  const int64_t pictures = static_cast<int64_t>(entry.pictures.size());
  if (sample.tiles != pictures)
    return Status(Code::DataLoss, where + ": field \"images\" is " + std::to_string(sample.tiles) +
                                      ", but the shard holds " + std::to_string(pictures) +
                                      " pictures of that sample");
  sample.tiles = tiles(index);
  sample.pictures = entry.units;
  return sample;
}

/// `bytes` is room for the file; a picture of another size is told without its pixels.
Result<Image> Dataset::Impl::decode(const Entry &sample, size_t picture, const ImageSize &wanted,
                                    std::vector<uint8_t> &bytes) const {
  const Extract &place = sample.pictures[picture];
  OpenMember member(shards[size_t(sample.shard)], place.offset, place.bytes);
  bytes.resize(static_cast<size_t>(place.bytes));
  member.next(bytes.data(), static_cast<int64_t>(bytes.size()));
  OMNIBAL_RETURN_IF_ERROR(member.status);
  Result<Image> image = decodeImage(bytes, wanted.height, wanted.width);
  if (!image)
    return std::move(image).status().context(wherePicture(sample, picture));
  return image;
}

Status Dataset::decodeTiles(int64_t index, const Preprocess &preprocess, int64_t height,
                            int64_t width, float *out) const {
  const Entry &entry = impl->samples[size_t(index)];
  std::vector<uint8_t> bytes;
  for (size_t p = 0; p < entry.pictures.size(); ++p) {
    OMNIBAL_ASSIGN_OR_RETURN(Image image, impl->decode(entry, p, {height, width}, bytes));
    if (image.height != height || image.width != width)
      return invalid(impl->wherePicture(entry, p) + " is " + std::to_string(image.width) + " x " +
                     std::to_string(image.height) + " pixels, the model's tiles are " +
                     std::to_string(width) + " x " + std::to_string(height) +
                     " (prepare the data with the model's own processor)");
    preprocess.apply(image.rgb.data(), height, width,
                     out + static_cast<int64_t>(p) * 3 * height * width);
  }
  return Status::ok();
}

Status Dataset::decodePatches(int64_t index, const Preprocess &preprocess, float *out) const {
  const Entry &entry = impl->samples[size_t(index)];
  std::vector<uint8_t> bytes;
  for (size_t p = 0; p < entry.pictures.size(); ++p) {
    const PictureUnits &units = entry.units[p];
    const int64_t unit = impl->grid->unitPixels();
    const ImageSize size{units.rows * unit, units.columns * unit};
    OMNIBAL_ASSIGN_OR_RETURN(Image image, impl->decode(entry, p, size, bytes));
    if (ImageSize(image) != size)
      return Status(Code::DataLoss, impl->wherePicture(entry, p) +
                                        " has another size than when the data set was opened");
    patchify(image, preprocess, *impl->grid, out);
    out += units.count() * impl->grid->valuesPerUnit();
  }
  return Status::ok();
}

} // namespace omnibal::rt
