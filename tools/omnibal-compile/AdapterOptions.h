//===- AdapterOptions.h - Low-rank adapters on the command line -------------------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_ADAPTEROPTIONS_H
#define TOOLS_OMNIBAL_COMPILE_ADAPTEROPTIONS_H

#include "tools/omnibal-compile/Options.h"
#include <CLI/CLI.hpp>

namespace omnibal::compile {

void addAdapterOptions(CLI::App &app, Options &options);

/// What is wrong with them together with others; empty: nothing.
std::string checkAdapterOptions(const CLI::App &app, const Options &options);
/// Returns the same about --quantize-frozen.
std::string checkQuantizeOptions(const CLI::App &app, const Options &options);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_ADAPTEROPTIONS_H
