//===- Load.h - What is known of a micro-batch besides V and N --------------------------------===//
#ifndef RUNTIME_DEVICE_LOAD_H
#define RUNTIME_DEVICE_LOAD_H

#include <cstdint>
#include <span>
#include <string_view>

namespace omnibal::rt {

/// Says whose borders an operand `cu_seqlens` holds: those of the samples' tokens, or of the
/// patches of pictures of their own sizes, by segment or by window.
enum class Borders { Samples, Segments, Windows };

/// Returns the borders that a batch value of this name holds.
constexpr Borders bordersNamed(std::string_view batchValue) {
  return batchValue == "image_segment_cu_seqlens"  ? Borders::Segments
         : batchValue == "image_window_cu_seqlens" ? Borders::Windows
                                                   : Borders::Samples;
}

/// Pieces between borders, rounded up like Load::samples and Load::longest.
struct Pieces {
  int64_t count = -1, longest = -1;
};

/// What is known about a micro-batch. Kernels may do less because of it, or choose by it how they
/// work. -1: not known.
struct Load {
  int64_t labels = -1;                ///< tokens with a target
  int64_t samples = -1;               ///< there are at most so many, rounded up: sampleBucket
  int64_t longest = -1;               ///< no sample has more tokens, rounded up: lengthBucket
  Pieces segments = {}, windows = {}; ///< of patches

  Pieces of(Borders borders) const {
    return borders == Borders::Segments  ? segments
           : borders == Borders::Windows ? windows
                                         : Pieces{samples, longest};
  }
};

/// Rounds up to a power of two, at least 4. There are few such values, so what is prepared or
/// recorded for one serves often.
constexpr int64_t sampleBucket(int64_t samples) {
  int64_t bucket = 4;
  while (bucket < samples)
    bucket *= 2;
  return bucket;
}

/// Rounds up to a power of two or to the middle between two of them, at least 128.
constexpr int64_t lengthBucket(int64_t tokens) {
  int64_t bucket = 128;
  while (bucket < tokens)
    bucket += bucket & (bucket - 1) ? bucket / 3 : bucket / 2;
  return bucket;
}

/// Returns the pieces between rising borders that begin at 0. The last border may repeat, which
/// makes no pieces. Empty pieces before it count, because a reader of only that many borders must
/// not miss a later piece.
template <typename Integer> constexpr Pieces piecesOf(std::span<const Integer> borders) {
  int64_t count = 0, longest = 0;
  for (size_t i = 1; i < borders.size(); ++i) {
    const int64_t length = borders[i] - borders[i - 1];
    count = length > 0 ? static_cast<int64_t>(i) : count;
    longest = length > longest ? length : longest;
  }
  return {sampleBucket(count), lengthBucket(longest)};
}

/// `borders`: of the samples, from 0 on.
constexpr Load loadOf(std::span<const int64_t> borders, int64_t labels) {
  const Pieces samples = piecesOf(borders);
  return {labels, samples.count, samples.longest};
}

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_LOAD_H
