//===- Sample.cpp - KEY.json and what the program demands of it --------------------------===//
#include "runtime/data/SampleReader.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

Status badField(const std::string &where, const std::string &field, const std::string &what) {
  return invalid(where + ": field \"" + field + "\" " + what);
}

Status tooManyTokens(const std::string &where, int64_t tokens, int64_t cap) {
  return invalid(where + " has " + std::to_string(tokens) +
                 " tokens, more than the program's cap of " + std::to_string(cap) +
                 " a micro-batch (compile with a larger --tokens or drop the sample)");
}

/// Tokens of type 0 see each other both ways. Where they are not a part in front, or are learnt
/// themselves, what is to be predicted would be seen, and the loss would fall for nothing.
Status checkPrefix(const Sample &sample, const std::string &where, const std::string &name) {
  auto found = sample.tokenInputs.find(name);
  if (found == sample.tokenInputs.end())
    return badField(where, name, "is missing; it tells the prompt from what is learnt");
  const std::vector<int32_t> &types = found->second;
  const std::string rule = "; the model's attention sees tokens of type 0 both ways, so types must "
                           "be 0 for the prompt in front (pictures too) and 1 for what is learnt "
                           "after it";
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string at = "[" + std::to_string(i) + "] is ";
    if (types[i] != 0 && types[i] != 1)
      return badField(where, name, at + std::to_string(types[i]) + ", neither 0 nor 1" + rule);
    if (i > 0 && types[i] < types[i - 1])
      return badField(where, name, at + "0 after a 1" + rule);
    if (i > 0 && types[i] == 0 && sample.labels[i] != ignoredLabel)
      return badField(where, name,
                      at + "0 where labels is " + std::to_string(sample.labels[i]) +
                          " (-100 = no loss)" + rule);
  }
  return Status::ok();
}

} // namespace

Result<Sample> sampleOf(SampleReader &reader, const std::string &key, const std::string &where,
                        const SampleNeeds &needs) {
  if (!reader.failure.empty())
    return Status(Code::DataLoss, where + ": " + reader.failure);
  if (!reader.isObject)
    return invalid(where + ": not a JSON object");
  Sample sample;
  sample.key = key;
  auto &fields = reader.fields;
  for (const char *name : {"input_ids", "labels"}) {
    auto found = fields.find(name);
    if (found == fields.end())
      return badField(where, name, "is missing");
    if (!found->second.isList)
      return badField(where, name, "is not a list of integers");
    if (!found->second.why.empty())
      return badField(where, name, found->second.why);
  }
  SampleField &ids = fields["input_ids"], &labels = fields["labels"];
  if (ids.count == 0)
    return badField(where, "input_ids", "is empty");
  if (labels.count != ids.count)
    return badField(where, "labels",
                    "has " + std::to_string(labels.count) + " entries, input_ids has " +
                        std::to_string(ids.count) +
                        "; they must be equal (labels are not shifted, -100 = no loss)");
  if (needs.tokensCap >= 0 && ids.count > needs.tokensCap)
    return tooManyTokens("sample \"" + key + "\"", ids.count, needs.tokensCap).context(where);
  if (auto images = fields.find("images"); images != fields.end()) {
    if (!images->second.number || *images->second.number > 1'000'000)
      return badField(where, "images", "is not a number of pictures");
    sample.tiles = static_cast<int64_t>(*images->second.number);
  }
  sample.inputIds = std::move(ids.values);
  sample.labels = std::move(labels.values);
  // Whatever else is a list of one integer per token may be an input of the graph.
  for (auto &[name, field] : fields)
    if (name != "input_ids" && name != "labels" && field.isList && field.why.empty() &&
        field.count == ids.count)
      sample.tokenInputs.emplace(name, std::move(field.values));
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
    if (!sample.pictures.empty())
      OMNIBAL_RETURN_IF_ERROR(
          checkImageTokens(sample.inputIds, rules.imageTokenId, sample.pictures).context(where));
    else if (found != sample.tiles * rules.tokensPerTile)
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
  for (const std::string &name : rules.prefixInputs)
    OMNIBAL_RETURN_IF_ERROR(checkPrefix(sample, where, name));
  if (rules.positions > 0 && sample.tokens() > rules.positions)
    return invalid(where + " has " + std::to_string(sample.tokens()) +
                   " tokens, but the model's table of positions has " +
                   std::to_string(rules.positions) + "; shorten or drop the sample");
  if (rules.tilesCap >= 0 && sample.tiles > rules.tilesCap)
    return invalid(where + " has " + std::to_string(sample.tiles) +
                   " tiles, more than the program's cap of " + std::to_string(rules.tilesCap) +
                   " a micro-batch (compile with a larger --tiles or drop the sample)");
  if (rules.tokensCap >= 0 && sample.tokens() > rules.tokensCap)
    return tooManyTokens(where, sample.tokens(), rules.tokensCap);
  return Status::ok();
}

} // namespace omnibal::rt
