//===- Progress.h - Phases on a terminal -------------------------------------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_PROGRESS_H
#define TOOLS_OMNIBAL_COMPILE_PROGRESS_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include <chrono>
#include <cstdio>
#include <string>
#include <unistd.h>

namespace omnibal::compile {

/// Shows a phase on stderr while it runs, with its time at the end; silent unless stderr is a
/// terminal.
class Progress {
public:
  explicit Progress(std::string phase) : phase(std::move(phase)), shown(isatty(2)) {
    if (shown)
      std::fprintf(stderr, "%s ...", this->phase.c_str());
  }
  ~Progress() {
    if (!shown)
      return;
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::fprintf(stderr, "\r%s: %.1f s\n", phase.c_str(), seconds);
  }
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

private:
  std::string phase;
  bool shown;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

/// Shows the phases of the pipeline: each begins with a pass that begins nothing else.
class PhaseProgress : public mlir::PassInstrumentation {
public:
  void runBeforePass(mlir::Pass *pass, mlir::Operation *) override {
    static constexpr std::pair<llvm::StringLiteral, const char *> phases[] = {
        {"omnibal-specialize", "finding layers"},
        {"omnibal-attach-cluster", "planning and lowering"},
        {"omnibal-export-program", "compiling and writing"}};
    for (const auto &[first, name] : phases)
      if (pass->getArgument() == first) {
        phase.reset(); // its line ends before the next begins
        phase.emplace(name);
      }
  }

private:
  std::optional<Progress> phase;
};

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_PROGRESS_H
