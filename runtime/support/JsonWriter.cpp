#include "runtime/support/JsonWriter.h"
#include <cstdio>
#include <nlohmann/json.hpp>

namespace omnibal::rt {

void JsonWriter::rawValue(std::string_view json) {
  separate();
  text += json;
}

void JsonWriter::open(char bracket) {
  separate();
  text += bracket;
  hasMembers.push_back(false);
}

void JsonWriter::close(char bracket) {
  bool filled = hasMembers.back();
  hasMembers.pop_back();
  if (filled)
    newLine();
  text += bracket;
}

void JsonWriter::name(std::string_view key) {
  separate();
  text += quoted(key) + (indent ? ": " : ":");
  named = true;
}

void JsonWriter::separate() {
  if (named || hasMembers.empty()) {
    named = false;
    return;
  }
  if (hasMembers.back())
    text += ',';
  hasMembers.back() = true;
  newLine();
}

void JsonWriter::newLine() {
  if (indent)
    text += '\n' + std::string(hasMembers.size() * static_cast<size_t>(indent), ' ');
}

std::string JsonWriter::quoted(std::string_view item) {
  using nlohmann::json;
  return json(item).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string JsonWriter::numberText(double item) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.17g", item);
  return digits;
}

} // namespace omnibal::rt
