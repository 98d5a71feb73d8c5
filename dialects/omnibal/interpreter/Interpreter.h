//===- Interpreter.h - Reference interpreter of the dialect ------------------------------===//
//
// The interpreter evaluates any op of the dialect on the host. It is the reference for every
// lowering, folds subgraphs of shapes, masks and positions, and checks gradient rules. It is made
// to be correct and not fast, and the runtime never links it. Integers are exact; floats are
// computed in float64 and, unless `float64` is set, rounded to float32 after every op.
//
//===-------------------------------------------------------------------------------------------------===//
#ifndef DIALECTS_OMNIBAL_INTERPRETER_INTERPRETER_H
#define DIALECTS_OMNIBAL_INTERPRETER_INTERPRETER_H

#include "dialects/omnibal/interpreter/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Operation.h"
#include "runtime/support/Types.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace omnibal {

struct InterpreterOptions {
  int64_t tiles = 0;           ///< V: resolves affine dimensions of result types
  int64_t tokens = 0;          ///< N
  bool float64 = false;        ///< keep float64 between ops (element types stay as they are)
  int64_t part = 0, parts = 1; ///< whose tiles and tokens v and n are

  rt::SymbolValues symbols() const { return rt::SymbolValues::of(tiles, tokens, part, parts); }
};

class Interpreter {
public:
  using Bindings = llvm::DenseMap<mlir::Value, HostTensor>;

  explicit Interpreter(InterpreterOptions options) : options(options) {}

  /// Values of omnibal.batch_value by its name; the tensor's shape is taken as given.
  llvm::StringMap<HostTensor> batchValues;
  /// Values of omnibal.get_parameter by the parameter's name. A parameter that is not here is read
  /// from the `value` of the omnibal.parameter op, if it has one.
  llvm::StringMap<HostTensor> parameters;

  /// Evaluates one op on given operand values (one per operand of `op`). Fails with a diagnostic at
  /// the op.
  llvm::FailureOr<llvm::SmallVector<HostTensor>>
  evaluateOp(mlir::Operation *op, llvm::ArrayRef<const HostTensor *> operands);

  /// Evaluates the value and what it depends on, in one block. Values in `bindings` are taken as
  /// they are (graph inputs, cut points), and every value computed on the way is added to it. Fails
  /// with a diagnostic if a block argument that is needed is not bound.
  llvm::FailureOr<HostTensor> evaluate(mlir::Value value, Bindings &bindings);

  /// Runs all ops of a block up to its terminator and returns the terminator's operands. Block
  /// arguments are bound to `arguments`.
  llvm::FailureOr<llvm::SmallVector<HostTensor>> run(mlir::Block &block,
                                                     llvm::ArrayRef<HostTensor> arguments);
  llvm::FailureOr<llvm::SmallVector<HostTensor>> run(mlir::func::FuncOp function,
                                                     llvm::ArrayRef<HostTensor> arguments);

  const InterpreterOptions &getOptions() const { return options; }

private:
  InterpreterOptions options;
};

/// True if `op` depends on nothing but its operands and can be evaluated at compile time.
bool isFoldable(mlir::Operation *op);

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_INTERPRETER_INTERPRETER_H
