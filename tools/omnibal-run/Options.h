//===- Options.h - The command line of omnibal-run ---------------------------------------===//
#ifndef TOOLS_OMNIBAL_RUN_OPTIONS_H
#define TOOLS_OMNIBAL_RUN_OPTIONS_H

#include "runtime/training/session/RunOptions.h"

namespace omnibal::rt {

/// Fills `options`. Returns true to go on; otherwise `exitCode` is final (help, version, usage).
bool parseCommandLine(int argc, char **argv, RunOptions &options, int &exitCode);

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_RUN_OPTIONS_H
