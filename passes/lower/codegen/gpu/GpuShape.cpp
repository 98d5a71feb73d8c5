//===- GpuShape.cpp ----------------------------------------------------------------------===//
#include "passes/lower/codegen/gpu/GpuShape.h"
#include "passes/lower/TensorBuilder.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;

namespace omnibal::lower {
namespace {

constexpr int64_t warp = 32;
constexpr int64_t blockThreads = 256, mostThreads = 1024;
constexpr int64_t threadColumns = 16;   ///< of a row in a thread's registers, at most
constexpr int64_t registerColumns = 64; ///< of all operands that wait there
constexpr int64_t accessBytes = 16;
constexpr int64_t slotBytes = 8;                ///< of a warp's part of a row reduction
constexpr int64_t processorRegisters = 1 << 16; ///< of a multiprocessor
constexpr int64_t processorThreads = 2048;      ///< of a multiprocessor, at most
constexpr int64_t bytesUnderWay =
    40 * 1024;                        ///< loads that keep a multiprocessor's share of memory busy
constexpr int64_t mostRegisters = 84; ///< of a thread that has sums over rows

/// Every element of a full operand follows the one before it, row after row.
bool isLine(const FusedAccess &access, const IterationSpace &space) {
  if (access.extent == Extent2D::Single)
    return access.rows.digits.empty();
  if (access.extent != Extent2D::Full || access.columnReduction)
    return false;
  if (access.rows.digits.empty())
    return space.rows.isOne();
  return access.rows.digits.size() == 1 && access.rows.digits[0].size == space.rows &&
         access.rows.digits[0].stride == SymbolicDim(space.cols);
}

} // namespace

int64_t alignmentOf(const SymbolicDim &dim, int64_t limit) {
  int64_t common = limit;
  for (int64_t each : dim.numbers())
    common = std::gcd(common, each);
  return common & -common;
}

int64_t accessWidth(const FusedAccess &access, Type element, bool flat) {
  int64_t bytes = access.half ? 2 : element.isInteger(1) ? 1 : element.getIntOrFloatBitWidth() / 8;
  int64_t width = std::min(accessBytes / bytes, access.alignment);
  if (!flat)
    for (const RowAddress::Digit &digit : access.rows.digits)
      width = alignmentOf(digit.stride, width);
  return width;
}

int64_t GpuShape::partialRows(int64_t rows) const {
  return std::clamp<int64_t>(multiprocessors * residentBlocks / (split ? tiles : 1), 1,
                             std::max<int64_t>(1, llvm::divideCeil(rows, blockRows)));
}

namespace {

/// What a thread of a kernel that sums over rows keeps of each of its columns.
struct Held {
  int64_t values = 0;     ///< sums, operands, columns' factors, results
  int64_t others = 20;    ///< registers for addresses and numbers of a row
  int64_t inputBytes = 0; ///< that it loads for a row
  int64_t registers(int64_t columns) const { return others + columns * values; } ///< about
};

Held heldOf(const FusedKernel &kernel, const FusedAnalysis &analysis) {
  Held held;
  held.others += analysis.reductionCount() > 0 ? 8 : 0;
  int64_t results = 0; // few of them wait for each other
  for (const FusedAccess &access : kernel.inputs) {
    held.values += access.extent == Extent2D::Full || access.extent == Extent2D::PerCol;
    held.inputBytes += access.extent == Extent2D::Full ? (access.half ? 2 : 4) : 0;
  }
  for (const FusedAccess &access : kernel.outputs) {
    held.values += access.columnReduction;
    results += !access.columnReduction && access.extent == Extent2D::Full;
  }
  held.values += results / 2;
  return held;
}

/// Returns as many blocks as registers allow and memory needs: little is under way where the blocks
/// of a multiprocessor wait for their rows' sums.
int64_t residentBlocksOf(const GpuShape &shape, const Held &held) {
  const int64_t columns = shape.chunks * shape.vector;
  const int64_t fit = std::min(processorRegisters / (shape.threads * held.registers(columns)),
                               processorThreads / shape.threads);
  const int64_t bytes = std::max<int64_t>(1, shape.threads * columns * held.inputBytes);
  return std::clamp<int64_t>(llvm::divideCeil(bytesUnderWay, bytes), 1, std::max<int64_t>(1, fit));
}

} // namespace

GpuShape gpuShapeOf(const FusedKernel &kernel, const FusedAnalysis &analysis) {
  IterationSpace space = spaceOf(kernel.op);
  GpuShape shape;
  bool anyHalf = false, line = analysis.reductionCount() == 0;
  int64_t columnSums = 0, waiting = 1;
  for (const auto *accesses : {&kernel.inputs, &kernel.outputs})
    for (const FusedAccess &access : *accesses) {
      anyHalf |= access.half;
      line &= isLine(access, space);
      columnSums += access.columnReduction;
      waiting +=
          access.columnReduction || (accesses == &kernel.inputs && access.extent == Extent2D::Full);
    }
  const int64_t widest = accessBytes / (anyHalf ? 2 : 4);
  shape.flat = line;
  if (line) {
    shape.vector = widest;
    shape.chunks = threadColumns / widest;
    shape.threads = blockThreads;
    return shape;
  }
  shape.vector = std::gcd(space.cols, widest);
  // Few columns a thread where much waits in registers, but not so few that a row needs tiles.
  int64_t columns = threadColumns;
  const Held held = heldOf(kernel, analysis);
  auto tooMany = [&] {
    return columnSums > 0 ? held.registers(columns) > mostRegisters
                          : columns * waiting > registerColumns;
  };
  while (columns > 4 && tooMany() && columns / 2 * mostThreads >= space.cols)
    columns /= 2;
  if (columnSums > 0)
    shape.vector = std::min(shape.vector, columns);
  const int64_t vectors = space.cols / shape.vector;
  const int64_t most = std::max<int64_t>(1, columns / shape.vector);
  if (vectors <= warp * most) {
    shape.rowThreads = std::min<int64_t>(warp, llvm::PowerOf2Ceil(vectors));
  } else {
    shape.rowThreads =
        std::min<int64_t>(mostThreads, llvm::alignTo(llvm::divideCeil(vectors, most), warp));
  }
  shape.chunks = std::min<int64_t>(most, llvm::divideCeil(vectors, shape.rowThreads));
  shape.tiles = llvm::divideCeil(space.cols, shape.tileCols());
  shape.split = shape.tiles > 1 && analysis.reductionCount() == 0;
  shape.blockRows = std::max<int64_t>(1, blockThreads / shape.rowThreads);
  shape.threads = shape.rowThreads * shape.blockRows;
  if (shape.rowThreads > warp)
    shape.sharedBytes = analysis.reductionCount() * shape.blockRows * shape.rowWarps() * slotBytes;
  if (columnSums > 0 && shape.blockRows > 1)
    shape.sharedBytes =
        std::max<int64_t>(shape.sharedBytes, shape.blockRows * space.cols * sizeof(float));
  if (columnSums > 0)
    shape.residentBlocks = residentBlocksOf(shape, held);
  return shape;
}

} // namespace omnibal::lower
