//===- Resample.h - Pictures of another size, to the bit as Pillow resizes them
//-----------------===//
#ifndef RUNTIME_DATA_PICTURES_RESAMPLE_H
#define RUNTIME_DATA_PICTURES_RESAMPLE_H

#include "runtime/data/pictures/Image.h"
#include <optional>
#include <string_view>

namespace omnibal::rt {

/// Filters of a resampling. Where a picture becomes smaller, they are as much wider.
enum class ResampleFilter { Box, Bilinear, Hamming, Bicubic, Lanczos };

std::optional<ResampleFilter> resampleFilterOf(std::string_view name);

/// Which axis becomes shorter or longer first; it decides last bits. Pillow up to version 12 always
/// begins with rows. From version 13 on it begins with columns if the picture loses rows, and more
/// than twice as many as columns.
enum class PassOrder { RowsFirst, Auto };

struct Resampling {
  ResampleFilter filter = ResampleFilter::Bicubic;
  PassOrder order = PassOrder::RowsFirst;
};

/// Resamples `image` to a size of at least 1 x 1, one axis after the other, each rounded to 8 bits.
/// Weights are in fixed point with 22 bits behind the point, as in Pillow's `Image.resize` of 8-bit
/// pictures, which Hugging Face's processors use; so the result is theirs bit by bit.
Image resample(const Image &image, const ImageSize &size, const Resampling &how);

/// Bytes that `resample` allocates, its result among them.
int64_t resampleBytes(const ImageSize &from, const ImageSize &to);

} // namespace omnibal::rt
#endif // RUNTIME_DATA_PICTURES_RESAMPLE_H
