//===- EmitFusedGpu.cpp - Code of one fused kernel for GPUs ------------------------------===//
//
// Threads share rows as GpuShape says. All of a row that fits the registers of its threads is
// straight-line code: loads first come, first kept, then one exchange for each level of row
// reductions. Threads beyond the last row or column take part with harmless addresses, so that
// every barrier and exchange has all of its threads; they store nothing.
//
//===-------------------------------------------------------------------------------------------===//
#include "passes/lower/codegen/gpu/EmitFusedGpu.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/lower/TensorBuilder.h"

using namespace mlir;

namespace omnibal::lower {
namespace {

constexpr int64_t warp = 32;

using Numbers = SmallVector<Value>; ///< a thread's vector of neighboring columns

class GpuEmitter : GpuBuilder {
public:
  GpuEmitter(const FusedKernel &kernel, gpu::GPUModuleOp module)
      : GpuBuilder(FusedOp(kernel.op).getLoc(), OpBuilder::atBlockEnd(module.getBody())),
        kernel(kernel), fused(kernel.op), space(spaceOf(kernel.op)), analysis(kernel),
        shape(gpuShapeOf(kernel, analysis)) {}

  LogicalResult emit(StringRef symbol) {
    begin(symbol);
    if (shape.flat)
      emitLine();
    else if (kernel.hasColumnReduction())
      emitSummedRows();
    else
      emitRows();
    gpu::ReturnOp::create(b);
    marker->erase();
    return success(!broken);
  }

private:
  //--- Frame
  //-------------------------------------------------------------------------------------

  void begin(StringRef symbol) {
    Type pointer = LLVM::LLVMPointerType::get(b.getContext(), globalMemory), i64 = b.getI64Type();
    const size_t operands = kernel.inputs.size() + kernel.outputs.size();
    runtimeSizes.dims = kernel.runtimeSizes();
    SmallVector<Type> types(operands, pointer);
    types.append(runtimeSizes.dims.size() + 1, i64);
    auto fn = gpu::GPUFuncOp::create(b, symbol, b.getFunctionType(types, {}));
    fn->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
    const int32_t size[] = {static_cast<int32_t>(shape.threads), 1, 1};
    fn.setKnownBlockSize(ArrayRef<int32_t>(size));
    if (shape.residentBlocks > 0)
      fn->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                  b.getI32IntegerAttr(static_cast<int32_t>(shape.residentBlocks)));
    for (size_t i = 0; i < operands; ++i) {
      fn.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());
      if (i < kernel.inputs.size())
        fn.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(), b.getUnitAttr());
    }
    Block *entry = &fn.getBody().front();
    b.setInsertionPointToStart(entry);
    for (size_t i = 0; i < operands; ++i)
      bases.push_back(entry->getArgument(i));
    for (size_t i = operands; i + 1 < types.size(); ++i)
      runtimeSizes.values.push_back(entry->getArgument(i));
    rows = entry->getArguments().back();
    thread = machine<gpu::ThreadIdOp>();
    block = machine<gpu::BlockIdOp>();
    if (shape.split) {
      tile =
          mul(arith::RemUIOp::create(b, block, constant(shape.tiles)), constant(shape.tileCols()));
      block = arith::DivUIOp::create(b, block, constant(shape.tiles));
    }
    if (!shape.flat) {
      lane = shape.blockRows == 1 ? thread
                                  : arith::RemUIOp::create(b, thread, constant(shape.rowThreads));
      blockRow = shape.blockRows == 1
                     ? Value()
                     : arith::DivUIOp::create(b, thread, constant(shape.rowThreads));
      firstColumn = mul(lane, constant(shape.vector));
    }
    // What no row changes is computed before this op.
    marker = constant(0).getDefiningOp();
  }

  FusedAccess &accessOf(size_t operand) {
    return operand < kernel.inputs.size() ? kernel.inputs[operand]
                                          : kernel.outputs[operand - kernel.inputs.size()];
  }
  Type elementOf(size_t operand) {
    Value value = operand < kernel.inputs.size()
                      ? Value(fused.getBody().getArgument(operand))
                      : Value(analysis.results()[operand - kernel.inputs.size()]);
    return typeOf(value).getElementType();
  }
  int64_t widthOf(size_t operand) {
    return accessWidth(accessOf(operand), elementOf(operand), shape.flat);
  }

  //--- Elements as one line
  //-------------------------------------------------------------------------------------

  void emitLine() {
    rowBases = bases;
    const int64_t step = shape.threads * shape.vector;
    Value first = mul(block, constant(shape.grain()));
    Value end = add(first, constant(shape.grain()));
    Value whole = arith::CmpIOp::create(b, arith::CmpIPredicate::sle, end, rows);
    auto branch = scf::IfOp::create(b, whole, /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      Value start = add(first, mul(thread, constant(shape.vector)));
      for (int64_t chunk = 0; chunk < shape.chunks; ++chunk)
        columns.push_back({chunk == 0 ? start : add(start, constant(chunk * step)), Value()});
      for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) // all on their way before any is used
        for (unsigned i = 0; i < kernel.inputs.size(); ++i)
          if (kernel.inputs[i].extent == Extent2D::Full)
            (void)chunkValue(fused.getBody().getArgument(i), chunk);
      for (int64_t chunk = 0; chunk < shape.chunks; ++chunk)
        storeChunk(0, chunk, Value());
      b.setInsertionPointToStart(branch.elseBlock());
      loop(add(first, thread), rows, constant(shape.threads), [&](Value element) {
        columns = {{element, Value()}};
        rowScope.clear();
        chunkScope.clear();
        shape.vector = 1;
        storeChunk(0, 0, Value());
      });
    }
  }

  //--- Rows
  //-------------------------------------------------------------------------------------

  void emitRows() {
    Value row = block, valid;
    if (shape.blockRows > 1) {
      row = add(mul(block, constant(shape.blockRows)), blockRow);
      valid = less(row, rows);
      row = least(row, sub(rows, constant(1)));
    }
    SmallVector<Value> noSums;
    emitRow(row, valid, noSums);
  }

  /// Each block sums an equal part of the rows and leaves one partial row.
  void emitSummedRows() {
    Value blocks = machine<gpu::GridDimOp>();
    if (shape.split)
      blocks = arith::DivUIOp::create(b, blocks, constant(shape.tiles));
    Value each = arith::DivUIOp::create(b, add(rows, sub(blocks, constant(1))), blocks);
    Value from = least(mul(block, each), rows), to = least(add(from, each), rows);
    for (auto [i, access] : llvm::enumerate(kernel.outputs))
      if (access.columnReduction) {
        sums.push_back(i);
        Value &base = bases[kernel.inputs.size() + i];
        base = at(base, b.getF32Type(), mul(block, constant(space.cols)));
      }
    Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
    const bool inMemory = shape.loops();
    if (inMemory)
      for (size_t sum : sums)
        loop(thread, constant(space.cols), constant(shape.threads), [&](Value column) {
          store({zero}, bases[kernel.inputs.size() + sum], column, false, 1);
        });
    if (inMemory)
      barrier(); // the column's owner is another thread than the one that wrote its zero
    const size_t held = inMemory ? 0 : sums.size() * shape.chunks * shape.vector;
    marker->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
    auto loop =
        scf::ForOp::create(b, from, to, constant(shape.blockRows), SmallVector<Value>(held, zero));
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value row = loop.getInductionVar(), valid;
      if (shape.blockRows > 1) {
        row = add(row, blockRow);
        valid = less(row, to);
        row = least(row, sub(to, constant(1)));
      }
      SmallVector<Value> carried(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
      emitRow(row, valid, carried);
      if (crossWarpPhases == 1) // or the next row's numbers overwrite what others still read
        barrier();
      if (held > 0 || loop.getBody()->empty() ||
          !loop.getBody()->back().hasTrait<OpTrait::IsTerminator>()) {
        b.setInsertionPointToEnd(loop.getBody());
        scf::YieldOp::create(b, carried);
      }
    }
    if (!inMemory)
      storeSums(loop.getResults());
  }

  void storeSums(ValueRange held) {
    for (size_t s = 0; s < sums.size(); ++s) {
      Value base = bases[kernel.inputs.size() + sums[s]];
      auto part = [&](int64_t chunk) {
        return SmallVector<Value>(
            held.slice((s * shape.chunks + chunk) * shape.vector, shape.vector));
      };
      Value own = base, row;
      if (shape.blockRows > 1) {
        barrier();
        own = shared();
        row = mul(blockRow, constant(space.cols));
      }
      setColumns(tile);
      for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
        Value column = columns[chunk].safe;
        when(columns[chunk].inside, [&] {
          store(part(chunk), own, row ? add(row, column) : column, false,
                std::min<int64_t>(4, shape.vector));
        });
      }
      if (shape.blockRows == 1)
        continue;
      barrier();
      loop(thread, constant(space.cols), constant(shape.threads), [&](Value column) {
        Value total;
        for (int64_t r = 0; r < shape.blockRows; ++r) {
          Value value =
              load(own, add(column, constant(r * space.cols)), b.getF32Type(), false, 1, 1)[0];
          total = total ? Value(arith::AddFOp::create(b, total, value)) : value;
        }
        store({total}, base, column, false, 1);
      });
    }
  }

  /// `sumsSoFar`: the thread's columns of every sum over rows.
  void emitRow(Value row, Value valid, SmallVector<Value> &sumsSoFar) {
    rowScope.clear();
    chunkScope.clear();
    rowBases.clear();
    for (size_t i = 0; i < bases.size(); ++i) {
      const FusedAccess &access = accessOf(i);
      Value offset = access.columnReduction ? Value() : runtimeSizes.rowOffset(b, access.rows, row);
      rowBases.push_back(offset ? at(bases[i], stored(elementOf(i), access.half), offset)
                                : bases[i]);
    }
    if (!shape.loops())
      loadRow();
    for (size_t phase = 0; phase < analysis.phases.size(); ++phase)
      emitPhase(phase, valid, sumsSoFar);
    for (auto [i, access] : llvm::enumerate(kernel.outputs)) {
      if (access.extent == Extent2D::Full || access.columnReduction)
        continue;
      Value number = rowValue(analysis.resultBehind(i));
      Value one = isZero(lane);
      if (access.rows.digits.empty() && !space.rows.isOne())
        one = both(one, isZero(row));
      when(both(one, valid), [&, i = i] {
        store({number}, rowBases[kernel.inputs.size() + i], constant(0), access.half, 1);
      });
    }
  }

  /// All of a row is on its way before any of it is used: what waits behind a row reduction would
  /// else be asked for behind its barriers.
  void loadRow() {
    setColumns(tile);
    for (auto [i, access] : llvm::enumerate(kernel.inputs)) {
      Value argument = fused.getBody().getArgument(i);
      if (access.extent == Extent2D::PerRow)
        (void)rowValue(argument);
      for (int64_t chunk = 0; access.extent == Extent2D::Full && chunk < shape.chunks; ++chunk)
        (void)chunkValue(argument, chunk);
    }
  }

  void emitPhase(int phase, Value valid, SmallVector<Value> &sumsSoFar) {
    ArrayRef<ReduceOp> reduces = analysis.reductionsOf(phase);
    SmallVector<Value> parts;
    for (ReduceOp reduce : reduces)
      parts.push_back(arith::ConstantOp::create(
          b, neutralElement(reduce.getKind(), typeOf(reduce).getElementType())));
    if (!shape.loops()) {
      setColumns(tile);
      emitTile(phase, valid, parts, sumsSoFar, /*first=*/true);
    } else {
      auto loop = scf::ForOp::create(b, constant(0), constant(space.cols),
                                     constant(shape.tileCols()), parts);
      OpBuilder::InsertionGuard guard(b);
      outside = loop;
      b.setInsertionPointToStart(loop.getBody());
      SmallVector<Value> inner(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
      chunkScope.clear();
      setColumns(loop.getInductionVar());
      emitTile(phase, valid, inner, sumsSoFar, /*first=*/false);
      if (!parts.empty() || loop.getBody()->empty() ||
          !loop.getBody()->back().hasTrait<OpTrait::IsTerminator>()) {
        b.setInsertionPointToEnd(loop.getBody());
        scf::YieldOp::create(b, inner);
      }
      parts.assign(loop.getResults().begin(), loop.getResults().end());
      chunkScope.clear();
      outside = nullptr;
    }
    if (!reduces.empty())
      finish(reduces, parts);
  }

  /// What a thread does with its columns of a tile. `first`: `parts` hold nothing yet.
  void emitTile(int phase, Value valid, SmallVector<Value> &parts, SmallVector<Value> &sumsSoFar,
                bool first) {
    for (auto [reduce, part] : llvm::zip(analysis.reductionsOf(phase), parts)) {
      ReduceOp op(reduce);
      Value neutral =
          arith::ConstantOp::create(b, neutralElement(op.getKind(), typeOf(op).getElementType()));
      SmallVector<Value> values;
      for (int64_t chunk = 0; chunk < shape.chunks; ++chunk)
        for (Value value : chunkValue(op.getInput(), chunk)) {
          if (Value inside = columns[chunk].inside)
            value = select(inside, value, neutral);
          values.push_back(value);
        }
      while (values.size() > 1) { // neighbors first
        SmallVector<Value> next;
        for (size_t i = 0; i + 1 < values.size(); i += 2)
          next.push_back(combine(b, op.getKind(), values[i], values[i + 1]));
        if (values.size() % 2)
          next.push_back(values.back());
        values = next;
      }
      part = first ? values[0] : combine(b, op.getKind(), part, values[0]);
    }
    for (size_t s = 0; s < sums.size(); ++s)
      addToSum(s, phase, valid, sumsSoFar);
    for (int64_t chunk = 0; chunk < shape.chunks; ++chunk)
      storeChunk(phase, chunk, valid);
  }

  void addToSum(size_t s, int phase, Value valid, SmallVector<Value> &sumsSoFar) {
    Value value = analysis.resultBehind(sums[s]);
    if (analysis.of(value).level != phase)
      return;
    Value input = value.getDefiningOp()->getOperand(0);
    Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
    for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
      Numbers data = chunkValue(input, chunk);
      if (shape.loops()) {
        Value base = bases[kernel.inputs.size() + sums[s]];
        when(columns[chunk].inside, [&] {
          Numbers total = load(base, columns[chunk].safe, b.getF32Type(), false, shape.vector, 1);
          for (auto [sum, number] : llvm::zip(total, data))
            sum = arith::AddFOp::create(b, sum, number);
          store(total, base, columns[chunk].safe, false, 1);
        });
        continue;
      }
      for (int64_t k = 0; k < shape.vector; ++k) {
        Value &sum = sumsSoFar[(s * shape.chunks + chunk) * shape.vector + k];
        sum = arith::AddFOp::create(b, sum, valid ? select(valid, data[k], zero) : data[k]);
      }
    }
  }

  void storeChunk(int phase, int64_t chunk, Value valid) {
    for (auto [i, access] : llvm::enumerate(kernel.outputs)) {
      Value value = analysis.resultBehind(i);
      if (access.columnReduction || access.extent != Extent2D::Full ||
          analysis.of(value).level != phase)
        continue;
      Numbers data = chunkValue(value, chunk);
      const size_t operand = kernel.inputs.size() + i;
      when(both(valid, columns[chunk].inside), [&] {
        store(data, rowBases[operand], columns[chunk].safe, access.half, widthOf(operand));
      });
    }
  }

  //--- Row reductions
  //-------------------------------------------------------------------------------------

  /// Every thread of the row gets the whole: within warps by exchanges, then the warps' parts in
  /// order.
  void finish(ArrayRef<ReduceOp> reduces, SmallVector<Value> &parts) {
    for (auto [reduce, part] : llvm::zip(reduces, parts))
      for (int64_t bits = 1; bits < std::min(shape.rowThreads, warp); bits *= 2)
        part = combine(b, ReduceOp(reduce).getKind(), part, exchange(part, bits));
    if (shape.rowThreads > warp)
      joinWarps(reduces, parts);
    for (auto [reduce, part] : llvm::zip(reduces, parts)) {
      if (ReduceOp(reduce).getKind() == ReduceKind::Mean) {
        Value factor = arith::ConstantOp::create(
            b, b.getFloatAttr(part.getType(), 1.0 / static_cast<double>(space.cols)));
        part = arith::MulFOp::create(b, part, factor);
      }
      rowScope[ReduceOp(reduce).getResult()] = part;
    }
  }

  void joinWarps(ArrayRef<ReduceOp> reduces, SmallVector<Value> &parts) {
    ++crossWarpPhases;
    const int64_t warps = shape.rowWarps();
    Type slotType = b.getI64Type(); // as wide as any element
    Value memory = shared();
    auto slot = [&](size_t number) {
      Value first = constant((slots + number) * shape.blockRows * warps);
      return blockRow ? add(first, mul(blockRow, constant(warps))) : first;
    };
    Value inWarp = arith::RemUIOp::create(b, lane, constant(warp));
    Value warpNumber = arith::DivUIOp::create(b, lane, constant(warp));
    when(isZero(inWarp), [&] {
      for (auto [n, part] : llvm::enumerate(parts))
        LLVM::StoreOp::create(b, part, at(memory, slotType, add(slot(n), warpNumber)));
    });
    barrier();
    for (size_t n = 0; n < parts.size(); ++n) {
      Type type = parts[n].getType();
      for (int64_t w = 0; w < warps; ++w) {
        Value other =
            LLVM::LoadOp::create(b, type, at(memory, slotType, add(slot(n), constant(w))));
        parts[n] = w == 0 ? other : combine(b, ReduceOp(reduces[n]).getKind(), parts[n], other);
      }
    }
    slots += parts.size();
  }

  //--- Values
  //-------------------------------------------------------------------------------------

  struct Columns {
    Value safe;   ///< the first column, or one that exists
    Value inside; ///< none: it always does
  };
  /// Sets the columns of a tile that begins at column `from` (none: the only tile).
  void setColumns(Value from) {
    columns.clear();
    for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
      const int64_t offset = chunk * shape.rowThreads * shape.vector;
      Value column = offset == 0 ? firstColumn : add(firstColumn, constant(offset));
      if (from)
        column = add(from, column);
      const bool always = from ? space.cols % shape.tileCols() == 0
                               : offset + shape.rowThreads * shape.vector <= space.cols;
      if (always) {
        columns.push_back({column, Value()});
        continue;
      }
      Value inside = less(column, constant(space.cols));
      columns.push_back({select(inside, column, constant(0)), inside});
    }
  }

  /// Before the rows, or before the loop over a row's tiles.
  void leaveLoops(bool rows) {
    if (rows)
      b.setInsertionPoint(marker);
    else if (outside)
      b.setInsertionPoint(outside);
  }

  /// One number a row, or one for all.
  Value rowValue(Value value) {
    value = FusedAnalysis::behind(value);
    const bool fixed = analysis.of(value).extent == Extent2D::Single;
    llvm::DenseMap<Value, Value> &scope = fixed ? fixedScope : rowScope;
    if (Value known = scope.lookup(value))
      return known;
    OpBuilder::InsertionGuard guard(b);
    leaveLoops(fixed);
    Type element = typeOf(value).getElementType();
    Value result;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      const unsigned i = argument.getArgNumber();
      Value base = fixed ? bases[i] : rowBases[i];
      result = load(base, constant(0), element, kernel.inputs[i].half, 1, 1)[0];
    } else if (auto splat = value.getDefiningOp<ConstantOp>()) {
      auto data = cast<SplatElementsAttr>(splat.getValue());
      result = arith::ConstantOp::create(b, cast<TypedAttr>(data.getSplatValue<Attribute>()));
    } else {
      SmallVector<Value> operands;
      for (Value operand : value.getDefiningOp()->getOperands())
        operands.push_back(rowValue(operand));
      result = emitOp(value.getDefiningOp(), operands);
    }
    scope[value] = result;
    return result;
  }

  /// The thread's columns number `chunk`.
  Numbers chunkValue(Value value, int64_t chunk) {
    value = FusedAnalysis::behind(value);
    const Extent2D extent = analysis.of(value).extent;
    if (extent == Extent2D::PerRow || extent == Extent2D::Single)
      return Numbers(shape.vector, rowValue(value));
    // Columns do not change from row to row.
    const bool fixed = extent == Extent2D::PerCol && shape.tiles == 1;
    auto &scope = fixed ? fixedChunks : chunkScope;
    if (auto known = scope.find({value, chunk}); known != scope.end())
      return known->second;
    OpBuilder::InsertionGuard guard(b);
    Value column = columns[chunk].safe;
    if (fixed) {
      leaveLoops(true);
      column = fixedColumn(chunk);
    }
    Numbers result;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      const unsigned i = argument.getArgNumber();
      result = load(fixed ? bases[i] : rowBases[i], column, typeOf(value).getElementType(),
                    kernel.inputs[i].half, shape.vector, widthOf(i));
    } else {
      SmallVector<Numbers> operands;
      for (Value operand : value.getDefiningOp()->getOperands())
        operands.push_back(chunkValue(operand, chunk));
      for (int64_t k = 0; k < shape.vector; ++k) {
        SmallVector<Value> scalars;
        for (const Numbers &operand : operands)
          scalars.push_back(operand[k]);
        result.push_back(emitOp(value.getDefiningOp(), scalars));
      }
    }
    scope[{value, chunk}] = result;
    return result;
  }
  /// Does the same as setColumns, before the rows.
  Value fixedColumn(int64_t chunk) {
    const int64_t offset = chunk * shape.rowThreads * shape.vector;
    Value column = offset == 0 ? firstColumn : add(firstColumn, constant(offset));
    if (offset + shape.rowThreads * shape.vector <= space.cols)
      return column;
    return select(less(column, constant(space.cols)), column, constant(0));
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

  FusedKernel kernel;
  FusedOp fused;
  IterationSpace space;
  FusedAnalysis analysis;
  GpuShape shape;
  bool broken = false;

  KernelSizes runtimeSizes;
  SmallVector<Value> bases, rowBases;
  Value rows, thread, block, lane, blockRow, firstColumn;
  Value tile;                   ///< first column of the block's tile, where rows are split
  Operation *marker = nullptr;  ///< before it lies what no row changes
  Operation *outside = nullptr; ///< the loop over tiles being filled
  SmallVector<Columns> columns; ///< by chunk
  SmallVector<size_t> sums;     ///< outputs that are sums over rows
  int64_t slots = 0;            ///< row reductions so far
  int crossWarpPhases = 0;
  llvm::DenseMap<Value, Value> rowScope, fixedScope;
  llvm::DenseMap<std::pair<Value, int64_t>, Numbers> chunkScope, fixedChunks;
};

} // namespace

LogicalResult emitGpuKernel(const FusedKernel &kernel, StringRef symbol, gpu::GPUModuleOp module) {
  return GpuEmitter(kernel, module).emit(symbol);
}

} // namespace omnibal::lower
