//===- VerifyLayers.cpp - omnibal-verify-layers: is this form L? ---------------------------===//
//
// Shares no code with omnibal-form-layers. Constraints:
//   layers_c1  @main is a function of one block without arguments, which holds get_parameter,
//              layers and the return alone
//   layers_c2  a get_parameter names a parameter of the module and has its type
//   layers_c3  layers are called vision.embedding, vision.layers.I, vision.output, projector,
//              language.embedding, language.layers.I and head and come in this order, I counted
//              from 0; all but the head may be missing
//   layers_c4  a layer has the kind that its name begins with
//   layers_c5  the head comes last, and @main returns what it makes and nothing else
//   layers_c6  every output is read by a later layer or returned
//   layers_c7  inputs and outputs are static or affine in V and N
//   layers_c8  bodies hold neither layers nor get_parameter: parameters come as arguments
//
//===-------------------------------------------------------------------------------------------===//
#include "passes/layers/Passes.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_VERIFYLAYERS
#include "passes/layers/Passes.h.inc"

namespace {

/// Where a name stands in the order of layers; -1: nowhere.
struct Place {
  int64_t order = -1;
  int64_t block = 0; ///< of vision.layers.I and language.layers.I
};

Place placeOf(StringRef name) {
  static constexpr StringLiteral order[] = {
      "vision.embedding",   "vision.layers.",   "vision.output", "projector",
      "language.embedding", "language.layers.", "head"};
  for (auto [number, known] : llvm::enumerate(order)) {
    StringRef rest = name;
    if (!rest.consume_front(known))
      continue;
    Place place{static_cast<int64_t>(number), 0};
    const bool isBlock = known.ends_with(".");
    if (isBlock ? !rest.getAsInteger(10, place.block) && place.block >= 0 : rest.empty())
      return place;
  }
  return {};
}

struct VerifyLayers : impl::VerifyLayersBase<VerifyLayers> {
  using VerifyLayersBase::VerifyLayersBase;

  void runOnOperation() override {
    main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || !main.getBody().hasOneBlock() || main.getNumArguments() != 0) {
      getOperation().emitError("layers_c1: the module has no function @main of one block and "
                               "without arguments");
      return signalPassFailure();
    }
    last = {};
    lastLayer = {};
    for (Operation &op : main.getBody().front())
      if (failed(verify(&op)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult verify(Operation *op) {
    if (auto get = dyn_cast<GetParameterOp>(op))
      return verifyParameter(get);
    if (auto layer = dyn_cast<LayerOp>(op))
      return success(succeeded(verifyName(layer)) && succeeded(verifyValues(layer)) &&
                     succeeded(verifyBody(layer)));
    if (auto result = dyn_cast<func::ReturnOp>(op))
      return verifyReturn(result);
    return op->emitOpError("layers_c1: stands outside every layer");
  }

  LogicalResult verifyParameter(GetParameterOp get) {
    auto parameter = getOperation().lookupSymbol<ParameterOp>(get.getParameterAttr());
    if (!parameter)
      return get.emitOpError() << "layers_c2: there is no omnibal.parameter "
                               << get.getParameterAttr();
    if (parameter.getType() == get.getType())
      return success();
    InFlightDiagnostic error = get.emitOpError() << "layers_c2: is " << get.getType()
                                                 << ", the parameter " << parameter.getType();
    error.attachNote(parameter.getLoc()) << "the parameter";
    return error;
  }

  LogicalResult verifyName(LayerOp layer) {
    const Place place = placeOf(layer.getName());
    const bool next =
        place.order == last.order && lastLayer ? place.block == last.block + 1 : place.block == 0;
    if (place.order < 0 || place.order < last.order || !next) {
      InFlightDiagnostic error = layer.emitOpError() << "layers_c3: \"" << layer.getName()
                                                     << "\" is no name of a layer at this place";
      if (lastLayer)
        error.attachNote(lastLayer.getLoc())
            << "the layer before is \"" << lastLayer.getName() << "\"";
      return error;
    }
    last = place;
    lastLayer = layer;
    StringRef kind = stringifyLayerKind(layer.getKind());
    if (layer.getName().split('.').first != kind)
      return layer.emitOpError() << "layers_c4: \"" << layer.getName() << "\" has the kind "
                                 << kind;
    return success();
  }

  LogicalResult verifyValues(LayerOp layer) {
    for (auto [number, output] : llvm::enumerate(layer.getOutputs()))
      if (output.use_empty())
        return layer.emitOpError() << "layers_c6: nothing reads output " << number;
    for (Value value : llvm::concat<Value>(llvm::to_vector(layer.getInputs()),
                                           llvm::to_vector<4>(layer.getOutputs())))
      if (!getSymbolicShape(cast<RankedTensorType>(value.getType())))
        return layer.emitOpError()
               << "layers_c7: " << value.getType() << " is not a function of V and N";
    return success();
  }

  LogicalResult verifyBody(LayerOp layer) {
    for (Operation &op : layer.getBody().front())
      if (isa<LayerOp, GetParameterOp>(op)) {
        InFlightDiagnostic error =
            op.emitOpError("layers_c8: stands inside a layer; what it gives must be an argument");
        error.attachNote(layer.getLoc()) << "the layer \"" << layer.getName() << "\"";
        return error;
      }
    return success();
  }

  LogicalResult verifyReturn(func::ReturnOp result) {
    if (!lastLayer || lastLayer.getKind() != LayerKind::Head)
      return result.emitOpError("layers_c5: no head comes before the return");
    for (Value value : result.getOperands())
      if (value.getDefiningOp() != lastLayer) {
        InFlightDiagnostic error =
            result.emitOpError("layers_c5: returns what the head does not make");
        error.attachNote(value.getLoc()) << "the value is made here";
        return error;
      }
    return success();
  }

  func::FuncOp main;
  Place last;
  LayerOp lastLayer;
};

} // namespace
} // namespace omnibal
