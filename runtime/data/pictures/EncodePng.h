//===- EncodePng.h - 8-bit RGB to PNG ----------------------------------------------------===//
#ifndef RUNTIME_DATA_PICTURES_ENCODEPNG_H
#define RUNTIME_DATA_PICTURES_ENCODEPNG_H

#include "runtime/data/pictures/Image.h"
#include <string>

namespace omnibal::rt {

/// The bytes of a PNG file of a picture that has pixels.
Result<std::string> encodePng(const Image &image);

} // namespace omnibal::rt
#endif // RUNTIME_DATA_PICTURES_ENCODEPNG_H
