//===- HostRun.h - Graphs with static shapes on the host backend -------------------------===//
#ifndef TEST_E2E_NODE_TESTS_HOSTRUN_H
#define TEST_E2E_NODE_TESTS_HOSTRUN_H

#include "dialects/omnibal/interpreter/HostTensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include <memory>
#include <string>
#include <vector>

namespace omnibal::test {

/// Lowers many small graphs, compiles their kernels into one library, runs them.
class HostRuns {
public:
  explicit HostRuns(mlir::MLIRContext &context);
  ~HostRuns();

  /// Specializes and lowers `main` of the module (which changes); returns the graph's number. Fails
  /// with diagnostics.
  mlir::FailureOr<size_t> add(mlir::ModuleOp module);
  /// After the last graph: compiles and loads the kernels. "" or what failed.
  std::string compile();
  /// "" or what failed. `results` have the shapes and types given.
  std::string run(size_t graph, const std::vector<HostTensor> &inputs,
                  std::vector<HostTensor> &results);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace omnibal::test
#endif // TEST_E2E_NODE_TESTS_HOSTRUN_H
