#include "runtime/core/PictureGrid.h"

namespace omnibal::rt {

std::optional<PictureInput> pictureInput(std::string_view name, const PictureGrid &grid) {
  const Extent units{0, 1, 0}, borders{1, 1, 0}, patches{0, grid.patchesPerUnit(), 0};
  if (name == "position_ids")
    return PictureInput{DType::I32, {{3, 0, 0}, {0, 0, 1}}};
  if (name == "image_position_ids")
    return PictureInput{DType::I32, {patches, {2, 0, 0}}};
  if (name == "image_segment_cu_seqlens")
    return PictureInput{DType::I32, {borders}};
  if (grid.window > 0 && name == "image_window_cu_seqlens")
    return PictureInput{DType::I32, {borders}};
  if (grid.window > 0 && (name == "image_window_index" || name == "image_window_inverse"))
    return PictureInput{DType::I32, {units}};
  if (grid.gridSide > 0 && name == "image_interp_indices")
    return PictureInput{DType::I32, {patches, {4, 0, 0}}};
  if (grid.gridSide > 0 && name == "image_interp_weights")
    return PictureInput{DType::F32, {patches, {4, 0, 0}}};
  return std::nullopt;
}

} // namespace omnibal::rt
