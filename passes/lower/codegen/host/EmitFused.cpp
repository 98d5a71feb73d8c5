//===- EmitFused.cpp - Code of one fused kernel ------------------------------------------===//
//
// Row by row; within a row one loop over the columns for each level of row reductions (a norm: one
// for the statistics, one for the result). What a later loop needs again is computed again from
// memory that is in the first-level cache, unless it is dear: then it waits in a scratch row.
//
//===-------------------------------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "passes/lower/TensorBuilder.h"
#include "passes/lower/transforms/FusedAnalysis.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace omnibal::lower {
namespace {

constexpr int64_t maxWidth = 16;    ///< lanes: one AVX-512 or two AVX2 registers
constexpr int maxRecomputedOps = 6; ///< a longer chain waits in scratch
constexpr int64_t cacheLine = 64;

bool isDear(Operation *op) {
  return isa<ElementwiseOpInterface>(op) &&
         !isa<NegOp, AddOp, SubOp, MulOp, MaxOp, MinOp, AbsOp, ReluOp, CastOp, CompareOp, SelectOp,
              AndOp, OrOp, XorOp, NotOp>(op);
}

class FusedEmitter {
public:
  FusedEmitter(const FusedKernel &kernel, ModuleOp module)
      : kernel(kernel), fused(kernel.op), space(spaceOf(kernel.op)),
        b(FusedOp(kernel.op).getLoc(), OpBuilder::atBlockEnd(module.getBody())), analysis(kernel) {
    width = std::min<int64_t>(maxWidth, llvm::PowerOf2Ceil(space.cols));
    mainCols = space.cols / width * width;
  }

  LogicalResult emit(StringRef symbol) {
    analyze();
    Type pointer = LLVM::LLVMPointerType::get(b.getContext()), i64 = b.getI64Type();
    auto fn = func::FuncOp::create(b, b.getLoc(), symbol,
                                   b.getFunctionType({pointer, pointer, i64, i64}, {}));
    Block *entry = fn.addEntryBlock();
    b.setInsertionPointToStart(entry);
    loadArguments(entry);
    zeroPartials();
    auto rows = scf::ForOp::create(b, begin, end, constant(1));
    b.setInsertionPointToStart(rows.getBody());
    emitRow(rows.getInductionVar());
    b.setInsertionPointToEnd(entry);
    func::ReturnOp::create(b);
    return success(!broken);
  }

private:
  //--- Analysis
  //------------------------------------------------------------------------------------

  void analyze() {
    // A later loop may turn out to need a value that an earlier one must keep: from last to first.
    for (int phase = analysis.phases.size(); phase-- > 0;)
      for (size_t i = 0; i < analysis.phases[phase].size(); ++i)
        require(analysis.phases[phase][i], phase);
  }
  OperandRange results() { return analysis.results(); }
  static Value behind(Value value) { return FusedAnalysis::behind(value); }

  /// Decides which full values of earlier phases `value` waits for in scratch.
  void require(Value value, int phase) {
    value = behind(value);
    Operation *op = value.getDefiningOp();
    FusedAnalysis::Info info = analysis.of(value);
    if (!op || info.extent != Extent2D::Full || isa<ReduceOp>(op))
      return;
    if (info.level < phase && typeOf(value).getElementType().isF32() && costly(value)) {
      if (scratch.insert(value)) {
        analysis.addRoot(value, info.level);
      }
      return;
    }
    for (Value operand : op->getOperands())
      require(operand, phase);
  }
  bool costly(Value value) {
    int ops = 0;
    bool dear = false;
    SmallVector<Value> stack{value};
    llvm::SmallDenseSet<Value> seen;
    while (!stack.empty()) {
      Value next = behind(stack.pop_back_val());
      Operation *op = next.getDefiningOp();
      if (!op || !seen.insert(next).second || analysis.of(next).extent != Extent2D::Full)
        continue;
      dear |= isDear(op);
      ++ops;
      stack.append(op->operand_begin(), op->operand_end());
    }
    return dear || ops > maxRecomputedOps;
  }

  //--- Emission
  //------------------------------------------------------------------------------------

  Value constant(int64_t value) { return arith::ConstantIntOp::create(b, value, 64); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, x, y); }
  /// Type in memory: booleans are bytes.
  Type stored(Type element) { return element.isInteger(1) ? b.getI8Type() : element; }
  Value at(Value base, Type element, Value index) {
    return LLVM::GEPOp::create(b, base.getType(), stored(element), base, ValueRange(index));
  }

  void loadArguments(Block *entry) {
    Value table = entry->getArgument(0), sizes = entry->getArgument(1);
    begin = entry->getArgument(2);
    end = entry->getArgument(3);
    Type pointer = table.getType();
    size_t count = kernel.inputs.size() + kernel.outputs.size();
    for (size_t i = 0; i < count; ++i) {
      Value slot = LLVM::GEPOp::create(b, pointer, pointer, table, ValueRange(constant(i)));
      bases.push_back(LLVM::LoadOp::create(b, pointer, slot));
    }
    runtimeSizes.dims = kernel.runtimeSizes();
    for (size_t i = 0; i < runtimeSizes.dims.size(); ++i) {
      Value slot = LLVM::GEPOp::create(b, pointer, b.getI64Type(), sizes, ValueRange(constant(i)));
      runtimeSizes.values.push_back(LLVM::LoadOp::create(b, b.getI64Type(), slot));
    }
    for (Value value : scratch)
      scratchRows[value] =
          LLVM::AllocaOp::create(b, pointer, b.getF32Type(), constant(space.cols), cacheLine);
  }

  /// Runs `body(column, tail)` for every chunk of columns; `carried` goes from chunk to chunk.
  SmallVector<Value> forColumns(SmallVector<Value> carried,
                                llvm::function_ref<void(Value, SmallVector<Value> &)> body) {
    if (mainCols > 0) {
      auto loop = scf::ForOp::create(b, constant(0), constant(mainCols), constant(width), carried);
      OpBuilder::InsertionGuard guard(b);
      outside = loop;
      b.setInsertionPointToStart(loop.getBody());
      SmallVector<Value> inner(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
      mask = Value();
      chunk.clear();
      body(loop.getInductionVar(), inner);
      if (!carried.empty() || loop.getBody()->empty() ||
          !loop.getBody()->back().hasTrait<OpTrait::IsTerminator>()) {
        b.setInsertionPointToEnd(loop.getBody());
        scf::YieldOp::create(b, inner);
      }
      carried.assign(loop.getResults().begin(), loop.getResults().end());
      outside = nullptr;
    }
    if (mainCols < space.cols) {
      SmallVector<bool> lanes(width);
      for (int64_t i = 0; i < width; ++i)
        lanes[i] = mainCols + i < space.cols;
      auto type = VectorType::get({width}, b.getI1Type());
      mask = arith::ConstantOp::create(b, DenseElementsAttr::get(type, lanes));
      chunk.clear();
      body(constant(mainCols), carried);
      mask = Value();
    }
    chunk.clear();
    return carried;
  }

  VectorType vectorOf(Type element) { return VectorType::get({width}, element); }

  Value loadVector(Value base, Value index, Type element) {
    Value address = at(base, element, index);
    Type type = vectorOf(stored(element));
    unsigned alignment = element.isInteger(1) ? 1 : element.getIntOrFloatBitWidth() / 8;
    Value data;
    if (mask) {
      Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));
      data = LLVM::MaskedLoadOp::create(b, type, address, mask, zero, alignment);
    } else {
      data = LLVM::LoadOp::create(b, type, address, alignment);
    }
    return element.isInteger(1) ? nonZero(data) : data;
  }
  Value nonZero(Value data) {
    Value zero = arith::ConstantOp::create(b, b.getZeroAttr(data.getType()));
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, data, zero);
  }
  void storeVector(Value data, Value base, Value index, Type element) {
    Value address = at(base, element, index);
    if (element.isInteger(1))
      data = arith::ExtUIOp::create(b, vectorOf(b.getI8Type()), data);
    unsigned alignment = element.isInteger(1) ? 1 : element.getIntOrFloatBitWidth() / 8;
    if (mask)
      LLVM::MaskedStoreOp::create(b, data, address, mask, alignment);
    else
      LLVM::StoreOp::create(b, data, address, alignment);
  }

  void zeroPartials() {
    for (auto [i, access] : llvm::enumerate(kernel.outputs)) {
      if (!access.columnReduction)
        continue;
      Value task = arith::DivUIOp::create(b, begin, constant(kernel.grain));
      Value &base = bases[kernel.inputs.size() + i];
      base = at(base, b.getF32Type(), mul(task, constant(space.cols)));
      forColumns({}, [&](Value column, SmallVector<Value> &) {
        Value zero = arith::ConstantOp::create(b, b.getZeroAttr(vectorOf(b.getF32Type())));
        storeVector(zero, base, column, b.getF32Type());
      });
    }
  }

  void emitRow(Value row) {
    rowScope.clear();
    rowBases.clear();
    size_t i = 0;
    for (const auto *accesses : {&kernel.inputs, &kernel.outputs})
      for (const FusedAccess &access : *accesses) {
        Value offset =
            access.columnReduction ? Value() : runtimeSizes.rowOffset(b, access.rows, row);
        Type element = elementOf(i);
        rowBases.push_back(offset ? at(bases[i], element, offset) : bases[i]);
        ++i;
      }
    for (size_t phase = 0; phase < analysis.phases.size(); ++phase)
      emitPhase(phase);
    for (auto [index, access] : llvm::enumerate(kernel.outputs)) {
      if (access.extent == Extent2D::Full || access.columnReduction)
        continue;
      Value value = results()[index];
      Type element = typeOf(value).getElementType();
      Value number = rowValue(behind(value));
      if (element.isInteger(1))
        number = arith::ExtUIOp::create(b, b.getI8Type(), number);
      LLVM::StoreOp::create(b, number, rowBases[kernel.inputs.size() + index]);
    }
  }
  Type elementOf(size_t operand) {
    Value value = operand < kernel.inputs.size() ? Value(fused.getBody().getArgument(operand))
                                                 : Value(results()[operand - kernel.inputs.size()]);
    return typeOf(value).getElementType();
  }

  void emitPhase(int phase) {
    ArrayRef<ReduceOp> reduces = analysis.reductionsOf(phase);
    SmallVector<Value> carried;
    for (ReduceOp reduce : reduces)
      carried.push_back(neutral(reduce));
    carried = forColumns(carried, [&](Value column, SmallVector<Value> &sums) {
      for (auto [reduce, sum] : llvm::zip(reduces, sums)) {
        Value value = vectorValue(behind(ReduceOp(reduce).getInput()), column, phase);
        if (mask)
          value = arith::SelectOp::create(b, mask, value, neutral(reduce));
        sum = combine(b, ReduceOp(reduce).getKind(), sum, value);
      }
      for (Value value : scratch)
        if (analysis.of(value).level == phase)
          storeVector(vectorValue(value, column, phase), scratchRows[value], column,
                      b.getF32Type());
      for (auto [i, access] : llvm::enumerate(kernel.outputs)) {
        Value value = behind(results()[i]);
        if (analysis.of(value).level != phase)
          continue;
        Value base = rowBases[kernel.inputs.size() + i];
        Type element = typeOf(value).getElementType();
        if (access.columnReduction) {
          Value data = vectorValue(behind(value.getDefiningOp()->getOperand(0)), column, phase);
          Value sum = arith::AddFOp::create(b, loadVector(base, column, element), data);
          storeVector(sum, base, column, element);
        } else if (access.extent == Extent2D::Full) {
          storeVector(vectorValue(value, column, phase), base, column, element);
        }
      }
    });
    for (auto [reduce, sum] : llvm::zip(reduces, carried))
      rowScope[ReduceOp(reduce).getResult()] = horizontal(reduce, sum);
  }

  Value neutral(ReduceOp reduce) {
    Type element = typeOf(reduce).getElementType();
    Attribute value = neutralElement(reduce.getKind(), element);
    return arith::ConstantOp::create(b, SplatElementsAttr::get(vectorOf(element), value));
  }
  /// Halves until one lane is left: an order that the width alone fixes.
  Value horizontal(ReduceOp reduce, Value value) {
    for (int64_t lanes = width / 2; lanes >= 1; lanes /= 2) {
      SmallVector<int64_t> low, high;
      for (int64_t i = 0; i < lanes; ++i) {
        low.push_back(i);
        high.push_back(lanes + i);
      }
      Value x = vector::ShuffleOp::create(b, value, value, low);
      Value y = vector::ShuffleOp::create(b, value, value, high);
      value = combine(b, reduce.getKind(), x, y);
    }
    value = vector::ExtractOp::create(b, value, ArrayRef<int64_t>{0});
    if (reduce.getKind() != ReduceKind::Mean)
      return value;
    Value factor = arith::ConstantOp::create(
        b, b.getFloatAttr(value.getType(), 1.0 / static_cast<double>(space.cols)));
    return arith::MulFOp::create(b, value, factor);
  }

  /// A value of one number a row (or one for all) as a scalar, before the current column loop.
  Value rowValue(Value value) {
    value = behind(value);
    if (Value known = rowScope.lookup(value))
      return known;
    OpBuilder::InsertionGuard guard(b);
    if (outside)
      b.setInsertionPoint(outside);
    Type element = typeOf(value).getElementType();
    Value result;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      result = LLVM::LoadOp::create(b, stored(element), rowBases[argument.getArgNumber()]);
      if (element.isInteger(1))
        result = nonZero(result);
    } else if (auto splat = value.getDefiningOp<ConstantOp>()) {
      auto data = cast<SplatElementsAttr>(splat.getValue());
      result = arith::ConstantOp::create(b, cast<TypedAttr>(data.getSplatValue<Attribute>()));
    } else {
      SmallVector<Value> operands;
      for (Value operand : value.getDefiningOp()->getOperands())
        operands.push_back(rowValue(operand));
      result = emitOp(value.getDefiningOp(), operands);
    }
    rowScope[value] = result;
    return result;
  }

  /// `width` columns of a value from `column`.
  Value vectorValue(Value value, Value column, int phase) {
    value = behind(value);
    if (Value known = chunk.lookup(value))
      return known;
    FusedAnalysis::Info info = analysis.of(value);
    Type element = typeOf(value).getElementType();
    Value result;
    if (info.extent == Extent2D::PerRow || info.extent == Extent2D::Single) {
      Value number = rowValue(value);
      OpBuilder::InsertionGuard guard(b);
      if (outside)
        b.setInsertionPoint(outside);
      result = vector::BroadcastOp::create(b, vectorOf(element), number);
    } else if (auto argument = dyn_cast<BlockArgument>(value)) {
      result = loadVector(rowBases[argument.getArgNumber()], column, element);
    } else if (scratch.contains(value) && info.level < phase) {
      result = loadVector(scratchRows[value], column, element);
    } else {
      SmallVector<Value> operands;
      for (Value operand : value.getDefiningOp()->getOperands())
        operands.push_back(vectorValue(operand, column, phase));
      result = emitOp(value.getDefiningOp(), operands);
    }
    chunk[value] = result;
    return result;
  }

  Value emitOp(Operation *op, ValueRange operands) {
    auto elementwise = dyn_cast<ElementwiseOpInterface>(op);
    Value result = elementwise ? elementwise.emitScalar(b, op->getLoc(), operands) : Value();
    if (!result) {
      op->emitOpError("cannot be part of a generated kernel");
      broken = true;
      result = operands.front();
    }
    return result;
  }

  const FusedKernel &kernel;
  FusedOp fused;
  IterationSpace space;
  ImplicitLocOpBuilder b;
  int64_t width = 1, mainCols = 0;
  bool broken = false;

  FusedAnalysis analysis;
  llvm::SmallSetVector<Value, 4> scratch;

  Value begin, end, mask;
  SmallVector<Value> bases, rowBases;
  KernelSizes runtimeSizes;
  llvm::DenseMap<Value, Value> scratchRows, rowScope, chunk;
  Operation *outside = nullptr; ///< the column loop being filled
};

} // namespace

LogicalResult emitFusedKernel(const FusedKernel &kernel, StringRef symbol, ModuleOp module) {
  return FusedEmitter(kernel, module).emit(symbol);
}

} // namespace omnibal::lower
