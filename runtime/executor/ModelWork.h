//===- ModelWork.h - Floating-point operations of a program's micro-batches -------------------===//
//
// Counts what a model needs, whatever a backend does for it: 2 M N K for a matrix product (R
// rows by the matrices of their groups: 2 R N K, whatever the number of groups), 2 (D + Dv) for a
// pair of tokens that a head's attention sees in the forward and twice that in the backward, 2 for
// a weight and output of a convolution, and 2 L W C for the logits of L labels and the same for
// either gradient. Recomputation, padding and everything of lower order are not counted. Where
// parts of a stage do different things, each counts what it has a share of, and part 0 also what
// all of them do alike.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_EXECUTOR_MODELWORK_H
#define RUNTIME_EXECUTOR_MODELWORK_H

#include "runtime/data/Packing.h"
#include "runtime/program/Program.h"
#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace omnibal::rt {

/// How often a micro-batch calls each function.
using FunctionCalls = std::map<int32_t, int64_t>;
/// Returns those of the computing actions of a mode, for each of its micro-batches.
std::vector<FunctionCalls> callsOfMicrobatches(const Mode &mode);

/// The floating-point operations of the functions of a program.
class ModelWork {
public:
  explicit ModelWork(const Program &program) : ModelWork(program, nullptr, 1) {}
  /// What counts of one of the parts that run a micro-batch together, whose entry is `own`, in the
  /// modes in which there are so many; null: everything.
  ModelWork(const Program &program, const Stage *own, int32_t parts);

  /// Returns those of one call of a function for a micro-batch.
  double of(int32_t function, const PackedMicrobatch &batch) const;
  /// Returns those of all calls for a micro-batch.
  double of(const FunctionCalls &calls, const PackedMicrobatch &batch) const;

private:
  using Places = std::set<std::tuple<Space, int32_t, int64_t>>;
  void leaveOutAlike(const Program &program, const Stage &part);
  void leaveOutAlike(const Program &program, const Stage &part, const LayerCall &call,
                     Places &divided);

  struct Counted {
    const Function *function;
    std::vector<const KernelCall *> calls; ///< those that count
  };
  int64_t part = 0, parts = 1;
  std::vector<Counted> counted;
};

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_MODELWORK_H
