//===- GpuBuilder.cpp --------------------------------------------------------------------===//
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/lower/codegen/gpu/EmitFusedGpu.h"

using namespace mlir;

namespace omnibal::lower {

Value GpuBuilder::both(Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return arith::AndIOp::create(b, x, y);
}

void GpuBuilder::when(Value condition, llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

void GpuBuilder::loop(Value from, Value to, Value step, llvm::function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(b, from, to, step);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

Type GpuBuilder::stored(Type element, bool half) {
  if (half)
    return b.getBF16Type();
  return element.isInteger(1) ? b.getI8Type() : element;
}

SmallVector<Value> GpuBuilder::load(Value base, Value index, Type element, bool half, int64_t count,
                                    int64_t width) {
  Type type = stored(element, half);
  width = std::min(width, count);
  const unsigned bytes = type.getIntOrFloatBitWidth() / 8 * width;
  SmallVector<Value> values;
  for (int64_t i = 0; i < count; i += width) {
    Value address = at(base, type, i == 0 ? index : add(index, constant(i)));
    Type whole = width == 1 ? type : VectorType::get({width}, type);
    Value data = LLVM::LoadOp::create(b, whole, address, bytes);
    for (int64_t k = 0; k < width; ++k) {
      Value value = data;
      if (width > 1)
        value = LLVM::ExtractElementOp::create(
            b, data, LLVM::ConstantOp::create(b, b.getI32Type(), b.getI32IntegerAttr(k)));
      if (half)
        value = arith::ExtFOp::create(b, b.getF32Type(), value);
      else if (element.isInteger(1))
        value = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, value,
                                      arith::ConstantIntOp::create(b, 0, 8));
      values.push_back(value);
    }
  }
  return values;
}

void GpuBuilder::store(ArrayRef<Value> values, Value base, Value index, bool half, int64_t width) {
  Type element = values.front().getType(), type = stored(element, half);
  const int64_t count = values.size();
  width = std::min(width, count);
  const unsigned bytes = type.getIntOrFloatBitWidth() / 8 * width;
  for (int64_t i = 0; i < count; i += width) {
    Value address = at(base, type, i == 0 ? index : add(index, constant(i)));
    Value data;
    if (width > 1)
      data = LLVM::PoisonOp::create(b, VectorType::get({width}, type));
    for (int64_t k = 0; k < width; ++k) {
      Value value = values[i + k];
      if (half)
        value = arith::TruncFOp::create(b, type, value);
      else if (element.isInteger(1))
        value = arith::ExtUIOp::create(b, type, value);
      data = width == 1 ? value
                        : LLVM::InsertElementOp::create(
                              b, data, value,
                              LLVM::ConstantOp::create(b, b.getI32Type(), b.getI32IntegerAttr(k)));
    }
    LLVM::StoreOp::create(b, data, address, bytes);
  }
}

Value GpuBuilder::shared() {
  return LLVM::AddressOfOp::create(b, LLVM::LLVMPointerType::get(b.getContext(), sharedMemory),
                                   sharedSymbol);
}

Value GpuBuilder::exchange(Value value, int64_t bits) {
  Type type = value.getType();
  const unsigned size = type.getIntOrFloatBitWidth();
  Type i32 = b.getI32Type(), i64 = b.getI64Type();
  auto swap = [&](Value word) -> Value {
    return gpu::ShuffleOp::create(b, word, bits, 32, gpu::ShuffleMode::XOR).getShuffleResult();
  };
  if (size == 32)
    return swap(value);
  if (size < 32) // an integer
    return arith::TruncIOp::create(b, type, swap(arith::ExtUIOp::create(b, i32, value)));
  Value word = type.isInteger() ? value : Value(arith::BitcastOp::create(b, i64, value));
  Value half = constant(32);
  Value low = swap(arith::TruncIOp::create(b, i32, word));
  Value high = swap(arith::TruncIOp::create(b, i32, arith::ShRUIOp::create(b, word, half)));
  word = arith::OrIOp::create(b, arith::ExtUIOp::create(b, i64, low),
                              arith::ShLIOp::create(b, arith::ExtUIOp::create(b, i64, high), half));
  return type.isInteger() ? word : Value(arith::BitcastOp::create(b, type, word));
}

} // namespace omnibal::lower
