//===- CheckedKernel.h - What kernels of all backends ask of their operands -------------------===//
#ifndef RUNTIME_DEVICE_CHECKEDKERNEL_H
#define RUNTIME_DEVICE_CHECKEDKERNEL_H

#include "runtime/device/Kernel.h"

namespace omnibal::rt {

/// "[3, 4]"
std::string printShape(const TensorView &view);

/// Which operands a backend's kernels can read.
struct OperandRules {
  bool bfloat16 = false;     ///< where numbers are wanted, besides float32
  bool stridedLists = false; ///< one value of a list need not lie beside the next
};

/// A kernel that names itself in errors. The checks are those of docs/kernels.md, so what one
/// backend refuses the others refuse.
class CheckedKernel : public Kernel {
public:
  CheckedKernel(const BoundCall &call, OperandRules rules);

  Status bad(const std::string &message) const { return invalid(where + ": " + message); }
  /// Checks an operand's rank (-1: any), element type, and that it has memory.
  Status expect(const TensorView &view, const char *name, int rank, DType dtype) const;
  /// Checks an operand's rank, and that it holds numbers of a type that the backend reads.
  Status expectFloat(const TensorView &view, const char *name, int rank) const;
  /// Checks a list of `values` values (-1: any number).
  Status expectList(const TensorView &view, const char *name, DType dtype, int64_t values) const;
  /// Checks that an operand has another's element type, or float32 where that is allowed.
  Status sameType(const TensorView &view, const char *name, const TensorView &other,
                  const char *otherName, bool float32Allowed = false) const;
  /// Checks that two operands have one shape.
  Status same(const TensorView &view, const char *name, const TensorView &other,
              const char *otherName) const;
  /// Checks that numbers have another operand's type and shape.
  Status expectLike(const TensorView &view, const char *name, const TensorView &other,
                    const char *otherName) const;

protected:
  std::string where;

private:
  OperandRules rules;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CHECKEDKERNEL_H
