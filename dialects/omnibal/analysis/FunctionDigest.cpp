#include "dialects/omnibal/analysis/FunctionDigest.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "llvm/Support/MD5.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace omnibal::analysis {
namespace {

void print(llvm::raw_ostream &out, Region &region, llvm::DenseMap<Value, int64_t> &numbers) {
  auto number = [&](Value value) {
    return numbers.try_emplace(value, static_cast<int64_t>(numbers.size())).first->second;
  };
  for (Block &block : region) {
    for (BlockArgument argument : block.getArguments())
      out << "^" << number(argument) << argument.getType();
    for (Operation &op : block) {
      out << "\n" << op.getName();
      for (Value operand : op.getOperands())
        out << " " << number(operand);
      bool constant = isa<ConstantOp>(op);
      if (!constant)
        out << op.getAttrDictionary();
      for (Value result : op.getResults()) {
        out << ":" << number(result);
        if (!constant)
          out << result.getType();
      }
      for (Region &inner : op.getRegions()) {
        out << "{";
        print(out, inner, numbers);
        out << "}";
      }
    }
  }
}

/// Whether a type has the symbols v or n.
bool isOwn(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto shape = tensor ? getSymbolicShape(tensor) : std::nullopt;
  return shape && llvm::any_of(*shape, [](const SymbolicDim &dim) { return dim.isOwn(); });
}

bool hasOwnShares(func::FuncOp function) {
  return llvm::any_of(function.getArgumentTypes(), isOwn) ||
         function
             .walk([](Operation *op) {
               return llvm::any_of(op->getResultTypes(), isOwn) ? WalkResult::interrupt()
                                                                : WalkResult::advance();
             })
             .wasInterrupted();
}

} // namespace

std::string digestOf(func::FuncOp function, StringRef kernels, int64_t parts) {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (ArrayAttr roles : {function.getAllArgAttrs(), function.getAllResultAttrs()})
    if (roles)
      out << roles;
  if (kernels != "float32") // as it takes another time
    out << kernels;
  if (hasOwnShares(function))
    out << parts << " parts";
  llvm::DenseMap<Value, int64_t> numbers;
  print(out, function.getBody(), numbers);
  return llvm::MD5::hash(llvm::arrayRefFromStringRef(out.str())).digest().str().str();
}

} // namespace omnibal::analysis
