//===- AssignLayouts.cpp - omnibal-assign-layouts: layouts from a file ------------------------===//
#include "dialects/omnibal/ir/Layouts.h"
#include "mlir/AsmParser/AsmParser.h"
#include "passes/shard/FollowLayouts.h"
#include "passes/shard/LayerLayouts.h"
#include "passes/shard/Passes.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Json.h"
#include "runtime/support/JsonField.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace omnibal;
using namespace omnibal::shard;

namespace omnibal {
#define GEN_PASS_DEF_ASSIGNLAYOUTS
#include "passes/shard/Passes.h.inc"
} // namespace omnibal

namespace {

/// How parts hold the parameters whose names match.
struct Entry {
  std::string match, layout;
};

struct AssignLayoutsPass : omnibal::impl::AssignLayoutsBase<AssignLayoutsPass> {
  using AssignLayoutsBase::AssignLayoutsBase;

  /// A wrong file is found before the first pass of the pipeline runs.
  LogicalResult initialize(MLIRContext *context) override {
    if (rt::Status status = layouts.empty() ? rt::Status::ok() : read(); !status)
      return emitError(UnknownLoc::get(context), status.message());
    return success();
  }

  void runOnOperation() override {
    if (layouts.empty())
      return;
    if (partsOf(getOperation()) == 1) {
      getOperation().emitError() << layouts
                                 << ": layouts are of the parts of a stage, and there is one part";
      return signalPassFailure();
    }
    for (auto [number, entry] : llvm::enumerate(entries))
      if (failed(assign(number, entry)))
        return signalPassFailure();
    getOperation().walk([&](LayerOp layer) { followLayouts(layer, dividesRows); });
  }

private:
  rt::Status read() {
    entries.clear();
    OMNIBAL_ASSIGN_OR_RETURN(const std::string text, rt::readWholeFile(layouts));
    OMNIBAL_ASSIGN_OR_RETURN(const nlohmann::json json, rt::parseJson(text, layouts));
    rt::Status status;
    rt::JsonField root(json, layouts, status);
    root.onlyKeys({"format", "rows", "parameters"});
    if (root["format"].text() != "omnibal.layouts/1")
      root["format"].fail("\"omnibal.layouts/1\" is expected");
    const std::string rows = root.has("rows") ? root["rows"].text() : "whole";
    if (rows != "whole" && rows != "split")
      root["rows"].fail("\"whole\" or \"split\" is expected");
    dividesRows = rows == "split";
    entries = root["parameters"].list([](rt::JsonField field) {
      field.onlyKeys({"match", "layout"});
      return Entry{field["match"].text(), field["layout"].text()};
    });
    return status;
  }

  /// The first entry that matches a parameter counts.
  LogicalResult assign(size_t number, const Entry &entry) {
    const std::string where = layouts + ": parameters[" + std::to_string(number) + "]";
    llvm::Regex expression(entry.match);
    std::string problem;
    if (!expression.isValid(problem))
      return getOperation().emitError()
             << where << ": '" << entry.match << "' is not a regular expression: " << problem;
    auto layout = dyn_cast_or_null<LayoutAttr>(
        parseAttribute("#plan.layout<" + entry.layout + ">", &getContext()));
    if (!layout || layout.isPartial())
      return getOperation().emitError()
             << where << ": '" << entry.layout
             << "' is no layout of a parameter; it is whole, copied, or split(dim : units x inner)";
    bool found = false;
    for (auto parameter : getOperation().getOps<ParameterOp>()) {
      if (!expression.match(parameter.getSymName()))
        continue;
      found = true;
      if (parameter->hasAttr(heldAttrName))
        continue;
      LayoutAttr held = inTypeOrder(parameter, layout);
      auto shape = getSymbolicShape(cast<RankedTensorType>(parameter.getType()));
      if (held.isSplit() && !outerOf(held, *shape))
        return parameter.emitError() << where << ": " << entry.layout << " does not fit parameter "
                                     << parameter.getSymName() << " of type " << parameter.getType()
                                     << "; units and inner must divide the dimension";
      parameter->setAttr(heldAttrName, held);
    }
    if (!found)
      return getOperation().emitError()
             << where << ": no parameter's name matches '" << entry.match << "'";
    return success();
  }

  /// The file has the checkpoint's order of dimensions.
  static LayoutAttr inTypeOrder(ParameterOp parameter, LayoutAttr layout) {
    if (!parameter.getTransposed() || !layout.isSplit() || layout.getDim() > 1)
      return layout;
    return LayoutAttr::get(layout.getContext(), layout.getKind(), 1 - layout.getDim(),
                           layout.getUnitsOf(), layout.getUnits(), layout.getInner());
  }

  std::vector<Entry> entries;
  bool dividesRows = false;
};

} // namespace
