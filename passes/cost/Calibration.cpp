#include "passes/cost/Calibration.h"
#include "runtime/support/Formats.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cmath>

namespace omnibal::cost {
namespace json = llvm::json;
namespace {

constexpr llvm::StringRef schema = rt::formats::calibration;
/// A year: no layer takes longer, and sums of many stay far inside 64 bits.
constexpr double longestNs = 3.2e16;

llvm::Error bad(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

llvm::Error onlyKeys(const json::Object &object, llvm::StringRef where,
                     llvm::ArrayRef<llvm::StringRef> known) {
  llvm::SmallVector<llvm::StringRef> keys;
  for (const auto &entry : object)
    keys.push_back(entry.first);
  llvm::sort(keys);
  for (llvm::StringRef key : keys)
    if (!llvm::is_contained(known, key))
      return bad(where + ": unknown key `" + key + "`");
  return llvm::Error::success();
}

llvm::Expected<double> number(const json::Object &object, llvm::StringRef key,
                              llvm::StringRef where, double least, double most) {
  std::optional<double> value = object.getNumber(key);
  if (!value || !std::isfinite(*value) || *value < least || *value > most)
    return bad(where + ": `" + key + "` must be a number " +
               (most < longestNs ? llvm::formatv("from {0} to {1}", least, most).str()
                                 : llvm::formatv("of at least {0}", least).str()));
  return *value;
}

llvm::Expected<std::optional<MeasuredLink>> readLink(const json::Object &table, llvm::StringRef key,
                                                     llvm::StringRef file) {
  const json::Value *value = table.get(key);
  if (!value)
    return std::nullopt;
  std::string where = (file + ": " + key).str();
  const json::Object *object = value->getAsObject();
  if (!object)
    return bad(where + ": must be an object with `latency_ns` and `bytes_per_s`");
  if (llvm::Error error = onlyKeys(*object, where, {"latency_ns", "bytes_per_s"}))
    return error;
  auto latency = number(*object, "latency_ns", where, 0, longestNs);
  if (!latency)
    return latency.takeError();
  auto speed = number(*object, "bytes_per_s", where, 1, 1e18);
  if (!speed)
    return speed.takeError();
  return MeasuredLink{std::llround(*latency), std::llround(*speed)};
}

llvm::Error readFunction(const json::Value &value, llvm::StringRef where, Calibration &out) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return bad(where + ": must be an object");
  if (llvm::Error error = onlyKeys(*object, where,
                                   {"digest", "name", "layer", "fixed_ns", "tile_ns", "token_ns",
                                    "square_ns", "label_ns", "error", "measured"}))
    return error;
  std::optional<llvm::StringRef> digest = object->getString("digest");
  if (!digest || digest->empty())
    return bad(where + ": `digest` must be a text that is not empty");
  MeasuredTime time;
  for (auto [key, target] : {std::pair{"fixed_ns", &time.fixedNs},
                             {"tile_ns", &time.tileNs},
                             {"token_ns", &time.tokenNs},
                             {"square_ns", &time.squareNs},
                             {"label_ns", &time.labelNs}}) {
    auto read = number(*object, key, where, 0, longestNs);
    if (!read)
      return read.takeError();
    *target = *read;
  }
  if (!out.functions.emplace(digest->str(), time).second)
    return bad(where + ": the digest " + *digest + " comes twice");
  return llvm::Error::success();
}

} // namespace

void Calibration::add(const Calibration &other) {
  functions.insert(other.functions.begin(), other.functions.end());
  if (!link)
    link = other.link;
  if (!dataParallel)
    dataParallel = other.dataParallel;
}

llvm::Expected<Calibration> parseCalibration(llvm::StringRef text, llvm::StringRef where) {
  auto value = json::parse(text);
  if (!value)
    return bad(where + ": not JSON: " + llvm::toString(value.takeError()));
  const json::Object *table = value->getAsObject();
  if (!table)
    return bad(where + ": a calibration table is a JSON object");
  if (table->getString("schema").value_or("") != schema)
    return bad(where + ": `schema` must be \"" + schema +
               "\"; make the table with this version's omnibal-run --calibrate");
  if (llvm::Error error = onlyKeys(*table, where,
                                   {"schema", "program", "machine", "noise", "labels_per_token",
                                    "action_ns", "link", "data_parallel", "functions"}))
    return error;
  Calibration result;
  if (const json::Object *program = table->getObject("program")) {
    result.target = program->getString("target").value_or("").str();
    result.compute = program->getString("compute").value_or("").str();
  }
  auto labels = number(*table, "labels_per_token", where, 0, 1);
  if (!labels)
    return labels.takeError();
  result.labelsPerToken = *labels;
  auto action = number(*table, "action_ns", where, 0, longestNs);
  if (!action)
    return action.takeError();
  result.actionNs = std::llround(*action);
  for (auto [key, target] :
       {std::pair{"link", &result.link}, {"data_parallel", &result.dataParallel}}) {
    auto link = readLink(*table, key, where);
    if (!link)
      return link.takeError();
    *target = *link;
  }
  const json::Array *functions = table->getArray("functions");
  if (!functions)
    return bad(where + ": `functions` must be a list");
  for (auto [i, function] : llvm::enumerate(*functions))
    if (llvm::Error error =
            readFunction(function, (where + ": functions[" + llvm::Twine(i) + "]").str(), result))
      return error;
  return result;
}

llvm::Expected<Calibration> readCalibration(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return bad(path + ": cannot be read: " + buffer.getError().message());
  return parseCalibration((*buffer)->getBuffer(), path);
}

llvm::Expected<Calibration> readCalibrations(llvm::ArrayRef<std::string> paths,
                                             llvm::StringRef target, llvm::StringRef compute) {
  Calibration all;
  for (const std::string &path : paths) {
    auto table = readCalibration(path);
    if (!table)
      return table.takeError();
    if (!target.empty() && !table->target.empty() &&
        (table->target != target || table->compute != compute))
      return bad(path + ": these are times of a program for target " + table->target + " in " +
                 table->compute + ", but this one is for target " + target + " in " + compute +
                 "; calibrate one compiled with --target " + target + " --dtype " + compute);
    if (&path == &paths.front())
      all = std::move(*table);
    else
      all.add(*table);
  }
  return all;
}

} // namespace omnibal::cost
