//===- PictureTransform.h - What a model's own processor makes of a picture -----------------===//
//
// Shards may hold pictures as they are. Then preprocessor_config.json says in "omnibal" how they
// are resized and cut (docs/data.md); prepare.py writes it after it has compared the processor's
// own pictures with it.
//
//===------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DATA_PICTURES_PICTURETRANSFORM_H
#define RUNTIME_DATA_PICTURES_PICTURETRANSFORM_H

#include "runtime/data/pictures/Image.h"
#include "runtime/data/pictures/Resample.h"
#include "runtime/support/Status.h"
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace omnibal::rt {

/// A picture too many, of all of it, behind its tiles.
enum class Overview { None, OfPicture, OfCanvas };

/// How one picture becomes tiles.
struct TileLayout {
  std::vector<ImageSize> resizes; ///< one after the other; the last one is at least the canvas
  ImageSize canvas;               ///< cut out of the middle
  int64_t rows = 1, columns = 1;  ///< of equal tiles that the canvas is cut into
  Overview overview = Overview::None;

  ImageSize tile() const { return {canvas.height / rows, canvas.width / columns}; }
  int64_t tiles() const { return rows * columns + (overview == Overview::None ? 0 : 1); }
};

class PictureTransform {
public:
  /// Reads "omnibal": {"original_pictures": {...}} of preprocessor_config.json; nothing where the
  /// file has none, as for shards whose pictures were resized and cut when they were made.
  static Result<std::optional<PictureTransform>> read(const std::string &path);
  static Result<std::optional<PictureTransform>> parse(const std::string &json,
                                                       const std::string &label);

  /// What becomes of a picture of that size; an error if the model takes none of it.
  Result<TileLayout> layoutOf(const ImageSize &picture) const;
  /// The pictures that the model sees.
  Result<std::vector<Image>> apply(const Image &picture) const;
  /// Bytes that `apply` allocates for a picture of that size, its result among them.
  int64_t bytesFor(const ImageSize &picture) const;
  /// The size of all tiles; none where pictures keep sizes of their own.
  std::optional<ImageSize> tileSize() const;

private:
  /// Resized to one size.
  struct Fixed {
    ImageSize size;
  };
  /// The shorter side resized to `edge`, then the middle cut out.
  struct ShortestEdge {
    int64_t edge;
    ImageSize size;
  };
  /// A grid of tiles whose sides are nearest to the picture's, and an overview.
  struct Tiles {
    ImageSize tile;
    std::vector<std::pair<int64_t, int64_t>> grids; ///< columns, rows; by their number of tiles
  };
  /// The longer side resized to `longest`, then both to multiples of `tile`, and an overview.
  struct Splits {
    int64_t longest, tile;
    bool split;
  };
  /// Sides that are multiples of `factor`, and pixels within bounds.
  struct Units {
    int64_t factor, least, most;
  };
  using Kind = std::variant<Fixed, ShortestEdge, Tiles, Splits, Units>;
  struct Reader;

  static TileLayout layout(const Fixed &kind, const ImageSize &picture);
  static TileLayout layout(const ShortestEdge &kind, const ImageSize &picture);
  static TileLayout layout(const Tiles &kind, const ImageSize &picture);
  static TileLayout layout(const Splits &kind, const ImageSize &picture);
  static TileLayout layout(const Units &kind, const ImageSize &picture);

  PictureTransform(Kind kind, Resampling resampling)
      : kind(std::move(kind)), resampling(resampling) {}
  Kind kind;
  Resampling resampling;
};

} // namespace omnibal::rt
#endif // RUNTIME_DATA_PICTURES_PICTURETRANSFORM_H
