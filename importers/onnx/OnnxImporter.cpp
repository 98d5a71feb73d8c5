//===- OnnxImporter.cpp - ONNX models as modules of the omnibal dialect ------------------===//
#include "importers/onnx/OnnxImporter.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/omnibal/ir/RouterLoss.h"
#include "importers/onnx/Diagnostics.h"
#include "importers/onnx/GraphBuilder.h"
#include "importers/onnx/ModelFile.h"
#include "importers/onnx/PictureFacts.h"
#include "importers/onnx/Tensors.h"
#include "mlir/IR/Verifier.h"
#include <cmath>
#include <optional>
#include <string>

using namespace mlir;
using namespace omnibal::onnx;

namespace omnibal {

namespace {

class Import {
public:
  Import(llvm::StringRef path, const ImportOptions &options, MLIRContext &context)
      : options(options), builder(&context), where(FileLineColLoc::get(&context, path, 0, 0)),
        path(path.str()), files(path.str(), options.linkFolders, options.weights) {}

  FailureOr<OwningOpRef<ModuleOp>> run() {
    if (failed(readModel(path, model, where)) || failed(selectOutputs()) || failed(checkTables()))
      return failure();
    module = ModuleOp::create(where);
    (*module)->setAttr("omnibal.producer", builder.getStringAttr(model.producer_name() + " " +
                                                                 model.producer_version()));
    (*module)->setAttr("omnibal.opset",
                       builder.getI64IntegerAttr(defaultOpset(model.opset_import())));
    builder.setInsertionPointToEnd(module->getBody());
    if (failed(readRouterLoss()) ||
        failed(classifyInitializers(model.graph(), initializers, files, options, builder, where)) ||
        failed(buildFunction()) || (!options.anyGraph && failed(attachPictureFacts(*module, path))))
      return failure();
    if (failed(checkResult()))
      return failure();
    return std::move(module);
  }

private:
  /// Most rules of shapes are those of the ops: the readers of nodes do not repeat them. What
  /// breaks one was wrong in the model, and is one error, at the node.
  LogicalResult checkResult() {
    std::optional<std::pair<Location, std::string>> broken;
    {
      ScopedDiagnosticHandler handler(module->getContext(), [&](Diagnostic &diagnostic) {
        if (!broken && diagnostic.getSeverity() == DiagnosticSeverity::Error)
          broken.emplace(diagnostic.getLocation(), diagnostic.str());
      });
      if (succeeded(verify(*module)))
        return success();
    }
    if (!broken)
      return internalError(where) << "the import gave invalid IR";
    return invalidModel(broken->first)
           << broken->second << " (if onnx.checker accepts the model, please report this)";
  }

  /// A language model's `logits` and its routers' loss, without the caches and hidden states that
  /// exporters add.
  LogicalResult selectOutputs() {
    const GraphProto &graph = model.graph();
    auto named = [&](llvm::StringRef name) {
      return llvm::any_of(graph.output(),
                          [&](const auto &output) { return output.name() == name; });
    };
    const bool logits = named("logits");
    for (const ValueInfoProto &output : graph.output())
      if (options.anyGraph ||
          (logits && (output.name() == "logits" || output.name() == routerLossOutput.str())))
        outputs.push_back(output.name());
    if (!outputs.empty())
      return success();
    for (const ValueInfoProto &output : graph.output()) {
      llvm::StringRef name = output.name();
      if (!name.starts_with("present") && !name.starts_with("past_key_values") &&
          name != "image_hidden_states")
        outputs.push_back(name.str());
    }
    if (outputs.empty())
      return notSupported(where) << "a graph with cache outputs only; export one that gives logits";
    return success();
  }

  /// How much of it the model adds to its loss stands in the file's metadata.
  LogicalResult readRouterLoss() {
    for (const auto &entry : model.metadata_props()) {
      if (entry.key() != routerLossCoefficientAttrName.str())
        continue;
      double coefficient;
      if (llvm::StringRef(entry.value()).getAsDouble(coefficient) || !std::isfinite(coefficient) ||
          coefficient < 0)
        return invalidModel(where) << "the metadata " << routerLossCoefficientAttrName << " is '"
                                   << entry.value() << "', no number from 0 on";
      (*module)->setAttr(routerLossCoefficientAttrName, builder.getF64FloatAttr(coefficient));
    }
    return success();
  }

  LogicalResult checkTables() {
    const GraphProto &graph = model.graph();
    std::vector<std::string> given;
    llvm::StringSet<> inputNames;
    for (const TensorProto &tensor : graph.initializer()) {
      if (tensor.name().empty())
        return invalidModel(where) << "an initializer without a name";
      auto [entry, isNew] = initializers.try_emplace(tensor.name());
      if (!isNew)
        return invalidModel(where) << "two initializers have the name '" << tensor.name() << "'";
      entry->second.tensor = &tensor;
      given.push_back(tensor.name());
    }
    for (const ValueInfoProto &input : graph.input()) {
      if (input.name().empty() || !inputNames.insert(input.name()).second)
        return invalidModel(where) << "two graph inputs have the name '" << input.name() << "'";
      given.push_back(input.name());
      if (!options.anyGraph && llvm::StringRef(input.name()).starts_with("past_"))
        return notSupported(where) << "the key/value cache input '" << input.name()
                                   << "'; training has no cache: export with use_cache=False";
    }
    for (const auto &bound : options.boundInputs)
      if (!inputNames.contains(bound.first()))
        return emitError(where) << "there is no graph input '" << bound.first() << "' to bind";
    FailureOr<std::vector<const NodeProto *>> ordered =
        orderNodes(graph.node(), {}, given, outputs, where);
    if (failed(ordered))
      return failure();
    nodes = std::move(*ordered);
    countUses();
    return success();
  }

  void countUses() {
    auto use = [&](const std::string &name) {
      if (auto entry = initializers.find(name); entry != initializers.end())
        ++entry->second.uses;
    };
    for (const NodeProto *node : nodes)
      countUses(*node, use);
    for (const std::string &name : outputs)
      use(name);
  }

  template <typename Use> void countUses(const NodeProto &node, Use &use) {
    for (const std::string &name : node.input())
      use(name);
    for (const AttributeProto &attribute : node.attribute()) {
      for (const NodeProto &inner : attribute.g().node())
        countUses(inner, use);
      for (const ValueInfoProto &output : attribute.g().output())
        use(output.name());
    }
  }

  /// The names of symbolic dimensions, sizes as numbers, "" for what has neither.
  ArrayAttr dimensionNames(const ValueInfoProto &input) {
    llvm::SmallVector<llvm::StringRef> names;
    llvm::SmallVector<std::string> storage;
    for (const auto &dim : input.type().tensor_type().shape().dim())
      storage.push_back(dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param());
    names.assign(storage.begin(), storage.end());
    return builder.getStrArrayAttr(names);
  }

  LogicalResult addInput(const ValueInfoProto &input, func::FuncOp function, Block &entry,
                         Scope &scope) {
    if (initializers.contains(input.name())) // a default value; nothing here overrides it
      return success();
    if (auto bound = options.boundInputs.find(input.name()); bound != options.boundInputs.end()) {
      scope.values[input.name()] =
          ConstantOp::create(builder, where, bound->second.getType(), bound->second);
      return success();
    }
    FailureOr<RankedTensorType> type = declaredType(input, where);
    if (failed(type))
      return failure();
    if (!*type)
      return notSupported(where) << "the graph input '" << input.name()
                                 << "' has no type and shape; export with both";
    Location loc = NameLoc::get(builder.getStringAttr(input.name()));
    unsigned index = entry.getNumArguments();
    scope.values[input.name()] = entry.addArgument(*type, loc);
    argumentAttributes.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("omnibal.input", builder.getStringAttr(input.name())),
         builder.getNamedAttr("omnibal.dims", dimensionNames(input))}));
    (void)index;
    return success();
  }

  LogicalResult buildFunction() {
    auto function = func::FuncOp::create(builder, where, "main", builder.getFunctionType({}, {}));
    Block &entry = *function.addEntryBlock();
    builder.setInsertionPointToEnd(&entry);
    Scope scope;
    for (const ValueInfoProto &input : model.graph().input())
      if (failed(addInput(input, function, entry, scope)))
        return failure();
    GraphBuilder graph(model, initializers, files, builder, where);
    Frame frame;
    frame.opset = defaultOpset(model.opset_import());
    if (failed(graph.buildNodes(nodes, scope, frame)))
      return failure();

    llvm::SmallVector<Value> results;
    llvm::SmallVector<Attribute> resultAttributes;
    for (const ValueInfoProto &output : model.graph().output()) {
      if (!llvm::is_contained(outputs, output.name()))
        continue;
      Value value = graph.lookUp(scope, output.name());
      if (!value)
        return notSupported(where) << "the graph output '" << output.name() << "' is no tensor";
      if (failed(checkOutput(output, value)))
        return failure();
      results.push_back(value);
      resultAttributes.push_back(builder.getDictionaryAttr(
          builder.getNamedAttr("omnibal.output", builder.getStringAttr(output.name()))));
    }
    func::ReturnOp::create(builder, where, results);
    function.setFunctionType(
        builder.getFunctionType(entry.getArgumentTypes(), TypeRange(ValueRange(results))));
    function.setArgAttrsAttr(builder.getArrayAttr(argumentAttributes));
    function.setResAttrsAttr(builder.getArrayAttr(resultAttributes));
    return success();
  }

  /// What the file says of its result must agree with what its nodes give.
  LogicalResult checkOutput(const ValueInfoProto &output, Value value) {
    FailureOr<RankedTensorType> declared = declaredType(output, where);
    if (failed(declared) || !*declared)
      return declared;
    auto type = cast<RankedTensorType>(value.getType());
    bool fits = type.getElementType() == declared->getElementType() &&
                type.getRank() == declared->getRank();
    for (int64_t i = 0; fits && i < type.getRank(); ++i)
      fits = type.isDynamicDim(i) || declared->isDynamicDim(i) ||
             type.getDimSize(i) == declared->getDimSize(i);
    if (fits)
      return success();
    return invalidModel(where) << "the output '" << output.name() << "' is declared as "
                               << *declared << " but its node gives " << type;
  }

  const ImportOptions &options;
  OpBuilder builder;
  Location where;
  std::string path;
  ExternalFiles files;
  ModelProto model;
  OwningOpRef<ModuleOp> module;
  std::vector<std::string> outputs;
  std::vector<const NodeProto *> nodes;
  Initializers initializers;
  llvm::SmallVector<Attribute> argumentAttributes;
};

} // namespace

FailureOr<OwningOpRef<ModuleOp>> importOnnx(llvm::StringRef path, const ImportOptions &options,
                                            MLIRContext &context) {
  context.loadDialect<OmnibalDialect, func::FuncDialect>();
  return Import(path, options, context).run();
}

FailureOr<DenseElementsAttr> importOnnxTensor(llvm::StringRef path, MLIRContext &context) {
  Location where = FileLineColLoc::get(&context, path, 0, 0);
  TensorProto tensor;
  if (failed(parseFile(path, tensor, where)))
    return failure();
  return tensorValue(tensor, {}, where);
}

} // namespace omnibal
