#include "runtime/data/Packing.h"
#include "runtime/data/pictures/SeenPictures.h"

namespace omnibal::rt {
namespace {

constexpr int32_t noLoss = -100; // Hugging Face's convention

std::string sampleName(const SampleView &s) { return "sample \"" + std::string(s.key) + "\""; }

Status checkIds(const SampleView &s, const PackingRules &rules) {
  if (rules.vocabulary <= 0)
    return Status::ok();
  auto bad = [&](const char *field, size_t t, int32_t id) {
    return invalid(sampleName(s) + ": " + field + "[" + std::to_string(t) + "] is " +
                   std::to_string(id) + ", but the model's vocabulary has " +
                   std::to_string(rules.vocabulary) +
                   " entries; prepare the data with this model's tokenizer");
  };
  for (size_t t = 0; t < s.inputIds.size(); ++t)
    if (s.inputIds[t] < 0 || s.inputIds[t] >= rules.vocabulary)
      return bad("input_ids", t, s.inputIds[t]);
  for (size_t t = 0; t < s.labels.size(); ++t)
    if (s.labels[t] != noLoss && (s.labels[t] < 0 || s.labels[t] >= rules.vocabulary))
      return bad("labels", t, s.labels[t]);
  return Status::ok();
}

/// Tokens, labels and positions of one sequence, appended.
Status append(const SampleView &s, const PackingRules &rules, PackedMicrobatch &out) {
  int64_t n = s.inputIds.size();
  int64_t placeholders = 0, firstRow = out.tiles * rules.tokensPerTile;
  for (int64_t t = 0; t < n; ++t) {
    int32_t id = s.inputIds[t];
    bool image = rules.imageTokenId >= 0 && id == rules.imageTokenId;
    int32_t target = t + 1 < n && !s.labels.empty() ? s.labels[t + 1] : noLoss;
    out.inputIds.push_back(id);
    out.targets.push_back(target == noLoss ? noTarget : target);
    out.positions.push_back(static_cast<int32_t>(t));
    out.imageRows.push_back(image ? static_cast<int32_t>(firstRow + placeholders++) : noImageRow);
    out.labelTokens += target != noLoss;
  }
  if (rules.grid && rules.imageTokenId >= 0)
    OMNIBAL_RETURN_IF_ERROR(
        checkImageTokens(s.inputIds, rules.imageTokenId, s.pictures).context(sampleName(s)));
  if (rules.imageTokenId >= 0 && placeholders != s.tiles * rules.tokensPerTile)
    return invalid(sampleName(s) + ": input_ids holds the image token (" +
                   std::to_string(rules.imageTokenId) + ") " + std::to_string(placeholders) +
                   " times, but its " + std::to_string(s.tiles) + " pictures need " +
                   std::to_string(s.tiles * rules.tokensPerTile) + " (" +
                   std::to_string(rules.tokensPerTile) + " each)");
  for (const std::string &name : rules.tokenInputs) {
    const std::span<const int32_t> values = s.tokenInputs.at(name);
    auto &list = out.tokenInputs[name];
    list.insert(list.end(), values.begin(), values.end());
  }
  if (rules.seesPictures) {
    const SeenPictures seen = seenPictures(s.inputIds, rules.imageTokenId, out.tiles);
    for (auto [name, values] : {std::pair(seenPictureNames[0], &seen.begins),
                                {seenPictureNames[1], &seen.ends},
                                {seenPictureNames[2], &seen.seen}}) {
      auto &list = out.tokenInputs[std::string(name)];
      list.insert(list.end(), values->begin(), values->end());
    }
  }
  out.tokens += n;
  out.borders.push_back(out.tokens);
  out.references.resize(out.tokens);
  return Status::ok();
}

/// One sequence of a sample, which sees all of its pictures.
SampleView viewOf(const SampleView &s, const TokenRange &sequence) {
  SampleView view = s;
  view.inputIds = s.inputIds.subspan(sequence.begin, sequence.size());
  if (!s.labels.empty())
    view.labels = s.labels.subspan(sequence.begin, sequence.size());
  for (auto &[name, values] : view.tokenInputs)
    values = values.subspan(sequence.begin, sequence.size());
  return view;
}

Status checkLengths(const SampleView &s, const PackingRules &rules) {
  const size_t n = s.inputIds.size();
  if (n == 0)
    return invalid(sampleName(s) + ": input_ids is empty");
  if (!s.labels.empty() && s.labels.size() != n)
    return invalid(sampleName(s) + ": labels has " + std::to_string(s.labels.size()) +
                   " entries, input_ids " + std::to_string(n));
  for (const std::string &name : rules.tokenInputs) {
    auto found = s.tokenInputs.find(name);
    if (found == s.tokenInputs.end() || found->second.size() != n)
      return invalid(sampleName(s) + ": the model reads \"" + name +
                     "\": it must be present with one entry per token");
  }
  return Status::ok();
}

Status appendSample(const SampleView &s, const PackingRules &rules, PackedMicrobatch &out) {
  OMNIBAL_RETURN_IF_ERROR(checkLengths(s, rules));
  OMNIBAL_RETURN_IF_ERROR(checkIds(s, rules));
  const bool isPair = s.chosenTokens > 0;
  for (const TokenRange &sequence : sequencesOf(std::ssize(s.inputIds), s.chosenTokens)) {
    const int64_t first = out.tokens;
    OMNIBAL_RETURN_IF_ERROR(append(isPair ? viewOf(s, sequence) : s, rules, out));
    if (isPair)
      out.references[first] = sequence.begin == 0 ? s.reference.chosen : s.reference.rejected;
  }
  out.tiles += s.tiles;
  out.pairs += isPair;
  return Status::ok();
}

/// Everything that follows from the pictures' sizes.
PictureInputs derive(std::span<const SampleView> samples, const PackingRules &rules) {
  std::vector<PictureUnits> pictures;
  TokenPositions positions;
  for (const SampleView &s : samples) {
    pictures.insert(pictures.end(), s.pictures.begin(), s.pictures.end());
    for (const TokenRange &sequence : sequencesOf(std::ssize(s.inputIds), s.chosenTokens))
      appendPositions(s.inputIds.subspan(sequence.begin, sequence.size()), rules.imageTokenId,
                      s.pictures, positions);
  }
  PictureInputs out = pictureInputs(pictures, *rules.grid);
  std::vector<int32_t> &all = out.integers["position_ids"];
  for (const std::vector<int32_t> &axis : positions)
    all.insert(all.end(), axis.begin(), axis.end());
  return out;
}

} // namespace

std::span<const int32_t> pictureBorders(const PackedMicrobatch &batch, Borders borders) {
  const auto &values = batch.pictureInputs.integers;
  auto found = values.find(borders == Borders::Windows ? "image_window_cu_seqlens"
                                                       : "image_segment_cu_seqlens");
  return found == values.end() ? std::span<const int32_t>() : found->second;
}

Load loadOf(const PackedMicrobatch &batch) {
  Load load = loadOf(batch.borders, batch.labelTokens);
  if (batch.pictureInputs.integers.empty())
    return load;
  load.segments = piecesOf(pictureBorders(batch, Borders::Segments));
  load.windows = piecesOf(pictureBorders(batch, Borders::Windows));
  return load;
}

Result<PackedMicrobatch> pack(std::span<const SampleView> samples, const PackingRules &rules) {
  PackedMicrobatch out;
  out.borders.push_back(0);
  for (const std::string &name : rules.tokenInputs)
    out.tokenInputs[name];
  if (rules.seesPictures)
    for (std::string_view name : seenPictureNames)
      out.tokenInputs[std::string(name)];
  std::string keys;
  for (const SampleView &s : samples) {
    if (s.tiles > rules.tilesCap || static_cast<int64_t>(s.inputIds.size()) > rules.tokensCap)
      return invalid(sampleName(s) + ": " + std::to_string(s.tiles) + " tiles and " +
                     std::to_string(s.inputIds.size()) +
                     " tokens, but the program was compiled for " + std::to_string(rules.tilesCap) +
                     " tiles and " + std::to_string(rules.tokensCap) +
                     " tokens a micro-batch; leave the sample out or compile with larger caps");
    OMNIBAL_RETURN_IF_ERROR(appendSample(s, rules, out));
    keys += (keys.empty() ? "" : ", ") + std::string(s.key);
  }
  if (out.tiles > rules.tilesCap || out.tokens > rules.tokensCap)
    return invalid("the group of samples " + keys + " has " + std::to_string(out.tiles) +
                   " tiles and " + std::to_string(out.tokens) +
                   " tokens, but the program was compiled for " + std::to_string(rules.tilesCap) +
                   " and " + std::to_string(rules.tokensCap) +
                   "; split the group or compile with larger caps");
  for (int64_t border : out.borders)
    out.cuSeqlens.push_back(static_cast<int32_t>(border));
  out.cuSeqlens.resize(out.tokens + 1, static_cast<int32_t>(out.tokens));
  if (rules.grid)
    out.pictureInputs = derive(samples, rules);
  return out;
}

PackedMicrobatch lastToken(const PackedMicrobatch &sample, PackedMicrobatch empty) {
  PackedMicrobatch out = std::move(empty);
  out.tokens = 1;
  out.inputIds = {sample.inputIds.back()};
  out.targets = {sample.targets.back()};
  out.positions = {sample.positions.back()};
  out.imageRows = {noImageRow};
  out.cuSeqlens = {0, 1};
  out.borders = {0, 1};
  out.references = {0};
  for (auto &[name, values] : out.tokenInputs)
    values = {sample.tokenInputs.at(name).back()};
  if (auto axes = sample.pictureInputs.integers.find("position_ids");
      axes != sample.pictureInputs.integers.end()) {
    std::vector<int32_t> &last = out.pictureInputs.integers["position_ids"];
    last.clear();
    for (size_t end = sample.tokens; end <= axes->second.size(); end += sample.tokens)
      last.push_back(axes->second[end - 1]);
  }
  return out;
}

std::vector<std::vector<int64_t>> cutInOrder(std::span<const std::pair<int64_t, int64_t>> loads,
                                             int64_t tilesCap, int64_t tokensCap) {
  std::vector<std::vector<int64_t>> groups;
  int64_t tiles = 0, tokens = 0;
  for (size_t i = 0; i < loads.size(); ++i) {
    auto [v, n] = loads[i];
    if (groups.empty() || tiles + v > tilesCap || tokens + n > tokensCap) {
      groups.emplace_back();
      tiles = tokens = 0;
    }
    groups.back().push_back(static_cast<int64_t>(i));
    tiles += v;
    tokens += n;
  }
  return groups;
}

} // namespace omnibal::rt
