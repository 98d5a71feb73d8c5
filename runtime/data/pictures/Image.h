//===- Image.h - PNG, JPEG and WebP to 8-bit RGB -----------------------------------------===//
#ifndef RUNTIME_DATA_PICTURES_IMAGE_H
#define RUNTIME_DATA_PICTURES_IMAGE_H

#include "runtime/support/Status.h"
#include <cstdint>
#include <span>
#include <vector>

namespace omnibal::rt {

struct ImageSize {
  int64_t height = 0, width = 0;
  bool operator==(const ImageSize &) const = default;
};

struct Image : ImageSize {
  std::vector<uint8_t> rgb; ///< height x width x 3
};

/// Larger pictures are refused, whatever becomes of them.
inline constexpr int64_t mostPicturePixels = 64'000'000;

/// What a decoder holds at most apart from the file and the picture: a few numbers per pixel
/// (progressive JPEG, WebP), and what a file says about its picture (profiles, texts; more is an
/// error).
inline constexpr int64_t decoderBytesPerPixel = 16, decoderChunkBytes = int64_t{8} << 20;

/// Decodes a picture whose format follows from the bytes themselves. Gray and palette pictures
/// become RGB, alpha is dropped, and 16 bits become 8. Pictures over 64 million pixels are refused.
/// With a height and width given, a picture of another size is reported without its pixels.
Result<Image> decodeImage(std::span<const uint8_t> file, int64_t height = 0, int64_t width = 0);

/// Returns the size that a file's first bytes tell; an error if they are too few for that.
Result<ImageSize> imageSize(std::span<const uint8_t> beginning);

} // namespace omnibal::rt
#endif // RUNTIME_DATA_PICTURES_IMAGE_H
