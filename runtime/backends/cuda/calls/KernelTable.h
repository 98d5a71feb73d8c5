//===- KernelTable.h - The cuda backend's kernels by name ------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_CALLS_KERNELTABLE_H
#define RUNTIME_BACKENDS_CUDA_CALLS_KERNELTABLE_H

#include "runtime/backends/cuda/driver/ProgramCode.h"
#include "runtime/backends/cuda/driver/WorkspaceLedger.h"
#include "runtime/backends/cuda/kernels/Strides.h"
#include "runtime/device/CallReader.h"
#include "runtime/device/CheckedKernel.h"
#include "runtime/device/Load.h"
#include <map>

namespace omnibal::rt::cuda {

class Libraries;
struct GemmData;
struct GemmShape;

/// What a kernel needs of its rank's device.
struct KernelContext {
  cudaStream_t stream = nullptr;
  const ProgramCode *code = nullptr; ///< null where the program has none
  Libraries *libraries = nullptr;    ///< null: our own kernels alone
  const Load *load = nullptr;        ///< of the micro-batch; null: nothing is known
  /// The memory where the rank's kernels keep partial sums; the first kernel that needs it makes
  /// it. Null: there is none.
  std::unique_ptr<DeviceBuffer> *partials = nullptr;
  WorkspaceLedger *own = nullptr; ///< null: nobody asks
  /// Set by a kernel that cannot go on from kept keys (KeptKeys.h); null: nobody asks.
  bool *withoutKeys = nullptr;
};

Element elementOf(DType type);

/// A kernel of docs/kernels.md on the device: run() enqueues.
class DeviceKernel : public CheckedKernel {
public:
  DeviceKernel(const BoundCall &call, const KernelContext &context)
      : CheckedKernel(call, {.bfloat16 = true}), context(context) {}

protected:
  Status launched(cudaError_t error) const { return check(error, where); }
  /// Makes sure, while the kernel is created, that partials() exists.
  void needPartials(CallReader &call);
  /// Scratch memory of launchColumnSum; null where the context has no place for it.
  float *partials() const;
  /// Enqueues a matrix product.
  Status multiply(const GemmShape &shape, const GemmData &data) const;

  /// Memory of one launch, aligned to 16 bytes: the operand's, which must hold it, or (-1: there is
  /// no operand) device memory in the order of the stream.
  struct Scratch {
    std::byte *data;
    std::unique_ptr<DeviceBuffer> own;
  };
  Result<Scratch> scratch(std::span<const TensorView> views, int operand, int64_t bytes) const;

  KernelContext context;
};

using DeviceKernelTable =
    std::map<std::string,
             Result<std::unique_ptr<Kernel>> (*)(const BoundCall &, const KernelContext &)>;

template <typename K>
Result<std::unique_ptr<Kernel>> createKernelOf(const BoundCall &call,
                                               const KernelContext &context) {
  CallReader reader(call);
  auto kernel = std::make_unique<K>(reader, call, context);
  OMNIBAL_RETURN_IF_ERROR(reader.finish());
  return std::unique_ptr<Kernel>(std::move(kernel));
}

void addAttentionKernels(DeviceKernelTable &table);
void addCrossAttentionKernels(DeviceKernelTable &table);
void addGroupedKernels(DeviceKernelTable &table);
void addLossKernels(DeviceKernelTable &table);
void addMatrixKernels(DeviceKernelTable &table);
void addPlainKernels(DeviceKernelTable &table);
void addPlainRowKernels(DeviceKernelTable &table);
void addQuantizedKernels(DeviceKernelTable &table);
void addRecurrentKernels(DeviceKernelTable &table);
void addRowKernels(DeviceKernelTable &table);
void addWordLossKernels(DeviceKernelTable &table);

/// Creates a kernel; an InvalidArgument error names the kernel and what is missing or wrong.
Result<std::unique_ptr<Kernel>> createDeviceKernel(const BoundCall &call,
                                                   const KernelContext &context);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_CALLS_KERNELTABLE_H
