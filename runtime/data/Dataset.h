//===- Dataset.h - WebDataset shards as samples that can be read in any order ------------===//
//
// open() reads the shards' indexes (ShardScan.h): per sample its key, where its KEY.json lies and
// where its pictures KEY.0.png, KEY.1.png, ... lie; for a model of dynamic resolution, and where
// pictures are resized and cut when they are read, also the sizes of the pictures. Samples are
// numbered in the order of the shards. Reading a sample or its tiles is thread-safe and touches
// only its own bytes. Every error names shard, member and field.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DATA_DATASET_H
#define RUNTIME_DATA_DATASET_H

#include "runtime/data/pictures/Image.h"
#include "runtime/data/pictures/PictureTransform.h"
#include "runtime/data/pictures/Preprocess.h"
#include "runtime/program/PictureGrid.h"
#include "runtime/support/Status.h"
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace omnibal::rt {

/// Label of a token without loss, as in Hugging Face models.
constexpr int32_t ignoredLabel = -100;

/// Tokens [begin, end) that see each other and nothing else.
struct TokenRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

/// Log-probabilities of a pair's answers by the model which training begins with.
struct PairReference {
  float chosen = 0, rejected = 0;
};

/// The contents of KEY.json. Labels are not shifted: the loss at t predicts labels[t + 1].
struct Sample {
  std::string key;
  std::vector<int32_t> inputIds, labels;                   ///< same length, at least 1
  std::map<std::string, std::vector<int32_t>> tokenInputs; ///< further per-token inputs by name
  int64_t tiles = 0;                  ///< pictures of the sample; with a grid: their units
  std::vector<PictureUnits> pictures; ///< with a grid
  /// Of a pair of answers, the tokens of the sequence with the chosen one; that with the rejected
  /// one follows, and sees the same pictures. 0: the sample is one sequence.
  int64_t chosenTokens = 0;
  PairReference reference = {}; ///< of a pair
  int64_t tokens() const { return static_cast<int64_t>(inputIds.size()); }
  bool isPair() const { return chosenTokens > 0; }
};

/// The sequences of a sample of so many tokens.
std::vector<TokenRange> sequencesOf(int64_t tokens, int64_t chosenTokens);
inline std::vector<TokenRange> sequencesOf(const Sample &sample) {
  return sequencesOf(sample.tokens(), sample.chosenTokens);
}

/// Tokens with a loss: the first one of a sequence is predicted by nobody.
int64_t labelTokensOf(const Sample &sample, const TokenRange &sequence);
int64_t labelTokensOf(const Sample &sample);

/// What the program demands of a sample; 0 or -1: not checked.
struct SampleRules {
  std::optional<bool> pairs; ///< whether samples are pairs of answers; none: they may be
  int64_t vocabulary = 0;    ///< ids and labels lie in [0, vocabulary), labels may be -100
  /// This id occurs in a sequence tiles * tokensPerTile times; with a grid it occurs in runs of the
  /// pictures' units.
  int64_t imageTokenId = -1;
  int64_t tokensPerTile = 0;
  int64_t positions = 0; ///< rows of the model's table of positions: the most tokens of a sequence
  int64_t tilesCap = -1, tokensCap = -1; ///< one sample must fit a micro-batch
  std::vector<std::string> tokenInputs;  ///< must be present in KEY.json
  /// Those of them that are token types of attention that sees its prefix both ways: 0s, then 1s.
  std::vector<std::string> prefixInputs;
};
/// InvalidArgument with the sample's key, the field and what to do.
Status checkSample(const Sample &sample, const SampleRules &rules);

/// What a caller needs of KEY.json; this takes less memory if the file holds more.
struct SampleNeeds {
  const std::vector<std::string> *tokenInputs = nullptr; ///< null: whatever could be one
  int64_t tokensCap = -1; ///< a sample of more tokens is an error; -1: any number
};

class Dataset {
public:
  /// Opens a data set. `shards` are tar files, or folders whose *.tar are taken in the order of
  /// their names. With `grid` pictures have their own sizes, and tiles are units of it. With
  /// `transform` the shards hold pictures as they are, and tiles are what becomes of them.
  static Result<std::shared_ptr<const Dataset>>
  open(const std::vector<std::string> &shards,
       const std::optional<PictureGrid> &grid = std::nullopt,
       const std::optional<PictureTransform> &transform = std::nullopt);
  ~Dataset();
  Dataset(const Dataset &) = delete;
  Dataset &operator=(const Dataset &) = delete;

  int64_t size() const;
  std::string key(int64_t index) const;
  /// Number of the sample with that key, or -1.
  int64_t find(std::string_view key) const;
  const std::optional<PictureGrid> &grid() const;
  /// Number of tiles, with a grid of units; known without reading the sample.
  int64_t tiles(int64_t index) const;
  /// With a grid, the sum over the sample's pictures of their squared numbers of units.
  int64_t squaredTiles(int64_t index) const;
  /// Reads and checks KEY.json.
  Result<Sample> sample(int64_t index, const SampleNeeds &needs = {}) const;
  /// Number of picture files.
  int64_t pictures(int64_t index) const;
  /// Decodes one of a sample's pictures, and returns the tiles that the model sees of it: itself,
  /// whatever its size, where there is no transform.
  Result<std::vector<Image>> picture(int64_t index, int64_t picture) const;
  /// Decodes all pictures of a sample to [tiles, 3, height, width]; a tile of another size is an
  /// error.
  Status decodeTiles(int64_t index, const Preprocess &preprocess, int64_t height, int64_t width,
                     float *out) const;
  /// Bytes of the largest picture file.
  int64_t largestPicture() const;
  /// With a transform, the most bytes that a picture takes decoded and while it is transformed;
  /// else 0.
  int64_t transformBytes() const;
  /// Decodes, with a grid, all pictures of a sample as patches, [tiles, patches of a unit, values].
  Status decodePatches(int64_t index, const Preprocess &preprocess, float *out) const;
  /// The paths of the shards, in the order of their samples.
  const std::vector<std::string> &shards() const;
  /// The number of the shard that holds the sample.
  size_t shardOf(int64_t index) const;
  /// "shard.tar: key", for error messages.
  std::string describe(int64_t index) const;

private:
  struct Impl;
  explicit Dataset(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace omnibal::rt
#endif // RUNTIME_DATA_DATASET_H
