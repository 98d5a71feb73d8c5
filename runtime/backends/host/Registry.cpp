#include "runtime/backends/host/Registry.h"
#include "runtime/backends/host/HostBackend.h"

namespace omnibal::rt {

static KernelTable buildTable() {
  KernelTable table;
  addAttentionKernels(table);
  addConvKernels(table);
  addCopyKernels(table);
  addCrossAttentionKernels(table);
  addCrossEntropyKernels(table);
  addElementwiseKernels(table);
  addEmbeddingKernels(table);
  addFusedKernels(table);
  addGemmKernels(table);
  addGroupedKernels(table);
  addIndexingKernels(table);
  addNormalizeKernels(table);
  addPreferenceKernels(table);
  addDequantizeKernels(table);
  addQuantizedKernels(table);
  addRecurrentKernels(table);
  addReduceKernels(table);
  addRopeKernels(table);
  addRowSquaresKernels(table);
  addWordLossKernels(table);
  return table;
}

Result<std::unique_ptr<Kernel>> createHostKernel(const BoundCall &call) {
  static const KernelTable table = buildTable();
  auto found = table.find(call.kernel);
  if (found == table.end())
    return invalid("the host backend has no kernel '" + call.kernel + "'" +
                   (call.label.empty() ? "" : " (" + call.label + ")") +
                   "; docs/kernels.md lists those that exist");
  return found->second(call);
}

} // namespace omnibal::rt
