//===- FormC.h - Runs a module in form C through the interpreter -------------------------===//
#ifndef TEST_UNIT_PASSES_DIFFERENTIATE_FORMC_H
#define TEST_UNIT_PASSES_DIFFERENTIATE_FORMC_H

#include "dialects/omnibal/interpreter/Interpreter.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/BuiltinOps.h"
#include <map>

namespace omnibal::test {

struct StepResult {
  HostTensor loss;                             ///< per token
  std::map<std::string, HostTensor> gradients; ///< by parameter; of the sum of token losses
};

struct Evaluation {
  HostTensor loss, prediction;
};

/// What the runtime does with form C, in the plainest way: forward of all calls in order, backward
/// of all in reverse, gradients added up.
class FormC {
public:
  FormC(mlir::ModuleOp module, Interpreter &interpreter)
      : module(module), interpreter(interpreter) {}

  /// Where layers have the halves of their backward, also checks that these give the same.
  StepResult train();
  int weightGrads = 0; ///< second halves that have been checked
  Evaluation evaluate();
  /// @main's first result.
  HostTensor inference();

private:
  using Key = std::pair<std::string, int64_t>;
  /// Runs a function on actuals by role and index; results likewise. Aborts the test if an actual
  /// is missing or the interpreter fails.
  std::map<Key, HostTensor> run(mlir::FlatSymbolRefAttr name,
                                const std::map<Key, HostTensor> &actuals);
  void checkHalves(LayerFnOp layer, std::map<Key, HostTensor> given,
                   const std::map<Key, HostTensor> &whole);
  std::vector<CallLayerOp> calls();
  /// Inputs and parameters of a call.
  std::map<Key, HostTensor> actuals(CallLayerOp call);

  mlir::ModuleOp module;
  Interpreter &interpreter;
  llvm::DenseMap<mlir::Value, HostTensor> values;
};

} // namespace omnibal::test
#endif // TEST_UNIT_PASSES_DIFFERENTIATE_FORMC_H
