#include "passes/cost/Calibration.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Formats.h"
#include "runtime/support/JsonField.h"
#include <cmath>

namespace omnibal::cost {
namespace {

using rt::JsonField;

const std::string schema = rt::formats::calibration;
/// A year: no layer takes longer, and sums of many stay far inside 64 bits.
constexpr double longestNs = 3.2e16;

std::optional<MeasuredLink> readLink(JsonField table, const char *key) {
  if (!table.has(key))
    return std::nullopt;
  JsonField link = table[key];
  link.onlyKeys({"latency_ns", "bytes_per_s"});
  return MeasuredLink{std::llround(link["latency_ns"].number(0, longestNs)),
                      std::llround(link["bytes_per_s"].number(1, 1e18))};
}

void readFunction(JsonField function, Calibration &out) {
  function.onlyKeys({"digest", "name", "layer", "fixed_ns", "tile_ns", "token_ns", "square_ns",
                     "label_ns", "tile_square_ns", "error", "measured"});
  JsonField digest = function["digest"];
  auto ns = [&](const char *key) { return function[key].number(0, longestNs); };
  MeasuredTime time{ns("fixed_ns"), ns("tile_ns"), ns("token_ns"), ns("square_ns"), ns("label_ns")};
  if (function.has("tile_square_ns"))
    time.tileSquareNs = ns("tile_square_ns");
  std::string text = digest.text();
  if (text.empty())
    digest.fail("a text that is not empty is expected");
  else if (!out.functions.emplace(text, time).second)
    digest.fail("the digest " + text + " comes twice");
}

} // namespace

void Calibration::add(const Calibration &other) {
  functions.insert(other.functions.begin(), other.functions.end());
  if (!link)
    link = other.link;
  if (!dataParallel)
    dataParallel = other.dataParallel;
}

rt::Result<Calibration> parseCalibration(const std::string &text, const std::string &where) {
  OMNIBAL_ASSIGN_OR_RETURN(nlohmann::json value, rt::parseJson(text, where));
  rt::Status error;
  JsonField table(value, where, error);
  if (table["schema"].text() != schema)
    table["schema"].fail("\"" + schema +
                         "\" is expected; make the table with this version's omnibal-run "
                         "--calibrate");
  table.onlyKeys({"schema", "program", "machine", "noise", "labels_per_token", "action_ns", "link",
                  "data_parallel", "functions"});
  Calibration result;
  if (table.has("program")) {
    JsonField program = table["program"];
    result.target = program.has("target") ? program["target"].text() : "";
    result.compute = program.has("compute") ? program["compute"].text() : "";
  }
  result.labelsPerToken = table["labels_per_token"].number(0, 1);
  result.actionNs = std::llround(table["action_ns"].number(0, longestNs));
  result.link = readLink(table, "link");
  result.dataParallel = readLink(table, "data_parallel");
  table["functions"].each([&](JsonField function) { readFunction(function, result); });
  OMNIBAL_RETURN_IF_ERROR(error);
  return result;
}

rt::Result<Calibration> readCalibration(const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, rt::readWholeFile(path));
  return parseCalibration(text, path);
}

} // namespace omnibal::cost
