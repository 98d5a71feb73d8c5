//===- VerifyPictures.cpp - Rules p12, p13: what follows from pictures ---------------------===//
#include "runtime/program/verify/VerifierInternal.h"

namespace omnibal::rt {
namespace {

/// No honest model comes near, and no product of them overflows.
constexpr int64_t sideLimit = 4096;

/// Has everything that a grid may have.
constexpr PictureGrid anyGrid{1, 1, 1, 1, 1};

Status checkGrid(const Program &p, const PictureGrid &g) {
  auto bad = [](const std::string &what) { return broken("p12", "manifest, info.pictures", what); };
  for (auto [name, size] : {std::pair{"patch", g.patch}, std::pair{"merge", g.merge},
                            std::pair{"temporal", g.temporal}})
    if (size < 1 || size > sideLimit)
      return bad(std::string(name) + " must lie in [1, " + std::to_string(sideLimit) + "]");
  if (g.window < 0 || g.window > sideLimit * sideLimit || g.gridSide < 0 || g.gridSide > sideLimit)
    return bad("window or grid_side is out of range");
  if (g.window > 0 && g.windowUnits() < 1)
    return bad("a window of " + std::to_string(g.window) + " pixels is smaller than a unit of " +
               std::to_string(g.unitPixels()));
  // Numbers of patches and borders of segments are 32-bit values.
  if (p.caps().tiles > INT32_MAX / g.patchesPerUnit())
    return bad("tiles_cap units have more than 2^31 patches");
  if (p.info.tokensPerTile != 1)
    return bad("a unit is one token, but tokens_per_tile is " +
               std::to_string(p.info.tokensPerTile));
  if (p.info.tileShape != std::vector<int64_t>{g.patchesPerUnit(), g.valuesPerPatch()})
    return bad("tile_shape must be [" + std::to_string(g.patchesPerUnit()) + ", " +
               std::to_string(g.valuesPerPatch()) + "], patches and values of a unit");
  return Status::ok();
}

/// Whether the shapes are equal but for dimensions of 1.
bool sameShape(const std::vector<Extent> &a, const std::vector<Extent> &b) {
  auto wide = [](std::vector<Extent> shape) {
    std::erase(shape, Extent{1, 0, 0});
    return shape;
  };
  return wide(a) == wide(b);
}

Status checkValue(const BatchValue &v, const std::optional<PictureGrid> &grid,
                  const std::string &where) {
  const std::string at = where + ", value \"" + v.name + "\"";
  if (!grid && pictureInput(v.name, anyGrid) && v.name.starts_with("image_"))
    return broken("p12", at, "it follows from pictures' sizes, but info.pictures is missing");
  if (!grid)
    return Status::ok();
  std::optional<PictureInput> known = pictureInput(v.name, *grid);
  if (!known && pictureInput(v.name, anyGrid))
    return broken("p12", at, "info.pictures has no window or no grid_side to make it of");
  if (known && (v.dtype != known->dtype || !sameShape(v.shape, known->shape)))
    return broken("p12", at, "its type or shape is not that of docs/program.md");
  return Status::ok();
}

/// Which pictures a token sees follows from where image tokens stand: one for each picture.
Status checkSeen(const BatchValue &v, const ModelInfo &info, const std::string &where) {
  if (v.name != "image_begins" && v.name != "image_ends" && v.name != "image_seen")
    return Status::ok();
  const std::string at = where + ", value \"" + v.name + "\"";
  if (v.dtype != DType::I32 || v.shape != std::vector<Extent>{{0, 0, 1}})
    return broken("p13", at, "its type or shape is not that of docs/program.md");
  if (info.imageTokenId < 0 || info.tokensPerTile != 1 || info.grid)
    return broken("p13", at,
                  "it needs an image_token_id, tokens_per_tile 1 and pictures of one size");
  return Status::ok();
}

} // namespace

Status verifyPictures(const Program &p) {
  if (p.info.grid)
    OMNIBAL_RETURN_IF_ERROR(checkGrid(p, *p.info.grid));
  for (const Stage &stage : p.stageList)
    for (const auto &[name, mode] : stage.modes)
      for (const BatchValue &v : mode.batchValues) {
        const std::string where = "stage " + std::to_string(stage.id) + ", mode " + name;
        OMNIBAL_RETURN_IF_ERROR(checkValue(v, p.info.grid, where));
        OMNIBAL_RETURN_IF_ERROR(checkSeen(v, p.info, where));
      }
  return Status::ok();
}

} // namespace omnibal::rt
