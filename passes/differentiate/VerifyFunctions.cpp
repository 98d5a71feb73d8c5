//===- VerifyFunctions.cpp - Do the functions of form C fit together? --------------------===//
//
// Shares no code with what builds them. Constraints:
//   function_c1  every argument and result has an `omnibal.role` that may stand there and an
//                `omnibal.index` >= 0
//   function_c2  a role and index stands for one argument and one result at most
//   function_c3  forward, evaluate and inference take all inputs of the call, then all its
//                parameters
//   function_c4  backward reads exactly what forward saves, of the same types
//   function_c5  forward, evaluate and inference yield every output that another call reads;
//                inference yields all outputs, evaluate the loss and the prediction
//   function_c6  gradients have the types of what they are gradients of
//   function_c7  every gradient of an output that backward reads comes from a call below
//   function_c8  a parameter gets a gradient exactly if it trains
//   function_c9  exactly one call has a loss, and its backward yields it, as it does a router_loss
//   and
//                what a loss of pairs gives beside it
//   function_c10 the halves of a backward yield together what it yields, each result once, and read
//                nothing from outside that it does not; `weight_grad` takes what `input_grad` holds
//   function_c11 `omnibal.float32` stands on float32 activations, their gradients and what is saved
//                or held of them, in all functions of a layer alike, and on both sides of a call
//   function_c12 `omnibal.callees` names a layer_fn for each part, whose parameters have the types
//                that the part holds
//   function_c13 the functions of all parts for one purpose make the same moves in the same order
//
//===-------------------------------------------------------------------------------------------===//
#include "dialects/omnibal/rules/BFloat16Values.h"
#include "passes/differentiate/Passes.h"
#include "passes/shard/LayerLayouts.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

namespace omnibal {
#define GEN_PASS_DEF_VERIFYFUNCTIONS
#include "passes/differentiate/Passes.h.inc"
} // namespace omnibal

using namespace mlir;
using namespace omnibal;

namespace {
using Formals = std::map<std::pair<std::string, int64_t>, Type>;
struct Interface {
  func::FuncOp function;
  Formals arguments, results;
};

bool isAllowed(StringRef purpose, StringRef role, bool isArgument) {
  static const std::map<std::string, std::pair<std::set<std::string>, std::set<std::string>>>
      table = {
          {"forward", {{"input", "parameter"}, {"output", "saved"}}},
          {"evaluate",
           {{"input", "parameter"},
            {"output", "loss", "prediction", "router_loss", "chosen_reward", "rejected_reward",
             "preferred"}}},
          {"inference", {{"input", "parameter"}, {"output"}}},
          {"backward",
           {{"input", "output", "saved", "grad_output", "parameter"},
            {"grad_input", "parameter_grad", "loss", "router_loss", "chosen_reward",
             "rejected_reward", "preferred"}}},
          {"input_grad",
           {{"input", "output", "saved", "grad_output", "parameter"},
            {"grad_input", "parameter_grad", "loss", "router_loss", "chosen_reward",
             "rejected_reward", "preferred", "held"}}},
          {"weight_grad",
           {{"input", "output", "saved", "held", "grad_output", "parameter"}, {"parameter_grad"}}}};
  const auto &[arguments, results] = table.at(purpose.str());
  return (isArgument ? arguments : results).count(role.str()) != 0;
}

struct VerifyFunctionsPass : omnibal::impl::VerifyFunctionsBase<VerifyFunctionsPass> {
  using VerifyFunctionsBase::VerifyFunctionsBase;

  void runOnOperation() override {
    // A pass runs on the modules of several training modes, one after the other.
    calls.clear();
    layers.clear();
    widthsOf.clear();
    symbols.emplace(getOperation());
    auto main = symbols->lookup<func::FuncOp>("main");
    if (!main || !main.getBody().hasOneBlock()) {
      getOperation().emitError("omnibal-verify-functions: the module has no function @main of one "
                               "block");
      return signalPassFailure();
    }
    for (auto call : main.getBody().front().getOps<CallLayerOp>())
      calls.push_back(call);
    bool failedAny = false;
    for (auto layer : getOperation().getOps<LayerFnOp>())
      failedAny |= failed(readLayer(layer));
    if (failedAny)
      return signalPassFailure();
    for (CallLayerOp call : calls)
      failedAny |= failed(verifyParts(call)) || failed(verifyWidths(call));
    if (failedAny || failed(verifyParameters()) || failed(verifyLoss(main)))
      signalPassFailure();
  }

private:
  //--- One function
  //---------------------------------------------------------------------------------

  LogicalResult readFormals(func::FuncOp function, StringRef purpose, bool areArguments,
                            Formals &formals) {
    unsigned count = areArguments ? function.getNumArguments() : function.getNumResults();
    for (unsigned i = 0; i < count; ++i) {
      auto attribute = [&](StringRef name) {
        return areArguments ? function.getArgAttr(i, name) : function.getResultAttr(i, name);
      };
      auto role = dyn_cast_or_null<StringAttr>(attribute("omnibal.role"));
      auto index = dyn_cast_or_null<IntegerAttr>(attribute("omnibal.index"));
      StringRef place = areArguments ? "argument " : "result ";
      if (!role || !index || index.getInt() < 0 ||
          !isAllowed(purpose, role.getValue(), areArguments))
        return function.emitOpError()
               << "function_c1: " << place << i << " needs omnibal.index >= 0 and an omnibal.role "
               << "that a " << purpose << " function may have there";
      Type type = areArguments ? function.getArgumentTypes()[i] : function.getResultTypes()[i];
      if (!formals.insert({{role.str(), index.getInt()}, type}).second)
        return function.emitOpError()
               << "function_c2: " << place << i << " repeats " << role << " " << index.getInt();
      if (failed(noteWidth(function, role.getValue(), index.getInt(), type,
                           attribute(float32AttrName) != nullptr)))
        return failure();
    }
    return success();
  }

  /// A value and its gradient lie alike in all functions of the layer.
  LogicalResult noteWidth(func::FuncOp function, StringRef role, int64_t index, Type type,
                          bool inFloat32) {
    StringRef value = role;
    value.consume_front("grad_");
    bool mayBe = value == "input" || value == "output" || value == "saved" || value == "held";
    if (inFloat32 && (!mayBe || !cast<ShapedType>(type).getElementType().isF32()))
      return function.emitOpError()
             << "function_c11: " << role << " " << index
             << " is no float32 activation, so `omnibal.float32` has no meaning on it";
    if (!mayBe)
      return success();
    if (widths->try_emplace({value.str(), index}, inFloat32).first->second != inFloat32)
      return function.emitOpError()
             << "function_c11: " << role << " " << index
             << (inFloat32 ? " stays in float32" : " may be stored in bfloat16")
             << ", in another function of the layer it "
             << (inFloat32 ? "may be stored in bfloat16" : "stays in float32");
    return success();
  }

  /// Where a call reads what another yields, both lay it out alike.
  LogicalResult verifyWidths(CallLayerOp call) {
    auto widthOf = [&](CallLayerOp of, StringRef value, int64_t index) -> std::optional<bool> {
      auto &known = widthsOf[of.getCallee()];
      auto found = known.find({value.str(), index});
      return found == known.end() ? std::nullopt : std::optional(found->second);
    };
    for (auto [i, input] : llvm::enumerate(call.getInputs())) {
      auto from = input.getDefiningOp<CallLayerOp>();
      if (!from)
        continue;
      auto here = widthOf(call, "input", i),
           there = widthOf(from, "output", cast<OpResult>(input).getResultNumber());
      if (here && there && here != there) {
        InFlightDiagnostic error = call.emitOpError()
                                   << "function_c11: input " << i
                                   << (*here ? " stays in float32 here"
                                             : " may be stored in bfloat16 here")
                                   << ", as an output of " << from.getName() << " it "
                                   << (*there ? "stays in float32" : "may be stored in bfloat16");
        error.attachNote(from.getLoc()) << "the call that makes it";
        return error;
      }
    }
    return success();
  }

  /// Inputs, then parameters, both in order and without gaps.
  LogicalResult verifyOrder(func::FuncOp function) {
    int64_t inputs = 0, parameters = 0;
    for (unsigned i = 0, end = function.getNumArguments(); i < end; ++i) {
      bool isInput = function.getArgAttrOfType<StringAttr>(i, "omnibal.role") == "input";
      int64_t index = function.getArgAttrOfType<IntegerAttr>(i, "omnibal.index").getInt();
      if ((isInput && parameters != 0) || index != (isInput ? inputs : parameters))
        return function.emitOpError() << "function_c3: argument " << i
                                      << " is out of order; inputs come first, then parameters";
      ++(isInput ? inputs : parameters);
    }
    return success();
  }

  LogicalResult readLayer(LayerFnOp layer) {
    auto &interfaces = layers[layer.getSymName()];
    widths = &widthsOf[layer.getSymName()];
    std::pair<StringRef, FlatSymbolRefAttr> purposes[] = {
        {"forward", layer.getForwardAttr()},      {"evaluate", layer.getEvaluateAttr()},
        {"inference", layer.getInferenceAttr()},  {"backward", layer.getBackwardAttr()},
        {"input_grad", layer.getInputGradAttr()}, {"weight_grad", layer.getWeightGradAttr()}};
    for (auto [purpose, name] : purposes) {
      if (!name)
        continue;
      Interface &interface = interfaces[purpose.str()];
      interface.function = symbols->lookup<func::FuncOp>(name.getAttr());
      if (failed(readFormals(interface.function, purpose, true, interface.arguments)) ||
          failed(readFormals(interface.function, purpose, false, interface.results)) ||
          (isForward(purpose) && failed(verifyOrder(interface.function))))
        return failure();
    }
    return success(succeeded(verifySaved(layer)) && succeeded(verifyHalves(layer)));
  }

  static bool isForward(StringRef purpose) {
    return purpose == "forward" || purpose == "evaluate" || purpose == "inference";
  }

  static std::map<int64_t, Type> select(const Formals &formals, StringRef role) {
    std::map<int64_t, Type> found;
    for (const auto &[key, type] : formals)
      if (key.first == role)
        found[key.second] = type;
    return found;
  }

  LogicalResult verifySaved(LayerFnOp layer) {
    auto &interfaces = layers[layer.getSymName()];
    std::map<int64_t, Type> written = select(interfaces["forward"].results, "saved"), read;
    if (auto backward = interfaces.find("backward"); backward != interfaces.end())
      read = select(backward->second.arguments, "saved");
    if (written != read)
      return layer.emitOpError() << "function_c4: forward saves " << written.size()
                                 << " values, backward reads " << read.size()
                                 << "; numbers and types must agree";
    return success();
  }

  LogicalResult verifyHalves(LayerFnOp layer) {
    auto &interfaces = layers[layer.getSymName()];
    if (!interfaces.count("input_grad") && !interfaces.count("weight_grad"))
      return success();
    Formals read, written, held, taken;
    for (StringRef half : {"input_grad", "weight_grad"}) {
      auto found = interfaces.find(half.str());
      if (found == interfaces.end())
        continue;
      for (const auto &formal : found->second.arguments)
        (formal.first.first == "held" ? taken : read).insert(formal);
      for (const auto &formal : found->second.results)
        if (!(formal.first.first == "held" ? held : written).insert(formal).second)
          return layer.emitOpError() << "function_c10: both halves yield " << formal.first.first
                                     << " " << formal.first.second;
    }
    const Interface &backward = interfaces["backward"];
    if (held != taken)
      return layer.emitOpError() << "function_c10: input_grad holds " << held.size()
                                 << " values, weight_grad takes " << taken.size()
                                 << "; numbers and types must agree";
    if (written != backward.results)
      return layer.emitOpError() << "function_c10: the halves yield " << written.size()
                                 << " values, backward yields " << backward.results.size();
    for (const auto &[key, type] : read)
      if (auto found = backward.arguments.find(key);
          found == backward.arguments.end() || found->second != type)
        return layer.emitOpError() << "function_c10: a half reads " << key.first << " "
                                   << key.second << ", which backward does not";
    return success();
  }

  //--- One call
  //----------------------------------------------------------------------------------------

  /// The error of a call, with a note at the function that it is about.
  static LogicalResult at(func::FuncOp function, InFlightDiagnostic error) {
    error.attachNote(function.getLoc()) << "the function";
    return error;
  }

  StringRef outputKind(CallLayerOp call, unsigned output) {
    auto kinds = call->getAttrOfType<ArrayAttr>("omnibal.outputs");
    return kinds ? cast<StringAttr>(kinds[output]).getValue() : "output";
  }

  /// Of one part, or of all.
  LogicalResult verifyParts(CallLayerOp call) {
    auto names = call->getAttrOfType<ArrayAttr>(calleesAttrName);
    const int64_t parts = shard::partsOf(getOperation());
    if (!names)
      return verifyCall(call, call.getCallee(), parts, 0);
    if (static_cast<int64_t>(names.size()) != parts || !llvm::all_of(names, [&](Attribute each) {
          auto name = dyn_cast<FlatSymbolRefAttr>(each);
          return name && layers.count(name.getValue()) != 0;
        }))
      return call.emitOpError() << "function_c12: " << calleesAttrName
                                << " needs a layer_fn for each of " << parts << " parts";
    for (auto [part, name] : llvm::enumerate(names.getAsRange<FlatSymbolRefAttr>()))
      if (failed(verifyCall(call, name.getValue(), parts, static_cast<int64_t>(part))) ||
          failed(verifyMoves(call, cast<FlatSymbolRefAttr>(names[0]).getValue(), name.getValue())))
        return failure();
    return success();
  }

  /// Parts that do not meet in the same moves wait for each other.
  LogicalResult verifyMoves(CallLayerOp call, StringRef first, StringRef own) {
    for (auto &[purpose, interface] : layers[own]) {
      auto found = layers[first].find(purpose);
      if (found == layers[first].end() ||
          shard::sentMoves(found->second.function) != shard::sentMoves(interface.function))
        return at(interface.function, call.emitOpError()
                                          << "function_c13: @" << interface.function.getName()
                                          << " makes other moves than part 0 does");
    }
    return success();
  }

  LogicalResult verifyCall(CallLayerOp call, StringRef callee, int64_t parts, int64_t part) {
    auto &interfaces = layers[callee];
    unsigned formals = call.getInputs().size() + call.getParameters().size();
    for (StringRef purpose : {"forward", "evaluate", "inference"}) {
      Interface &interface = interfaces[purpose.str()];
      if (interface.arguments.size() != formals)
        return at(interface.function, call.emitOpError()
                                          << "function_c3: @" << interface.function.getName()
                                          << " takes " << interface.arguments.size()
                                          << " values, the call has " << formals
                                          << " inputs and parameters");
      for (unsigned i = 0, end = call->getNumResults(); i < end; ++i) {
        StringRef kind = outputKind(call, i);
        bool isRead = llvm::any_of(call->getResult(i).getUsers(), llvm::IsaPred<CallLayerOp>);
        bool needed = kind == "output" ? isRead || purpose == "inference" : purpose == "evaluate";
        if (needed && !interface.results.count({kind.str(), i}))
          return at(interface.function, call.emitOpError()
                                            << "function_c5: @" << interface.function.getName()
                                            << " does not yield " << kind << " " << i);
      }
    }
    for (int64_t i = 0, end = call.getParameters().size(); i < end; ++i) {
      Interface &forward = interfaces["forward"];
      Type held = shard::heldType(getParameter(call, i), parts, part);
      auto formal = forward.arguments.find({"parameter", i});
      if (formal == forward.arguments.end() || formal->second != held)
        return at(forward.function, call.emitOpError()
                                        << "function_c12: parameter " << i << " of @"
                                        << forward.function.getName() << " is no " << held
                                        << ", which part " << part << " of " << parts << " holds");
    }
    auto backward = interfaces.find("backward");
    return backward == interfaces.end() ? success()
                                        : verifyBackward(call, backward->second, parts, part);
  }

  LogicalResult verifyBackward(CallLayerOp call, Interface &backward, int64_t parts, int64_t part) {
    auto typeOf = [&](StringRef role, int64_t index) -> Type {
      if (role == "grad_input" && index < static_cast<int64_t>(call.getInputs().size()))
        return call.getInputs()[index].getType();
      if (role == "grad_output" && index < call->getNumResults())
        return call->getResult(index).getType();
      if (role == "parameter_grad" && index < static_cast<int64_t>(call.getParameters().size()))
        return shard::heldType(getParameter(call, index), parts, part);
      return {};
    };
    for (Formals *formals : {&backward.arguments, &backward.results})
      for (const auto &[key, type] : *formals)
        if (StringRef(key.first).contains("grad") && typeOf(key.first, key.second) != type)
          return at(backward.function,
                    call.emitOpError() << "function_c6: " << key.first << " " << key.second
                                       << " of @" << backward.function.getName() << " is " << type
                                       << ", the call has " << typeOf(key.first, key.second));
    for (const auto &[key, type] : backward.arguments)
      if (key.first == "grad_output" && !isGradientGiven(call->getResult(key.second)))
        return at(backward.function, call.emitOpError()
                                         << "function_c7: @" << backward.function.getName()
                                         << " reads the gradient of output " << key.second
                                         << ", which no call below gives");
    return success();
  }

  bool isGradientGiven(Value output) {
    return llvm::any_of(output.getUses(), [&](OpOperand &use) {
      auto reader = dyn_cast<CallLayerOp>(use.getOwner());
      if (!reader)
        return false;
      auto &interfaces = layers[reader.getCallee()];
      auto backward = interfaces.find("backward");
      return backward != interfaces.end() &&
             backward->second.results.count({"grad_input", use.getOperandNumber()}) != 0;
    });
  }

  //--- The whole
  //-----------------------------------------------------------------------------------------

  ParameterOp getParameter(CallLayerOp call, int64_t index) {
    auto name = cast<FlatSymbolRefAttr>(call.getParameters()[index]);
    return symbols->lookup<ParameterOp>(name.getAttr());
  }

  LogicalResult verifyParameters() {
    llvm::DenseSet<Operation *> withGradient;
    for (CallLayerOp call : calls) {
      auto &interfaces = layers[call.getCallee()];
      if (auto backward = interfaces.find("backward"); backward != interfaces.end())
        for (const auto &[key, type] : backward->second.results)
          if (key.first == "parameter_grad")
            withGradient.insert(getParameter(call, key.second));
    }
    for (CallLayerOp call : calls)
      for (int64_t i = 0, end = call.getParameters().size(); i < end; ++i) {
        ParameterOp parameter = getParameter(call, i);
        if (parameter.getFrozen() == withGradient.contains(parameter))
          return call.emitOpError() << "function_c8: parameter @" << parameter.getSymName()
                                    << (parameter.getFrozen() ? " is frozen but gets a gradient"
                                                              : " trains but gets no gradient");
      }
    return success();
  }

  LogicalResult verifyLoss(func::FuncOp main) {
    unsigned losses = 0;
    for (CallLayerOp call : calls)
      for (unsigned i = 0, end = call->getNumResults(); i < end; ++i) {
        StringRef kind = outputKind(call, i);
        if (kind == "output" || kind == "prediction")
          continue;
        losses += kind == "loss";
        auto &interfaces = layers[call.getCallee()];
        auto backward = interfaces.find("backward");
        if (backward == interfaces.end() || !backward->second.results.count({kind.str(), i}))
          return call.emitOpError() << "function_c9: no backward yields the " << kind;
      }
    if (losses != 1)
      return main.emitOpError() << "function_c9: needs exactly one loss, has " << losses;
    return success();
  }

  SmallVector<CallLayerOp> calls;
  std::map<StringRef, std::map<std::string, Interface>> layers; ///< by layer_fn and purpose
  /// Says for activations, saved and held values, by layer_fn, whether they are wide.
  using Widths = std::map<std::pair<std::string, int64_t>, bool>;
  std::map<StringRef, Widths> widthsOf;
  std::optional<SymbolTable> symbols;
  Widths *widths = nullptr; ///< of the layer that is being read
};
} // namespace
