//===- ReadPictureTransform.cpp - "omnibal" of preprocessor_config.json ---------------------===//
#include "runtime/data/pictures/PictureTransform.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Json.h"
#include <algorithm>

namespace omnibal::rt {

/// Reads one object; every field is checked before it is used.
struct PictureTransform::Reader {
  const nlohmann::json &object;
  std::string label; ///< the file and the way to the object

  Result<int64_t> number(const char *field, int64_t least, int64_t most) const {
    if (!object.contains(field))
      return invalid(label + ": " + field + " is missing");
    const nlohmann::json &value = object[field];
    if (!value.is_number_unsigned() || value.get<uint64_t>() < static_cast<uint64_t>(least) ||
        value.get<uint64_t>() > static_cast<uint64_t>(most))
      return invalid(label + ": " + field + " must be a whole number from " +
                     std::to_string(least) + " to " + std::to_string(most));
    return value.get<int64_t>();
  }
  Result<std::string> text(const char *field) const {
    if (!object.contains(field) || !object[field].is_string())
      return invalid(label + ": " + field + " is missing, or no text");
    return object[field].get<std::string>();
  }
  Result<ImageSize> size() const {
    ImageSize size;
    OMNIBAL_ASSIGN_OR_RETURN(size.height, number("height", 1, mostSide));
    OMNIBAL_ASSIGN_OR_RETURN(size.width, number("width", 1, mostSide));
    return size;
  }

  Result<Kind> shortestEdge() const {
    ShortestEdge kind{};
    OMNIBAL_ASSIGN_OR_RETURN(kind.size, size());
    OMNIBAL_ASSIGN_OR_RETURN(kind.edge,
                             number("edge", std::max(kind.size.height, kind.size.width), mostSide));
    return Kind(kind);
  }
  Result<Kind> tiles() const {
    Tiles kind;
    OMNIBAL_ASSIGN_OR_RETURN(kind.tile, size());
    OMNIBAL_ASSIGN_OR_RETURN(const int64_t most, number("max_tiles", 1, mostTiles));
    OMNIBAL_ASSIGN_OR_RETURN(const int64_t least, number("min_tiles", 1, most));
    for (int64_t columns = 1; columns <= most; ++columns)
      for (int64_t rows = 1; rows * columns <= most; ++rows)
        if (rows * columns >= least)
          kind.grids.emplace_back(columns, rows);
    std::stable_sort(kind.grids.begin(), kind.grids.end(), [](const auto &x, const auto &y) {
      return x.first * x.second < y.first * y.second;
    });
    return Kind(std::move(kind));
  }
  Result<Kind> splits() const {
    Splits kind{};
    OMNIBAL_ASSIGN_OR_RETURN(kind.tile, number("tile", 1, mostSide));
    OMNIBAL_ASSIGN_OR_RETURN(kind.longest, number("longest_edge", 1, mostSide));
    if (!object.contains("split") || !object["split"].is_boolean())
      return invalid(label + ": split is missing, or neither true nor false");
    kind.split = object["split"].get<bool>();
    return Kind(kind);
  }
  Result<Kind> units() const {
    Units kind{};
    OMNIBAL_ASSIGN_OR_RETURN(kind.factor, number("factor", 1, mostSide));
    OMNIBAL_ASSIGN_OR_RETURN(kind.most, number("max_pixels", 1, mostPicturePixels));
    OMNIBAL_ASSIGN_OR_RETURN(kind.least, number("min_pixels", 1, kind.most));
    return Kind(kind);
  }
  Result<Kind> kind() const {
    OMNIBAL_ASSIGN_OR_RETURN(const std::string name, text("kind"));
    if (name == "fixed") {
      OMNIBAL_ASSIGN_OR_RETURN(const ImageSize one, size());
      return Kind(Fixed{one});
    }
    if (name == "shortest_edge")
      return shortestEdge();
    if (name == "tiles")
      return tiles();
    if (name == "splits")
      return splits();
    if (name == "units")
      return units();
    return invalid(label + ": kind \"" + name +
                   "\" is none of fixed, shortest_edge, tiles, splits, units");
  }

  Result<Resampling> resampling() const {
    OMNIBAL_ASSIGN_OR_RETURN(const std::string name, text("resample"));
    const std::optional<ResampleFilter> filter = resampleFilterOf(name);
    if (!filter)
      return invalid(label + ": resample \"" + name +
                     "\" is none of box, bilinear, hamming, bicubic, lanczos");
    OMNIBAL_ASSIGN_OR_RETURN(const std::string order, text("order"));
    if (order != "rows" && order != "auto")
      return invalid(label + ": order \"" + order + "\" is neither rows nor auto");
    return Resampling{*filter, order == "auto" ? PassOrder::Auto : PassOrder::RowsFirst};
  }

  static constexpr int64_t mostSide = 8192, mostTiles = 1024;
};

Result<std::optional<PictureTransform>> PictureTransform::read(const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, readWholeFile(path));
  return parse(text, path);
}

Result<std::optional<PictureTransform>> PictureTransform::parse(const std::string &text,
                                                                const std::string &label) {
  OMNIBAL_ASSIGN_OR_RETURN(nlohmann::json root, parseJson(text, label));
  if (!root.is_object() || !root.contains("omnibal"))
    return std::optional<PictureTransform>();
  const nlohmann::json &own = root["omnibal"];
  if (!own.is_object() || !own.contains("original_pictures") ||
      !own["original_pictures"].is_object())
    return invalid(label + ": omnibal must be an object with original_pictures");
  const Reader reader{own["original_pictures"], label + ": omnibal.original_pictures"};
  OMNIBAL_ASSIGN_OR_RETURN(Kind kind, reader.kind());
  OMNIBAL_ASSIGN_OR_RETURN(const Resampling resampling, reader.resampling());
  return std::optional(PictureTransform(std::move(kind), resampling));
}

} // namespace omnibal::rt
