//===- Sample.cpp - KEY.json and what the program demands of it --------------------------===//
#include "runtime/data/SampleInternal.h"
#include <algorithm>
#include <limits>

namespace omnibal::rt {
namespace {

/// A list of 32-bit integers, or why it is none.
Result<std::vector<int32_t>> integers(const nlohmann::json &value) {
  if (!value.is_array())
    return invalid("is not a list of integers");
  std::vector<int32_t> out;
  out.reserve(value.size());
  for (const auto &item : value) {
    int64_t number = 0;
    if (item.is_number_unsigned() && item.get<uint64_t>() <= uint64_t(INT32_MAX))
      number = static_cast<int64_t>(item.get<uint64_t>());
    else if (item.is_number_integer() && !item.is_number_unsigned() &&
             item.get<int64_t>() >= INT32_MIN)
      number = item.get<int64_t>();
    else
      return invalid("[" + std::to_string(out.size()) + "] is not a 32-bit integer");
    out.push_back(static_cast<int32_t>(number));
  }
  return out;
}

Status badField(const std::string &where, const std::string &field, const std::string &what) {
  return invalid(where + ": field \"" + field + "\" " + what);
}

} // namespace

Result<Sample> parseSample(std::string_view text, const std::string &key,
                           const std::string &where) {
  OMNIBAL_ASSIGN_OR_RETURN(nlohmann::json root, parseJson(text, where));
  if (!root.is_object())
    return invalid(where + ": not a JSON object");
  Sample sample;
  sample.key = key;
  for (const char *field : {"input_ids", "labels"}) {
    if (!root.contains(field))
      return badField(where, field, "is missing");
    auto list = integers(root[field]);
    if (!list)
      return badField(where, field, list.status().message());
    (field[0] == 'i' ? sample.inputIds : sample.labels) = *std::move(list);
  }
  if (sample.inputIds.empty())
    return badField(where, "input_ids", "is empty");
  if (sample.labels.size() != sample.inputIds.size())
    return badField(where, "labels",
                    "has " + std::to_string(sample.labels.size()) + " entries, input_ids has " +
                        std::to_string(sample.inputIds.size()) +
                        "; they must be equal (labels are not shifted, -100 = no loss)");
  if (root.contains("images")) {
    const auto &images = root["images"];
    if (!images.is_number_unsigned() || images.get<uint64_t>() > 1'000'000)
      return badField(where, "images", "is not a number of pictures");
    sample.tiles = static_cast<int64_t>(images.get<uint64_t>());
  }
  // Whatever else is a list of one integer per token may be an input of the graph.
  for (const auto &[field, value] : root.items()) {
    if (field == "input_ids" || field == "labels" || !value.is_array() ||
        value.size() != sample.inputIds.size())
      continue;
    if (auto list = integers(value))
      sample.tokenInputs.emplace(field, *std::move(list));
  }
  return sample;
}

Status checkSample(const Sample &sample, const SampleRules &rules) {
  std::string where = "sample \"" + sample.key + "\"";
  auto outside = [&](int32_t id) { return id < 0 || id >= rules.vocabulary; };
  if (rules.vocabulary > 0)
    for (size_t i = 0; i < sample.inputIds.size(); ++i) {
      if (outside(sample.inputIds[i]))
        return badField(where, "input_ids",
                        "[" + std::to_string(i) + "] is " + std::to_string(sample.inputIds[i]) +
                            ", outside of the model's vocabulary of " +
                            std::to_string(rules.vocabulary));
      if (sample.labels[i] != ignoredLabel && outside(sample.labels[i]))
        return badField(where, "labels",
                        "[" + std::to_string(i) + "] is " + std::to_string(sample.labels[i]) +
                            ", neither -100 (no loss) nor in the model's vocabulary of " +
                            std::to_string(rules.vocabulary));
    }
  if (rules.imageTokenId >= 0) {
    int64_t found = std::count(sample.inputIds.begin(), sample.inputIds.end(),
                               static_cast<int32_t>(rules.imageTokenId));
    if (found != sample.tiles * rules.tokensPerTile)
      return badField(where, "input_ids",
                      "holds the image token " + std::to_string(rules.imageTokenId) + " " +
                          std::to_string(found) + " times, but " + std::to_string(sample.tiles) +
                          " tiles of " + std::to_string(rules.tokensPerTile) + " tokens need " +
                          std::to_string(sample.tiles * rules.tokensPerTile));
  }
  for (const std::string &name : rules.tokenInputs)
    if (!sample.tokenInputs.count(name))
      return badField(where, name,
                      "is missing or not a list of " + std::to_string(sample.tokens()) +
                          " integers; the model reads one for each token");
  if (rules.tilesCap >= 0 && sample.tiles > rules.tilesCap)
    return invalid(where + " has " + std::to_string(sample.tiles) +
                   " tiles, more than the program's cap of " + std::to_string(rules.tilesCap) +
                   " a micro-batch (compile with a larger --tiles or drop the sample)");
  if (rules.tokensCap >= 0 && sample.tokens() > rules.tokensCap)
    return invalid(where + " has " + std::to_string(sample.tokens()) +
                   " tokens, more than the program's cap of " + std::to_string(rules.tokensCap) +
                   " a micro-batch (compile with a larger --tokens or drop the sample)");
  return Status::ok();
}

} // namespace omnibal::rt
