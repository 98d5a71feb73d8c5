//===- CostFile.h - What groups cost, in time and memory ------------------------------------===//
//
//   {"tile_ns": .., "token_ns": .., "square_ns": ..,        nanoseconds a tile, a token, a squared
//    "tile_square_ns": ..}                                  token length of a sample, a squared
//                                                           number of units of a picture
//   "microbatch_ns", "step_ns", "stages"                    for the choice of caps: what each
//                                                           micro-batch and step takes besides
//   "fixed_bytes", "tile_bytes", "token_bytes"              and what a rank's memory holds
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_IO_COSTFILE_H
#define RUNTIME_BATCHING_IO_COSTFILE_H

#include "runtime/batching/AutoCaps.h"
#include <string>

namespace omnibal::rt {

struct CostFile {
  StepModel step;
  MemoryModel memory; ///< without a limit
  bool hasMemory = false;
};

/// Reads a cost file. Numbers are at least 0, absent ones are 0 (stages 1), and one of the first
/// four is above 0. Other keys are errors.
Result<CostFile> readCostFile(const std::string &path);

/// These costs serve the choice of caps where there is no cost file. They are the orders of
/// magnitude of a model of 0.3 billion parameters for pictures (24 layers of width 1024, 1025
/// positions per tile) and 1.8 billion for language (24 layers of width 2048), trained in 16 bits
/// at 400 TFLOP/s. The time is 6 FLOPs per parameter and position, and 6 * width per layer for a
/// squared length (causal attention). The memory is what the layers keep for the backward pass (32
/// bytes per position and unit of width for pictures; 12 * width + 4 * keys' width + 6 * inner
/// width for language) and the logits. Nothing is fixed, so a memory limit is one for activations.
CostFile referenceCosts();

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_IO_COSTFILE_H
