//===- ConfigReader.h - A file of options, as it stands there --------------------------------===//
#ifndef TOOLS_CONFIG_CONFIGREADER_H
#define TOOLS_CONFIG_CONFIGREADER_H

#include "runtime/support/Status.h"
#include <cstdint>
#include <string>
#include <vector>

namespace omnibal::config {

struct ConfigValue {
  enum class Kind { Text, Whole, Real, Truth, Other };
  Kind kind = Kind::Other;
  std::string text; ///< as a command line has it; a real number is read back as the same one
  std::string seen; ///< for messages: `the text "abc"`, `1.5`, `a date`
};

struct ConfigEntry {
  std::string key;
  int64_t line = 0; ///< of the file, from 1
  bool isList = false;
  std::vector<ConfigValue> values; ///< one, unless it is a list
};

struct ConfigTable {
  std::string name; ///< empty: what stands before the first table
  int64_t line = 0;
  std::vector<ConfigEntry> entries; ///< as their lines are
};

struct ConfigFile {
  std::string path;
  ConfigTable top;
  std::vector<ConfigTable> tables; ///< as their lines are

  /// "omnibal.toml:3", for messages.
  std::string at(int64_t line) const { return path + ":" + std::to_string(line); }
};

/// Reads a TOML file. An error names the file and, where it is about its contents, the line.
rt::Result<ConfigFile> readConfig(const std::string &path);

} // namespace omnibal::config
#endif // TOOLS_CONFIG_CONFIGREADER_H
