//===- SampleFuzz.cpp - KEY.json of a sample, up to the row that it is packed into -----------===//
//
// The text is the sample's file; its pictures, of which there are as many as it says, are empty.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/data/Dataset.h"
#include "runtime/data/Packing.h"
#include "test/fuzz/Fuzz.h"
#include <cstdio>
#include <cstring>

namespace omnibal::fuzz {

/// The reader of samples holds a block of 64 KiB, and the archive's reader its own.
const Allowance allowance{size_t{8} << 20, 512};

namespace {

using namespace rt;

constexpr int64_t pictures = 2, imageToken = 5, tokensPerTile = 2, vocabulary = 16, cap = 64;

void append(std::string &tar, const std::string &name, std::string_view contents) {
  constexpr size_t block = 512;
  char header[block] = {};
  std::snprintf(header, 100, "%s", name.c_str());
  std::memcpy(header + 100, "0000644\0000000000\0000000000\0", 24);
  std::snprintf(header + 124, 12, "%011zo", contents.size());
  std::memcpy(header + 136, "00000000000", 11);
  std::memset(header + 148, ' ', 8);
  header[156] = '0';
  std::memcpy(header + 257, "ustar\00000", 8);
  unsigned sum = 0;
  for (char byte : header)
    sum += static_cast<unsigned char>(byte);
  std::snprintf(header + 148, 8, "%06o", sum);
  tar.append(header, block);
  tar += contents;
  tar.resize((tar.size() + block - 1) / block * block);
}

void packOne(const Sample &sample) {
  SampleRules rules;
  rules.imageTokenId = imageToken;
  rules.tokensPerTile = tokensPerTile;
  rules.vocabulary = vocabulary;
  rules.tilesCap = rules.tokensCap = cap;
  if (sample.tokenInputs.count("token_type_ids"))
    rules.tokenInputs = rules.prefixInputs = {"token_type_ids"};
  if (!checkSample(sample, rules))
    return;
  SampleView view;
  view.key = sample.key;
  view.inputIds = sample.inputIds;
  view.labels = sample.labels;
  view.tiles = sample.tiles;
  for (const auto &[name, values] : sample.tokenInputs)
    view.tokenInputs[name] = values;
  PackingRules packing;
  packing.imageTokenId = imageToken;
  packing.tokensPerTile = tokensPerTile;
  packing.vocabulary = vocabulary;
  packing.tilesCap = packing.tokensCap = 2 * cap;
  packing.tokenInputs = rules.tokenInputs;
  const SampleView both[] = {view, view};
  auto packed = pack(both, packing);
  require(packed.status());
  require(packed->tokens == 2 * sample.tokens() && packed->tiles == 2 * sample.tiles,
          "the row holds something else than its samples");
}

} // namespace

void run(std::string_view input) {
  std::string tar;
  append(tar, "a.json", input);
  // Most say two, or none.
  const bool has = input.find("images") != input.npos;
  for (int64_t p = 0; has && p < pictures; ++p)
    append(tar, "a." + std::to_string(p) + ".png", "");
  tar.resize(tar.size() + 1024);
  static MemoryFile file;
  file.set(tar);
  auto data = Dataset::open({file.path()});
  require(data.status());
  SampleNeeds needs;
  const std::vector<std::string> wanted = {"token_type_ids"};
  needs.tokenInputs = &wanted;
  needs.tokensCap = cap;
  auto less = (*data)->sample(0, needs);
  auto sample = (*data)->sample(0);
  if (less && sample)
    require(less->inputIds == sample->inputIds && less->labels == sample->labels,
            "what is not wanted changes what is");
  if (sample)
    packOne(*sample);
}

} // namespace omnibal::fuzz
