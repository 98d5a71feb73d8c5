//===- main.cpp - omnibal-compile
//------------------------------------------------------------------------------===//
#include "tools/omnibal-compile/CompileDriver.h"

int main(int argc, char **argv) {
  omnibal::compile::Options options;
  int exitCode = 0;
  if (!omnibal::compile::parseOptions(argc, argv, options, exitCode))
    return exitCode;
  return omnibal::compile::compileModel(options);
}
