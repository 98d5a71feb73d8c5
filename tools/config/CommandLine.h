//===- CommandLine.h - What the command lines of all tools have in common --------------------===//
#ifndef TOOLS_CONFIG_COMMANDLINE_H
#define TOOLS_CONFIG_COMMANDLINE_H

#include <CLI/CLI.hpp>
#include <string>

namespace omnibal::config {

/// Adds --config and --print-config, which must come before the tool's other options: they take
/// their values when the file has been read. The app's name is the tool's ("omnibal-run").
void addConfigOptions(CLI::App &app);

/// Reads the command line and the file of --config. Returns true to go on; otherwise `exitCode` is
/// final: 0 after --help, --version or --print-config, which it prints, 2 for wrong usage.
bool parseCommandLine(CLI::App &app, int argc, char **argv, int &exitCode);

/// Says on stderr what is wrong with the command line; returns false, and 2 as the exit code.
bool refuse(const CLI::App &app, const std::string &problem, int &exitCode);

} // namespace omnibal::config
#endif // TOOLS_CONFIG_COMMANDLINE_H
