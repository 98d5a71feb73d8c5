#include "runtime/support/TextLines.h"
#include "runtime/support/AtomicFile.h"
#include <algorithm>

namespace omnibal::rt {

Result<std::vector<TextLine>> readTextLines(const std::string &path, const std::string &record) {
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, readWholeFile(path));
  std::vector<TextLine> lines;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    ++number;
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") != line.npos)
      lines.push_back({std::move(line), path + ":" + std::to_string(number)});
  }
  if (lines.empty())
    return invalid(path + ": no line holds " + record);
  return lines;
}

} // namespace omnibal::rt
