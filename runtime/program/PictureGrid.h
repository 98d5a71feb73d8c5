//===- PictureGrid.h - Pictures of their own sizes, cut into patches -------------------------===//
//
// Models of dynamic resolution see a picture as patches of equal size. merge x merge neighboring
// patches become one token, a *unit*: what V counts for such models.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PROGRAM_PICTUREGRID_H
#define RUNTIME_PROGRAM_PICTUREGRID_H

#include "runtime/support/Status.h"
#include "runtime/support/Types.h"
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace omnibal::rt {

/// How a learned table of positions is resampled to the patches of a picture: by the hat function,
/// or by Keys' cubic convolution with a = -3/4. Entries beyond the table are those of its border.
enum class Interpolation { Bilinear, Bicubic };

struct PictureGrid {
  int64_t patch = 0;    ///< side of a patch, pixels
  int64_t merge = 1;    ///< side of a unit, patches
  int64_t temporal = 1; ///< times that a still picture stands in a patch
  int64_t window = 0;   ///< side of an attention window, pixels; 0: none
  int64_t gridSide = 0; ///< side of the learned table of positions; 0: none
  Interpolation interpolation = Interpolation::Bilinear; ///< of that table
  bool alignCorners = true; ///< corner patches lie on the table's corners, not half a patch inside

  int64_t unitPixels() const { return patch * merge; } ///< side of a unit
  int64_t patchesPerUnit() const { return merge * merge; }
  int64_t valuesPerPatch() const { return 3 * temporal * patch * patch; }
  int64_t valuesPerUnit() const { return patchesPerUnit() * valuesPerPatch(); }
  int64_t windowUnits() const { return window / merge / patch; } ///< side of a window
  /// Entries of the table along one axis that a patch is made of.
  int64_t tapsPerAxis() const { return interpolation == Interpolation::Bicubic ? 4 : 2; }
  int64_t tapsPerPatch() const { return tapsPerAxis() * tapsPerAxis(); }
  bool operator==(const PictureGrid &) const = default;
};

/// The units of one picture; both sides are at least 1.
struct PictureUnits {
  int64_t rows = 0, columns = 0;
  int64_t count() const { return rows * columns; }
  bool operator==(const PictureUnits &) const = default;
};

/// Whether the image tokens of a sample are those of its pictures: for each picture in order as
/// many as it has units, with no other token between them.
Status checkImageTokens(std::span<const int32_t> inputIds, int64_t imageTokenId,
                        std::span<const PictureUnits> pictures);

/// A value of a micro-batch that follows from its pictures' sizes (and, of position_ids, from where
/// they stand among the tokens).
struct PictureInput {
  DType dtype = DType::I32;
  std::vector<Extent> shape;
};
/// Returns the value of that name (docs/program.md), or nothing for other names and for what the
/// grid does not have.
std::optional<PictureInput> pictureInput(std::string_view name, const PictureGrid &grid);

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_PICTUREGRID_H
