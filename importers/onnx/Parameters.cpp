//===- Parameters.cpp - Which initializers are parameters, and their names ---------------===//
#include "importers/onnx/Parameters.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "importers/onnx/CheckpointMatch.h"
#include "importers/onnx/Diagnostics.h"
#include "importers/onnx/Tensors.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {

bool isExternal(const TensorProto &tensor) {
  return tensor.data_location() == TensorProto::EXTERNAL;
}

class Classifier {
public:
  Classifier(const GraphProto &graph, Initializers &initializers, ExternalFiles &files,
             const ImportOptions &options, OpBuilder &builder, Location where)
      : graph(graph), initializers(initializers), files(files), options(options), builder(builder),
        where(where) {}

  LogicalResult run() {
    bool anyExternal = false;
    for (const TensorProto &tensor : graph.initializer()) {
      anyExternal |= isExternal(tensor);
      Initializer &initializer = initializers[tensor.name()];
      if (initializer.uses == 0)
        continue;
      FailureOr<RankedTensorType> type = tensorType(tensor, where);
      if (failed(type))
        return failure();
      initializer.type = *type;
    }
    for (const TensorProto &tensor : graph.initializer()) {
      Initializer &initializer = initializers[tensor.name()];
      if (initializer.uses == 0 || !isFloat(tensor.data_type()))
        continue;
      if (isExternal(tensor)) {
        if (failed(nameByLocation(initializer)))
          return failure();
      } else {
        initializer.isParameter = !anyExternal && options.weights.empty();
        initializer.parameter = tensor.name();
      }
    }
    if (!options.weights.empty() && failed(matchCheckpoint()))
      return failure();
    for (const TensorProto &tensor : graph.initializer()) {
      Initializer &initializer = initializers[tensor.name()];
      if (initializer.uses == 0)
        continue;
      if (initializer.isParameter ? failed(createParameter(initializer))
                                  : failed(checkConstant(initializer)))
        return failure();
    }
    return success();
  }

private:
  /// External data in a safetensors file names its tensor.
  LogicalResult nameByLocation(Initializer &initializer) {
    const TensorProto &tensor = *initializer.tensor;
    FailureOr<ExternalRange> range = files.locate(tensor, where);
    if (failed(range))
      return failure();
    initializer.isParameter = true;
    initializer.parameter = tensor.name();
    if (!range->stored)
      return success();
    initializer.parameter = range->stored->name;
    named.insert(tensor.name());
    return success();
  }

  LogicalResult matchCheckpoint() {
    std::vector<Initializer *> unnamed;
    for (const TensorProto &tensor : graph.initializer()) {
      Initializer &initializer = initializers[tensor.name()];
      if (initializer.uses != 0 && isFloat(tensor.data_type()) && !named.contains(tensor.name()))
        unnamed.push_back(&initializer);
    }
    return matchToCheckpoint(options.weights, options.linkFolders, unnamed, files, where);
  }

  LogicalResult checkConstant(const Initializer &initializer) {
    const TensorProto &tensor = *initializer.tensor;
    if (!isFloat(tensor.data_type()) || initializer.type.getRank() < 2)
      return success();
    auto diagnostic = invalidModel(where);
    diagnostic << "initializer '" << tensor.name() << "' of type " << initializer.type;
    if (options.weights.empty())
      return diagnostic << " is neither external data nor certainly a constant; pass --weights "
                           "with the checkpoint that the model was exported from";
    return diagnostic << " is no tensor of '" << options.weights
                      << "', neither by name nor by content; pass the checkpoint that the model "
                         "was exported from as --weights, or export with optimize=False";
  }

  LogicalResult createParameter(Initializer &initializer) {
    const TensorProto &tensor = *initializer.tensor;
    RankedTensorType type = initializer.type;
    if (initializer.transposed)
      type = RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
    StringAttr file;
    IntegerAttr offset, length;
    ElementsAttr value;
    if (isExternal(tensor)) {
      FailureOr<ExternalRange> range = files.locate(tensor, where);
      if (failed(range))
        return failure();
      if (!initializer.transposed) { // else only the checkpoint has the bytes in this order
        file = builder.getStringAttr(range->location);
        offset = builder.getI64IntegerAttr(range->offset);
        length = builder.getI64IntegerAttr(range->length);
      }
    } else {
      FailureOr<DenseElementsAttr> elements = tensorValue(tensor, {}, where);
      if (failed(elements))
        return failure();
      if (options.weights.empty())
        value = *elements;
    }
    // Tied weights: two initializers with one tensor of the checkpoint are one parameter.
    auto [entry, isNew] = created.try_emplace(initializer.parameter);
    if (!isNew) {
      ParameterOp other = entry->second;
      if (other.getType() == type && other.getFileAttr() == file && other.getOffsetAttr() == offset)
        return success();
      if (other.getType() == type && !options.weights.empty())
        return success();
      return invalidModel(where) << "two initializers are the parameter '" << initializer.parameter
                                 << "', with different shapes or data";
    }
    entry->second = ParameterOp::create(builder, NameLoc::get(builder.getStringAttr(tensor.name())),
                                        builder.getStringAttr(initializer.parameter),
                                        TypeAttr::get(type), file, offset, length, value,
                                        /*frozen=*/UnitAttr(), /*transposed=*/UnitAttr());
    return success();
  }

  const GraphProto &graph;
  Initializers &initializers;
  ExternalFiles &files;
  const ImportOptions &options;
  OpBuilder &builder;
  Location where;
  llvm::StringSet<> named; ///< initializers whose name a safetensors file gave
  llvm::StringMap<ParameterOp> created;
};

} // namespace

LogicalResult classifyInitializers(const GraphProto &graph, Initializers &initializers,
                                   ExternalFiles &files, const ImportOptions &options,
                                   OpBuilder &builder, Location where) {
  return Classifier(graph, initializers, files, options, builder, where).run();
}

} // namespace omnibal::onnx
