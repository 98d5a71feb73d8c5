#include "runtime/program/PictureGrid.h"

namespace omnibal::rt {

namespace {

std::string describe(size_t number, const PictureUnits &picture) {
  return "picture " + std::to_string(number) + " has " + std::to_string(picture.rows) + " x " +
         std::to_string(picture.columns) + " = " + std::to_string(picture.count()) + " units";
}

} // namespace

Status checkImageTokens(std::span<const int32_t> inputIds, int64_t imageTokenId,
                        std::span<const PictureUnits> pictures) {
  auto bad = [&](const std::string &what) {
    return invalid("the image tokens (" + std::to_string(imageTokenId) +
                   ") in input_ids are not those of the pictures: " + what +
                   "; prepare the sample with the model's own processor");
  };
  size_t begun = 0; // pictures whose tokens have begun
  int64_t missing = 0;
  for (size_t t = 0; t < inputIds.size(); ++t) {
    const bool image = inputIds[t] == imageTokenId;
    if (missing > 0 && !image)
      return bad(describe(begun - 1, pictures[begun - 1]) + ", but its run of image tokens ends " +
                 std::to_string(missing) + " short, before token " + std::to_string(t));
    if (!image)
      continue;
    if (missing == 0) {
      if (begun == pictures.size())
        return bad("token " + std::to_string(t) + " is one more than its " +
                   std::to_string(pictures.size()) + " pictures have units");
      missing = pictures[begun++].count();
    }
    --missing;
  }
  if (missing > 0 || begun < pictures.size())
    return bad(
        describe(missing > 0 ? begun - 1 : begun, pictures[missing > 0 ? begun - 1 : begun]) +
        ", but the tokens end before " + (missing > 0 ? "its last one" : "its first one"));
  return Status::ok();
}

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
    return PictureInput{DType::I32, {patches, {grid.tapsPerPatch(), 0, 0}}};
  if (grid.gridSide > 0 && name == "image_interp_weights")
    return PictureInput{DType::F32, {patches, {grid.tapsPerPatch(), 0, 0}}};
  return std::nullopt;
}

} // namespace omnibal::rt
