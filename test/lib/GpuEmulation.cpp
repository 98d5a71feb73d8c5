//===- GpuEmulation.cpp - GPU kernels as host functions, for tests without a GPU ---------===//
//
// Everything stays as it is but what only a device has: numbers of threads and blocks, barriers,
// exchanges and shared memory become calls of a table that the emulated device fills in.
//
//===-------------------------------------------------------------------------------------------===//
#include "test/lib/GpuEmulation.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/lower/GpuCode.h"
#include "passes/lower/codegen/gpu/EmitFusedGpu.h"

using namespace mlir;

namespace omnibal::test {
namespace {

constexpr const char *tableSymbol = "omnibal_device";
/// Entries of the table; test/support/cuda_emulation/GeneratedCode.cpp has the other end.
enum Entry {
  threadNumber,
  blockNumber,
  blockCount,
  blockBarrier,
  exchangeWord,
  sharedBytes,
  entries
};

class Emulation {
public:
  explicit Emulation(ModuleOp target)
      : target(target), b(target.getLoc(), OpBuilder::atBlockEnd(target.getBody())) {
    pointer = LLVM::LLVMPointerType::get(b.getContext());
    auto type = LLVM::LLVMArrayType::get(pointer, entries);
    auto table = LLVM::GlobalOp::create(b, type, /*isConstant=*/false, LLVM::Linkage::External,
                                        tableSymbol, Attribute());
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(b.createBlock(&table.getInitializerRegion()));
    LLVM::ReturnOp::create(b, LLVM::ZeroOp::create(b, type).getResult());
  }

  void add(gpu::GPUFuncOp kernel) {
    b.setInsertionPointToEnd(target.getBody());
    Type i64 = b.getI64Type();
    LLVM::GlobalOp::create(b, i64, /*isConstant=*/true, LLVM::Linkage::External,
                           (kernel.getName() + "_parameters").str(),
                           b.getI64IntegerAttr(kernel.getNumArguments()));
    auto fn = func::FuncOp::create(b, kernel.getName(), b.getFunctionType({pointer}, {}));
    Block *entry = fn.addEntryBlock();
    b.setInsertionPointToStart(entry);
    IRMapping map;
    for (BlockArgument argument : kernel.getArguments()) {
      Value slot = LLVM::GEPOp::create(
          b, pointer, pointer, entry->getArgument(0),
          ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(argument.getArgNumber())});
      Value place = LLVM::LoadOp::create(b, pointer, slot);
      map.map(argument, LLVM::LoadOp::create(b, argument.getType(), place).getResult());
    }
    for (Operation &op : kernel.getBody().front().without_terminator())
      b.clone(op, map);
    func::ReturnOp::create(b);
    int places = 0;
    fn.walk([&](Operation *op) { replace(op, places); });
  }

  /// Rounds to bfloat16. Code generation calls it where such a number stays in a register by
  /// itself; older runtime libraries of compilers lack it.
  void addRounding() {
    Type f32 = b.getF32Type(), i32 = b.getI32Type(), bf16 = b.getBF16Type();
    auto fn = func::FuncOp::create(target.getLoc(), "__truncsfbf2",
                                   FunctionType::get(b.getContext(), {f32}, {bf16}));
    target.push_back(fn);
    b.setInsertionPointToStart(fn.addEntryBlock());
    auto number = [&](int64_t value) { return arith::ConstantIntOp::create(b, value, 32); };
    Value x = fn.getArgument(0), bits = arith::BitcastOp::create(b, i32, x);
    Value upper = arith::ShRUIOp::create(b, bits, number(16));
    Value even = arith::AndIOp::create(b, upper, number(1)); // of two equally near
    Value moved = arith::AddIOp::create(b, bits, arith::AddIOp::create(b, even, number(0x7fff)));
    Value rounded = arith::ShRUIOp::create(b, moved, number(16));
    Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x, x);
    rounded = arith::SelectOp::create(b, isNan, number(0x7fc0), rounded);
    rounded = arith::TruncIOp::create(b, b.getI16Type(), rounded);
    func::ReturnOp::create(b, ValueRange{arith::BitcastOp::create(b, bf16, rounded)});
  }

private:
  void replace(Operation *op, int &places) {
    b.setInsertionPoint(op);
    if (isa<gpu::ThreadIdOp>(op))
      return replaceNumber(op, threadNumber);
    if (isa<gpu::BlockIdOp>(op))
      return replaceNumber(op, blockNumber);
    if (isa<gpu::GridDimOp>(op))
      return replaceNumber(op, blockCount);
    // Barriers and exchanges are told apart by their places in the code.
    auto place = [&] { return arith::ConstantIntOp::create(b, ++places, 32).getResult(); };
    if (isa<gpu::BarrierOp>(op)) {
      call(blockBarrier, Type(), {place()});
      op->erase();
    } else if (auto shuffle = dyn_cast<gpu::ShuffleOp>(op)) {
      Type type = shuffle.getValue().getType(), i32 = b.getI32Type();
      Value word = type == i32 ? shuffle.getValue()
                               : Value(arith::BitcastOp::create(b, i32, shuffle.getValue()));
      word = call(exchangeWord, i32, {word, shuffle.getOffset(), place()});
      if (type != i32)
        word = arith::BitcastOp::create(b, type, word);
      shuffle.getShuffleResult().replaceAllUsesWith(word);
      op->erase();
    } else if (auto address = dyn_cast<LLVM::AddressOfOp>(op);
               address && address.getGlobalName() == lower::sharedSymbol) {
      Value memory = call(sharedBytes, pointer, {});
      address.getResult().replaceAllUsesWith(
          LLVM::AddrSpaceCastOp::create(b, address.getType(), memory));
      op->erase();
    }
  }

  void replaceNumber(Operation *op, Entry entry) {
    Value number = call(entry, b.getI64Type(), {});
    op->getResult(0).replaceAllUsesWith(arith::IndexCastOp::create(b, b.getIndexType(), number));
    op->erase();
  }

  Value call(Entry entry, Type result, ValueRange arguments) {
    Value table = LLVM::AddressOfOp::create(b, pointer, tableSymbol);
    Value slot = LLVM::GEPOp::create(b, pointer, pointer, table,
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(entry)});
    SmallVector<Value> operands{LLVM::LoadOp::create(b, pointer, slot)};
    operands.append(arguments.begin(), arguments.end());
    SmallVector<Type> types;
    for (Value argument : arguments)
      types.push_back(argument.getType());
    Type type = result ? result : Type(LLVM::LLVMVoidType::get(b.getContext()));
    auto op = LLVM::CallOp::create(b, LLVM::LLVMFunctionType::get(type, types), operands);
    return result ? op.getResult() : Value();
  }

  ModuleOp target;
  ImplicitLocOpBuilder b;
  Type pointer;
};

/// What the processor has no instruction for.
LogicalResult expand(ModuleOp module) {
  if (failed(lower::expandGpuMath(module)) || failed(lower::expandMath(module)) ||
      failed(lower::expandGpuMath(module)))
    return failure();
  RewritePatternSet patterns(module.getContext());
  math::populateExpansionPatterns(patterns, {"exp2"});
  arith::populateExpandBFloat16Patterns(patterns);
  if (failed(applyPatternsGreedily(module, std::move(patterns))))
    return failure();
  return lower::expandMath(module); // exp2 has become exp
}

} // namespace

FailureOr<OwningOpRef<ModuleOp>> emulateKernels(ModuleOp module) {
  if (failed(expand(module)))
    return failure();
  OwningOpRef<ModuleOp> target = ModuleOp::create(module.getLoc());
  Emulation emulation(*target);
  for (auto kernels : module.getOps<gpu::GPUModuleOp>())
    for (auto kernel : kernels.getOps<gpu::GPUFuncOp>())
      emulation.add(kernel);
  emulation.addRounding();
  return target;
}

void registerGpuEmulation() { lower::registerKernelConversion("emulated", emulateKernels); }

} // namespace omnibal::test
