//===- GraphBuilder.cpp - Nodes to ops, functions inlined --------------------------------===//
#include "importers/onnx/GraphBuilder.h"
#include "importers/onnx/Diagnostics.h"
#include "importers/onnx/ModelFile.h"
#include "importers/onnx/ModulePath.h"
#include "importers/onnx/OpTable.h"
#include "importers/onnx/Tensors.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {
/// Functions that call each other deeper than this call each other for ever.
constexpr int kMaxCallDepth = 64;

std::string functionKey(llvm::StringRef domain, llvm::StringRef name, llvm::StringRef overload) {
  return (llvm::Twine(isDefaultDomain(domain) ? "" : domain) + "\n" + name + "\n" + overload).str();
}
} // namespace

GraphBuilder::GraphBuilder(const ModelProto &model, Initializers &initializers,
                           ExternalFiles &files, OpBuilder builder, Location where)
    : initializers(initializers), files(files), builder(builder), where(where) {
  for (const ValueInfoProto &info : model.graph().value_info())
    declarations[info.name()] = &info;
  for (const FunctionProto &function : model.functions())
    functions[functionKey(function.domain(), function.name(), function.overload())] = &function;
}

const FunctionProto *GraphBuilder::findFunction(const NodeProto &node) const {
  return functions.lookup(functionKey(node.domain(), node.op_type(), node.overload()));
}

FailureOr<DenseElementsAttr> GraphBuilder::readTensor(const TensorProto &tensor, Location loc) {
  if (tensor.data_location() == TensorProto::EXTERNAL)
    return files.value(tensor, loc);
  return tensorValue(tensor, {}, loc);
}

Value GraphBuilder::materialize(const Initializer &initializer) {
  Location loc = NameLoc::get(builder.getStringAttr(initializer.tensor->name()));
  Emitter e(builder, loc, known, "initializer '" + initializer.tensor->name() + "'");
  if (!initializer.isParameter) {
    FailureOr<DenseElementsAttr> elements = readTensor(*initializer.tensor, loc);
    return failed(elements) ? Value() : e.constant(*elements);
  }
  RankedTensorType type = initializer.type;
  if (!initializer.transposed)
    return GetParameterOp::create(builder, loc, type, initializer.parameter);
  auto stored =
      RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
  return e.transpose(GetParameterOp::create(builder, loc, stored, initializer.parameter), {1, 0});
}

Value GraphBuilder::lookUp(const Scope &scope, llvm::StringRef name) {
  const Scope *outermost = &scope;
  for (const Scope *at = &scope; at; at = at->parent) {
    if (Value value = at->values.lookup(name))
      return value;
    outermost = at;
  }
  // Initializers belong to the graph's scope, which functions do not see.
  auto initializer = initializers.find(name);
  if (initializer == initializers.end() || outermost->values.contains("\nfunction"))
    return {};
  Value &value = made[name];
  if (!value)
    value = materialize(initializer->second);
  return value;
}

LogicalResult GraphBuilder::collectInputs(NodeContext &context, const Scope &scope) {
  for (const std::string &name : context.node.input()) {
    context.inputs.emplace_back();
    context.sequences.push_back(nullptr);
    if (name.empty())
      continue;
    for (const Scope *at = &scope; at && !context.sequences.back(); at = at->parent)
      if (auto found = at->sequences.find(name); found != at->sequences.end())
        context.sequences.back() = &found->second;
    if (context.sequences.back())
      continue;
    context.inputs.back() = lookUp(scope, name);
    // Optional inputs that a caller left out are absent inside the function too.
    if (!context.inputs.back() && !scope.values.contains(name)) {
      if (initializers.contains(name))
        return failure(); // has been reported
      if (auto source = unbuilt.find(name); source != unbuilt.end())
        return notSupported(context.e.loc)
               << context.e.label << ": its operand '" << name << "' of " << source->second;
      return internalError(context.e.loc)
             << context.e.label << ": no value for its operand '" << name << "'";
    }
  }
  return success();
}

LogicalResult GraphBuilder::buildNode(const NodeProto &node, Scope &scope, const Frame &frame) {
  std::string name = frame.caller + (node.name().empty() && node.output_size() != 0 ? node.output(0)
                                                                                    : node.name());
  StringAttr module = modulePath(node, builder.getContext());
  if (!module)
    module = frame.module;
  Location loc = UnknownLoc::get(builder.getContext());
  if (module)
    loc = NameLoc::get(module);
  loc = NameLoc::get(builder.getStringAttr(name), loc);
  std::string label = nodeLabel(node);
  if (!frame.caller.empty())
    label += " (inlined: '" + name + "')";

  if (const FunctionProto *function = findFunction(node))
    return buildCall(node, *function, scope, frame, module);
  bool isStandard = isDefaultDomain(node.domain()), isKnown = false;
  const OpEntry *entry = findOp(isStandard ? node.op_type() : node.domain() + "." + node.op_type(),
                                frame.opset, isKnown);
  if (!entry && !isStandard)
    return notSupported(loc) << label << ": operator of the domain '" << node.domain()
                             << "'; export with standard ONNX operators";
  if (!entry && isKnown)
    return notSupported(loc) << label << ": operator " << node.op_type() << " at opset "
                             << frame.opset << "; export with another opset (13 to 23)";
  if (!entry)
    return notSupported(loc) << label << ": operator " << node.op_type() << " (opset "
                             << frame.opset << ")";

  Emitter emitter(builder, loc, known, std::move(label));
  NodeContext context(node, frame.opset, frame.references, emitter, *this);
  if (failed(collectInputs(context, scope)))
    return failure();
  while (!context.inputs.empty() && !context.inputs.back() && !context.sequences.back()) {
    context.inputs.pop_back();
    context.sequences.pop_back();
  }
  int count = int(context.inputs.size());
  if (count < entry->minInputs || (entry->maxInputs >= 0 && count > entry->maxInputs))
    return emitter.invalid("has " + llvm::Twine(count) + " inputs"), failure();
  bool takesSequence = llvm::StringRef(entry->name).contains("Sequence") ||
                       llvm::StringRef(entry->name) == "Identity";
  for (int i = 0; i < count; ++i) {
    if (context.sequences[size_t(i)] && !takesSequence)
      return emitter.invalid("input " + llvm::Twine(i) + " is a sequence"), failure();
    bool required = i < entry->minInputs || entry->maxInputs < 0;
    if (required && !context.inputs[size_t(i)] && !context.sequences[size_t(i)])
      return emitter.invalid("input " + llvm::Twine(i) + " is absent"), failure();
  }
  if (node.output_size() != 0)
    if (auto info = declarations.find(node.output(0)); info != declarations.end() && !frame.depth) {
      FailureOr<RankedTensorType> declared = declaredType(*info->second, loc);
      if (failed(declared))
        return failure();
      context.declared = *declared;
    }

  llvm::scope_exit restore([&, oldScope = currentScope, oldFrame = currentFrame] {
    currentScope = oldScope;
    currentFrame = oldFrame;
  });
  currentScope = &scope;
  currentFrame = &frame;
  if (failed(entry->build(context)))
    return failure();
  for (Value output : context.outputs)
    if (std::string wrong = output ? sizeError(shapeOf(output)) : ""; !wrong.empty())
      return emitter.invalid("a result has " + wrong), failure();
  if (context.sequenceOutput) {
    scope.sequences[node.output(0)] = std::move(*context.sequenceOutput);
    return success();
  }
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty())
      continue;
    if (i >= int(context.outputs.size()) && context.isPartial) {
      unbuilt[node.output(i)] = emitter.label;
      continue;
    }
    if (i >= int(context.outputs.size()))
      return emitter.unsupported("output " + llvm::Twine(i) + " ('" + node.output(i) + "')"),
             failure();
    if (!context.outputs[size_t(i)])
      return failure(); // has been reported
    scope.values[node.output(i)] = context.outputs[size_t(i)];
  }
  return success();
}

LogicalResult GraphBuilder::buildNodes(llvm::ArrayRef<const NodeProto *> nodes, Scope &scope,
                                       const Frame &frame) {
  for (const NodeProto *node : nodes)
    if (failed(buildNode(*node, scope, frame)))
      return failure();
  return success();
}

LogicalResult GraphBuilder::buildCall(const NodeProto &node, const FunctionProto &function,
                                      Scope &scope, const Frame &frame, StringAttr module) {
  Location loc = NameLoc::get(builder.getStringAttr(frame.caller + node.name()));
  if (frame.depth >= kMaxCallDepth)
    return invalidModel(loc) << nodeLabel(node) << ": functions call each other without end";
  if (node.input_size() > function.input_size() || node.output_size() > function.output_size())
    return invalidModel(loc) << nodeLabel(node) << ": more operands or results than function '"
                             << function.name() << "' has";

  Emitter emitter(builder, loc, known, nodeLabel(node));
  NodeContext call(node, frame.opset, frame.references, emitter, *this);
  if (failed(collectInputs(call, scope)))
    return failure();
  Scope inner;
  inner.values["\nfunction"] = Value(); // no ONNX name: marks that the graph's names end here
  for (int i = 0; i < function.input_size(); ++i) {
    if (i < int(call.sequences.size()) && call.sequences[size_t(i)])
      inner.sequences[function.input(i)] = *call.sequences[size_t(i)];
    else
      inner.values[function.input(i)] = call.input(size_t(i));
  }
  AttributeTable references;
  for (const AttributeProto &attribute : function.attribute_proto())
    references[attribute.name()] = &attribute;
  for (const AttributeProto &attribute : node.attribute())
    if (const AttributeProto *resolved = call.attribute(attribute.name()))
      references[attribute.name()] = resolved;

  Frame body = {defaultOpset(function.opset_import()), &references,
                frame.caller + (node.name().empty() ? node.op_type() : node.name()) + "/", module,
                frame.depth + 1};
  if (body.opset < 0)
    body.opset = frame.opset;
  if (body.opset < kMinOpset || body.opset > kMaxOpset)
    return notSupported(loc) << nodeLabel(node) << ": function '" << function.name()
                             << "' is written for opset " << body.opset;
  FailureOr<std::vector<const NodeProto *>> nodes =
      orderNodes(function.node(), {}, {function.input().begin(), function.input().end()},
                 {function.output().begin(), function.output().end()}, loc);
  if (failed(nodes) || failed(buildNodes(*nodes, inner, body)))
    return failure();
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty())
      continue;
    if (auto sequence = inner.sequences.find(function.output(i)); sequence != inner.sequences.end())
      scope.sequences[node.output(i)] = sequence->second;
    else
      scope.values[node.output(i)] = inner.values.lookup(function.output(i));
  }
  return success();
}

LogicalResult GraphBuilder::buildBranch(const GraphProto &branch,
                                        llvm::SmallVectorImpl<Value> &results) {
  Scope inner;
  inner.parent = currentScope;
  const Frame frame = *currentFrame;
  llvm::StringSet<> outer;
  for (const Scope *at = currentScope; at; at = at->parent) {
    for (const auto &entry : at->values)
      outer.insert(entry.first());
    for (const auto &entry : at->sequences)
      outer.insert(entry.first());
  }
  for (const auto &entry : initializers)
    outer.insert(entry.first());
  std::vector<std::string> given, wanted;
  for (const TensorProto &tensor : branch.initializer()) {
    FailureOr<DenseElementsAttr> elements = readTensor(tensor, where);
    if (failed(elements))
      return failure();
    inner.values[tensor.name()] =
        ConstantOp::create(builder, where, elements->getType(), *elements);
    given.push_back(tensor.name());
  }
  for (const ValueInfoProto &output : branch.output())
    wanted.push_back(output.name());
  FailureOr<std::vector<const NodeProto *>> nodes =
      orderNodes(branch.node(), outer, given, wanted, where);
  if (failed(nodes) || failed(buildNodes(*nodes, inner, frame)))
    return failure();
  for (const std::string &name : wanted) {
    results.push_back(lookUp(inner, name));
    if (!results.back())
      return notSupported(where) << "the branch output '" << name << "' is no tensor";
  }
  return success();
}

} // namespace omnibal::onnx
