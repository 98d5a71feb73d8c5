//===- SeenPictures.h - The pictures that each token attends to -----------------------------===//
//
// Where pictures are keys of attention, a token sees those of the last run of image tokens that
// begins at it or before it, as far as the run goes up to it. A token before all of them sees all
// pictures of its sample, because its scores are not masked at all.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DATA_PICTURES_SEENPICTURES_H
#define RUNTIME_DATA_PICTURES_SEENPICTURES_H

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace omnibal::rt {

struct SeenPictures {
  std::vector<int32_t> begins, ends; ///< first picture and one past the last; equal: none
  std::vector<int32_t> seen;         ///< 1 if an image token stands at the token or before it
};

/// One sample, whose pictures have the numbers from `first` on.
SeenPictures seenPictures(std::span<const int32_t> inputIds, int64_t imageTokenId, int64_t first);

/// Names of the batch values (docs/program.md), in the order of the fields.
constexpr std::string_view seenPictureNames[] = {"image_begins", "image_ends", "image_seen"};
constexpr bool isOfSeenPictures(std::string_view name) {
  return name == seenPictureNames[0] || name == seenPictureNames[1] || name == seenPictureNames[2];
}

} // namespace omnibal::rt
#endif // RUNTIME_DATA_PICTURES_SEENPICTURES_H
