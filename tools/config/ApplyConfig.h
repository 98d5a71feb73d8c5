//===- ApplyConfig.h - From a file of options to a tool's options ----------------------------===//
//
// A file without tables is for one tool. In a file with tables each tool takes the table of its
// name, and of what stands before the tables the keys that it has; these are keys that mean the
// same to several tools. A key is an option's long name or its letter. Values may have any type
// that the option reads as the same word on a command line.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef TOOLS_CONFIG_APPLYCONFIG_H
#define TOOLS_CONFIG_APPLYCONFIG_H

#include "tools/config/ConfigReader.h"
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace omnibal::config {

/// The tables that a file may have.
const std::vector<std::string> &toolTables();
/// What may stand before them.
const std::vector<std::string> &sharedKeys();

/// The tool's table: "run" of "omnibal-run".
std::string tableOf(const CLI::App &app);

/// What an option takes, told by the names that CLI11 gives to types.
enum class OptionKind { Flag, Whole, Bytes, Real, Text };
OptionKind kindOf(const CLI::Option &option);
/// Whether it takes several values.
bool takesSeveral(const CLI::Option &option);

/// Gives the options their values of the file, but for those that the command line has, and those
/// that exclude what it has. Call it from the first option's callback, once the command line has
/// been read and before other options take their values. Throws CLI::FileError that names file,
/// line and key.
void applyConfig(CLI::App &app, const ConfigFile &file);

} // namespace omnibal::config
#endif // TOOLS_CONFIG_APPLYCONFIG_H
