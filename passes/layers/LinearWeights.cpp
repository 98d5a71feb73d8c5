#include "passes/layers/LinearWeights.h"

using namespace mlir;

namespace omnibal::layers {

Readers findReaders(const LayerGraph &graph) {
  Readers readers;
  for (LayerOp layer : graph.layers)
    for (unsigned i = 0, end = layer.getParameters().size(); i < end; ++i) {
      SmallVector<Operation *> &list = readers[graph.getParameter(layer, i)];
      llvm::append_range(
          list, layer.getBody().front().getArgument(layer.getInputs().size() + i).getUsers());
    }
  return readers;
}

bool areLinearsOf(ArrayRef<Operation *> readers, ParameterOp parameter) {
  auto first = dyn_cast_or_null<LinearOp>(readers.empty() ? nullptr : readers.front());
  return first && cast<RankedTensorType>(parameter.getType()).getRank() == 2 &&
         llvm::all_of(readers, [&](Operation *reader) {
           auto linear = dyn_cast<LinearOp>(reader);
           return linear && linear.getInOut() == first.getInOut() &&
                  linear.getBias() != linear.getWeight() && linear.getInput() != linear.getWeight();
         });
}

} // namespace omnibal::layers
