#include "runtime/batching/lengths/Candidates.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

namespace omnibal::rt {
namespace {

constexpr int64_t shortestPacking = 512; ///< tokens
constexpr int64_t longestOfLongest = 4;  ///< packing length over the longest sample

/// "131072:8" as tokens and degree.
bool readItem(std::string_view item, int64_t &tokens, int32_t &degree) {
  degree = 1;
  size_t colon = item.find(':');
  auto whole = [](std::string_view text, auto &value) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  };
  if (!whole(item.substr(0, colon), tokens) || tokens < 1 || tokens > INT32_MAX)
    return false;
  return colon == std::string_view::npos || (whole(item.substr(colon + 1), degree) && degree >= 1);
}

std::string nameOf(int64_t tokens, int32_t degree) {
  std::string name =
      tokens % 1024 == 0 ? std::to_string(tokens / 1024) + "K" : std::to_string(tokens);
  return degree == 1 ? name : name + ":" + std::to_string(degree);
}

int64_t tilesCapFor(const SampleLengths &lengths, int64_t tokensCap) {
  double tiles = 0, tokens = 0;
  int64_t largest = 1;
  for (int64_t i = 0; i < lengths.size(); ++i) {
    tiles += lengths.tiles[i];
    tokens += lengths.tokens[i];
    if (lengths.tokens[i] <= tokensCap)
      largest = std::max<int64_t>(largest, lengths.tiles[i]);
  }
  double share = tokens > 0 ? tiles / tokens * static_cast<double>(tokensCap) : 0;
  return std::max(largest, static_cast<int64_t>(std::ceil(std::min(share, 1e9))));
}

int64_t longestOf(const SampleLengths &lengths) {
  auto longest = std::max_element(lengths.tokens.begin(), lengths.tokens.end());
  return longest == lengths.tokens.end() ? 1 : std::max<int64_t>(1, *longest);
}

LengthGroup candidate(const CandidateText &text, int64_t tokens, int32_t degree,
                      const SampleLengths &lengths) {
  LengthGroup group;
  group.name = nameOf(tokens, degree);
  group.tokensCap = tokens;
  group.tilesCap = tilesCapFor(lengths, tokens);
  group.degree = degree;
  group.ranks = text.replicas / degree;
  group.cost = text.cost;
  for (double *ns : {&group.cost.tileNs, &group.cost.tokenNs, &group.cost.squareNs})
    *ns /= degree;
  return group;
}

} // namespace

Result<LengthGroups> candidatesFromText(const CandidateText &text, const SampleLengths &lengths) {
  std::set<std::pair<int64_t, int32_t>> items;
  for (size_t begin = 0; begin <= text.text.size();) {
    size_t end = std::min(text.text.find(',', begin), text.text.size());
    std::string item = text.text.substr(begin, end - begin);
    int64_t tokens = 0;
    int32_t degree = 1;
    if (!readItem(item, tokens, degree))
      return invalid("--length-groups: \"" + item +
                     "\" is no file and not TOKENS or TOKENS:DEGREE, as in 4096,32768:4");
    if (text.replicas % degree != 0)
      return invalid("--length-groups: the degree of \"" + item + "\" does not divide --ranks " +
                     std::to_string(text.replicas));
    if (!items.insert({tokens, degree}).second)
      return invalid("--length-groups: \"" + item + "\" is given twice");
    begin = end + 1;
  }
  LengthGroups result;
  result.replicas = text.replicas;
  result.stages = text.stages;
  result.tokensPerStep = text.tokensPerStep;
  for (auto [tokens, degree] : items)
    result.groups.push_back(candidate(text, tokens, degree, lengths));
  setTokensPerStep(result, text.tokensPerStep);
  return result;
}

int64_t tokensOfStep(const SampleLengths &lengths, int64_t given, int64_t microbatches,
                     int32_t replicas) {
  return given > 0 ? given : microbatches * replicas * longestOf(lengths);
}

Result<LengthGroups> candidatesOfData(const SampleLengths &lengths, int32_t replicas,
                                      int32_t stages, int64_t tokensPerStep,
                                      std::span<const int64_t> degrees) {
  if (lengths.size() == 0)
    return invalid("there are no samples, so there are no lengths to make groups of");
  const int64_t longest = longestOf(lengths);
  std::set<std::pair<int64_t, int32_t>> items; // tokens, degree
  for (const int64_t degree : degrees) {
    if (degree < 1 || replicas % degree != 0)
      return invalid("the degree " + std::to_string(degree) + " does not divide the " +
                     std::to_string(replicas) + " replicas");
    const auto own = static_cast<int32_t>(degree);
    const int64_t most = std::min<int64_t>(
        INT32_MAX, std::max(longest, std::min(longestOfLongest * longest,
                                              tokensPerStep / (replicas / degree))));
    items.insert({longest, own});
    for (int64_t base = shortestPacking; base <= most; base *= 2)
      for (int64_t tokens : {base, base + base / 2})
        if (tokens <= most)
          items.insert({tokens, own});
  }
  LengthGroups result;
  result.replicas = replicas;
  result.stages = stages;
  result.tokensPerStep = tokensPerStep;
  CandidateText shape;
  shape.replicas = replicas;
  for (auto [tokens, degree] : items)
    result.groups.push_back(candidate(shape, tokens, degree, lengths));
  setTokensPerStep(result, tokensPerStep);
  return result;
}

void setTokensPerStep(LengthGroups &groups, int64_t tokens) {
  groups.tokensPerStep = tokens;
  for (LengthGroup &g : groups.groups) {
    double rows = static_cast<double>(tokens) /
                  (static_cast<double>(g.ranks) * static_cast<double>(g.tokensCap));
    g.microbatches = std::clamp<int64_t>(std::llround(rows), 1, mostMicrobatches);
  }
}

} // namespace omnibal::rt
