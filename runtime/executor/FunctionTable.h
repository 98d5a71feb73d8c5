//===- FunctionTable.h - A program's functions, ready to run -----------------------------===//
#ifndef RUNTIME_EXECUTOR_FUNCTIONTABLE_H
#define RUNTIME_EXECUTOR_FUNCTIONTABLE_H

#include "runtime/device/Backend.h"
#include "runtime/executor/Trace.h"
#include "runtime/program/ProgramIO.h"
#include <memory>
#include <optional>
#include <vector>

namespace omnibal::rt {

/// Kernels are created once per call site of a function; operand shapes are evaluated only when the
/// micro-batch's symbols change, so that a call costs little beyond setting its pointers.
class FunctionTable {
public:
  FunctionTable() = default;
  /// Opens the generated code and creates the kernels of the functions in `used` (indices). The
  /// backend outlives the table.
  static Result<FunctionTable> prepare(const LoadedProgram &program,
                                       const std::vector<int32_t> &used, Backend &backend);

  /// What performs this rank's moves. Without one they leave zeros: a rank that is measured alone
  /// does not wait.
  void meetOver(Transport &transport) { meeting = &transport; }
  /// Whom the moves of what runs next are with, in the order of their parts; `ranks` stays.
  void meetWith(std::span<const int> ranks) { parts = ranks; }
  void goAlone(bool alone) { isAlone = alone; }

  /// Keys of a sample's earlier tokens, and where a function is called.
  struct Kept {
    KeptKeys *keys = nullptr; ///< null: none are kept
    int32_t chunk = 0;
    size_t layer = 0;
    int64_t tokens = 0; ///< of the sample, in this run
  };
  /// Enqueues a function. `formals` has the address of each formal, and temporaries lie at
  /// `workspace`. `trace`, if not null, gets a span per kernel call.
  Status run(int32_t function, std::span<std::byte *const> formals, std::byte *workspace,
             const SymbolValues &symbols, const Kept &kept, ThreadPool &pool, Backend &backend,
             Trace *trace);

private:
  struct Call {
    std::unique_ptr<Kernel> kernel;
    std::optional<PartMove> move; ///< in place of a kernel
    size_t firstView = 0, views = 0;
  };
  struct Prepared {
    const Function *function = nullptr;
    std::vector<Call> calls;
    std::vector<const View *> sources;
    std::vector<TensorView> views;
    std::vector<int64_t> byteOffsets; ///< of each view within its buffer
    std::vector<std::byte *> bases;   ///< of each buffer
    std::optional<SymbolValues> at;   ///< what the shapes were evaluated for
  };
  static void evaluate(Prepared &p, const SymbolValues &symbols);
  Status perform(const Call &call, std::span<const TensorView> views, const SymbolValues &symbols,
                 KeptKeys::Rows *kept, ThreadPool &pool, Backend &backend);

  std::vector<Prepared> functions;
  Transport *meeting = nullptr;
  std::span<const int> parts;
  bool isAlone = false;
};

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_FUNCTIONTABLE_H
