//===- QuantizeFrozen.cpp - Frozen weights of linear layers in 8 or 4 bits a number -----------===//
#include "dialects/omnibal/ir/QuantizedTensor.h"
#include "passes/common/AdapterAttributes.h"
#include "passes/layers/LinearWeights.h"
#include "passes/layers/Passes.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Regex.h"

namespace omnibal {
#define GEN_PASS_DEF_QUANTIZEFROZEN
#include "passes/layers/Passes.h.inc"
} // namespace omnibal

using namespace mlir;
using namespace omnibal;
using namespace omnibal::layers;

namespace {

struct QuantizeFrozenPass : omnibal::impl::QuantizeFrozenBase<QuantizeFrozenPass> {
  using QuantizeFrozenBase::QuantizeFrozenBase;

  void runOnOperation() override {
    FailureOr<LayerGraph> graph = LayerGraph::get(getOperation(), getArgument());
    if (failed(graph) || failed(readKind()))
      return signalPassFailure();
    // Everything is decided before anything changes.
    FailureOr<SmallVector<Weight>> found =
        match.empty() ? findAdapted(*graph) : findMatching(*graph);
    if (failed(found))
      return signalPassFailure();
    for (Weight &weight : *found)
      declare(weight);
    setTypes(*graph);
  }

private:
  struct Weight {
    ParameterOp parameter;
    SmallVector<Operation *> readers; ///< linear layers, and what squares rows beside them
  };

  InFlightDiagnostic error() { return getOperation().emitError() << getArgument() << ": "; }

  LogicalResult readKind() {
    std::optional<rt::Quantization> named = rt::quantizationNamed(kind.getValue());
    if (!named)
      return error() << "'" << kind << "' is no kind of quantized weights; int8 and nf4 are";
    quantization = *named;
    return success();
  }

  static bool readsInOut(Operation *reader) {
    auto linear = dyn_cast<LinearOp>(reader);
    return linear && linear.getInOut();
  }

  static void readTransposed(Operation *reader) {
    if (auto linear = dyn_cast<LinearOp>(reader))
      linear.setInOut(!linear.getInOut());
    else if (auto squares = dyn_cast<RowSquaresOp>(reader))
      squares.setInOut(!squares.getInOut());
  }

  static bool isFloat32Matrix(ParameterOp parameter) {
    auto type = cast<RankedTensorType>(parameter.getType());
    return type.getRank() == 2 && type.hasStaticShape() && type.getElementType().isF32() &&
           !isQuantized(type);
  }

  /// The weights below the adapters.
  FailureOr<SmallVector<Weight>> findAdapted(const LayerGraph &graph) {
    FailureOr<rt::Adapters> adapters = getAdapters(getOperation());
    if (failed(adapters))
      return failure();
    if (adapters->empty())
      return error() << "the module has no adapters, so `match` must say which frozen weights are "
                        "quantized";
    llvm::StringSet<> names;
    for (const rt::LinearAdapter &linear : adapters->linears)
      names.insert(linear.weight);
    SmallVector<Weight> found;
    for (auto &[parameter, readers] : findReaders(graph))
      if (names.contains(parameter.getSymName()) && isFloat32Matrix(parameter) &&
          areLinearsOf(readers, parameter))
        found.push_back({parameter, readers});
    return found;
  }

  FailureOr<SmallVector<Weight>> findMatching(const LayerGraph &graph) {
    llvm::Regex regex(match);
    std::string problem;
    if (!regex.isValid(problem))
      return error() << "'" << match << "' is not a regular expression: " << problem;
    SmallVector<Weight> found;
    SmallVector<ParameterOp> others; ///< matrices that match and stay as they are
    bool trains = false;
    for (auto &[parameter, readers] : findReaders(graph)) {
      StringRef name = parameter.getSymName(), module = name;
      module.consume_back(".weight");
      if (!regex.match(name) && !regex.match(module))
        continue;
      if (!ParameterOp(parameter).getFrozen())
        trains = true;
      else if (isFloat32Matrix(parameter) && areLinearsOf(readers, parameter))
        found.push_back({parameter, readers});
      else if (cast<RankedTensorType>(ParameterOp(parameter).getType()).getRank() >= 2)
        others.push_back(parameter);
    }
    if (found.empty())
      return error() << "no frozen weight of a linear layer matches '" << match << "'"
                     << (trains ? "; those that match train" : "");
    if (!others.empty())
      getOperation().emitWarning()
          << getArgument() << ": " << others.size() << " frozen parameters match '" << match
          << "' but stay as they are, because not linear layers alone read them: '"
          << others.front().getSymName() << "'" << (others.size() > 1 ? " and others" : "");
    return found;
  }

  /// Gives the parameter its type, as [out, in].
  void declare(Weight &weight) {
    ParameterOp parameter = weight.parameter;
    auto type = cast<RankedTensorType>(parameter.getType());
    if (llvm::any_of(weight.readers, readsInOut)) {
      type = RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
      parameter.setTransposed(!parameter.getTransposed());
      llvm::for_each(weight.readers, readTransposed);
    }
    parameter.setType(makeQuantizedType(type, quantization));
  }

  /// Where parameters are read, they have the types that they were given.
  void setTypes(const LayerGraph &graph) {
    for (LayerOp layer : graph.layers)
      for (auto [number, value] : llvm::enumerate(layer.getParameters())) {
        Type type = graph.getParameter(layer, number).getType();
        value.setType(type);
        layer.getBody().front().getArgument(layer.getInputs().size() + number).setType(type);
      }
  }

  rt::Quantization quantization = rt::Quantization::None;
};
} // namespace
