#include "runtime/data/pictures/Patchify.h"
#include <algorithm>
#include <string>

namespace omnibal::rt {
namespace {

/// Writes one patch, whose first pixel is at `rgb`; returns what follows it in `out`.
float *writePatch(const uint8_t *rgb, int64_t imageWidth, const Preprocess &preprocess,
                  const PictureGrid &grid, float *out) {
  const int64_t plane = grid.patch * grid.patch;
  for (size_t channel = 0; channel < 3; ++channel) {
    const auto &values = preprocess.valuesOf(channel);
    float *first = out;
    for (int64_t y = 0; y < grid.patch; ++y)
      for (int64_t x = 0; x < grid.patch; ++x)
        *out++ = values[rgb[3 * (y * imageWidth + x) + static_cast<int64_t>(channel)]];
    for (int64_t copy = 1; copy < grid.temporal; ++copy)
      out = std::copy_n(first, plane, out);
  }
  return out;
}

} // namespace

Result<PictureUnits> unitsOf(const ImageSize &size, const PictureGrid &grid) {
  const int64_t unit = grid.unitPixels();
  if (size.height % unit || size.width % unit)
    return invalid("is " + std::to_string(size.width) + " x " + std::to_string(size.height) +
                   " pixels, but the model takes multiples of " + std::to_string(unit) +
                   " (patches of " + std::to_string(grid.patch) + ", " +
                   std::to_string(grid.merge) + " x " + std::to_string(grid.merge) +
                   " of them a token); resize pictures when the data is prepared, with the "
                   "model's own processor");
  return PictureUnits{size.height / unit, size.width / unit};
}

void patchify(const Image &image, const Preprocess &preprocess, const PictureGrid &grid,
              float *out) {
  const int64_t unit = grid.unitPixels();
  for (int64_t top = 0; top < image.height; top += unit)
    for (int64_t left = 0; left < image.width; left += unit)
      for (int64_t row = top; row < top + unit; row += grid.patch)
        for (int64_t column = left; column < left + unit; column += grid.patch)
          out = writePatch(image.rgb.data() + 3 * (row * image.width + column), image.width,
                           preprocess, grid, out);
}

} // namespace omnibal::rt
