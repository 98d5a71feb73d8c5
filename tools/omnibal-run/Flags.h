//===- Flags.h - The flags of omnibal-run, as --help lists them ------------------------------===//
#ifndef TOOLS_OMNIBAL_RUN_FLAGS_H
#define TOOLS_OMNIBAL_RUN_FLAGS_H

#include "runtime/training/session/RunOptions.h"
#include <CLI/CLI.hpp>

namespace omnibal::rt {

/// Adds them to `app`; what is parsed goes to `options`, which must live as long.
void describeFlags(CLI::App &app, RunOptions &options);

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_RUN_FLAGS_H
