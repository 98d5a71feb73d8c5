//===- LoweredRun.h - Runs a lowered function on the host and beside it the interpreter --===//
#ifndef TEST_UNIT_PASSES_LOWER_LOWEREDRUN_H
#define TEST_UNIT_PASSES_LOWER_LOWEREDRUN_H

#include "dialects/omnibal/interpreter/Interpreter.h"
#include "passes/lower/Lowering.h"
#include <gtest/gtest.h>

namespace omnibal::test {

/// A module of functions in form C, lowered and compiled.
class LoweredModule {
public:
  /// `caps`: V and N that the temporaries must hold. The generated code of target cuda runs on the
  /// emulated device.
  LoweredModule(const std::string &text, int64_t tilesCap, int64_t tokensCap,
                const std::string &target = "host", const std::string &compute = "float32");
  /// A module in form L, made into functions first (`remat`: "keep" or "full").
  static LoweredModule fromLayers(const std::string &file, const std::string &remat,
                                  int64_t tilesCap, int64_t tokensCap,
                                  const std::string &target = "host",
                                  const std::string &compute = "float32");
  LoweredModule(LoweredModule &&) = default;
  ~LoweredModule();

  std::vector<std::string> functions() const;
  const rt::Function &function(const std::string &name) const;
  const std::string &library() const { return libraryBytes; }
  /// Of target cuda.
  const std::string &ptx() const { return ptxText; }
  /// Number of calls of one kernel in a function.
  int count(const std::string &name, const std::string &kernel) const;

  /// Runs `name` on random inputs in float64 by the interpreter and in float32 by its calls, on
  /// `threads` threads; expects results to agree: |difference| <= tolerance * (1 + |expected|).
  /// Temporaries and results start as NaN, gradients as random numbers that are added to.
  void check(const std::string &name, int64_t tiles, int64_t tokens, double tolerance = 2e-5,
             int threads = 2, unsigned seed = 1);
  /// The bytes of all results of a run, for comparisons between runs.
  std::string results(const std::string &name, int64_t tiles, int64_t tokens, int threads);

private:
  LoweredModule();
  /// Lowers every function that has roles; throws if something fails.
  void lower(int64_t tilesCap, int64_t tokensCap, const std::string &target,
             const std::string &compute);
  struct State;
  std::unique_ptr<State> state;
  std::string libraryBytes, ptxText;
};

/// "" or what ptxas says of the text, for compute capability 8.0, 9.0 and 10.0; "" with a notice
/// where there is no ptxas.
std::string assemblePtx(const std::string &text);

} // namespace omnibal::test
#endif // TEST_UNIT_PASSES_LOWER_LOWEREDRUN_H
