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
Status checkPrefix(const Sample &sample, const TokenRange &sequence, const std::string &where,
                   const std::string &name) {
  auto found = sample.tokenInputs.find(name);
  if (found == sample.tokenInputs.end())
    return badField(where, name, "is missing; it tells the prompt from what is learnt");
  const std::vector<int32_t> &types = found->second;
  const std::string rule = "; the model's attention sees tokens of type 0 both ways, so types must "
                           "be 0 for the prompt in front (pictures too) and 1 for what is learnt "
                           "after it";
  const auto first = static_cast<size_t>(sequence.begin);
  for (size_t i = first; i < static_cast<size_t>(sequence.end); ++i) {
    const std::string at = "[" + std::to_string(i) + "] is ";
    if (types[i] != 0 && types[i] != 1)
      return badField(where, name, at + std::to_string(types[i]) + ", neither 0 nor 1" + rule);
    if (i > first && types[i] < types[i - 1])
      return badField(where, name, at + "0 after a 1" + rule);
    if (i > first && types[i] == 0 && sample.labels[i] != ignoredLabel)
      return badField(where, name,
                      at + "0 where labels is " + std::to_string(sample.labels[i]) +
                          " (-100 = no loss)" + rule);
  }
  return Status::ok();
}

/// Placeholders of one sequence.
Status checkPlaceholders(const Sample &sample, const TokenRange &sequence, const std::string &where,
                         const SampleRules &rules) {
  const auto ids = std::span(sample.inputIds).subspan(sequence.begin, sequence.size());
  const int64_t found =
      std::count(ids.begin(), ids.end(), static_cast<int32_t>(rules.imageTokenId));
  if (!sample.pictures.empty())
    return checkImageTokens(ids, rules.imageTokenId, sample.pictures).context(where);
  if (found == sample.tiles * rules.tokensPerTile)
    return Status::ok();
  return badField(where, "input_ids",
                  std::string(!sample.isPair()      ? ""
                              : sequence.begin == 0 ? "of the chosen answer "
                                                    : "of the rejected answer ") +
                      "holds the image token " + std::to_string(rules.imageTokenId) + " " +
                      std::to_string(found) + " times, but " + std::to_string(sample.tiles) +
                      " tiles of " + std::to_string(rules.tokensPerTile) + " tokens need " +
                      std::to_string(sample.tiles * rules.tokensPerTile));
}

/// A pair where one is wanted, with something to compare.
Status checkPair(const Sample &sample, const std::string &where, const SampleRules &rules) {
  if (rules.pairs && *rules.pairs != sample.isPair())
    return invalid(where +
                   (sample.isPair()
                        ? " is a pair of answers (field \"chosen_tokens\"), but the program "
                          "learns from single ones; compile it with --loss dpo"
                        : " is no pair of answers (it has no field \"chosen_tokens\"), but the "
                          "program was compiled with --loss dpo; prepare the data with "
                          "chosen and rejected answers, or compile without it"));
  if (!sample.isPair())
    return Status::ok();
  for (const TokenRange &sequence : sequencesOf(sample))
    if (labelTokensOf(sample, sequence) == 0)
      return badField(where, "labels",
                      std::string("has none for the ") +
                          (sequence.begin == 0 ? "chosen" : "rejected") +
                          " answer, so there is nothing to compare; drop the pair");
  return Status::ok();
}

} // namespace

std::vector<TokenRange> sequencesOf(int64_t tokens, int64_t chosenTokens) {
  if (chosenTokens == 0)
    return {{0, tokens}};
  return {{0, chosenTokens}, {chosenTokens, tokens}};
}

int64_t labelTokensOf(const Sample &sample, const TokenRange &sequence) {
  int64_t count = 0;
  for (int64_t t = sequence.begin + 1; t < sequence.end; ++t)
    count += sample.labels[t] != ignoredLabel;
  return count;
}

int64_t labelTokensOf(const Sample &sample) {
  int64_t count = 0;
  for (const TokenRange &sequence : sequencesOf(sample))
    count += labelTokensOf(sample, sequence);
  return count;
}

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
  if (auto chosen = fields.find("chosen_tokens"); chosen != fields.end()) {
    if (!chosen->second.number)
      return badField(where, "chosen_tokens", "is not a number of tokens");
    const uint64_t count = *chosen->second.number;
    if (count == 0 || count >= static_cast<uint64_t>(ids.count))
      return badField(where, "chosen_tokens",
                      "is " + std::to_string(count) + ", but input_ids has " +
                          std::to_string(ids.count) + " entries: the pair has no " +
                          (count == 0 ? "chosen" : "rejected") + " answer");
    sample.chosenTokens = static_cast<int64_t>(count);
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
  OMNIBAL_RETURN_IF_ERROR(checkPair(sample, where, rules));
  const std::vector<TokenRange> sequences = sequencesOf(sample);
  if (rules.imageTokenId >= 0)
    for (const TokenRange &sequence : sequences)
      OMNIBAL_RETURN_IF_ERROR(checkPlaceholders(sample, sequence, where, rules));
  for (const std::string &name : rules.tokenInputs)
    if (!sample.tokenInputs.count(name))
      return badField(where, name,
                      "is missing or not a list of " + std::to_string(sample.tokens()) +
                          " integers; the model reads one for each token");
  for (const std::string &name : rules.prefixInputs)
    for (const TokenRange &sequence : sequences)
      OMNIBAL_RETURN_IF_ERROR(checkPrefix(sample, sequence, where, name));
  for (const TokenRange &sequence : sequences)
    if (rules.positions > 0 && sequence.size() > rules.positions)
      return invalid(where + " has " + std::to_string(sequence.size()) +
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
