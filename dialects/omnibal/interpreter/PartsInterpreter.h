//===- PartsInterpreter.h - The parts of a stage, in step ------------------------------------===//
//
// Runs the functions of all parts: each goes on until its next reshard, where all meet, and the
// interpreter moves the value. It is the reference for what parts compute and for what they send.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef DIALECTS_OMNIBAL_INTERPRETER_PARTSINTERPRETER_H
#define DIALECTS_OMNIBAL_INTERPRETER_PARTSINTERPRETER_H

#include "dialects/omnibal/interpreter/Interpreter.h"
#include "dialects/omnibal/ir/Layouts.h"

namespace omnibal {

/// Returns what each part holds of a value under a layout: all of it, its units, or, of a partial
/// value, part 0 all and the others zeros. Units are numbers and fit.
std::vector<HostTensor> dividedAmong(int64_t parts, const HostTensor &value, LayoutAttr layout);
/// Returns the value of which the parts hold these; of whole and copied values that of part 0.
HostTensor joined(llvm::ArrayRef<HostTensor> held, llvm::ArrayRef<int64_t> shape,
                  LayoutAttr layout);

class PartsInterpreter {
public:
  PartsInterpreter(int64_t parts, InterpreterOptions options) : sent(parts, 0), options(options) {
    options.parts = parts;
    for (options.part = 0; options.part < parts; ++options.part)
      interpreters.emplace_back(options);
  }

  int64_t parts() const { return static_cast<int64_t>(interpreters.size()); }
  /// The interpreter of a part, for its batch values and parameters.
  Interpreter &of(int64_t part) { return interpreters[part]; }

  /// Runs a block a part on the part's arguments; returns what each terminator takes. Fails with a
  /// diagnostic also where parts meet at different reshards, or not all of them.
  llvm::FailureOr<std::vector<llvm::SmallVector<HostTensor>>>
  run(llvm::ArrayRef<mlir::Block *> blocks,
      llvm::ArrayRef<llvm::SmallVector<HostTensor>> arguments);

  /// Elements that each part has sent to others so far.
  llvm::SmallVector<int64_t> sent;

private:
  InterpreterOptions options;
  std::vector<Interpreter> interpreters;
};

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_INTERPRETER_PARTSINTERPRETER_H
