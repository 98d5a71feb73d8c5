#include "dialects/omnibal/analysis/FunctionDigest.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "llvm/Support/MD5.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace omnibal::analysis {
namespace {

/// What a digest is of. To print a type or attributes takes long, and a function has few of them.
class FunctionText {
public:
  explicit FunctionText(llvm::raw_ostream &out) : out(out) {}

  void print(Region &region) {
    for (Block &block : region) {
      for (BlockArgument argument : block.getArguments())
        out << "^" << number(argument) << textOf(argument.getType());
      for (Operation &op : block)
        print(op);
    }
  }

private:
  void print(Operation &op) {
    out << "\n" << op.getName();
    for (Value operand : op.getOperands())
      out << " " << number(operand);
    bool constant = isa<ConstantOp>(op);
    if (!constant)
      out << textOf(op.getAttrDictionary());
    for (Value result : op.getResults()) {
      out << ":" << number(result);
      if (!constant)
        out << textOf(result.getType());
    }
    for (Region &inner : op.getRegions()) {
      out << "{";
      print(inner);
      out << "}";
    }
  }

  int64_t number(Value value) {
    return numbers.try_emplace(value, static_cast<int64_t>(numbers.size())).first->second;
  }

  template <typename T> StringRef textOf(T printed) {
    auto [place, isNew] = texts.try_emplace(printed.getAsOpaquePointer());
    if (isNew)
      llvm::raw_string_ostream(place->second) << printed;
    return place->second;
  }

  llvm::raw_ostream &out;
  llvm::DenseMap<Value, int64_t> numbers;
  llvm::DenseMap<const void *, std::string> texts; ///< of types and attributes, which are unique
};

/// Whether a type has the symbols v or n.
bool isOwn(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto shape = tensor ? getSymbolicShape(tensor) : std::nullopt;
  return shape && llvm::any_of(*shape, [](const SymbolicDim &dim) { return dim.isOwn(); });
}

bool hasOwnShares(func::FuncOp function) {
  llvm::DenseSet<Type> seen;
  auto isNewAndOwn = [&](Type type) { return seen.insert(type).second && isOwn(type); };
  return llvm::any_of(function.getArgumentTypes(), isNewAndOwn) ||
         function
             .walk([&](Operation *op) {
               return llvm::any_of(op->getResultTypes(), isNewAndOwn) ? WalkResult::interrupt()
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
  FunctionText(out).print(function.getBody());
  return llvm::MD5::hash(llvm::arrayRefFromStringRef(out.str())).digest().str().str();
}

} // namespace omnibal::analysis
