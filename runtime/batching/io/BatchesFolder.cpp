#include "runtime/batching/io/BatchesFolder.h"
#include "runtime/batching/io/Npy.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/JsonField.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <unistd.h>
#include <utility>

namespace omnibal::rt {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// The fourth array, where the sizes of pictures are known.
constexpr const char *squaresFile = "squares.npy";
constexpr const char *rowsFile = "rows.npy", *groupsFile = "groups.json";

constexpr std::pair<BatchMethod, const char *> methods[] = {{BatchMethod::Plan, "plan"},
                                                            {BatchMethod::Isf, "isf"},
                                                            {BatchMethod::Random, "random"},
                                                            {BatchMethod::Sorted, "sorted"}};
constexpr std::pair<Oversize, const char *> policies[] = {
    {Oversize::Error, "error"}, {Oversize::OwnGroup, "own-group"}, {Oversize::Skip, "skip"}};

ordered_json statisticsJson(const BalanceStatistics &s, const LoadCost &cost) {
  ordered_json object = {{"pad_ratio", s.padRatio},
                         {"dist_ratio_vit", s.distRatioVit},
                         {"dist_ratio_llm", s.distRatioLlm}};
  if (cost.isSet())
    object["dist_ratio_cost"] = s.distRatioCost;
  object["step_variance"] = s.stepVariance;
  return object;
}

ordered_json costJson(const LoadCost &cost) {
  ordered_json object = {
      {"tile_ns", cost.tileNs}, {"token_ns", cost.tokenNs}, {"square_ns", cost.squareNs}};
  if (cost.tileSquareNs > 0)
    object["tile_square_ns"] = cost.tileSquareNs;
  return object;
}

/// Both columns side by side, a block at a time.
Status appendLengths(NpyWriter &file, const SampleLengths &lengths) {
  constexpr size_t block = 1 << 16;
  std::vector<int32_t> rows;
  size_t count = lengths.tiles.size();
  for (size_t begin = 0; begin < count; begin += block) {
    rows.clear();
    for (size_t i = begin; i < std::min(begin + block, count); ++i) {
      rows.push_back(lengths.tiles[i]);
      rows.push_back(lengths.tokens[i]);
    }
    OMNIBAL_RETURN_IF_ERROR(file.append(rows));
  }
  return Status::ok();
}

nlohmann::ordered_json mixJson(const Mix &mix) {
  nlohmann::ordered_json object = {
      {"sizes", mix.sizes}, {"weights", mix.phases[0].weights}, {"samples", mix.samples}};
  for (size_t i = 1; i < mix.phases.size(); ++i)
    object["later"].push_back({{"epoch", mix.phases[i].epoch}, {"weights", mix.phases[i].weights}});
  return object;
}

Mix readMix(JsonField object) {
  Mix mix;
  mix.samples = object["samples"].integer(1);
  mix.sizes = object["sizes"].list([](JsonField size) { return size.integer(0, INT32_MAX); });
  auto weightsOf = [](JsonField phase) {
    return phase["weights"].list([](JsonField weight) { return weight.number(); });
  };
  mix.phases = {{0, weightsOf(object)}};
  if (object.has("later"))
    for (MixPhase &phase : object["later"].list([&](JsonField each) {
           return MixPhase{each["epoch"].integer(1, largestEpoch), weightsOf(each)};
         }))
      mix.phases.push_back(std::move(phase));
  for (const MixPhase &phase : mix.phases)
    if (mix.sizes.empty() || mix.sizes.size() != phase.weights.size())
      object.fail("\"sizes\" and \"weights\" are not lists of the same length");
  return mix;
}

BatchOptions readOptions(JsonField root) {
  BatchOptions options;
  auto method = batchMethodNamed(root["method"].text());
  auto oversize = oversizeNamed(root["oversize_policy"].text());
  if (!method)
    root["method"].fail("one of plan, isf, random, sorted is expected");
  if (!oversize)
    root["oversize_policy"].fail("one of error, own-group, skip is expected");
  options.tilesCap = root["tiles_cap"].integer(1);
  options.tokensCap = root["tokens_cap"].integer(1);
  options.ranks = static_cast<int32_t>(root["ranks"].integer(1, INT32_MAX));
  const json &seed = root["seed"].json();
  if (!seed.is_number_unsigned())
    root["seed"].fail("an integer of at least 0 is expected");
  options.epoch = root["epoch"].integer(0, largestEpoch);
  if (root.has("cost")) {
    JsonField cost = root["cost"];
    options.cost.tileNs = cost["tile_ns"].number(0);
    options.cost.tokenNs = cost["token_ns"].number(0);
    options.cost.squareNs = cost["square_ns"].number(0);
    if (cost.has("tile_square_ns"))
      options.cost.tileSquareNs = cost["tile_square_ns"].number(0);
  }
  if (root.failed())
    return options;
  options.seed = seed.get<uint64_t>();
  options.method = *method;
  options.oversize = *oversize;
  return options;
}

Status removeFile(const std::string &path) {
  if (::unlink(path.c_str()) && errno != ENOENT)
    return {Code::Unavailable, path + ": removing the file failed: " + std::strerror(errno)};
  return Status::ok();
}

/// Folders with several training modes, or one with context parallelism, are for other trainers.
void refuseSeveralModes(JsonField root) {
  if (!root.has("length_groups"))
    return;
  int64_t count = root["length_groups"].integer(1, 1 << 20), rows = root["rows"].integer(1);
  if (root.failed() || (count == 1 && rows * root["ranks"].integer(1) == root["groups"].integer(1)))
    return;
  root["length_groups"].fail(
      count > 1
          ? "the folder has " + std::to_string(count) +
                " length groups, but programs have one training mode; run omnibal-batch with "
                "--tiles and --tokens, or with --max-groups 1"
          : std::string("the folder's length group has a context-parallel degree above 1, which "
                        "programs have not; give omnibal-batch candidates of degree 1"));
}

Status readSquares(const std::string &path, SampleLengths &lengths) {
  OMNIBAL_ASSIGN_OR_RETURN(lengths.squaredTiles, readNpy(path));
  if (lengths.squaredTiles.size() != lengths.tiles.size())
    return {Code::DataLoss, path + ": " + std::to_string(lengths.squaredTiles.size()) +
                                " samples, but lengths.npy has " + std::to_string(lengths.size())};
  for (int64_t i = 0; i < lengths.size(); ++i)
    if (int64_t units = lengths.tiles[i], squares = lengths.squaredTiles[i];
        squares != SampleLengths::unknown && (squares < units || squares > units * units))
      return {Code::DataLoss, path + ": sample " + std::to_string(i) + " has squares of " +
                                  std::to_string(squares) + ", which no pictures of " +
                                  std::to_string(units) + " units have"};
  return Status::ok();
}

} // namespace

const char *name(BatchMethod method) {
  for (auto [value, text] : methods)
    if (value == method)
      return text;
  return "";
}
const char *name(Oversize oversize) {
  for (auto [value, text] : policies)
    if (value == oversize)
      return text;
  return "";
}
std::optional<BatchMethod> batchMethodNamed(std::string_view name) {
  for (auto [value, text] : methods)
    if (name == text)
      return value;
  return std::nullopt;
}
std::optional<Oversize> oversizeNamed(std::string_view name) {
  for (auto [value, text] : policies)
    if (name == text)
      return value;
  return std::nullopt;
}

ordered_json describe(const BatchesRecord &record, const Batches &batches) {
  const BatchOptions &o = record.options;
  int64_t groups = batches.groups(), bound = batches.lowerBound;
  ordered_json object = {
      {"method", name(o.method)},
      {"tiles_cap", o.tilesCap},
      {"tokens_cap", o.tokensCap},
      {"ranks", o.ranks},
      {"seed", o.seed},
      {"epoch", o.epoch},
      {"oversize_policy", name(o.oversize)},
      {"samples", record.samples},
      {"groups", groups},
      {"groups_lower_bound", bound},
      {"bound_method", batches.boundMethod},
      {"gap", bound > 0 ? static_cast<double>(groups) / static_cast<double>(bound) - 1 : 0.0},
      {"steps", groups / o.ranks},
      {"oversize", batches.oversize}};
  if (o.cost.isSet())
    object["cost"] = costJson(o.cost);
  if (record.knowsPictures)
    object["picture_sizes"] = true;
  if (record.mix.isSet())
    object["mix"] = mixJson(record.mix);
  object["before"] = statisticsJson(record.before, o.cost);
  object["after"] = statisticsJson(record.after, o.cost);
  object["seconds"] = record.seconds;
  object["peak_rss_bytes"] = record.peakRssBytes;
  return object;
}

Status writeBatchesFolder(const std::string &folder, const SampleLengths &lengths,
                          const Batches &batches, const ordered_json &description,
                          const LengthGroupFiles *lengthGroups) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return {Code::Unavailable, folder + ": creating the folder failed: " + error.message()};
  std::filesystem::path path = folder;
  auto sizeOf = [](const auto &list) { return static_cast<int64_t>(list.size()); };
  OMNIBAL_ASSIGN_OR_RETURN(NpyWriter samples,
                           NpyWriter::int64(path / "samples.npy", sizeOf(batches.samples)));
  OMNIBAL_ASSIGN_OR_RETURN(NpyWriter groups,
                           NpyWriter::int64(path / "groups.npy", sizeOf(batches.offsets)));
  OMNIBAL_ASSIGN_OR_RETURN(NpyWriter table,
                           NpyWriter::int32(path / "lengths.npy", lengths.size(), 2));
  OMNIBAL_RETURN_IF_ERROR(samples.append(batches.samples));
  OMNIBAL_RETURN_IF_ERROR(groups.append(batches.offsets));
  OMNIBAL_RETURN_IF_ERROR(appendLengths(table, lengths));
  std::vector<NpyWriter> arrays;
  for (NpyWriter *array : {&samples, &groups, &table})
    arrays.push_back(std::move(*array));
  std::string squaresPath = path / squaresFile;
  if (lengths.knowsPictures()) {
    OMNIBAL_ASSIGN_OR_RETURN(NpyWriter squares, NpyWriter::int64(squaresPath, lengths.size()));
    OMNIBAL_RETURN_IF_ERROR(squares.append(lengths.squaredTiles));
    arrays.push_back(std::move(squares));
  }
  std::string rowsPath = path / rowsFile, groupsPath = path / groupsFile;
  std::optional<AtomicFile> groupsText;
  if (lengthGroups) {
    OMNIBAL_ASSIGN_OR_RETURN(NpyWriter rows,
                             NpyWriter::int32(rowsPath, sizeOf(lengthGroups->rows) / 2, 2));
    OMNIBAL_RETURN_IF_ERROR(rows.append(lengthGroups->rows));
    arrays.push_back(std::move(rows));
    std::string groupsJson = lengthGroups->groups.dump(2) + "\n";
    OMNIBAL_ASSIGN_OR_RETURN(
        AtomicFile created,
        AtomicFile::create(groupsPath, static_cast<int64_t>(groupsJson.size())));
    OMNIBAL_RETURN_IF_ERROR(created.write(groupsJson.data(), groupsJson.size()));
    groupsText.emplace(std::move(created));
  }
  std::string text = description.dump(2) + "\n", jsonPath = path / "batches.json";
  OMNIBAL_ASSIGN_OR_RETURN(AtomicFile file,
                           AtomicFile::create(jsonPath, static_cast<int64_t>(text.size())));
  OMNIBAL_RETURN_IF_ERROR(file.write(text.data(), text.size()));
  // All bytes are there; from here on only names change. Without batches.json a folder is not
  // complete, so old and new arrays are never taken for one set.
  if (::unlink(jsonPath.c_str()) && errno != ENOENT)
    return {Code::Unavailable, jsonPath + ": replacing the file failed: " + std::strerror(errno)};
  if (!lengths.knowsPictures())
    OMNIBAL_RETURN_IF_ERROR(removeFile(squaresPath));
  if (!lengthGroups) {
    OMNIBAL_RETURN_IF_ERROR(removeFile(rowsPath));
    OMNIBAL_RETURN_IF_ERROR(removeFile(groupsPath));
  }
  for (NpyWriter &array : arrays)
    OMNIBAL_RETURN_IF_ERROR(array.commit());
  if (groupsText)
    OMNIBAL_RETURN_IF_ERROR(groupsText->commit());
  return file.commit();
}

Result<Batches> readGroups(const std::string &folder) {
  Batches result;
  OMNIBAL_ASSIGN_OR_RETURN(result.samples, readNpy(folder + "/samples.npy"));
  OMNIBAL_ASSIGN_OR_RETURN(result.offsets, readNpy(folder + "/groups.npy"));
  const std::vector<int64_t> &offsets = result.offsets;
  std::string path = folder + "/groups.npy";
  if (offsets.size() < 2 || offsets.front() != 0 ||
      offsets.back() != static_cast<int64_t>(result.samples.size()))
    return Status(Code::DataLoss, path + ": the offsets do not span samples.npy");
  for (size_t g = 0; g + 1 < offsets.size(); ++g)
    if (offsets[g] > offsets[g + 1] || offsets[g + 1] > offsets.back())
      return Status(Code::DataLoss,
                    path + ": offset " + std::to_string(g + 1) + " is out of order");
  return result;
}

Result<json> readDescription(const std::string &folder) {
  const std::string path = std::filesystem::path(folder) / "batches.json";
  auto text = readWholeFile(path);
  if (!text && text.status().code() == Code::NotFound)
    return Status(Code::NotFound, path + " is missing: the folder was not written by "
                                         "omnibal-batch, or not to its end; run it again");
  OMNIBAL_RETURN_IF_ERROR(text.status());
  return parseJson(*text, path);
}

Result<SampleLengths> readLengthsTable(const std::string &folder, int64_t samples) {
  const std::string path = std::filesystem::path(folder) / "lengths.npy";
  SampleLengths lengths;
  auto begin = [&](int64_t rows) {
    if (rows != samples)
      return Status(Code::DataLoss, path + ": " + std::to_string(rows) +
                                        " samples, but batches.json says " +
                                        std::to_string(samples));
    lengths.tiles.reserve(static_cast<size_t>(rows));
    lengths.tokens.reserve(static_cast<size_t>(rows));
    return Status::ok();
  };
  auto take = [&](int64_t row, std::span<const int32_t> block) {
    for (size_t i = 0; i < block.size(); i += 2) {
      if (block[i] < 0 || block[i + 1] < 0)
        return Status(Code::DataLoss, path + ": sample " +
                                          std::to_string(row + static_cast<int64_t>(i / 2)) +
                                          " has a negative length");
      lengths.tiles.push_back(block[i]);
      lengths.tokens.push_back(block[i + 1]);
    }
    return Status::ok();
  };
  OMNIBAL_RETURN_IF_ERROR(readNpyRows(path, 2, begin, take));
  return lengths;
}

Result<Composition> readComposition(const std::string &folder) {
  std::filesystem::path path = folder;
  OMNIBAL_ASSIGN_OR_RETURN(json root, readDescription(folder));
  Composition result;
  Status error;
  JsonField fields(root, path / "batches.json", error);
  refuseSeveralModes(fields);
  result.options = readOptions(fields);
  int64_t samples = fields["samples"].integer(0);
  if (fields.has("mix")) {
    result.mix = readMix(fields["mix"]);
    samples = std::accumulate(result.mix.sizes.begin(), result.mix.sizes.end(), int64_t(0));
  }
  OMNIBAL_RETURN_IF_ERROR(error);
  OMNIBAL_ASSIGN_OR_RETURN(result.lengths, readLengthsTable(folder, samples));
  if (fields.has("picture_sizes") && fields["picture_sizes"].flag())
    OMNIBAL_RETURN_IF_ERROR(readSquares(path / squaresFile, result.lengths));
  OMNIBAL_RETURN_IF_ERROR(error);
  return result;
}

Result<MixedEpoch> drawEpoch(const SampleLengths &lengths, const Mix &mix, uint64_t seed,
                             int64_t epoch) {
  std::vector<int64_t> begins = {0};
  for (int64_t size : mix.sizes)
    begins.push_back(begins.back() + size);
  if (begins.back() != lengths.size())
    return Status(Code::Internal, "the mix is one of other data sets");
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<MixedSample> samples, mixedEpoch(mix, seed, epoch));
  MixedEpoch drawn;
  for (const MixedSample &sample : samples) {
    int64_t number = begins[sample.source] + sample.number;
    drawn.numbers.push_back(number);
    drawn.lengths.add(lengths, number);
  }
  return drawn;
}

void renumber(const MixedEpoch &drawn, Batches &batches) {
  for (std::vector<int64_t> *list : {&batches.samples, &batches.oversize})
    for (int64_t &sample : *list)
      sample = drawn.numbers[sample];
  std::sort(batches.oversize.begin(), batches.oversize.end());
  auto repeated = std::unique(batches.oversize.begin(), batches.oversize.end());
  batches.oversize.erase(repeated, batches.oversize.end());
}

Result<Batches> compose(const Composition &composition, int64_t later) {
  return compose(composition, composition.mix, later);
}

Result<Batches> compose(const Composition &composition, const Mix &mix, int64_t later) {
  BatchOptions options = composition.options;
  options.epoch += later;
  if (!mix.isSet())
    return balance(composition.lengths, options);
  OMNIBAL_ASSIGN_OR_RETURN(MixedEpoch drawn,
                           drawEpoch(composition.lengths, mix, options.seed, options.epoch));
  OMNIBAL_ASSIGN_OR_RETURN(Batches batches, balance(drawn.lengths, options));
  renumber(drawn, batches);
  return batches;
}

} // namespace omnibal::rt
