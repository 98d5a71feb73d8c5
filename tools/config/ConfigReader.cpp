#include "tools/config/ConfigReader.h"
#include "runtime/support/AtomicFile.h"
#include <algorithm>
#include <charconv>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ENABLE_WINDOWS_COMPAT 0
#include <toml++/toml.h>

namespace omnibal::config {
namespace {

using Kind = ConfigValue::Kind;

int64_t lineOf(const toml::node &node) { return node.source().begin.line; }

/// The shortest text that is read back as the same number, and is none of a whole one.
std::string realText(double value) {
  char digits[64];
  std::string text(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

ConfigValue valueOf(const toml::node &node) {
  if (const auto *text = node.as_string())
    return {Kind::Text, text->get(), "the text \"" + text->get() + "\""};
  if (const auto *whole = node.as_integer())
    return {Kind::Whole, std::to_string(whole->get()), std::to_string(whole->get())};
  if (const auto *real = node.as_floating_point())
    return {Kind::Real, realText(real->get()), realText(real->get())};
  if (const auto *truth = node.as_boolean()) {
    const std::string word = truth->get() ? "true" : "false";
    return {Kind::Truth, word, word};
  }
  return {Kind::Other, "",
          node.is_array()   ? "a list"
          : node.is_table() ? "a table"
                            : "a date or time"};
}

ConfigEntry entryOf(const toml::key &key, const toml::node &node) {
  ConfigEntry entry{std::string(key.str()), key.source().begin.line, node.is_array(), {}};
  if (const toml::array *list = node.as_array())
    for (const toml::node &value : *list)
      entry.values.push_back(valueOf(value));
  else
    entry.values.push_back(valueOf(node));
  return entry;
}

template <typename T> void sortByLine(std::vector<T> &list) {
  std::sort(list.begin(), list.end(), [](const T &a, const T &b) { return a.line < b.line; });
}

} // namespace

rt::Result<ConfigFile> readConfig(const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(const std::string text, rt::readWholeFile(path));
  ConfigFile file;
  file.path = path;
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed)
    return rt::invalid(file.at(parsed.error().source().begin.line) + ": " +
                       std::string(parsed.error().description()));
  for (const auto &[key, node] : parsed.table()) {
    if (node.is_array_of_tables())
      return rt::invalid(file.at(lineOf(node)) + ": [[" + std::string(key.str()) +
                         "]] is a list of tables; each tool has one table, [" +
                         std::string(key.str()) + "]");
    const toml::table *table = node.as_table();
    if (!table) {
      file.top.entries.push_back(entryOf(key, node));
      continue;
    }
    ConfigTable &own = file.tables.emplace_back(ConfigTable{std::string(key.str()), 0, {}});
    own.line = key.source().begin.line;
    for (const auto &[inner, value] : *table)
      own.entries.push_back(entryOf(inner, value));
    sortByLine(own.entries);
  }
  sortByLine(file.top.entries);
  sortByLine(file.tables);
  return file;
}

} // namespace omnibal::config
