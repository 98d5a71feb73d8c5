#include "tools/config/NearestName.h"
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

namespace omnibal::config {
namespace {

std::string simplified(std::string_view name) {
  std::string text;
  for (unsigned char letter : name)
    text += letter == '_' ? '-' : static_cast<char>(std::tolower(letter));
  return text;
}

/// Of the texts' first i and j letters in row i, column j; three rows are enough.
size_t distance(const std::string &a, const std::string &b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, row);
  }
  return last[b.size()];
}

} // namespace

std::string nearestName(std::string_view name, const std::vector<std::string> &names) {
  const std::string wanted = simplified(name);
  std::string nearest;
  size_t least = SIZE_MAX;
  for (const std::string &known : names)
    if (const size_t differs = distance(wanted, simplified(known)); differs < least) {
      least = differs;
      nearest = known;
    }
  return nearest;
}

} // namespace omnibal::config
