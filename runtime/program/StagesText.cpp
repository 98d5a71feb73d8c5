#include "runtime/program/StagesText.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

constexpr std::string_view blanks = " \t\r\n";

size_t skipBlanks(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(blanks, at), text.size());
}

/// The place behind the string that begins at `at`.
size_t skipString(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\')
      ++at;
  return std::min(at + 1, text.size());
}

/// The place behind the value that begins at `at`.
size_t skipValue(std::string_view text, size_t at) {
  size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skipString(text, at);
    } else if (c == '[' || c == '{') {
      ++depth;
      ++at;
    } else if (c == ']' || c == '}') {
      if (depth == 0) // of what holds the value
        return at;
      --depth;
      ++at;
    } else if (c == ',' && depth == 0) {
      return at;
    } else {
      ++at;
      continue;
    }
    if (depth == 0)
      return at;
  }
  return at;
}

} // namespace

std::optional<std::vector<std::string_view>> elementsOfArray(std::string_view array) {
  size_t at = skipBlanks(array, 0);
  if (at == array.size() || array[at] != '[')
    return std::nullopt;
  std::vector<std::string_view> elements;
  at = skipBlanks(array, at + 1);
  if (at < array.size() && array[at] == ']')
    return skipBlanks(array, at + 1) == array.size() ? std::optional(elements) : std::nullopt;
  for (;;) {
    const size_t end = skipValue(array, at);
    elements.push_back(array.substr(at, end - at));
    at = skipBlanks(array, end);
    if (at == array.size())
      return std::nullopt;
    if (array[at] == ']')
      return skipBlanks(array, at + 1) == array.size() ? std::optional(elements) : std::nullopt;
    if (array[at] != ',')
      return std::nullopt;
    at = skipBlanks(array, at + 1);
  }
}

std::string withoutMembers(std::string_view text, std::initializer_list<std::string_view> names) {
  std::string result;
  size_t copied = 0;
  for (size_t at = text.find('"'); at < text.size(); at = text.find('"', at)) {
    const size_t end = skipString(text, at), colon = skipBlanks(text, end);
    const std::string_view name = text.substr(at + 1, std::max(end, at + 2) - at - 2);
    at = end;
    if (colon == text.size() || text[colon] != ':' ||
        std::find(names.begin(), names.end(), name) == names.end())
      continue;
    result.append(text.substr(copied, colon + 1 - copied)).append("[]");
    at = copied = skipValue(text, skipBlanks(text, colon + 1));
  }
  return result.append(text.substr(copied));
}

} // namespace omnibal::rt
