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
  const auto found = llvm::find_if(readers, llvm::IsaPred<LinearOp>);
  auto first = found == readers.end() ? LinearOp() : cast<LinearOp>(*found);
  return first && cast<RankedTensorType>(parameter.getType()).getRank() == 2 &&
         llvm::all_of(readers, [&](Operation *reader) {
           if (isa<RowSquaresOp>(reader))
             return true;
           auto linear = dyn_cast<LinearOp>(reader);
           return linear && linear.getInOut() == first.getInOut() &&
                  linear.getBias() != linear.getWeight() && linear.getInput() != linear.getWeight();
         });
}

} // namespace omnibal::layers
