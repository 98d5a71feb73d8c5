//===- BatchValues.h - Names of what the runtime provides for a micro-batch --------------===//
#ifndef DIALECTS_OMNIBAL_IR_BATCHVALUES_H
#define DIALECTS_OMNIBAL_IR_BATCHVALUES_H

#include "dialects/omnibal/ir/PreferenceLoss.h"
#include "dialects/omnibal/ir/RouterLoss.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace omnibal {

/// The runtime derives these from the sizes of a sample's pictures for models of dynamic resolution
/// (docs/data.md). Graph inputs have these names, or `_ids` in place of `_cu_seqlens`.
constexpr llvm::StringLiteral pictureFacts[] = {
    "image_position_ids",   "image_segment_cu_seqlens", "image_window_cu_seqlens",
    "image_window_index",   "image_window_inverse",     "image_interp_indices",
    "image_interp_weights",
};
inline bool isPictureFact(llvm::StringRef name) { return llvm::is_contained(pictureFacts, name); }

/// On a batch_value of borders this attribute says that no segment has more rows.
constexpr llvm::StringLiteral segmentRowsAttrName = "omnibal.segment_rows";

/// A graph input of this name is one axis of a token's positions along several axes, which are
/// given with the samples: `position_ids_0`, ... Models of dynamic resolution have `position_ids`
/// instead, which the runtime derives.
constexpr llvm::StringLiteral axisOfPositionsPrefix = "position_ids_";
inline bool isAxisOfPositions(llvm::StringRef name) {
  return name.starts_with(axisOfPositionsPrefix);
}

/// This graph input [batch, tokens, pictures] belongs to models whose tokens attend to pictures; it
/// is 1 where a token sees a picture. The runtime derives it as the values below, one number per
/// token.
constexpr llvm::StringLiteral seenPicturesInput = "cross_attention_mask";
constexpr llvm::StringLiteral seenPictures[] = {"image_begins", "image_ends", "image_seen"};

/// What random numbers are made from (RandomUniformOp), all of it i32: a number for each token [N]
/// and for each of k rows of a tile [k V] (`image_random_keys.k`), 0 where nothing is random as in
/// evaluation; the number of the layer that reads it []; and how many tokens a token's sample has
/// [N].
constexpr llvm::StringLiteral randomKeys = "random_keys",
                              imageRandomKeysPrefix = "image_random_keys.",
                              layerNumber = "layer_number", sampleTokens = "sample_tokens";
inline std::string imageRandomKeys(int64_t rowsOfTile) {
  return imageRandomKeysPrefix.str() + std::to_string(rowsOfTile);
}
inline bool isSourceOfRandomness(llvm::StringRef name) {
  return name == randomKeys || name.starts_with(imageRandomKeysPrefix) || name == layerNumber ||
         name == sampleTokens;
}

/// True for values that say where rows lie and what they are near to. They say nothing about words
/// or pictures, so layers read them as they read constants.
inline bool isFactOfRows(llvm::StringRef name) {
  return isSourceOfRandomness(name) || name == "positions" || name == "position_ids" ||
         name == "cu_seqlens" || name == "image_rows" || name == realTokens ||
         name == referenceValue || isAxisOfPositions(name) || isPictureFact(name) ||
         llvm::is_contained(seenPictures, name);
}

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_IR_BATCHVALUES_H
