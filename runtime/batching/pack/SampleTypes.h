//===- SampleTypes.h - Samples of about one length -------------------------------------------===//
#ifndef RUNTIME_BATCHING_PACK_SAMPLETYPES_H
#define RUNTIME_BATCHING_PACK_SAMPLETYPES_H

#include "runtime/batching/pack/Histogram.h"

namespace omnibal::rt {

/// Cells of neighboring lengths.
struct SampleType {
  int32_t tiles = 0; ///< the most of its samples
  int32_t leastTokens = 0, mostTokens = 0;
  int64_t count = 0;
  double meanTokens = 0;
};

struct SampleTypes {
  std::vector<SampleType> types; ///< in order of tiles, then tokens
  std::vector<uint32_t> typeOf;  ///< of each cell of the histogram
  bool exactTiles = true;        ///< all samples of a type have its number of tiles
  static constexpr uint32_t withoutLoad = UINT32_MAX;
};

struct TypeChoice {
  int32_t wanted = 100; ///< a type has this share of the samples, if that makes it narrow enough
  int32_t most = 150;   ///< types, if that leaves them narrow enough
  int32_t lines = 256;  ///< numbers of tiles told apart at most
  int32_t unit = 1;     ///< of tokens
};

/// Makes types as narrow as the choice allows, of at most half of the tokens' cap. If possible
/// their mean is a little below a multiple of the unit, so that rounding it up loses nothing.
/// Samples of 0 tiles and 0 tokens have the type `withoutLoad`.
SampleTypes makeTypes(const Histogram &histogram, Caps caps, TypeChoice choice);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_PACK_SAMPLETYPES_H
