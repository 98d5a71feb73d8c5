//===- TextTable.h - Rows of text as columns ------------------------------------------------===//
#ifndef TOOLS_REPORT_TEXTTABLE_H
#define TOOLS_REPORT_TEXTTABLE_H

#include <algorithm>
#include <string>
#include <vector>

namespace omnibal::report {

enum class Align { Left, Right };

/// Columns two spaces apart, a line a row. The last column begins where the others end.
inline std::string textTable(const std::vector<std::vector<std::string>> &rows, Align align) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto &row : rows)
    for (size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto &row : rows) {
    for (size_t c = 0; c + 1 < row.size(); ++c) {
      std::string space(widths[c] - row[c].size(), ' ');
      text += (align == Align::Right ? space + row[c] : row[c] + space) + "  ";
    }
    text += row.back() + "\n";
  }
  return text;
}

} // namespace omnibal::report
#endif // TOOLS_REPORT_TEXTTABLE_H
