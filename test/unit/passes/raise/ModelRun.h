//===- ModelRun.h - Exported models through the passes and the interpreter ---------------===//
#ifndef TEST_UNIT_PASSES_RAISE_MODELRUN_H
#define TEST_UNIT_PASSES_RAISE_MODELRUN_H

#include "dialects/omnibal/interpreter/Interpreter.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/support/Safetensors.h"
#include <functional>

namespace omnibal::test {

/// One sample of forward.safetensors: inputs and PyTorch's logits.
struct Sample {
  HostTensor ids, attentionMask, pixels, logits;
  int64_t tokens = 0, tiles = 0;
};

/// A folder of test/data: graph, weights, samples.
class Model {
public:
  Model(const std::string &folder, const std::string &graph);

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<Sample> samples;

  mlir::func::FuncOp main();
  /// Runs passes on the module; false after a diagnostic.
  bool run(const std::function<void(mlir::OpPassManager &)> &addPasses);
  bool specialize();
  bool raise();
  bool formLayers();

  /// Largest |logit - PyTorch's logit| over all samples, in form S (graph inputs) or R and L.
  double worstOnInputs();
  /// `borders`: tokens at which further samples of a packed row start.
  double worstOnBatchValues(llvm::ArrayRef<int64_t> borders = {});

private:
  double
  worst(const std::function<llvm::FailureOr<HostTensor>(Interpreter &, const Sample &)> &run);
  void readSamples(const std::string &path);
  void readParameters();

  std::string folder;
  llvm::StringMap<HostTensor> parameters;
};

/// Batch values of a row that starts anew at each of `borders`.
void bindBatchValues(Interpreter &interpreter, const Sample &sample, int64_t imageToken,
                     int64_t tokensPerTile, llvm::ArrayRef<int64_t> borders);

} // namespace omnibal::test
#endif // TEST_UNIT_PASSES_RAISE_MODELRUN_H
