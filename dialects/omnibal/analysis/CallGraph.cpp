//===- CallGraph.cpp ---------------------------------------------------------------------===//
#include "dialects/omnibal/analysis/CallGraph.h"
#include "dialects/omnibal/rules/BFloat16Values.h"

using namespace mlir;

namespace omnibal::analysis {
namespace {

class Reader {
public:
  explicit Reader(ModuleOp module) : module(module), symbols(module) {}

  FailureOr<CallGraph> run() {
    auto main = symbols.lookup<func::FuncOp>("main");
    if (!main || main.isExternal())
      return module.emitError("the module has no function @main"), failure();
    for (Operation &op : main.front()) {
      if (auto call = dyn_cast<CallLayerOp>(op)) {
        if (failed(addCall(call)))
          return failure();
        continue;
      }
      if (auto ret = dyn_cast<func::ReturnOp>(op)) {
        addOutputs(main, ret);
        continue;
      }
      if (!isa<GetParameterOp>(op))
        return op.emitError("expected layers as calls here: run omnibal-materialize-layers first"),
               failure();
    }
    if (graph.calls.empty())
      return main.emitError("no layers were found in @main"), failure();
    graph.chunks = graph.calls.back().chunk + 1;
    return std::move(graph);
  }

private:
  /// Whether inference, which yields all outputs, says so of this one.
  bool isBFloat16Output(LayerFnOp callee, size_t output) {
    auto inference = symbols.lookup<func::FuncOp>(callee.getInference());
    for (unsigned i = 0, end = inference ? inference.getNumResults() : 0; i < end; ++i) {
      auto index = inference.getResultAttrOfType<IntegerAttr>(i, "omnibal.index");
      if (index && index.getInt() == static_cast<int64_t>(output))
        return isBFloat16Formal(inference.getResultAttrDict(i), inference.getResultTypes()[i]);
    }
    return false;
  }

  LogicalResult addCallees(CallLayerOp op, StringRef attribute, SmallVector<LayerFnOp> &list) {
    auto names = op->getAttrOfType<ArrayAttr>(attribute);
    for (Attribute each : names ? names.getValue() : ArrayRef<Attribute>()) {
      auto name = dyn_cast<FlatSymbolRefAttr>(each);
      list.push_back(name ? symbols.lookup<LayerFnOp>(name.getAttr()) : LayerFnOp());
      if (!list.back())
        return op.emitOpError("has ")
               << each << " among its " << attribute << ", which is not a layer function";
    }
    return success();
  }

  LogicalResult addCall(CallLayerOp op) {
    Call call;
    call.name = op.getName().str();
    call.kind = stringifyLayerKind(op.getKind()).str();
    call.op = op;
    call.callee = symbols.lookup<LayerFnOp>(op.getCallee());
    if (!call.callee)
      return op.emitOpError("calls @") << op.getCallee() << ", which is not a layer function";
    if (failed(addCallees(op, "omnibal.variants", call.variants)) ||
        failed(addCallees(op, calleesAttrName, call.partCallees)))
      return failure();
    if (auto chunk = op->getAttrOfType<IntegerAttr>("omnibal.chunk"))
      call.chunk = chunk.getInt();
    int64_t before = graph.calls.empty() ? 0 : graph.calls.back().chunk;
    if (call.chunk != before && call.chunk != before + 1)
      return op.emitOpError("has chunk ")
             << call.chunk << " after chunk " << before << ": chunks hold consecutive layers";
    int64_t index = static_cast<int64_t>(graph.calls.size());
    for (auto [position, input] : llvm::enumerate(op.getInputs())) {
      auto it = edgeOf.find(input);
      if (it == edgeOf.end())
        return op.emitOpError("input ") << position << " is not the output of a layer";
      graph.edges[it->second].consumers.push_back({index, static_cast<int64_t>(position)});
      call.inputs.push_back(it->second);
    }
    auto kinds = op->getAttrOfType<ArrayAttr>("omnibal.outputs");
    for (auto [position, output] : llvm::enumerate(op.getOutputs())) {
      Edge edge;
      edge.producer = index;
      edge.output = static_cast<int64_t>(position);
      if (kinds)
        edge.kind = cast<StringAttr>(kinds[position]).getValue().str();
      auto shape = getSymbolicShape(cast<RankedTensorType>(output.getType()));
      if (!shape)
        return op.emitOpError("output ") << position << " has a size that is not affine in V and N";
      edge.shape = *shape;
      edge.isBFloat16 = isBFloat16Output(call.callee, position);
      edgeOf[output] = static_cast<int64_t>(graph.edges.size());
      call.outputs.push_back(static_cast<int64_t>(graph.edges.size()));
      graph.edges.push_back(std::move(edge));
    }
    for (Attribute name : op.getParameters()) {
      auto parameter = symbols.lookup<ParameterOp>(cast<FlatSymbolRefAttr>(name).getAttr());
      if (!parameter)
        return op.emitOpError("uses ") << name << ", which is not a parameter of the module";
      call.parameters.push_back(parameter.getSymName().str());
      if (seen.insert(parameter).second)
        graph.parameters.push_back(parameter);
    }
    graph.calls.push_back(std::move(call));
    return success();
  }

  void addOutputs(func::FuncOp main, func::ReturnOp ret) {
    for (auto [position, value] : llvm::enumerate(ret.getOperands())) {
      auto it = edgeOf.find(value);
      if (it == edgeOf.end())
        continue;
      Edge &edge = graph.edges[it->second];
      edge.isGraphOutput = true;
      edge.graphOutput = nameOfResult(main, position);
    }
  }

  ModuleOp module;
  SymbolTable symbols;
  CallGraph graph;
  llvm::DenseMap<Value, int64_t> edgeOf;
  llvm::DenseSet<Operation *> seen;
};

} // namespace

std::string nameOfResult(func::FuncOp main, size_t position) {
  auto name = main.getResultAttrOfType<StringAttr>(position, "omnibal.output");
  return name ? name.str() : "output_" + std::to_string(position);
}

FailureOr<CallGraph> readCallGraph(ModuleOp module) { return Reader(module).run(); }

} // namespace omnibal::analysis
