//===- GpuShape.h - How the threads of a GPU share a fused kernel ------------------------===//
//
// A row's columns are spread over a part of a warp, a warp or several warps; short rows share a
// block. A thread has `chunks` vectors of `vector` neighboring columns of a tile, all in registers,
// so that a row that fits one tile is read once however many loops it takes. Groups whose rows do
// not matter run over their elements as one line.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_LOWER_CODEGEN_GPU_GPUSHAPE_H
#define PASSES_LOWER_CODEGEN_GPU_GPUSHAPE_H

#include "passes/lower/transforms/FusedAnalysis.h"

namespace omnibal::lower {

struct GpuShape {
  bool flat = false; ///< rows and columns do not matter; `rows` of the call are elements
  int64_t vector = 1;
  int64_t chunks = 1;
  int64_t rowThreads = 1; ///< threads of a row: a power of two up to 32, or whole warps
  int64_t blockRows = 1;  ///< rows that a block has in hand at a time
  int64_t tiles = 1;      ///< parts of a row that is longer than its threads' registers
  bool split = false;     ///< a block has one tile (no row reduction needs the others), not all
  int64_t threads = 1;
  int64_t sharedBytes = 0;
  int64_t residentBlocks = 0; ///< of a multiprocessor, where the kernel sums over rows

  int64_t tileCols() const { return rowThreads * chunks * vector; }
  int64_t rowWarps() const { return (rowThreads + 31) / 32; }
  /// True if a thread passes over its row tile by tile.
  bool loops() const { return tiles > 1 && !split; }
  /// Partial rows that a kernel which sums over `rows` rows leaves.
  int64_t partialRows(int64_t rows) const;
  /// Rows (elements where flat) of a block; with a sum over rows blocks divide all rows evenly.
  int64_t grain() const { return flat ? threads * chunks * vector : blockRows; }
};

GpuShape gpuShapeOf(const FusedKernel &kernel, const FusedAnalysis &analysis);

/// Returns the largest power of two up to `limit` that divides every coefficient.
int64_t alignmentOf(const SymbolicDim &dim, int64_t limit);

/// Elements that may be accessed at once: by the operand's alignment and 16 bytes.
int64_t accessWidth(const FusedAccess &access, mlir::Type element, bool flat);

/// Multiprocessors of an H100 or H200: the blocks of a kernel that sums over rows, which leave one
/// partial row each, are as many as they hold at a time.
constexpr int64_t multiprocessors = 132;

} // namespace omnibal::lower
#endif // PASSES_LOWER_CODEGEN_GPU_GPUSHAPE_H
