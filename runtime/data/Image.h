//===- Image.h - PNG, JPEG and WebP to 8-bit RGB -----------------------------------------===//
#ifndef RUNTIME_DATA_IMAGE_H
#define RUNTIME_DATA_IMAGE_H

#include "runtime/core/Status.h"
#include <cstdint>
#include <span>
#include <vector>

namespace omnibal::rt {

struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb; ///< height x width x 3
};

/// Tells the format from the bytes themselves. Grey and palette pictures become RGB, alpha is
/// dropped, 16 bits become 8. Pictures over 64 million pixels are refused.
Result<Image> decodeImage(std::span<const uint8_t> file);

} // namespace omnibal::rt
#endif // RUNTIME_DATA_IMAGE_H
