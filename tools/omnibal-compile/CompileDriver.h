//===- CompileDriver.h - From a model file to a program directory ------------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_COMPILEDRIVER_H
#define TOOLS_OMNIBAL_COMPILE_COMPILEDRIVER_H

#include "tools/omnibal-compile/Options.h"

namespace omnibal::compile {

/// Runs all phases; errors go to stderr. Returns the exit status (0 done, 1 failed).
int compileModel(const Options &options);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_COMPILEDRIVER_H
