#include "runtime/training/inference/ForwardPictures.h"
#include "runtime/program/Names.h"
#include <algorithm>
#include <map>

namespace omnibal::rt {
namespace {

using Ints = std::vector<int32_t>;

Result<PictureUnits> unitsOfPatches(int64_t rows, int64_t columns, const PictureGrid &grid,
                                    const std::string &where) {
  if (rows < 1 || columns < 1 || rows % grid.merge || columns % grid.merge)
    return invalid(where + " has " + std::to_string(rows) + " x " + std::to_string(columns) +
                   " patches; the model takes multiples of " + std::to_string(grid.merge));
  return PictureUnits{rows / grid.merge, columns / grid.merge};
}

Result<std::vector<PictureUnits>> fromGrids(const SafetensorsFile &file, const PictureGrid &grid) {
  const StoredTensor *tensor = file.find("image_grid_thw");
  if (tensor->shape.size() != 2 || tensor->shape[1] != 3)
    return invalid(file.path() + ": \"image_grid_thw\" of shape [pictures, 3] is expected");
  OMNIBAL_ASSIGN_OR_RETURN(Ints sizes, readIntegers(file, "image_grid_thw", -1));
  std::vector<PictureUnits> pictures;
  for (size_t i = 0; i < sizes.size(); i += 3) {
    const std::string where = file.path() + ": row " + std::to_string(i / 3) + " of image_grid_thw";
    if (sizes[i] != 1)
      return invalid(where + " has " + std::to_string(sizes[i]) +
                     " frames; only still pictures, 1, are understood");
    OMNIBAL_ASSIGN_OR_RETURN(PictureUnits units,
                             unitsOfPatches(sizes[i + 1], sizes[i + 2], grid, where));
    pictures.push_back(units);
  }
  return pictures;
}

/// A segment is a picture; its last patch is in its last row and column.
Result<std::vector<PictureUnits>> fromPositions(const SafetensorsFile &file,
                                                const PictureGrid &grid) {
  OMNIBAL_ASSIGN_OR_RETURN(Ints segments, readIntegers(file, "image_segment_ids", -1));
  OMNIBAL_ASSIGN_OR_RETURN(Ints positions,
                           readIntegers(file, "image_position_ids", 2 * int64_t(segments.size())));
  std::vector<PictureUnits> pictures;
  for (size_t p = 0; p < segments.size(); ++p) {
    if (p + 1 < segments.size() && segments[p] == segments[p + 1])
      continue;
    OMNIBAL_ASSIGN_OR_RETURN(
        PictureUnits units,
        unitsOfPatches(int64_t{positions[2 * p]} + 1, int64_t{positions[2 * p + 1]} + 1, grid,
                       file.path() + ": segment " + std::to_string(segments[p])));
    pictures.push_back(units);
  }
  return pictures;
}

/// The number of the piece that each element lies in.
Ints idsOf(const Ints &borders) {
  Ints ids;
  for (size_t i = 1; i < borders.size(); ++i)
    ids.resize(size_t(borders[i]), static_cast<int32_t>(i) - 1);
  return ids;
}

/// Without the repetitions of the last border.
Ints shortened(Ints borders) {
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  return borders;
}

Status differs(const SafetensorsFile &file, const std::string &name) {
  return invalid(file.path() + ": \"" + name +
                 "\" is not what the pictures' sizes give; leave it "
                 "out, it is derived from them");
}

} // namespace

const std::vector<std::string> &pictureInputNames() {
  static const std::vector<std::string> names = {
      "image_grid_thw",       "mm_token_type_ids",       "position_ids",
      "image_position_ids",   "image_segment_ids",       "image_segment_cu_seqlens",
      "image_window_ids",     "image_window_cu_seqlens", "image_window_index",
      "image_window_inverse", "image_interp_indices",    "image_interp_weights"};
  return names;
}

Result<Ints> readIntegers(const SafetensorsFile &file, const std::string &name, int64_t elements) {
  const StoredTensor *tensor = file.find(name);
  if (!tensor || (elements >= 0 && tensor->elements != elements))
    return invalid(file.path() + ": \"" + name + "\" " +
                   (tensor ? "has shape " + toString(tensor->shape) + ", but " : "is missing; ") +
                   (elements >= 0 ? std::to_string(elements) + " elements are" : "it is") +
                   " expected");
  Ints values(size_t(tensor->elements));
  OMNIBAL_RETURN_IF_ERROR(convertTensor(*tensor, DType::I32, values.data()).context(file.path()));
  return values;
}

Result<std::vector<PictureUnits>> readPictures(const SafetensorsFile &file,
                                               const PictureGrid &grid) {
  if (file.find("image_grid_thw"))
    return fromGrids(file, grid);
  if (file.find("image_segment_ids"))
    return fromPositions(file, grid);
  const StoredTensor *pixels = file.find("pixel_values");
  if (pixels && pixels->elements > 0)
    return invalid(file.path() + ": \"image_grid_thw\" of shape [pictures, 3] is missing, as the "
                                 "model's processor gives it; pixel_values do not tell how large "
                                 "the pictures are");
  return std::vector<PictureUnits>{};
}

Status checkPictureInputs(const SafetensorsFile &file, std::span<const PictureUnits> pictures,
                          const PictureGrid &grid) {
  PictureInputs derived = pictureInputs(pictures, grid);
  std::map<std::string, Ints> expected = derived.integers;
  for (const char *stem : {"image_segment", "image_window"})
    if (auto borders = expected.find(stem + std::string("_cu_seqlens"));
        borders != expected.end()) {
      expected[stem + std::string("_ids")] = idsOf(borders->second);
      borders->second = shortened(std::move(borders->second));
    }
  for (auto &[name, values] : expected) {
    if (!file.find(name))
      continue;
    OMNIBAL_ASSIGN_OR_RETURN(Ints given, readIntegers(file, name, -1));
    if (name.ends_with("cu_seqlens"))
      given = shortened(std::move(given));
    if (given != values)
      return differs(file, name);
  }
  if (const StoredTensor *weights = file.find("image_interp_weights"); weights) {
    std::vector<float> given(size_t(weights->elements));
    OMNIBAL_RETURN_IF_ERROR(convertTensor(*weights, DType::F32, given.data()).context(file.path()));
    if (given != derived.interpWeights)
      return differs(file, "image_interp_weights");
  }
  return Status::ok();
}

} // namespace omnibal::rt
