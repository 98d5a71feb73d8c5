//===- Dependence.cpp --------------------------------------------------------------------===//
#include "passes/raise/match/Dependence.h"

using namespace mlir;

namespace omnibal::raise {

namespace {
constexpr llvm::StringLiteral roleNames[] = {"",      "ids",      "positions", "visibility", "mask",
                                             "image", "segments", "rows",      "seen"};
}

Role roleOf(func::FuncOp function, unsigned argument) {
  auto attribute = function.getArgAttrOfType<StringAttr>(argument, "omnibal.role");
  for (auto [i, name] : llvm::enumerate(roleNames))
    if (attribute && attribute.getValue() == name)
      return static_cast<Role>(i);
  return Role::None;
}

void setRole(func::FuncOp function, unsigned argument, Role role) {
  function.setArgAttr(
      argument, "omnibal.role",
      StringAttr::get(function.getContext(), roleNames[static_cast<unsigned>(role)]));
}

StringRef inputName(func::FuncOp function, unsigned argument) {
  auto name = function.getArgAttrOfType<StringAttr>(argument, "omnibal.input");
  return name ? name.getValue() : StringRef("unnamed");
}

Dependence::Dependence(func::FuncOp function) : function(function) {
  for (BlockArgument argument : function.getArguments()) {
    Role role = roleOf(function, argument.getArgNumber());
    // An input of unknown meaning may be anything but a mask.
    if (role == Role::Ids || role == Role::Image || role == Role::None)
      content |= Dependence::argument(argument.getArgNumber());
    known[argument] = Dependence::argument(argument.getArgNumber());
  }
  for (Operation &op : function.getBody().front())
    for (Value result : op.getResults())
      of(result);
}

Dependence::Set Dependence::of(Value value) {
  auto it = known.find(value);
  if (it != known.end())
    return it->second;
  Operation *op = value.getDefiningOp();
  Set set = 0;
  if (isa_and_nonnull<GetParameterOp>(op))
    set = parameters;
  else if (isa_and_nonnull<ShapeOp, SizeOp>(op))
    set = sizes;
  else if (auto batch = dyn_cast_or_null<BatchValueOp>(op))
    set = content & ~parameters; // raised before: content of the micro-batch
  else if (op)
    for (Value operand : op->getOperands())
      set |= of(operand);
  known[value] = set;
  return set;
}

Dependence::Set Dependence::arguments(Role role) {
  Set set = 0;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (roleOf(function, i) == role)
      set |= argument(i);
  return set;
}

} // namespace omnibal::raise
