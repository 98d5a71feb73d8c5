//===- Shell.h - Programs as users call them -------------------------------------------------===//
#ifndef TEST_SUPPORT_SHELL_H
#define TEST_SUPPORT_SHELL_H

#include <cstdio>
#include <string>
#include <sys/wait.h>

namespace omnibal::test {

struct Outcome {
  int code = 0;
  std::string output; ///< both streams
};

inline Outcome shell(const std::string &command) {
  Outcome outcome;
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (fgets(buffer, sizeof buffer, pipe))
    outcome.output += buffer;
  int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

} // namespace omnibal::test
#endif // TEST_SUPPORT_SHELL_H
