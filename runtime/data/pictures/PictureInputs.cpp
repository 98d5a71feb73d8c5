#include "runtime/data/pictures/PictureInputs.h"
#include <algorithm>
#include <cmath>

namespace omnibal::rt {
namespace {

/// f(row, column) for every patch of a picture: unit after unit, within a unit row by row.
template <typename F> void eachPatch(const PictureUnits &picture, int64_t merge, F f) {
  for (int64_t unitRow = 0; unitRow < picture.rows; ++unitRow)
    for (int64_t unitColumn = 0; unitColumn < picture.columns; ++unitColumn)
      for (int64_t r = 0; r < merge; ++r)
        for (int64_t c = 0; c < merge; ++c)
          f(unitRow * merge + r, unitColumn * merge + c);
}

std::vector<int32_t> patchPositions(std::span<const PictureUnits> pictures, int64_t merge) {
  std::vector<int32_t> out;
  for (const PictureUnits &picture : pictures)
    eachPatch(picture, merge, [&](int64_t row, int64_t column) {
      out.push_back(static_cast<int32_t>(row));
      out.push_back(static_cast<int32_t>(column));
    });
  return out;
}

/// Borders, in patches, of consecutive pieces of so many units; the last one fills the list.
std::vector<int32_t> bordersOf(const std::vector<int64_t> &pieces, const PictureGrid &grid) {
  std::vector<int32_t> borders{0};
  int64_t units = 0;
  for (int64_t piece : pieces) {
    units += piece;
    borders.push_back(static_cast<int32_t>(units * grid.patchesPerUnit()));
  }
  borders.resize(static_cast<size_t>(units) + 1, borders.back());
  return borders;
}

/// Units in the order of windows, and how many each window has.
struct Windows {
  std::vector<int32_t> order;
  std::vector<int64_t> sizes;
};

void appendWindows(const PictureUnits &picture, int64_t side, Windows &out) {
  const int64_t first = static_cast<int64_t>(out.order.size());
  for (int64_t top = 0; top < picture.rows; top += side)
    for (int64_t left = 0; left < picture.columns; left += side) {
      const int64_t bottom = std::min(top + side, picture.rows),
                    right = std::min(left + side, picture.columns);
      for (int64_t row = top; row < bottom; ++row)
        for (int64_t column = left; column < right; ++column)
          out.order.push_back(static_cast<int32_t>(first + row * picture.columns + column));
      out.sizes.push_back((bottom - top) * (right - left));
    }
}

std::vector<int32_t> inverseOf(const std::vector<int32_t> &order) {
  std::vector<int32_t> inverse(order.size());
  for (size_t place = 0; place < order.size(); ++place)
    inverse[size_t(order[place])] = static_cast<int32_t>(place);
  return inverse;
}

/// An entry of a table's axis near a patch, and its weight.
struct Tap {
  int64_t at;
  float weight;
};

/// Where patch i of `size` lies on the table's axis, in entries. Here and below the operations and
/// their order are Transformers': another order gives other bits.
float placeOnTable(int64_t i, int64_t size, const PictureGrid &grid) {
  const float at = static_cast<float>(i);
  if (grid.alignCorners)
    return at * static_cast<float>(grid.gridSide - 1) /
           static_cast<float>(std::max<int64_t>(size - 1, 1));
  return (at + 0.5f) * static_cast<float>(grid.gridSide) / static_cast<float>(size) - 0.5f;
}

float weightAt(float distance, Interpolation interpolation) {
  if (interpolation == Interpolation::Bilinear)
    return std::max(1.0f - distance, 0.0f);
  constexpr float a = -0.75f;
  if (distance <= 1.0f)
    return ((a + 2) * distance - (a + 3)) * distance * distance + 1;
  return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a;
}

/// For each of `size` patches the entries of the table's axis that it is made of.
std::vector<std::vector<Tap>> axisTaps(int64_t size, const PictureGrid &grid) {
  const int64_t count = grid.tapsPerAxis(), first = 1 - count / 2;
  std::vector<std::vector<Tap>> taps(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const float source = placeOnTable(i, size, grid), floor = std::floor(source);
    for (int64_t k = first; k < first + count; ++k) {
      const int64_t at = static_cast<int64_t>(floor) + k;
      taps[size_t(i)].push_back(
          {std::clamp<int64_t>(at, 0, grid.gridSide - 1),
           weightAt(std::fabs(source - floor - static_cast<float>(k)), grid.interpolation)});
    }
  }
  return taps;
}

void appendInterpolation(const PictureUnits &picture, const PictureGrid &grid,
                         std::vector<int32_t> &indices, std::vector<float> &weights) {
  const auto rows = axisTaps(picture.rows * grid.merge, grid),
             columns = axisTaps(picture.columns * grid.merge, grid);
  eachPatch(picture, grid.merge, [&](int64_t row, int64_t column) {
    for (const Tap &r : rows[size_t(row)])
      for (const Tap &c : columns[size_t(column)]) {
        indices.push_back(static_cast<int32_t>(r.at * grid.gridSide + c.at));
        weights.push_back(r.weight * c.weight);
      }
  });
}

} // namespace

PictureInputs pictureInputs(std::span<const PictureUnits> pictures, const PictureGrid &grid) {
  PictureInputs out;
  out.integers["image_position_ids"] = patchPositions(pictures, grid.merge);
  std::vector<int64_t> segments;
  for (const PictureUnits &picture : pictures)
    segments.push_back(picture.count());
  out.integers["image_segment_cu_seqlens"] = bordersOf(segments, grid);
  if (grid.window > 0) {
    Windows windows;
    for (const PictureUnits &picture : pictures)
      appendWindows(picture, grid.windowUnits(), windows);
    out.integers["image_window_cu_seqlens"] = bordersOf(windows.sizes, grid);
    out.integers["image_window_inverse"] = inverseOf(windows.order);
    out.integers["image_window_index"] = std::move(windows.order);
  }
  if (grid.gridSide > 0) {
    std::vector<int32_t> &indices = out.integers["image_interp_indices"];
    for (const PictureUnits &picture : pictures)
      appendInterpolation(picture, grid, indices, out.interpWeights);
  }
  return out;
}

void appendPositions(std::span<const int32_t> inputIds, int64_t imageTokenId,
                     std::span<const PictureUnits> pictures, TokenPositions &out) {
  auto append = [&](int64_t time, int64_t row, int64_t column) {
    out[0].push_back(static_cast<int32_t>(time));
    out[1].push_back(static_cast<int32_t>(row));
    out[2].push_back(static_cast<int32_t>(column));
  };
  int64_t position = 0;
  for (size_t t = 0; t < inputIds.size();) {
    if (imageTokenId < 0 || inputIds[t] != imageTokenId || pictures.empty()) {
      append(position, position, position);
      ++position;
      ++t;
      continue;
    }
    const PictureUnits &picture = pictures.front();
    for (int64_t row = 0; row < picture.rows; ++row)
      for (int64_t column = 0; column < picture.columns; ++column)
        append(position, position + row, position + column);
    position += std::max(picture.rows, picture.columns);
    t += static_cast<size_t>(picture.count());
    pictures = pictures.subspan(1);
  }
}

} // namespace omnibal::rt
