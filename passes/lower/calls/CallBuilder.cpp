//===- CallBuilder.cpp - Formals, places and lifetimes -----------------------------------===//
#include "passes/lower/calls/CallBuilder.h"
#include "dialects/omnibal/ir/QuantizedTensor.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "passes/lower/TensorBuilder.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/SHA1.h"

using namespace mlir;

namespace omnibal::lower {
namespace {

std::optional<rt::DType> dtypeOf(Type type) {
  if (type.isF32())
    return rt::DType::F32;
  if (type.isF64())
    return rt::DType::F64;
  if (type.isInteger(32))
    return rt::DType::I32;
  if (type.isInteger(64))
    return rt::DType::I64;
  if (type.isInteger(1))
    return rt::DType::Bool;
  return std::nullopt;
}

std::optional<rt::Role> roleOf(StringRef name) {
  return llvm::StringSwitch<std::optional<rt::Role>>(name)
      .Case("parameter", rt::Role::Parameter)
      .Case("input", rt::Role::Input)
      .Case("output", rt::Role::Output)
      .Case("saved", rt::Role::Saved)
      .Case("held", rt::Role::Held)
      .Case("grad_output", rt::Role::GradOutput)
      .Case("grad_input", rt::Role::GradInput)
      .Case("parameter_grad", rt::Role::ParameterGrad)
      .Cases({"loss", "prediction", "router_loss", "chosen_reward", "rejected_reward", "preferred"},
             rt::Role::Result)
      .Default(std::nullopt);
}

std::string labelOf(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location inner : fused.getLocations())
      if (std::string label = labelOf(inner); !label.empty())
        return label;
  return {};
}

/// What a formal holds in memory: the words of a quantized matrix, or the type's own elements.
RankedTensorType storedType(RankedTensorType type) {
  return isQuantized(type) ? RankedTensorType::get({quantizedShapeOf(type).words()},
                                                   IntegerType::get(type.getContext(), 32))
                           : type;
}

} // namespace

/// Only a product expands a quantized matrix, which is its right side, and what squares its rows;
/// for a GPU an op does that wants its numbers.
LogicalResult CallBuilder::checkReaders(BlockArgument quantized) {
  for (OpOperand &use : quantized.getUses()) {
    if (isa<DequantizeOp>(use.getOwner()))
      continue;
    if (options.target != "host")
      return use.getOwner()->emitOpError("reads a quantized weight, of which target ")
             << options.target << " reads the numbers only (omnibal-form-gemms)";
    auto gemm = dyn_cast<GemmOp>(use.getOwner());
    auto squares = dyn_cast<RowSquaresOp>(use.getOwner());
    const bool expands = (gemm && gemm.getLhs() != quantized && gemm.getRhs() == quantized) ||
                         (squares && !squares.getInOut() && use.getOperandNumber() == 0);
    if (!expands)
      return use.getOwner()->emitOpError("reads a quantized weight, which only products do");
  }
  return success();
}

LogicalResult CallBuilder::addFormals() {
  auto add = [&](DictionaryAttr attributes, Type type, const Twine &what) -> FailureOr<int> {
    auto role = attributes ? attributes.getAs<StringAttr>("omnibal.role") : StringAttr();
    auto index = attributes ? attributes.getAs<IntegerAttr>("omnibal.index") : IntegerAttr();
    auto kind = role ? roleOf(role) : std::nullopt;
    if (!kind || (!index && *kind != rt::Role::Result))
      return fn.emitError() << what << " needs omnibal.role and omnibal.index";
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor)
      tensor = storedType(tensor);
    auto shape = tensor ? getSymbolicShape(tensor) : std::nullopt;
    if (!shape || !product(*shape) || !dtypeOf(tensor.getElementType()))
      return fn.emitError() << what << " has type " << type
                            << ", which is not a tensor affine in V and N of a runtime type";
    FormalRoot formal;
    formal.formal.role = *kind;
    formal.formal.index = index ? index.getInt() : -1;
    formal.formal.name = role.str();
    if (*kind != rt::Role::Result)
      formal.formal.name += "_" + std::to_string(formal.formal.index);
    formal.root = addRoot(tensor.getElementType(), *shape,
                          !isQuantized(type) && storage.isBFloat16(attributes, type));
    list.roots[formal.root].formal = list.formals.size();
    list.formals.push_back(formal);
    return formal.root;
  };
  for (BlockArgument argument : fn.getArguments()) {
    auto root = add(fn.getArgAttrDict(argument.getArgNumber()), argument.getType(),
                    "argument " + Twine(argument.getArgNumber()));
    if (failed(root))
      return failure();
    const bool quantized = isQuantized(argument.getType());
    if (quantized && failed(checkReaders(argument)))
      return failure();
    set(argument,
        dense(*root, quantized ? ArrayRef(list.roots[*root].shape) : ArrayRef(shapeOf(argument))));
  }
  for (auto [i, type] : llvm::enumerate(fn.getResultTypes())) {
    auto root = add(fn.getResultAttrDict(i), type, "result " + Twine(i));
    if (failed(root))
      return failure();
    resultRoots.push_back(*root);
  }
  return success();
}

int CallBuilder::addRoot(Type elementType, ArrayRef<SymbolicDim> shape, bool inBFloat16) {
  Root root;
  root.dtype = inBFloat16 ? rt::DType::BF16 : *dtypeOf(elementType);
  root.shape.assign(shape.begin(), shape.end());
  root.elements = product(shape).value_or(0);
  list.roots.push_back(root);
  liveUses.push_back(0);
  return list.roots.size() - 1;
}

Place CallBuilder::dense(int root, ArrayRef<SymbolicDim> shape) {
  Place place;
  place.root = root;
  place.shape.assign(shape.begin(), shape.end());
  place.strides = denseStrides(shape).value_or(SymbolicShape(shape.size()));
  return place;
}

void CallBuilder::set(Value value, const Place &place) {
  places[value] = place;
  liveUses[place.root] += std::distance(value.use_begin(), value.use_end());
}

bool CallBuilder::diesAt(const Place &place, Operation *op) {
  if (list.roots[place.root].formal >= 0)
    return false;
  int here = 0;
  for (Value operand : op->getOperands())
    if (auto it = places.find(operand); it != places.end())
      here += it->second.root == place.root;
  return here == liveUses[place.root];
}

Call &CallBuilder::call(Operation *op, StringRef kernel,
                        std::vector<std::pair<std::string, Place>> operands) {
  Call call;
  call.kernel = kernel.str();
  call.operands = std::move(operands);
  call.label = labelOf(op->getLoc());
  if (call.label.empty())
    call.label = op->getName().stripDialect().str();
  list.calls.push_back(std::move(call));
  return list.calls.back();
}

Place CallBuilder::materialize(const Place &place, Operation *op) {
  Root root = list.roots[place.root];
  root.shape = place.shape;
  root.elements = product(place.shape).value_or(0);
  root.formal = -1;
  list.roots.push_back(root);
  liveUses.push_back(0);
  Place copy = dense(list.roots.size() - 1, place.shape);
  call(op, "copy", {{"src", place}, {"dst", copy}});
  return copy;
}

Place CallBuilder::as(rt::DType dtype, const Place &place, Operation *op) {
  if (dtypeAt(place) == dtype)
    return place;
  Place copy = fresh(Float32Type::get(fn.getContext()), place.shape, dtype == rt::DType::BF16);
  call(op, "copy", {{"src", place}, {"dst", copy}});
  return copy;
}

rt::DType CallBuilder::floatTypeOf(ValueRange operands) {
  bool inBFloat16 = llvm::any_of(operands, [&](Value value) { return storage.isBFloat16(value); });
  return inBFloat16 ? rt::DType::BF16 : rt::DType::F32;
}

Place CallBuilder::reshaped(const Place &place, ArrayRef<SymbolicDim> shape, Operation *op) {
  if (auto view = reshape(place, shape))
    return *view;
  return *reshape(materialize(place, op), shape);
}

Place CallBuilder::unitStride(const Place &place, Operation *op) {
  size_t last = place.rank() - 1;
  bool fits =
      place.rank() > 0 && (place.strides[last] == SymbolicDim(1) || place.shape[last].isOne());
  return fits ? place : materialize(place, op);
}

Place CallBuilder::matrix(Value value, Operation *op) {
  SymbolicShape shape = shapeOf(value);
  SymbolicDim rows = *product(ArrayRef(shape).drop_back());
  return unitStride(reshaped(placeOf(value), {rows, shape.back()}, op), op);
}

Place CallBuilder::flat(Value value, Operation *op) {
  return reshaped(placeOf(value), {*product(shapeOf(value))}, op);
}

void CallBuilder::addWorkspace(std::vector<std::pair<std::string, Place>> &operands,
                               SymbolicDim rows, int64_t words) {
  if (options.target != "cuda")
    return;
  Type word = IntegerType::get(fn.getContext(), 32);
  operands.emplace_back("workspace", fresh(word, {*multiply(rows, SymbolicDim(words))}));
}

Place CallBuilder::batchValue(StringRef name, Value value) {
  for (const FormalRoot &formal : batchFormals)
    if (formal.formal.name == name)
      return dense(formal.root, shapeOf(value));
  FormalRoot formal;
  formal.formal = {rt::Role::Batch, -1, name.str()};
  formal.root = addRoot(elementType(value), shapeOf(value));
  list.roots[formal.root].formal = 0;
  batchFormals.push_back(formal);
  return dense(formal.root, shapeOf(value));
}

FailureOr<Place> CallBuilder::constant(ConstantOp op) {
  auto data = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!data)
    if (auto resource = dyn_cast<DenseResourceElementsAttr>(op.getValue()))
      if (AsmResourceBlob *blob = resource.getRawHandle().getBlob())
        data = DenseElementsAttr::getFromRawBuffer(resource.getType(), blob->getData());
  if (!data)
    return op.emitOpError("its data is not available");
  ConstantData constant;
  constant.dtype = *dtypeOf(data.getElementType());
  for (int64_t size : data.getType().getShape())
    constant.shape.push_back(size);
  if (data.getElementType().isInteger(1)) {
    for (bool bit : data.getValues<bool>())
      constant.bytes.push_back(bit ? 1 : 0);
  } else {
    ArrayRef<char> raw = data.getRawData();
    for (int64_t i = 0, e = data.isSplat() ? data.getNumElements() : 1; i < e; ++i)
      constant.bytes.append(raw.begin(), raw.end());
  }
  llvm::SHA1 hash;
  hash.update(StringRef(constant.bytes));
  std::string header = std::to_string(static_cast<int>(constant.dtype));
  for (int64_t size : constant.shape)
    header += "x" + std::to_string(size);
  hash.update(StringRef(header));
  constant.name = "constant_" + llvm::toHex(ArrayRef<uint8_t>(hash.result()).take_front(8), true);
  for (const FormalRoot &formal : constantFormals)
    if (formal.formal.name == constant.name)
      return dense(formal.root, shapeOf(op));
  FormalRoot formal;
  formal.formal = {rt::Role::Constant, -1, constant.name};
  formal.root = addRoot(data.getElementType(), shapeOf(op));
  list.roots[formal.root].formal = 0;
  constantFormals.push_back(formal);
  list.constants.push_back(std::move(constant));
  return dense(formal.root, shapeOf(op));
}

bool CallBuilder::markAccumulated(Value value, const Place &target) {
  if (!value.hasOneUse())
    return false;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  bool direct = isa<EmbeddingGradOp, GroupedLinearWeightGradOp>(op);
  if (auto view = dyn_cast<ReshapeOp>(op)) {
    auto inner = reshape(target, shapeOf(view.getInput()));
    bool marked = inner && markAccumulated(view.getInput(), *inner);
    if (marked)
      accumulated[value] = target;
    return marked;
  }
  if (auto gemm = dyn_cast<GemmOp>(op)) {
    direct = value == gemm.getSums() ||
             (gemm.getActivation() == Activation::None && !gemm.getBias() && !gemm.getPre() &&
              (!gemm.getResidual() || markAccumulated(gemm.getResidual(), target)));
  } else if (auto fused = dyn_cast<FusedOp>(op)) {
    unsigned index = cast<OpResult>(value).getResultNumber();
    direct = describeOutput(fused, index).columnReduction;
  } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
    direct = reduce.getKind() == ReduceKind::Sum;
  } else if (auto loss = dyn_cast<LinearCrossEntropyGradOp>(op)) {
    direct = value == loss.getDweight() || value == loss.getDbias();
  } else if (auto loss = dyn_cast<JoinedCrossEntropyGradOp>(op)) {
    direct = value == loss.getDweight() || value == loss.getDbias();
  }
  if (direct)
    accumulated[value] = target;
  return direct;
}

void CallBuilder::replaceRoot(int from, int to) {
  for (Call &call : list.calls)
    for (auto &[name, place] : call.operands)
      if (place.root == from)
        place.root = to;
  for (auto &[value, place] : places)
    if (place.root == from)
      place.root = to;
}

LogicalResult CallBuilder::bindResults(func::ReturnOp op) {
  for (auto [value, root] : llvm::zip(op.getOperands(), resultRoots)) {
    if (accumulated.contains(value))
      continue;
    Place place = placeOf(value), target = dense(root, shapeOf(value));
    if (list.formals[list.roots[root].formal].formal.role == rt::Role::ParameterGrad) {
      call(op, "copy", {{"src", place}, {"dst", target}}).attributes["accumulate"] = true;
      continue;
    }
    const Root &source = list.roots[place.root];
    if (source.formal < 0 && isDense(place) && source.elements == list.roots[root].elements &&
        source.dtype == list.roots[root].dtype)
      replaceRoot(place.root, root);
    else
      call(op, "copy", {{"src", place}, {"dst", target}});
  }
  return success();
}

LogicalResult CallBuilder::emit(Operation *op) {
  for (Value value : op->getResults()) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    auto shape = type ? getSymbolicShape(type) : std::nullopt;
    if (!shape || !product(*shape) || !dtypeOf(type.getElementType()))
      return op->emitOpError("its result ")
             << value.getType() << " is not a tensor affine in V and N of a runtime type";
  }
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](BatchValueOp o) {
        set(o, batchValue(o.getName(), o));
        return success();
      })
      .Case([&](ConstantOp o) -> LogicalResult {
        auto place = constant(o);
        if (failed(place))
          return failure();
        set(o, *place);
        return success();
      })
      .Case<ReshapeOp, SqueezeOp, UnsqueezeOp>([&](Operation *o) { return emitReshape(o); })
      .Case([&](TransposeOp o) {
        set(o, permute(placeOf(o.getInput()), o.getPermutation()));
        return success();
      })
      .Case([&](ExpandOp o) {
        set(o, broadcast(placeOf(o.getInput()), shapeOf(o)));
        return success();
      })
      .Case([&](SliceOp o) { return emitSlice(o); })
      .Case([&](PadOp o) { return emitPad(o); })
      .Case([&](ConcatOp o) { return emitConcat(o); })
      .Case([&](ReduceOp o) { return emitReduce(o); })
      .Case([&](ReshardOp o) { return emitReshard(o); })
      .Case([&](GemmOp o) { return emitGemm(o); })
      .Case([&](RowSquaresOp o) { return emitRowSquares(o); })
      .Case([&](DequantizeOp o) { return emitDequantize(o); })
      .Case([&](FusedOp o) { return emitFused(o); })
      .Case([&](AttentionOp o) { return emitAttention(o); })
      .Case([&](AttentionGradOp o) { return emitAttentionGrad(o); })
      .Case([&](CrossAttentionOp o) { return emitCrossAttention(o); })
      .Case([&](CrossAttentionGradOp o) { return emitCrossAttentionGrad(o); })
      .Case([&](RopeOp o) { return emitRope(o); })
      .Case([&](GatedDeltaOp o) { return emitGatedDelta(o); })
      .Case([&](GatedDeltaGradOp o) { return emitGatedDeltaGrad(o); })
      .Case([&](EmbeddingOp o) { return emitEmbedding(o); })
      .Case([&](EmbeddingGradOp o) { return emitEmbeddingGrad(o); })
      .Case([&](ImageMergeOp o) { return emitImageMerge(o); })
      .Case([&](ImageMergeGradOp o) { return emitImageMergeGrad(o); })
      .Case([&](GroupRowsOp o) { return emitGroupRows(o); })
      .Case([&](GroupedLinearOp o) { return emitGroupedLinear(o); })
      .Case([&](GroupedLinearWeightGradOp o) { return emitGroupedLinearWeightGrad(o); })
      .Case<CrossEntropyOp, CrossEntropyGradOp>([&](Operation *o) { return emitCrossEntropy(o); })
      .Case<LinearCrossEntropyOp, LinearCrossEntropyGradOp>(
          [&](Operation *o) { return emitLinearCrossEntropy(o); })
      .Case([&](WordStatisticsOp o) { return emitWordStatistics(o); })
      .Case([&](JoinedCrossEntropyOp o) { return emitJoinedCrossEntropy(o); })
      .Case([&](JoinedCrossEntropyGradOp o) { return emitJoinedCrossEntropyGrad(o); })
      .Case([&](JoinedPredictionOp o) { return emitJoinedPrediction(o); })
      .Case<PreferenceLossOp, PreferenceLossGradOp>(
          [&](Operation *o) { return emitPreferenceLoss(o); })
      .Default([&](Operation *o) { return emitPlain(o); });
}

FailureOr<CallList> CallBuilder::run() {
  list.name = fn.getName().str();
  if (failed(addFormals()))
    return failure();
  auto last = cast<func::ReturnOp>(fn.getBody().front().getTerminator());
  for (auto [value, root] : llvm::zip(last.getOperands(), resultRoots))
    if (list.formals[list.roots[root].formal].formal.role == rt::Role::ParameterGrad)
      (void)markAccumulated(value, dense(root, shapeOf(value)));
  for (Operation &op : fn.getBody().front().without_terminator()) {
    if (failed(emit(&op)))
      return failure();
    for (Value operand : op.getOperands())
      if (auto it = places.find(operand); it != places.end())
        --liveUses[it->second.root];
  }
  emitGradientSums(last);
  if (failed(bindResults(last)))
    return failure();
  for (auto *formals : {&batchFormals, &constantFormals})
    for (FormalRoot &formal : *formals) {
      list.roots[formal.root].formal = list.formals.size();
      list.formals.push_back(formal);
    }
  return std::move(list);
}

} // namespace omnibal::lower
