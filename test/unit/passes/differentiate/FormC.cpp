//===- FormC.cpp - Runs a module in form C through the interpreter -----------------------===//
#include "test/unit/passes/differentiate/FormC.h"
#include <cstdlib>
#include <iostream>

using namespace mlir;
using namespace omnibal;
using namespace omnibal::test;

namespace {
[[noreturn]] void giveUp(const std::string &message) {
  std::cerr << "form C: " << message << std::endl;
  std::abort();
}

void add(HostTensor &sum, const HostTensor &term) {
  if (sum.shape.empty() && sum.floats.empty()) {
    sum = term;
    return;
  }
  if (sum.floats.size() != term.floats.size())
    giveUp("gradients of different sizes meet");
  for (size_t i = 0; i < sum.floats.size(); ++i)
    sum.floats[i] += term.floats[i];
}
} // namespace

std::vector<CallLayerOp> FormC::calls() {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  auto range = main.getBody().front().getOps<CallLayerOp>();
  return {range.begin(), range.end()};
}

std::map<FormC::Key, HostTensor> FormC::actuals(CallLayerOp call) {
  std::map<Key, HostTensor> result;
  for (auto [index, input] : llvm::enumerate(call.getInputs()))
    result[{"input", index}] = values[input];
  for (auto [index, name] : llvm::enumerate(call.getParameters())) {
    auto found = interpreter.parameters.find(cast<FlatSymbolRefAttr>(name).getValue());
    if (found == interpreter.parameters.end())
      giveUp("no value of a parameter");
    result[{"parameter", index}] = found->second;
  }
  return result;
}

std::map<FormC::Key, HostTensor> FormC::run(FlatSymbolRefAttr name,
                                            const std::map<Key, HostTensor> &actuals) {
  auto function = module.lookupSymbol<func::FuncOp>(name.getAttr());
  auto key = [](DictionaryAttr attributes) {
    return Key{attributes.getAs<StringAttr>("omnibal.role").str(),
               attributes.getAs<IntegerAttr>("omnibal.index").getInt()};
  };
  SmallVector<HostTensor> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto found = actuals.find(key(function.getArgAttrDict(i)));
    if (found == actuals.end())
      giveUp("@" + name.getValue().str() + " lacks " + key(function.getArgAttrDict(i)).first);
    arguments.push_back(found->second);
  }
  auto results = interpreter.run(function, arguments);
  if (failed(results))
    giveUp("@" + name.getValue().str() + " failed");
  std::map<Key, HostTensor> named;
  for (auto [index, value] : llvm::enumerate(*results))
    named[key(function.getResultAttrDict(index))] = std::move(value);
  return named;
}

/// Where a layer has the halves of its backward, they must give what it gives, to the bit.
void FormC::checkHalves(LayerFnOp layer, std::map<Key, HostTensor> given,
                        const std::map<Key, HostTensor> &whole) {
  if (!layer.getInputGradAttr() && !layer.getWeightGradAttr())
    return;
  std::map<Key, HostTensor> both;
  if (layer.getInputGradAttr())
    for (auto &[key, value] : run(layer.getInputGradAttr(), given))
      (key.first == "held" ? given : both)[key] = value;
  if (layer.getWeightGradAttr()) {
    ++weightGrads;
    for (auto &[key, value] : run(layer.getWeightGradAttr(), given))
      if (!both.insert({key, value}).second)
        giveUp("both halves give " + key.first);
  }
  if (both.size() != whole.size())
    giveUp("the halves of @" + layer.getSymName().str() + " give other results than its backward");
  for (const auto &[key, value] : whole)
    if (!both.count(key) || both.at(key).floats != value.floats)
      giveUp("the halves of @" + layer.getSymName().str() + " differ in " + key.first + " " +
             std::to_string(key.second));
}

StepResult FormC::train() {
  StepResult step;
  std::map<Operation *, std::map<Key, HostTensor>> kept;
  for (CallLayerOp call : calls()) {
    auto layer = module.lookupSymbol<LayerFnOp>(call.getCallee());
    for (auto &[key, value] : run(layer.getForwardAttr(), actuals(call))) {
      kept[call][key] = value;
      if (key.first == "output")
        values[call->getResult(key.second)] = value;
    }
  }
  llvm::DenseMap<Value, HostTensor> gradients;
  std::vector<CallLayerOp> order = calls();
  for (CallLayerOp call : llvm::reverse(order)) {
    auto layer = module.lookupSymbol<LayerFnOp>(call.getCallee());
    if (!layer.getBackwardAttr())
      continue;
    std::map<Key, HostTensor> given = actuals(call);
    given.insert(kept[call].begin(), kept[call].end());
    for (auto [index, output] : llvm::enumerate(call.getOutputs()))
      if (auto found = gradients.find(output); found != gradients.end())
        given[{"grad_output", index}] = found->second;
    auto results = run(layer.getBackwardAttr(), given);
    checkHalves(layer, given, results);
    for (auto &[key, value] : results) {
      if (key.first == "grad_input")
        add(gradients[call.getInputs()[key.second]], value);
      else if (key.first == "parameter_grad")
        add(step.gradients
                [cast<FlatSymbolRefAttr>(call.getParameters()[key.second]).getValue().str()],
            value);
      else
        step.loss = value;
    }
  }
  return step;
}

Evaluation FormC::evaluate() {
  Evaluation result;
  for (CallLayerOp call : calls()) {
    auto layer = module.lookupSymbol<LayerFnOp>(call.getCallee());
    for (auto &[key, value] : run(layer.getEvaluateAttr(), actuals(call))) {
      if (key.first == "output")
        values[call->getResult(key.second)] = value;
      else
        (key.first == "loss" ? result.loss : result.prediction) = value;
    }
  }
  return result;
}

HostTensor FormC::inference() {
  for (CallLayerOp call : calls()) {
    auto layer = module.lookupSymbol<LayerFnOp>(call.getCallee());
    for (auto &[key, value] : run(layer.getInferenceAttr(), actuals(call)))
      values[call->getResult(key.second)] = value;
  }
  auto main = module.lookupSymbol<func::FuncOp>("main");
  return values[main.getBody().front().getTerminator()->getOperand(0)];
}
