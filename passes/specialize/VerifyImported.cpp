//===- VerifyImported.cpp - omnibal-verify-imported: is this form I? ----------------------===//
//
// Shares no code with the importer. Constraints:
//   imported_c1  @main is a function of one block; besides functions the module holds parameters
//                alone
//   imported_c2  every argument of @main is named by `omnibal.input` and every result by
//                `omnibal.output`, each differently
//   imported_c3  `omnibal.dims`, where an argument has it, names as many dimensions as its type has
//   imported_c4  types have no encoding: what V and N are is not decided yet
//   imported_c5  a get_parameter names a parameter of the module and has its type
//   imported_c6  there is no op of a later form: no batch_value, layer or call_layer
//
//===-------------------------------------------------------------------------------------------===//
#include "passes/specialize/Passes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_VERIFYIMPORTED
#include "passes/specialize/Passes.h.inc"

namespace {

struct VerifyImported : impl::VerifyImportedBase<VerifyImported> {
  using VerifyImportedBase::VerifyImportedBase;

  void runOnOperation() override {
    if (failed(verifyModule()) || failed(verifyNames()) || failed(verifyOps()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult verifyModule() {
    main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || !main.getBody().hasOneBlock())
      return getOperation().emitError("imported_c1: the module has no function @main of one block");
    for (Operation &op : *getOperation().getBody())
      if (!isa<func::FuncOp, ParameterOp>(op))
        return op.emitOpError("imported_c1: is neither a function nor a parameter");
    return success();
  }

  LogicalResult verifyNames() {
    llvm::StringSet<> inputs, outputs;
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      auto name = main.getArgAttrOfType<StringAttr>(i, "omnibal.input");
      if (!name || !inputs.insert(name.getValue()).second)
        return main.emitOpError() << "imported_c2: argument " << i
                                  << " needs an omnibal.input that no other has";
      auto dims = main.getArgAttrOfType<ArrayAttr>(i, "omnibal.dims");
      auto type = dyn_cast<RankedTensorType>(main.getArgumentTypes()[i]);
      if (dims && (!type || static_cast<int64_t>(dims.size()) != type.getRank()))
        return main.emitOpError() << "imported_c3: omnibal.dims of argument " << i << " names "
                                  << dims.size() << " dimensions of " << main.getArgumentTypes()[i];
    }
    for (unsigned i = 0; i < main.getNumResults(); ++i) {
      auto name = main.getResultAttrOfType<StringAttr>(i, "omnibal.output");
      if (!name || !outputs.insert(name.getValue()).second)
        return main.emitOpError() << "imported_c2: result " << i
                                  << " needs an omnibal.output that no other has";
    }
    return success();
  }

  LogicalResult verifyOps() {
    for (Type type : main.getArgumentTypes())
      if (isEncoded(type))
        return main.emitOpError() << "imported_c4: has an argument of type " << type;
    WalkResult result = getOperation().walk([&](Operation *op) {
      for (Type type : op->getResultTypes())
        if (isEncoded(type))
          return WalkResult(op->emitOpError() << "imported_c4: has a result of type " << type);
      if (isa<BatchValueOp, LayerOp, CallLayerOp>(op))
        return WalkResult(op->emitOpError("imported_c6: is an op of a later form"));
      auto get = dyn_cast<GetParameterOp>(op);
      if (!get)
        return WalkResult::advance();
      auto parameter = getOperation().lookupSymbol<ParameterOp>(get.getParameterAttr());
      if (!parameter)
        return WalkResult(get.emitOpError() << "imported_c5: there is no omnibal.parameter "
                                            << get.getParameterAttr());
      if (parameter.getType() != get.getType()) {
        InFlightDiagnostic error = get.emitOpError() << "imported_c5: is " << get.getType()
                                                     << ", the parameter " << parameter.getType();
        error.attachNote(parameter.getLoc()) << "the parameter";
        return WalkResult(std::move(error));
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  static bool isEncoded(Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getEncoding();
  }

  func::FuncOp main;
};

} // namespace
} // namespace omnibal
