//===- WayPrice.cpp --------------------------------------------------------------------------===//
#include "passes/shard/search/WayPrice.h"
#include "dialects/omnibal/ir/Layouts.h"
#include "passes/differentiate/Autodiff.h"

using namespace mlir;

namespace omnibal::shard {
namespace {

class WayBuilder {
public:
  WayBuilder(Operation *op, const Way &way, const LayerBackward &backward,
             const MachineRates &rates)
      : op(op), way(way), backward(backward), rates(rates), builder(op->getContext()) {
    body.push_back(new Block);
    builder.setInsertionPointToEnd(&body.front());
  }

  FailureOr<BuiltWay> run() {
    if (failed(buildForward()))
      return failure();
    SmallVector<Operation *> ops;
    for (Operation &each : body.front())
      ops.push_back(&each);
    BuiltWay built;
    for (Operation *each : ops)
      built.work += rates.ofOp(each);
    built.readsOperand.assign(operands.size(), false);
    built.readsResult.assign(results.size(), false);
    if (failed(addBackward(ops, built)))
      return failure();
    return built;
  }

private:
  static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

  LogicalResult buildForward() {
    SmallVector<RankedTensorType> wholeOperands, wholeResults, types;
    for (auto [operand, layout] : llvm::zip_equal(op->getOperands(), way.reads)) {
      wholeOperands.push_back(typeOf(operand));
      operands.push_back(body.front().addArgument(
          partType(typeOf(operand), layout, rates.parts, rates.parts - 1), operand.getLoc()));
    }
    for (auto [result, layout] : llvm::zip_equal(op->getResults(), way.layouts)) {
      wholeResults.push_back(typeOf(result));
      types.push_back(partType(typeOf(result), layout, rates.parts, rates.parts - 1));
    }
    const PartOf part{rates.parts,   rates.parts - 1, way.reads, way.layouts,
                      wholeOperands, wholeResults,    types};
    auto divided = dyn_cast<FactorOpInterface>(op);
    return divided ? divided.buildPart(builder, part, operands, results)
                   : buildSameOp(builder, op, part, operands, results);
  }

  LogicalResult addBackward(ArrayRef<Operation *> ops, BuiltWay &built) {
    SmallVector<Value> arguments;
    for (auto [operand, copy] : llvm::zip_equal(op->getOperands(), operands))
      if (backward.active.contains(operand))
        arguments.push_back(copy);
    const auto active = findActiveValues(ops, arguments);
    SmallVector<std::pair<Value, Value>> seeds;
    for (auto [result, copy] : llvm::zip_equal(op->getResults(), results))
      if (backward.withGradient.contains(result) && active.contains(copy))
        seeds.push_back({copy, body.front().addArgument(copy.getType(), copy.getLoc())});
    auto gradients = buildGradients(builder, ops, seeds, active);
    if (failed(gradients))
      return failure();
    const llvm::DenseSet<Operation *> forward(ops.begin(), ops.end());
    Cost work = gradients->loss ? workOfLoss(*gradients, forward) : built.work;
    auto isRead = [&](Value value) {
      return llvm::any_of(value.getUsers(),
                          [&](Operation *user) { return !forward.contains(user); });
    };
    for (Operation &each : body.front())
      if (!forward.contains(&each))
        work += rates.ofOp(&each);
    built.work = work;
    for (auto [i, value] : llvm::enumerate(operands))
      built.readsOperand[i] = isRead(value);
    for (auto [i, value] : llvm::enumerate(results))
      built.readsResult[i] = isRead(value);
    return success();
  }

  /// Of a loss, what itself and its gradients need of forward: nothing where one op of backward
  /// gives both, and never what only predictions need.
  Cost workOfLoss(const Gradients &gradients, const llvm::DenseSet<Operation *> &forward) {
    SmallVector<Value> pending{gradients.loss};
    for (Operation &each : body.front())
      if (!forward.contains(&each))
        llvm::append_range(pending, each.getOperands());
    llvm::DenseSet<Operation *> counted;
    Cost work = 0;
    while (!pending.empty()) {
      Operation *each = pending.pop_back_val().getDefiningOp();
      if (!each || !forward.contains(each) || !counted.insert(each).second)
        continue;
      work += rates.ofOp(each);
      llvm::append_range(pending, each->getOperands());
    }
    return work;
  }

  Operation *op;
  const Way &way;
  const LayerBackward &backward;
  const MachineRates &rates;
  Region body;
  OpBuilder builder;
  SmallVector<Value> operands, results;
};

} // namespace

FailureOr<BuiltWay> buildWay(Operation *op, const Way &way, const LayerBackward &backward,
                             const MachineRates &rates) {
  return WayBuilder(op, way, backward, rates).run();
}

} // namespace omnibal::shard
