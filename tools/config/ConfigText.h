//===- ConfigText.h - A tool's options as a file of them -------------------------------------===//
#ifndef TOOLS_CONFIG_CONFIGTEXT_H
#define TOOLS_CONFIG_CONFIGTEXT_H

#include <CLI/CLI.hpp>
#include <string>

namespace omnibal::config {

/// The options that a command line and its file have set, as the tool's table of a file that sets
/// the same; what has its default stands there as a comment.
std::string configText(const CLI::App &app);

} // namespace omnibal::config
#endif // TOOLS_CONFIG_CONFIGTEXT_H
