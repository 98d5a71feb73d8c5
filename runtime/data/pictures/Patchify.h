//===- Patchify.h - A picture as rows of patches ------------------------------------------===//
#ifndef RUNTIME_DATA_PICTURES_PATCHIFY_H
#define RUNTIME_DATA_PICTURES_PATCHIFY_H

#include "runtime/data/pictures/Image.h"
#include "runtime/data/pictures/Preprocess.h"
#include "runtime/program/PictureGrid.h"

namespace omnibal::rt {

/// The units of a picture of that size; an error where it cannot be cut into whole ones.
Result<PictureUnits> unitsOf(const ImageSize &size, const PictureGrid &grid);

/// Writes the patches of `image`, which has whole units: unit after unit, within a unit row by row;
/// a patch's values by channel, copy, row and column.
void patchify(const Image &image, const Preprocess &preprocess, const PictureGrid &grid,
              float *out);

} // namespace omnibal::rt
#endif // RUNTIME_DATA_PICTURES_PATCHIFY_H
