//===- Kernel.h - What a backend offers: kernels by name -------------------------------------===//
//
// docs/kernels.md lists the kernels, their operand names, shapes and attributes. A kernel is
// created once per call at load (names and attributes are checked there) and run many times.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_KERNEL_H
#define RUNTIME_DEVICE_KERNEL_H

#include "runtime/device/KeptKeys.h"
#include "runtime/device/Load.h"
#include "runtime/support/Status.h"
#include "runtime/support/ThreadPool.h"
#include "runtime/support/Types.h"
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace omnibal::rt {

/// An operand at run time: sizes and strides in elements of `dtype`; a stride may be 0 (broadcast).
struct TensorView {
  static constexpr int maxRank = 8;
  void *data = nullptr;
  DType dtype = DType::F32;
  int rank = 0;
  int64_t shape[maxRank] = {}, strides[maxRank] = {};
  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i)
      n *= shape[i];
    return n;
  }
};

/// What a call looks like before any data exists.
struct BoundCall {
  std::string kernel;
  std::vector<std::string> operands; ///< names, in the order in which run() receives the views
  nlohmann::json attributes;
  std::string label;
  Borders borders = Borders::Samples; ///< what operand `cu_seqlens` holds, if there is one
  /// Resolves a symbol of the program's generated code; null if there is none.
  void *(*symbol)(void *library, const char *name) = nullptr;
  void *library = nullptr;
};

class Kernel {
public:
  virtual ~Kernel() = default;
  /// Operands in the order of BoundCall::operands. `symbols`: of the micro-batch, for
  /// attributes that are Extents. Enqueues (on the host: performs) the work.
  virtual Status run(std::span<const TensorView> operands, const SymbolValues &symbols,
                     ThreadPool &pool) = 0;
  /// Whether a token needs keys and values of its sample's earlier tokens. Such a kernel is run by
  /// runBehind() where these are not among the operands.
  virtual bool keepsKeys() const { return false; }
  /// Does what run() does for the tokens that follow those of `kept`, and adds theirs to it.
  virtual Status runBehind(KeptKeys::Rows &kept, std::span<const TensorView> operands,
                           const SymbolValues &symbols, ThreadPool &pool) {
    return {Code::Internal, "this kernel keeps no keys"};
  }
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_KERNEL_H
