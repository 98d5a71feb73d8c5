#include "runtime/device/calls/BoundElementwise.h"

namespace omnibal::rt {

using plain::Binary;
using plain::Unary;

static Unary unaryOf(CallReader &call, const std::string &kernel) {
  Unary op = Unary::Cast;
  for (const auto &[name, known] : plain::unaryNames)
    if (kernel == name)
      op = known;
  return op == Unary::Gelu && call.flag("tanh", false) ? Unary::GeluTanh : op;
}

static Binary binaryOf(CallReader &call, const std::string &kernel) {
  if (kernel == "compare")
    return static_cast<Binary>(static_cast<int>(Binary::Equal) +
                               call.choice("predicate", {"eq", "lt", "le", "gt", "ge"}));
  if (kernel == "gelu_grad" && call.flag("tanh", false))
    return Binary::GeluTanhGrad;
  if (kernel == "mod" && call.flag("fmod", false))
    return Binary::Fmod;
  for (const auto &[name, known] : plain::binaryNames)
    if (kernel == name)
      return known;
  return Binary::Add;
}

BoundUnary::BoundUnary(CallReader &call, const std::string &kernel)
    : operand(call.operand("operand")), result(call.operand("result")), op(unaryOf(call, kernel)) {}

BoundBinary::BoundBinary(CallReader &call, const std::string &kernel)
    : lhs(call.operand(kernel.ends_with("_grad") ? "operand" : "lhs")),
      rhs(call.operand(kernel.ends_with("_grad") ? "grad" : "rhs")), result(call.operand("result")),
      op(binaryOf(call, kernel)) {}

} // namespace omnibal::rt
