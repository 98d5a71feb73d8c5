#include "runtime/batching/BatchesFolder.h"
#include "runtime/batching/Npy.h"
#include "runtime/core/AtomicFile.h"
#include "runtime/core/Json.h"
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <unistd.h>
#include <utility>

namespace omnibal::rt {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

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
  return {{"tile_ns", cost.tileNs}, {"token_ns", cost.tokenNs}, {"square_ns", cost.squareNs}};
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

/// Reads numbers of an object; the first error stays.
class Fields {
public:
  Fields(const json &object, std::string where) : object(object), where(std::move(where)) {
    if (!object.is_object())
      fail("an object is expected");
  }
  const json &at(const char *key) {
    static const json nothing;
    auto found = object.is_object() ? object.find(key) : object.end();
    if (object.is_object() && found == object.end())
      fail(std::string("the field \"") + key + "\" is missing");
    return object.is_object() && found != object.end() ? *found : nothing;
  }
  int64_t integer(const char *key, int64_t least, int64_t most) {
    const json &value = at(key);
    bool good = value.is_number_integer() &&
                !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(INT64_MAX)) &&
                value.get<int64_t>() >= least && value.get<int64_t>() <= most;
    if (!good)
      fail(std::string("\"") + key + "\" is not a whole number from " + std::to_string(least) +
           " to " + std::to_string(most));
    return good ? value.get<int64_t>() : least;
  }
  double nonNegative(const char *key) {
    const json &value = at(key);
    bool good = value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= 0;
    if (!good)
      fail(std::string("\"") + key + "\" is not a number of at least 0");
    return good ? value.get<double>() : 0;
  }
  std::string text(const char *key) {
    const json &value = at(key);
    if (!value.is_string())
      fail(std::string("\"") + key + "\" is not a string");
    return value.is_string() ? value.get<std::string>() : "";
  }
  void fail(const std::string &what) {
    if (status.isOk())
      status = Status(Code::DataLoss, where + ": " + what);
  }
  Status status;

private:
  const json &object;
  std::string where;
};

LoadCost readCost(Fields &fields) {
  LoadCost cost;
  cost.tileNs = fields.nonNegative("tile_ns");
  cost.tokenNs = fields.nonNegative("token_ns");
  cost.squareNs = fields.nonNegative("square_ns");
  return cost;
}

Result<BatchOptions> readOptions(const json &root, const std::string &path) {
  Fields fields(root, path);
  BatchOptions options;
  auto method = batchMethodNamed(fields.text("method"));
  auto oversize = oversizeNamed(fields.text("oversize_policy"));
  if (!method)
    fields.fail("\"method\" is none of plan, isf, random, sorted");
  if (!oversize)
    fields.fail("\"oversize_policy\" is none of error, own-group, skip");
  options.tilesCap = fields.integer("tiles_cap", 1, INT64_MAX);
  options.tokensCap = fields.integer("tokens_cap", 1, INT64_MAX);
  options.ranks = static_cast<int32_t>(fields.integer("ranks", 1, INT32_MAX));
  const json &seed = fields.at("seed");
  if (!seed.is_number_unsigned())
    fields.fail("\"seed\" is not a whole number of at least 0");
  options.epoch = fields.integer("epoch", 0, INT64_MAX);
  if (root.is_object() && root.contains("cost")) {
    Fields cost(root["cost"], path + ": cost");
    options.cost = readCost(cost);
    OMNIBAL_RETURN_IF_ERROR(cost.status);
  }
  OMNIBAL_RETURN_IF_ERROR(fields.status);
  options.seed = seed.get<uint64_t>();
  options.method = *method;
  options.oversize = *oversize;
  return options;
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
  object["before"] = statisticsJson(record.before, o.cost);
  object["after"] = statisticsJson(record.after, o.cost);
  object["seconds"] = record.seconds;
  object["peak_rss_bytes"] = record.peakRssBytes;
  return object;
}

Status writeBatchesFolder(const std::string &folder, const SampleLengths &lengths,
                          const Batches &batches, const ordered_json &description) {
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
  std::string text = description.dump(2) + "\n", jsonPath = path / "batches.json";
  OMNIBAL_ASSIGN_OR_RETURN(AtomicFile file,
                           AtomicFile::create(jsonPath, static_cast<int64_t>(text.size())));
  OMNIBAL_RETURN_IF_ERROR(file.write(text.data(), text.size()));
  // All bytes are there; from here on only names change. Without batches.json a folder is not
  // complete, so old and new arrays are never taken for one set.
  if (::unlink(jsonPath.c_str()) && errno != ENOENT)
    return {Code::Unavailable, jsonPath + ": replacing the file failed: " + std::strerror(errno)};
  for (NpyWriter *array : {&samples, &groups, &table})
    OMNIBAL_RETURN_IF_ERROR(array->commit());
  return file.commit();
}

Result<Composition> readComposition(const std::string &folder) {
  std::filesystem::path path = folder;
  std::string jsonPath = path / "batches.json", lengthsPath = path / "lengths.npy";
  auto text = readWholeFile(jsonPath);
  if (!text && text.status().code() == Code::NotFound)
    return Status(Code::NotFound, jsonPath + " is missing: the folder was not written by "
                                             "omnibal-batch, or not to its end; run it again");
  OMNIBAL_RETURN_IF_ERROR(text.status());
  OMNIBAL_ASSIGN_OR_RETURN(json root, parseJson(*text, jsonPath));
  Composition result;
  OMNIBAL_ASSIGN_OR_RETURN(result.options, readOptions(root, jsonPath));
  Fields fields(root, jsonPath);
  int64_t samples = fields.integer("samples", 0, INT64_MAX);
  OMNIBAL_RETURN_IF_ERROR(fields.status);
  SampleLengths &lengths = result.lengths;
  auto begin = [&](int64_t rows) {
    if (rows != samples)
      return Status(Code::DataLoss, lengthsPath + ": " + std::to_string(rows) +
                                        " samples, but batches.json says " +
                                        std::to_string(samples));
    lengths.tiles.reserve(static_cast<size_t>(rows));
    lengths.tokens.reserve(static_cast<size_t>(rows));
    return Status::ok();
  };
  auto take = [&](int64_t row, std::span<const int32_t> block) {
    for (size_t i = 0; i < block.size(); i += 2) {
      if (block[i] < 0 || block[i + 1] < 0)
        return Status(Code::DataLoss, lengthsPath + ": sample " +
                                          std::to_string(row + static_cast<int64_t>(i / 2)) +
                                          " has a negative length");
      lengths.tiles.push_back(block[i]);
      lengths.tokens.push_back(block[i + 1]);
    }
    return Status::ok();
  };
  OMNIBAL_RETURN_IF_ERROR(readNpyRows(lengthsPath, 2, begin, take));
  return result;
}

Result<LoadCost> readCostFile(const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, readWholeFile(path));
  OMNIBAL_ASSIGN_OR_RETURN(json root, parseJson(text, path));
  if (!root.is_object())
    return invalid(path + ": an object with tile_ns, token_ns and square_ns is expected");
  for (const auto &[key, ignored] : root.items())
    if (key != "tile_ns" && key != "token_ns" && key != "square_ns")
      return invalid(path + ": the field \"" + key +
                     "\" is unknown; tile_ns, token_ns and square_ns are expected");
  for (const char *key : {"tile_ns", "token_ns", "square_ns"})
    if (!root.contains(key))
      root[key] = 0;
  Fields fields(root, path);
  LoadCost cost = readCost(fields);
  if (!fields.status)
    return invalid(fields.status.message());
  if (!cost.isSet())
    return invalid(path + ": one of tile_ns, token_ns and square_ns must be above 0");
  return cost;
}

} // namespace omnibal::rt
