#include "runtime/backends/host/kernels/HostKernel.h"
#include <algorithm>

namespace omnibal::rt {

std::string printShape(const TensorView &view) {
  std::string text = "[";
  for (int i = 0; i < view.rank; ++i)
    text += (i ? ", " : "") + std::to_string(view.shape[i]);
  return text + "]";
}

Status HostKernel::check(const TensorView &view, const char *name, int rank, DType dtype) const {
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

Status HostKernel::same(const TensorView &view, const char *name, const TensorView &other,
                        const char *otherName) const {
  if (view.rank != other.rank || !std::equal(view.shape, view.shape + view.rank, other.shape))
    return bad("operand '" + std::string(name) + "' has shape " + printShape(view) + ", but '" +
               otherName + "' has " + printShape(other));
  return Status::ok();
}

} // namespace omnibal::rt
