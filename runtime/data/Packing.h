//===- Packing.h - Samples side by side in one row of tokens -----------------------------===//
//
// A micro-batch is one row of N tokens that holds several samples (and V tiles). Everything that
// makes packing invisible to a sample is made here: labels shifted inside it, positions that
// restart, its borders, and which image feature each placeholder token receives. A pair of answers
// is two sequences, each of which receives the features of all of the pair's pictures.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DATA_PACKING_H
#define RUNTIME_DATA_PACKING_H

#include "runtime/data/Dataset.h"
#include "runtime/data/RandomKeys.h"
#include "runtime/data/pictures/PictureInputs.h"
#include "runtime/device/KeptKeys.h"
#include "runtime/device/Load.h"
#include "runtime/support/Status.h"
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace omnibal::rt {

/// A target that counts for nothing.
constexpr int32_t noTarget = -1;
/// A token that is no image placeholder.
constexpr int32_t noImageRow = -1;

/// One sample as its owner holds it.
struct SampleView {
  std::string_view key;
  std::span<const int32_t> inputIds;
  std::span<const int32_t> labels; ///< not shifted, -100 = no loss; empty = none at all
  std::map<std::string, std::span<const int32_t>> tokenInputs;
  int64_t tiles = 0;
  std::span<const PictureUnits> pictures = {}; ///< with a grid: `tiles` units together
  int64_t chosenTokens = 0;                    ///< of a pair of answers (Sample::chosenTokens)
  PairReference reference = {};                ///< of a pair
};

struct PackingRules {
  int64_t imageTokenId = -1, tokensPerTile = 0;
  int64_t vocabulary = 0; ///< 0: ids are not checked
  int64_t tilesCap = 0, tokensCap = 0;
  std::vector<std::string> tokenInputs; ///< per-token inputs that the program reads
  std::optional<PictureGrid> grid = {}; ///< of a model of dynamic resolution: tiles are its units
  bool seesPictures = false; ///< the program reads which pictures a token sees (SeenPictures.h)
};

struct PackedMicrobatch {
  int64_t tiles = 0, tokens = 0;
  int64_t labelTokens = 0;                                      ///< targets that count
  int64_t pairs = 0;                                            ///< of answers
  std::vector<int32_t> inputIds, targets, positions, imageRows; ///< [N]
  std::vector<int32_t> cuSeqlens; ///< [N + 1]: borders, then N again and again
  std::map<std::string, std::vector<int32_t>> tokenInputs; ///< [N]; seen pictures, too
  std::vector<int64_t> borders;                            ///< of sequences: one more than these
  /// [N]: of pairs, the reference's log-probability of each sequence at its first token; else
  /// zeros.
  std::vector<float> references;
  /// The values of the grid by their names, position_ids included, if there is a grid.
  PictureInputs pictureInputs;
  std::vector<float> pixels; ///< [V, ...]; empty where nobody reads them
  RandomKeys random;         ///< empty where nothing is random
  KeptKeys *kept = nullptr;  ///< of the one sample whose next tokens these are; of an answer

  int64_t sequences() const { return borders.empty() ? 0 : std::ssize(borders) - 1; }
  int64_t samples() const { return sequences() - pairs; }
  /// What a step's loss is the mean of: pairs, or tokens with a label.
  int64_t losses() const { return pairs > 0 ? pairs : labelTokens; }
};

/// Borders of the pictures' segments or windows; none without a grid.
std::span<const int32_t> pictureBorders(const PackedMicrobatch &batch, Borders borders);
Load loadOf(const PackedMicrobatch &batch);

/// Errors name the sample, the field and what to do.
Result<PackedMicrobatch> pack(std::span<const SampleView> samples, const PackingRules &rules);

/// Makes of `empty`, a micro-batch without samples, one with the last token of `sample`, a
/// micro-batch with one, which the sample's pictures do not reach any more.
PackedMicrobatch lastToken(const PackedMicrobatch &sample, PackedMicrobatch empty);

/// Cuts consecutive samples with these (tiles, tokens) into micro-batches within the caps and
/// returns indices into `loads`. This is for evaluation, where balance does not matter. The caller
/// refuses a sample that is too large.
std::vector<std::vector<int64_t>> cutInOrder(std::span<const std::pair<int64_t, int64_t>> loads,
                                             int64_t tilesCap, int64_t tokensCap);

} // namespace omnibal::rt
#endif // RUNTIME_DATA_PACKING_H
