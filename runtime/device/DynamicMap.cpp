#include "runtime/device/DynamicMap.h"
#include <algorithm>
#include <cmath>
#include <vector>

namespace omnibal::rt {
namespace {

/// Powers of ten, from 1 down to 1e-6.
constexpr int powers = 7;

/// The middles of the cells of all powers; the smallest power has `cells`, and each larger one
/// twice as many.
std::vector<double> magnitudes(int cells) {
  std::vector<double> list;
  for (int power = powers - 1; power >= 0; --power, cells *= 2)
    for (int cell = 0; cell < cells; ++cell)
      list.push_back(std::pow(10.0, -power) * (0.1 + 0.9 * (cell + 0.5) / cells));
  return list;
}

/// Zero and one are values of every map.
DynamicMap makeMap(int cells, bool isSigned) {
  std::vector<double> all = {0, 1};
  for (double magnitude : magnitudes(cells)) {
    all.push_back(magnitude);
    if (isSigned)
      all.push_back(-magnitude);
  }
  std::sort(all.begin(), all.end());
  DynamicMap map = {};
  for (size_t code = 0; code < map.values.size(); ++code)
    map.values[code] = static_cast<float>(all[code]);
  for (size_t code = 0; code < map.borders.size(); ++code) {
    const double middle = (double{map.values[code]} + double{map.values[code + 1]}) / 2;
    auto border = static_cast<float>(middle);
    if (double{border} > middle)
      border = std::nextafter(border, -2.0F);
    map.borders[code] = border;
  }
  return map;
}

} // namespace

const DynamicMap &signedMap() {
  static const DynamicMap map = makeMap(1, true);
  return map;
}

const DynamicMap &unsignedMap() {
  static const DynamicMap map = makeMap(2, false);
  return map;
}

} // namespace omnibal::rt
