#include "runtime/device/CheckedKernel.h"
#include <algorithm>

namespace omnibal::rt {

std::string printShape(const TensorView &view) {
  std::string text = "[";
  for (int i = 0; i < view.rank; ++i)
    text += (i ? ", " : "") + std::to_string(view.shape[i]);
  return text + "]";
}

CheckedKernel::CheckedKernel(const BoundCall &call, OperandRules rules)
    : where("kernel '" + call.kernel + "'" + (call.label.empty() ? "" : " (" + call.label + ")")),
      rules(rules) {}

Status CheckedKernel::expect(const TensorView &view, const char *name, int rank,
                             DType dtype) const {
  if (rank >= 0 && view.rank != rank)
    return bad("operand '" + std::string(name) + "' has shape " + printShape(view) +
               " where rank " + std::to_string(rank) + " is needed");
  if (view.dtype != dtype)
    return bad("operand '" + std::string(name) + "' is " + nameOf(view.dtype) + ", not " +
               nameOf(dtype));
  if (!view.data && view.elements() != 0)
    return bad("operand '" + std::string(name) + "' has no memory");
  return Status::ok();
}

Status CheckedKernel::expectFloat(const TensorView &view, const char *name, int rank) const {
  const bool half = rules.bfloat16 && view.dtype == DType::BF16;
  return expect(view, name, rank, half ? DType::BF16 : DType::F32);
}

Status CheckedKernel::expectList(const TensorView &view, const char *name, DType dtype,
                                 int64_t values) const {
  OMNIBAL_RETURN_IF_ERROR(expect(view, name, 1, dtype));
  if (values >= 0 && view.shape[0] != values)
    return bad("operand '" + std::string(name) + "' has " + std::to_string(view.shape[0]) +
               " values, not " + std::to_string(values));
  if (!rules.stridedLists && view.shape[0] > 1 && view.strides[0] != 1)
    return bad("operand '" + std::string(name) + "' must be dense");
  return Status::ok();
}

Status CheckedKernel::sameType(const TensorView &view, const char *name, const TensorView &other,
                               const char *otherName, bool float32Allowed) const {
  if (view.dtype == other.dtype || (float32Allowed && view.dtype == DType::F32))
    return Status::ok();
  return bad("operand '" + std::string(name) + "' is " + nameOf(view.dtype) + ", but '" +
             otherName + "' is " + nameOf(other.dtype));
}

Status CheckedKernel::same(const TensorView &view, const char *name, const TensorView &other,
                           const char *otherName) const {
  if (view.rank != other.rank || !std::equal(view.shape, view.shape + view.rank, other.shape))
    return bad("operand '" + std::string(name) + "' has shape " + printShape(view) + ", but '" +
               otherName + "' has " + printShape(other));
  return Status::ok();
}

Status CheckedKernel::expectLike(const TensorView &view, const char *name, const TensorView &other,
                                 const char *otherName) const {
  OMNIBAL_RETURN_IF_ERROR(expectFloat(view, name, other.rank));
  OMNIBAL_RETURN_IF_ERROR(sameType(view, name, other, otherName));
  return same(view, name, other, otherName);
}

} // namespace omnibal::rt
