//===- PreprocessFuzz.cpp - preprocessor_config.json -----------------------------------------===//
#include "runtime/data/pictures/GridFile.h"
#include "runtime/data/pictures/PictureTransform.h"
#include "runtime/data/pictures/Preprocess.h"
#include "test/fuzz/Fuzz.h"
#include <cmath>

namespace omnibal::fuzz {

const Allowance allowance;

namespace {

/// What becomes of pictures of several sizes, and of a small one's pixels.
void useOf(const rt::PictureTransform &transform) {
  for (const rt::ImageSize size : {rt::ImageSize{1, 1}, {3, 500}, {480, 640}, {8000, 8000}})
    if (auto layout = transform.layoutOf(size)) {
      const rt::ImageSize tile = layout->tile(), &last = layout->resizes.back();
      require(layout->tiles() > 0 && tile.height > 0 && tile.width > 0, "a picture has no tile");
      require(last.height >= layout->canvas.height && last.width >= layout->canvas.width,
              "tiles are cut outside of a picture");
      require(layout->rows * tile.height == layout->canvas.height &&
                  layout->columns * tile.width == layout->canvas.width,
              "tiles are not all of what is cut");
      require(!transform.tileSize() || *transform.tileSize() == tile, "a tile has another size");
    }
  rt::Image small;
  small.height = 5;
  small.width = 3;
  small.rgb.assign(45, 200);
  const auto layout = transform.layoutOf(small);
  if (!layout || transform.bytesFor(small) > int64_t{1} << 20)
    return;
  auto tiles = transform.apply(small);
  require(tiles && static_cast<int64_t>(tiles->size()) == layout->tiles(), "tiles are missing");
}

} // namespace

void run(std::string_view input) {
  using namespace rt;
  const std::string text(input);
  if (auto preprocess = Preprocess::parse(text, "preprocessor_config.json"))
    for (size_t channel = 0; channel < 3; ++channel)
      for (float value : preprocess->valuesOf(channel))
        require(std::isfinite(value), "a pixel becomes no number");
  if (auto grid = parsePictureGrid(text, "preprocessor_config.json"); grid && *grid)
    require((*grid)->unitPixels() > 0 && (*grid)->valuesPerUnit() > 0, "a unit is empty");
  if (auto pictures = PictureTransform::parse(text, "preprocessor_config.json");
      pictures && *pictures)
    useOf(**pictures);
}

} // namespace omnibal::fuzz
