//===- PartsCheck.h - Parts in step against the layer as it is -------------------------------===//
#ifndef TEST_UNIT_PASSES_SHARD_PARTSCHECK_H
#define TEST_UNIT_PASSES_SHARD_PARTSCHECK_H

#include "dialects/omnibal/interpreter/PartsInterpreter.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include <random>
#include <string>

namespace omnibal::test {

/// Compares outputs and gradients of a layer's parts with those of the layer itself, in float64.
/// Gradients are those of a random sum of the outputs, or of the losses where the layer has them.
class PartsCheck {
public:
  /// `arguments` are the values of inputs and parameters. Sizes are those of a micro-batch of so
  /// many tiles and tokens.
  PartsCheck(LayerOp layer, llvm::ArrayRef<HostTensor> arguments, int64_t tiles, int64_t tokens);

  /// Values of the micro-batch, by name.
  llvm::StringMap<HostTensor> batchValues;

  /// Runs the layer as it is. Returns what is wrong, or nothing.
  std::string prepare();
  /// Runs `parts` parts of the layer under its layouts: with the micro-batch's sizes in their
  /// types, and, where something is split along tiles or tokens, with symbols. Returns what is
  /// wrong, or nothing.
  std::string run(int64_t parts);

  bool checksGradients = true;
  /// Elements that all parts sent in the last run.
  int64_t sent = 0;

private:
  using Microbatch = std::optional<std::pair<int64_t, int64_t>>;
  std::string runBodies(int64_t parts, const Microbatch &sizes);
  bool hasOpenShares();
  std::string addGradients(mlir::func::FuncOp function, llvm::SmallVectorImpl<bool> &present);
  std::string compare(const std::string &what, llvm::ArrayRef<HostTensor> held,
                      const HostTensor &wanted, LayoutAttr layout);
  std::vector<HostTensor> divide(const HostTensor &value, LayoutAttr layout, int64_t parts);
  llvm::SmallVector<LayoutAttr> argumentLayouts(), outputLayouts();
  bool isSeeded(mlir::Value output);

  LayerOp layer;
  llvm::SmallVector<HostTensor> arguments;
  InterpreterOptions options;
  llvm::SmallVector<HostTensor> seeds, wanted;
  llvm::SmallVector<bool> wantedGradients;
  std::mt19937 random{3};
};

} // namespace omnibal::test
#endif // TEST_UNIT_PASSES_SHARD_PARTSCHECK_H
