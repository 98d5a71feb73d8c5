//===- main.cpp - omnibal-compile --------------------------------------------------------===//
#include "tools/omnibal-compile/CompileDriver.h"
#include <csignal>

#ifdef OMNIBAL_INCLUDE_TESTS
namespace omnibal::test {
void registerGpuEmulation(); // test/lib: no product source includes it
}
#endif

int main(int argc, char **argv) {
#ifdef OMNIBAL_INCLUDE_TESTS
  omnibal::test::registerGpuEmulation();
#endif
  omnibal::compile::Options options;
  int exitCode = 0;
  if (!omnibal::compile::parseOptions(argc, argv, options, exitCode))
    return exitCode;
  // Past `ulimit -f` writing fails with an error that says so, instead of killing the process.
  std::signal(SIGXFSZ, SIG_IGN);
  return omnibal::compile::compileModel(options);
}
