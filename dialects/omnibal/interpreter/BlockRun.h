//===- BlockRun.h - The ops of a block, one after the other (internal to the interpreter) --===//
#ifndef DIALECTS_OMNIBAL_INTERPRETER_BLOCKRUN_H
#define DIALECTS_OMNIBAL_INTERPRETER_BLOCKRUN_H

#include "dialects/omnibal/interpreter/Interpreter.h"

namespace omnibal {

/// Evaluates the ops of a block in order and forgets a value with its last use, so that a whole
/// model fits.
class BlockRun {
public:
  BlockRun(Interpreter &interpreter, mlir::Block &block)
      : interpreter(interpreter), next(block.begin()), block(block) {}

  /// Binds the arguments of the block.
  llvm::LogicalResult begin(llvm::ArrayRef<HostTensor> arguments);
  /// Evaluates ops until the next one is the terminator or one that `stop` says.
  llvm::LogicalResult advance(llvm::function_ref<bool(mlir::Operation *)> stop);

  /// The op that comes next.
  mlir::Operation &nextOp() { return *next; }
  bool isAtEnd() const { return &*next == block.getTerminator(); }
  /// Value of operand i of the next op.
  const HostTensor &operandOfNext(unsigned i) { return bindings.find(next->getOperand(i))->second; }
  /// Passes over the next op, whose results are these.
  void give(llvm::MutableArrayRef<HostTensor> results);
  /// Values that the terminator takes.
  llvm::SmallVector<HostTensor> results();

private:
  llvm::LogicalResult evaluateNext();

  Interpreter &interpreter;
  mlir::Block::iterator next;
  mlir::Block &block;
  Interpreter::Bindings bindings;
  llvm::DenseMap<mlir::Value, int64_t> usesLeft;
};

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_INTERPRETER_BLOCKRUN_H
