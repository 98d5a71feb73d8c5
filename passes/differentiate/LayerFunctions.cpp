//===- LayerFunctions.cpp - The functions of one distinct layer --------------------------===//
//
// A scratch function holds the layer's ops and behind them the gradient ops. From it, forward is
// the first part with the values that are kept as further results; backward is the second part, in
// front of each of whose ops what it reads of the first part is computed again or is an argument.
// The halves of backward are parts of it (BackwardSplit.h).
//
//===-------------------------------------------------------------------------------------------===//
#include "passes/differentiate/LayerFunctions.h"
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "dialects/omnibal/ir/RouterLoss.h"
#include "dialects/omnibal/rules/BFloat16Values.h"
#include "mlir/IR/IRMapping.h"
#include "passes/differentiate/Autodiff.h"
#include "passes/differentiate/BackwardSplit.h"
#include "passes/differentiate/SavedValues.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace omnibal;

namespace {
/// A formal of a function: its role and index (docs/contract-compiler.md) and what stands for it.
struct Formal {
  StringRef role;
  int64_t index;
  Value value;
};

void eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

class FunctionBuilder {
public:
  FunctionBuilder(LayerOp layer, const LayerSignature &signature)
      : layer(layer), signature(signature), builder(layer.getContext()),
        body(layer.getBody().front()) {}

  FailureOr<LayerFunctions> run() {
    LayerFunctions functions;
    functions.inputGradient.assign(layer.getInputs().size(), false);
    functions.parameterGradient.assign(layer.getParameters().size(), false);
    if (trainsAnything()) {
      if (failed(buildScratch()))
        return failure();
      markGradients(functions);
    }
    if (failed(gradients.empty() ? checkRemat({"keep", "full"}) : selectSaved()))
      return failure();
    findFloat32();
    functions.rematOptions = rematOptions;
    functions.forward = buildForward();
    functions.evaluate = buildClone(/*withLoss=*/true, /*allOutputs=*/false);
    functions.inference = buildClone(/*withLoss=*/false, /*allOutputs=*/true);
    if (!gradients.empty())
      functions.backward = buildBackward(gradients, kept);
    if (!gradients.empty() && signature.splitBackward && failed(buildHalves(functions)))
      return failure();
    return functions;
  }

private:
  unsigned inputCount() { return layer.getInputs().size(); }

  bool trainsAnything() {
    return llvm::is_contained(signature.inputActive, true) ||
           llvm::is_contained(signature.trains, true);
  }

  /// Inputs, then parameters: the arguments of the body and of every function but backward.
  SmallVector<Formal> bodyFormals(ArrayRef<BlockArgument> arguments) {
    SmallVector<Formal> formals;
    for (BlockArgument argument : arguments) {
      int64_t number = argument.getArgNumber(), inputs = inputCount();
      formals.push_back(number < inputs ? Formal{"input", number, argument}
                                        : Formal{"parameter", number - inputs, argument});
    }
    return formals;
  }

  /// Clones the body's ops into the function at the insertion point.
  IRMapping cloneBody(func::FuncOp function) {
    IRMapping mapping;
    for (auto [from, to] : llvm::zip(body.getArguments(), function.getArguments()))
      mapping.map(from, to);
    for (Operation &op : body.without_terminator())
      builder.clone(op, mapping);
    return mapping;
  }

  //--- Functions and their formals
  //-----------------------------------------------------------------------------------------------

  /// Whether what stands for the formal stays in float32.
  bool isInFloat32(const Formal &formal) {
    if (formal.role == "input" || formal.role == "grad_input")
      return signature.inputInFloat32[formal.index];
    if (formal.role == "output" || formal.role == "grad_output")
      return signature.outputInFloat32[formal.index];
    return (formal.role == "saved" && savedInFloat32[formal.index]) ||
           (formal.role == "held" && heldInFloat32[formal.index]);
  }

  DictionaryAttr getRoleAttr(const Formal &formal) {
    SmallVector<NamedAttribute> attributes{
        builder.getNamedAttr("omnibal.index", builder.getI64IntegerAttr(formal.index)),
        builder.getNamedAttr("omnibal.role", builder.getStringAttr(formal.role))};
    if (isInFloat32(formal))
      attributes.push_back(builder.getNamedAttr(float32AttrName, builder.getUnitAttr()));
    return builder.getDictionaryAttr(attributes);
  }

  /// A detached function with these formals as arguments and an empty body.
  OwningOpRef<func::FuncOp> createFunction(ArrayRef<Formal> arguments) {
    SmallVector<Type> types;
    SmallVector<DictionaryAttr> attributes;
    for (const Formal &formal : arguments) {
      types.push_back(formal.value.getType());
      attributes.push_back(getRoleAttr(formal));
    }
    auto function =
        func::FuncOp::create(layer.getLoc(), "unnamed", builder.getFunctionType(types, {}));
    function.setAllArgAttrs(attributes);
    Block *entry = function.addEntryBlock();
    for (auto [argument, formal] : llvm::zip_equal(entry->getArguments(), arguments))
      argument.setLoc(formal.value.getLoc());
    builder.setInsertionPointToEnd(entry);
    return function;
  }

  /// Ends the function; `values` of the formals belong to it.
  void finishFunction(func::FuncOp function, ArrayRef<Formal> results) {
    SmallVector<Value> values;
    SmallVector<Type> types;
    SmallVector<DictionaryAttr> attributes;
    for (const Formal &formal : results) {
      values.push_back(formal.value);
      types.push_back(formal.value.getType());
      attributes.push_back(getRoleAttr(formal));
    }
    func::ReturnOp::create(builder, function.getLoc(), values);
    function.setType(builder.getFunctionType(function.getArgumentTypes(), types));
    function.setAllResultAttrs(attributes);
    eraseDeadOps(function.getBody().front());
  }

  //--- The scratch function
  //---------------------------------------------------------------------------

  LogicalResult buildScratch() {
    SmallVector<Formal> formals = bodyFormals(body.getArguments());
    auto yield = cast<YieldOp>(body.getTerminator());
    SmallVector<unsigned> seeded;
    for (auto [index, value] : llvm::enumerate(yield.getOperands()))
      if (signature.outputGradient[index]) {
        seeded.push_back(index);
        formals.push_back({"grad_output", static_cast<int64_t>(index), value});
      }
    scratch = createFunction(formals);
    IRMapping mapping = cloneBody(*scratch);
    Block &block = scratch->getBody().front();
    SmallVector<Operation *> ops;
    for (Operation &op : block)
      ops.push_back(&op);
    forwardOps.insert(ops.begin(), ops.end());

    SmallVector<Value> active;
    for (unsigned i = 0, end = body.getNumArguments(); i < end; ++i)
      if (i < inputCount() ? signature.inputActive[i] : signature.trains[i - inputCount()])
        active.push_back(block.getArgument(i));
    for (auto [index, value] : llvm::enumerate(yield.getOperands()))
      outputs.push_back(mapping.lookupOrDefault(value));
    SmallVector<std::pair<Value, Value>> seeds;
    for (auto [position, index] : llvm::enumerate(seeded))
      seeds.push_back({outputs[index], block.getArgument(body.getNumArguments() + position)});

    seedRouterLoss(seeds);
    FailureOr<Gradients> built = buildGradients(builder, ops, seeds, findActiveValues(ops, active));
    if (failed(built))
      return failure();
    bool any = false;
    for (const Formal &formal :
         bodyFormals(block.getArguments().take_front(body.getNumArguments())))
      if (Value gradient = built->of.lookup(formal.value)) {
        any = true;
        gradients.push_back(
            {formal.role == "input" ? "grad_input" : "parameter_grad", formal.index, gradient});
      }
    if (any && built->loss)
      for (unsigned i = 0, end = outputs.size(); i < end; ++i) {
        OutputKind kind = getOutputKind(layer, i);
        if (kind == OutputKind::Loss)
          gradients.push_back({nameOf(kind), i, asGiven(built->loss, outputs[i])});
        else if (isGivenByBackward(kind)) // a value of the forward
          gradients.push_back({nameOf(kind), i, outputs[i]});
      }
    return success();
  }

  /// The loss as the layer gives it: parts that have rows of it bring them together.
  Value asGiven(Value loss, Value output) {
    auto move = output.getDefiningOp<ReshardOp>();
    return move && loss.getType() != output.getType()
               ? ReshardOp::create(builder, move.getLoc(), output.getType(), loss, move.getFrom(),
                                   move.getTo(), move.getParts(), move.getWhole())
                     .getResult()
               : loss;
  }

  /// The step's loss is a sum over its tokens until it ends: what the routers' loss counts in it
  /// depends on the step, and the runtime gives it.
  void seedRouterLoss(SmallVector<std::pair<Value, Value>> &seeds) {
    for (auto [i, output] : llvm::enumerate(outputs))
      if (getOutputKind(layer, i) == OutputKind::RouterLoss)
        seeds.push_back({output, BatchValueOp::create(builder, layer.getLoc(), output.getType(),
                                                      routerLossWeight)});
  }

  void markGradients(LayerFunctions &functions) {
    for (const Formal &formal : gradients) {
      if (formal.role == "grad_input")
        functions.inputGradient[formal.index] = true;
      else if (formal.role == "parameter_grad")
        functions.parameterGradient[formal.index] = true;
    }
  }

  //--- What backward keeps
  //----------------------------------------------------------------------------

  bool isForwardValue(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return argument.getArgNumber() < body.getNumArguments();
    return forwardOps.contains(value.getDefiningOp());
  }

  LogicalResult selectSaved() {
    // Only live gradient ops count; a return in the scratch function keeps them alive.
    SmallVector<Value> results;
    for (const Formal &formal : gradients)
      results.push_back(formal.value);
    auto end = func::ReturnOp::create(builder, layer.getLoc(), results);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(scratch->getBody().front())))
      if (!forwardOps.contains(&op) && isOpTriviallyDead(&op))
        op.erase();

    RematQuery query;
    for (const Formal &formal : gradients)
      if (isForwardValue(formal.value))
        query.needed.insert(formal.value);
    for (Operation &op : scratch->getBody().front())
      if (!forwardOps.contains(&op))
        for (Value operand : op.getOperands())
          if (isForwardValue(operand))
            query.needed.insert(operand);
    for (unsigned i = inputCount(), last = body.getNumArguments(); i < last; ++i)
      query.available.insert(scratch->getArgument(i));
    end.erase();
    FailureOr<std::vector<RematChoice>> choices = findRematChoices(query);
    if (failed(choices))
      return failure();
    SmallVector<std::string> names;
    for (const RematChoice &choice : *choices)
      names.push_back(choice.name);
    const std::string remat = knownRemat(names);
    for (const RematChoice &choice : *choices)
      if (choice.name == remat)
        kept = choice.kept;
    return checkRemat(std::move(names));
  }

  /// The option itself, or the one before "full" in place of one that the layer does not know.
  std::string knownRemat(ArrayRef<std::string> known) {
    if (!signature.nearestRemat || llvm::is_contained(known, signature.remat))
      return signature.remat;
    return known[known.size() - 2];
  }

  LogicalResult checkRemat(SmallVector<std::string> known) {
    rematOptions = std::move(known);
    if (llvm::is_contained(rematOptions, signature.remat) || signature.nearestRemat)
      return success();
    return layer.emitOpError() << "has omnibal.remat = \"" << signature.remat
                               << "\"; this layer can be rematerialized as "
                               << llvm::join(rematOptions, ", ");
  }

  /// The output that `value` is, if another layer holds it anyway.
  std::optional<int64_t> findOutput(Value value) {
    for (auto [index, output] : llvm::enumerate(outputs))
      if (output == value && signature.outputRead[index])
        return index;
    return std::nullopt;
  }

  /// Formals of backward for the values that are kept; those of role "saved" are forward's results.
  SmallVector<Formal> keptFormals() {
    SmallVector<Formal> formals;
    int64_t saved = 0;
    for (Value value : kept) {
      if (auto argument = dyn_cast<BlockArgument>(value))
        formals.push_back({"input", argument.getArgNumber(), value});
      else if (std::optional<int64_t> output = findOutput(value))
        formals.push_back({"output", *output, value});
      else
        formals.push_back({"saved", saved++, value});
    }
    return formals;
  }

  /// Which of the values that are saved, or held between the halves, stay in float32.
  void findFloat32() {
    if (!scratch)
      return;
    Block &block = scratch->getBody().front();
    SmallVector<Operation *> ops;
    for (Operation &op : block)
      ops.push_back(&op);
    SmallVector<Value> sources;
    for (BlockArgument argument : block.getArguments())
      if (isFloat32(argument) && !scratch->getArgAttr(argument.getArgNumber(), float32AttrName))
        sources.push_back(argument);
    inBFloat16 = findBFloat16Values(ops, sources);
    for (const Formal &formal : keptFormals())
      if (formal.role == "saved")
        savedInFloat32.push_back(isFloat32(formal.value) && !inBFloat16.contains(formal.value));
  }

  //--- The functions
  //------------------------------------------------------------------------------------

  OwningOpRef<func::FuncOp> buildForward() {
    auto function = createFunction(bodyFormals(body.getArguments()));
    IRMapping mapping = cloneBody(*function);
    SmallVector<Formal> results;
    for (auto [index, value] : llvm::enumerate(body.getTerminator()->getOperands()))
      if (signature.outputRead[index])
        results.push_back({"output", static_cast<int64_t>(index), mapping.lookup(value)});
    // The scratch function begins with the same ops in the same order.
    llvm::DenseMap<Value, Value> fromScratch;
    if (scratch)
      for (auto [ours, theirs] : llvm::zip(function->getBody().front(), scratch->getBody().front()))
        for (auto [our, their] : llvm::zip(ours.getResults(), theirs.getResults()))
          fromScratch[their] = our;
    for (const Formal &formal : keptFormals())
      if (formal.role == "saved")
        results.push_back({formal.role, formal.index, fromScratch.lookup(formal.value)});
    finishFunction(*function, results);
    return function;
  }

  OwningOpRef<func::FuncOp> buildClone(bool withLoss, bool allOutputs) {
    auto function = createFunction(bodyFormals(body.getArguments()));
    IRMapping mapping = cloneBody(*function);
    SmallVector<Formal> results;
    for (auto [index, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
      OutputKind kind = getOutputKind(layer, index);
      if (kind == OutputKind::Output ? signature.outputRead[index] || allOutputs : withLoss)
        results.push_back({nameOf(kind), static_cast<int64_t>(index), mapping.lookup(value)});
    }
    finishFunction(*function, results);
    return function;
  }

  /// What the computation of `results` from `start` reads from outside: values of `start`,
  /// gradients of outputs, parameters; in this order.
  SmallVector<Formal> backwardArguments(ArrayRef<Formal> results,
                                        const llvm::SetVector<Value> &start) {
    SmallVector<Value> values;
    for (const Formal &formal : results)
      values.push_back(formal.value);
    llvm::DenseSet<Value> read = collectSlice(values, start);
    SmallVector<Formal> known = keptFormals();
    llvm::append_range(known, held);
    SmallVector<Formal> formals;
    for (StringRef role : {"input", "output", "saved", "held"})
      for (const Formal &formal : known)
        if (formal.role == role && start.contains(formal.value) && read.contains(formal.value))
          formals.push_back(formal);
    unsigned position = body.getNumArguments();
    for (unsigned i = 0, end = outputs.size(); i < end; ++i) {
      if (!signature.outputGradient[i])
        continue;
      BlockArgument argument = scratch->getArgument(position++);
      if (read.contains(argument))
        formals.push_back({"grad_output", i, argument});
    }
    for (unsigned i = inputCount(), end = body.getNumArguments(); i < end; ++i)
      if (read.contains(scratch->getArgument(i)))
        formals.push_back({"parameter", i - inputCount(), scratch->getArgument(i)});
    return formals;
  }

  OwningOpRef<func::FuncOp> buildBackward(ArrayRef<Formal> wanted,
                                          const llvm::SetVector<Value> &start) {
    SmallVector<Formal> arguments = backwardArguments(wanted, start);
    auto function = createFunction(arguments);
    IRMapping mapping;
    for (auto [argument, formal] : llvm::zip_equal(function->getArguments(), arguments))
      mapping.map(formal.value, argument);
    SmallVector<Value> values;
    for (const Formal &formal : wanted)
      values.push_back(formal.value);
    llvm::DenseSet<Value> slice = collectSlice(values, start);
    // A value is recomputed right before its first reader, so that it lives no longer than needed.
    for (Operation &op : scratch->getBody().front())
      if (!forwardOps.contains(&op) && llvm::any_of(op.getResults(), [&](Value result) {
            return slice.contains(result) && !mapping.contains(result);
          }))
        cloneWithOperands(&op, mapping);
    SmallVector<Formal> results;
    for (const Formal &formal : wanted) {
      if (!mapping.contains(formal.value))
        cloneWithOperands(formal.value.getDefiningOp(), mapping);
      results.push_back({formal.role, formal.index, mapping.lookup(formal.value)});
    }
    finishFunction(*function, results);
    return function;
  }

  LogicalResult buildHalves(LayerFunctions &functions) {
    BackwardQuery query;
    for (const Formal &formal : gradients)
      (formal.role == "parameter_grad" ? query.parameters : query.urgent).push_back(formal.value);
    query.forwardOps = forwardOps;
    query.kept = kept;
    for (unsigned i = inputCount(), end = body.getNumArguments(); i < end; ++i)
      query.available.insert(scratch->getArgument(i));
    FailureOr<BackwardSplit> split = splitBackward(query);
    if (failed(split))
      return failure();
    SmallVector<Formal> first, second;
    const bool *waits = split->waits.begin();
    for (const Formal &formal : gradients)
      (formal.role == "parameter_grad" && *waits++ ? second : first).push_back(formal);
    if (first.empty() || second.empty()) {
      (first.empty() ? functions.weightGrad : functions.inputGrad) = functions.backward->clone();
      return success();
    }
    for (Value value : split->read)
      if (!kept.contains(value) && !isa<BlockArgument>(value)) {
        held.push_back({"held", static_cast<int64_t>(held.size()), value});
        heldInFloat32.push_back(isFloat32(value) && !inBFloat16.contains(value));
      }
    llvm::append_range(first, held);
    functions.inputGrad = buildBackward(first, kept);
    functions.weightGrad = buildBackward(second, split->read);
    return success();
  }

  void cloneWithOperands(Operation *op, IRMapping &mapping) {
    SmallVector<std::pair<Operation *, bool>> stack = {{op, false}};
    while (!stack.empty()) {
      auto [current, ready] = stack.pop_back_val();
      bool done = llvm::all_of(current->getResults(), [&](Value v) { return mapping.contains(v); });
      if (done)
        continue;
      if (ready) {
        builder.clone(*current, mapping);
        continue;
      }
      stack.push_back({current, true});
      for (Value operand : llvm::reverse(current->getOperands()))
        if (!mapping.contains(operand))
          stack.push_back({operand.getDefiningOp(), false});
    }
  }

  LayerOp layer;
  const LayerSignature &signature;
  OpBuilder builder;
  Block &body;

  OwningOpRef<func::FuncOp> scratch;
  llvm::DenseSet<Operation *> forwardOps; ///< of the scratch function
  SmallVector<Value> outputs;             ///< yielded values in the scratch function
  SmallVector<Formal> gradients;          ///< results of backward, values of the scratch function
  llvm::SetVector<Value> kept;            ///< values of the scratch function
  SmallVector<std::string> rematOptions;
  SmallVector<Formal> held;                        ///< between the halves of backward, likewise
  llvm::DenseSet<Value> inBFloat16;                ///< values of the scratch function
  SmallVector<bool> savedInFloat32, heldInFloat32; ///< by index
};
} // namespace

FailureOr<LayerFunctions> omnibal::buildLayerFunctions(LayerOp layer,
                                                       const LayerSignature &signature) {
  return FunctionBuilder(layer, signature).run();
}

bool omnibal::areSameFunction(func::FuncOp a, func::FuncOp b) {
  return a.getFunctionType() == b.getFunctionType() && a.getAllArgAttrs() == b.getAllArgAttrs() &&
         a.getAllResultAttrs() == b.getAllResultAttrs() &&
         OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(),
                                                    OperationEquivalence::Flags::IgnoreLocations);
}
