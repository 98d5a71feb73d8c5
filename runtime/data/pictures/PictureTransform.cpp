#include "runtime/data/pictures/PictureTransform.h"
#include <algorithm>
#include <cmath>

namespace omnibal::rt {
namespace {

/// Pictures whose one side is that many times the other are none that a model can use.
constexpr int64_t mostElongated = 200;
/// Before they are split, pictures are never larger than that.
constexpr int64_t longestSplit = 4096;
constexpr int64_t mostTiles = 1024;

double real(int64_t value) { return static_cast<double>(value); }
int64_t whole(double value) { return static_cast<int64_t>(value); }
int64_t multipleAbove(double value, int64_t of) { return whole(std::ceil(value / real(of))) * of; }

TileLayout oneTile(std::vector<ImageSize> resizes) {
  TileLayout layout;
  layout.canvas = resizes.back();
  layout.resizes = std::move(resizes);
  return layout;
}

/// The longer side becomes `longest`, the other keeps the ratio and is even, as Idefics3 does it.
ImageSize withLongestSide(const ImageSize &picture, int64_t longest) {
  const double aspect = real(picture.width) / real(picture.height);
  ImageSize size;
  if (picture.width >= picture.height)
    size = {whole(real(longest) / aspect), longest};
  else
    size = {longest, whole(real(longest) * aspect)};
  int64_t &shorter = picture.width >= picture.height ? size.height : size.width;
  shorter = std::max<int64_t>(1, shorter + shorter % 2);
  return size;
}

ImageSize notAbove(const ImageSize &picture, int64_t longest) {
  const double aspect = real(picture.width) / real(picture.height);
  ImageSize size = picture;
  if (picture.width >= picture.height && picture.width > longest)
    size = {whole(real(longest) / aspect), longest};
  else if (picture.height > picture.width && picture.height > longest)
    size = {longest, whole(real(longest) * aspect)};
  return {std::max<int64_t>(1, size.height), std::max<int64_t>(1, size.width)};
}

ImageSize multiplesOfTile(const ImageSize &picture, int64_t tile) {
  const double aspect = real(picture.width) / real(picture.height);
  if (picture.width >= picture.height) {
    const int64_t width = multipleAbove(real(picture.width), tile);
    return {multipleAbove(real(whole(real(width) / aspect)), tile), width};
  }
  const int64_t height = multipleAbove(real(picture.height), tile);
  return {height, multipleAbove(real(whole(real(height) * aspect)), tile)};
}

/// Halves go to the even neighbor.
int64_t roundedMultiple(int64_t value, int64_t of) {
  return whole(std::nearbyint(real(value) / real(of))) * of;
}

Image cut(const Image &image, int64_t top, int64_t left, const ImageSize &size) {
  Image out;
  out.height = size.height;
  out.width = size.width;
  out.rgb.reserve(static_cast<size_t>(3 * size.height * size.width));
  for (int64_t y = top; y < top + size.height; ++y) {
    const auto row = image.rgb.begin() + 3 * (y * image.width + left);
    out.rgb.insert(out.rgb.end(), row, row + 3 * size.width);
  }
  return out;
}

} // namespace

TileLayout PictureTransform::layout(const Fixed &kind, const ImageSize &) {
  return oneTile({kind.size});
}

TileLayout PictureTransform::layout(const ShortestEdge &kind, const ImageSize &picture) {
  const int64_t shorter = std::min(picture.height, picture.width);
  auto side = [&](int64_t pixels) {
    return pixels == shorter ? kind.edge : whole(real(kind.edge * pixels) / real(shorter));
  };
  TileLayout layout = oneTile({{side(picture.height), side(picture.width)}});
  layout.canvas = kind.size;
  return layout;
}

TileLayout PictureTransform::layout(const Tiles &kind, const ImageSize &picture) {
  const double aspect = real(picture.width) / real(picture.height);
  const double area = real(picture.width * picture.height);
  double least = INFINITY;
  TileLayout layout;
  layout.columns = layout.rows = 1;
  for (const auto &[columns, rows] : kind.grids) {
    const double difference = std::abs(aspect - real(columns) / real(rows));
    // Of equal grids the larger one, unless the picture covers less than half of it.
    const double covered = 0.5 * real(kind.tile.height * kind.tile.width * columns * rows);
    if (difference < least || (difference == least && area > covered)) {
      layout.columns = columns;
      layout.rows = rows;
    }
    least = std::min(least, difference);
  }
  layout.canvas = {kind.tile.height * layout.rows, kind.tile.width * layout.columns};
  layout.resizes = {layout.canvas};
  layout.overview = layout.rows * layout.columns > 1 ? Overview::OfPicture : Overview::None;
  return layout;
}

TileLayout PictureTransform::layout(const Splits &kind, const ImageSize &picture) {
  const ImageSize first = notAbove(withLongestSide(picture, kind.longest), longestSplit);
  if (!kind.split)
    return oneTile({first, {kind.tile, kind.tile}});
  TileLayout layout = oneTile({first, multiplesOfTile(first, kind.tile)});
  layout.rows = layout.canvas.height / kind.tile;
  layout.columns = layout.canvas.width / kind.tile;
  layout.overview = layout.rows * layout.columns > 1 ? Overview::OfCanvas : Overview::None;
  return layout;
}

TileLayout PictureTransform::layout(const Units &kind, const ImageSize &picture) {
  ImageSize size{roundedMultiple(picture.height, kind.factor),
                 roundedMultiple(picture.width, kind.factor)};
  const double pixels = real(picture.height * picture.width);
  if (size.height * size.width > kind.most) {
    const double scale = std::sqrt(pixels / real(kind.most));
    auto side = [&](int64_t from) {
      return std::max(kind.factor,
                      whole(std::floor(real(from) / scale / real(kind.factor))) * kind.factor);
    };
    size = {side(picture.height), side(picture.width)};
  } else if (size.height * size.width < kind.least) {
    const double scale = std::sqrt(real(kind.least) / pixels);
    size = {multipleAbove(real(picture.height) * scale, kind.factor),
            multipleAbove(real(picture.width) * scale, kind.factor)};
  }
  return oneTile({size});
}

Result<TileLayout> PictureTransform::layoutOf(const ImageSize &picture) const {
  const int64_t longer = std::max(picture.height, picture.width);
  const int64_t shorter = std::min(picture.height, picture.width);
  if (shorter < 1 || longer > mostElongated * shorter)
    return invalid("is " + std::to_string(picture.width) + " x " + std::to_string(picture.height) +
                   " pixels; no side may be more than " + std::to_string(mostElongated) +
                   " times the other");
  TileLayout layout =
      std::visit([&](const auto &kind) { return PictureTransform::layout(kind, picture); }, kind);
  for (const ImageSize &size : layout.resizes)
    if (size.height * size.width > mostPicturePixels)
      return invalid("becomes " + std::to_string(size.width) + " x " + std::to_string(size.height) +
                     " pixels; at most 64 million are accepted");
  if (layout.tiles() > mostTiles)
    return invalid("becomes " + std::to_string(layout.tiles()) + " tiles; at most " +
                   std::to_string(mostTiles) + " are accepted");
  return layout;
}

Result<std::vector<Image>> PictureTransform::apply(const Image &picture) const {
  OMNIBAL_ASSIGN_OR_RETURN(TileLayout layout, layoutOf(picture));
  Image canvas = resample(picture, layout.resizes.front(), resampling);
  for (size_t i = 1; i < layout.resizes.size(); ++i)
    canvas = resample(canvas, layout.resizes[i], resampling);
  const int64_t top = (canvas.height - layout.canvas.height) / 2;
  const int64_t left = (canvas.width - layout.canvas.width) / 2;
  const ImageSize tile = layout.tile();
  std::vector<Image> tiles;
  for (int64_t row = 0; row < layout.rows; ++row)
    for (int64_t column = 0; column < layout.columns; ++column)
      tiles.push_back(cut(canvas, top + row * tile.height, left + column * tile.width, tile));
  if (layout.overview != Overview::None)
    tiles.push_back(
        resample(layout.overview == Overview::OfPicture ? picture : canvas, tile, resampling));
  return tiles;
}

int64_t PictureTransform::bytesFor(const ImageSize &picture) const {
  Result<TileLayout> layout = layoutOf(picture);
  if (!layout)
    return 0;
  int64_t most = 0;
  ImageSize from = picture;
  for (const ImageSize &size : layout->resizes) {
    most = std::max(most, 3 * from.height * from.width + resampleBytes(from, size));
    from = size;
  }
  const int64_t canvas = 3 * from.height * from.width;
  const ImageSize tile = layout->tile();
  const int64_t ofTile = 3 * tile.height * tile.width + 2 * int64_t{sizeof(Image)};
  const int64_t tiles = layout->tiles() * ofTile;
  const ImageSize &seen = layout->overview == Overview::OfPicture ? picture : from;
  const int64_t overview = layout->overview == Overview::None ? 0 : resampleBytes(seen, tile);
  return std::max(most, canvas + tiles + overview);
}

std::optional<ImageSize> PictureTransform::tileSize() const {
  if (const auto *fixed = std::get_if<Fixed>(&kind))
    return fixed->size;
  if (const auto *edge = std::get_if<ShortestEdge>(&kind))
    return edge->size;
  if (const auto *tiles = std::get_if<Tiles>(&kind))
    return tiles->tile;
  if (const auto *splits = std::get_if<Splits>(&kind))
    return ImageSize{splits->tile, splits->tile};
  return std::nullopt;
}

} // namespace omnibal::rt
