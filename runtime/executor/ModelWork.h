//===- ModelWork.h - Floating-point operations of a program's micro-batches -------------------===//
//
// What a model needs, whatever a backend does for it: 2 M N K a matrix product, 2 (D + Dv) a pair
// of tokens that a head's attention sees forward and twice that backward, 2 a weight and output of
// a convolution, 2 L W C for the logits of L labels and for either gradient. Recomputation, padding
// and everything of lower order are not counted.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_EXECUTOR_MODELWORK_H
#define RUNTIME_EXECUTOR_MODELWORK_H

#include "runtime/data/Packing.h"
#include "runtime/program/Program.h"
#include <vector>

namespace omnibal::rt {

/// Of the functions of a program.
class ModelWork {
public:
  explicit ModelWork(const Program &program);

  /// Of one call of a function for a micro-batch.
  double of(int32_t function, const PackedMicrobatch &batch) const;
  /// Of all computing actions of a mode for one of its micro-batches.
  double of(const Mode &mode, int32_t microbatch, const PackedMicrobatch &batch) const;

private:
  struct Counted {
    const Function *function;
    std::vector<const KernelCall *> calls; ///< those that count
  };
  std::vector<Counted> counted;
};

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_MODELWORK_H
