#include "runtime/backends/host/Registry.h"

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
  addRecurrentKernels(table);
  addReduceKernels(table);
  addRopeKernels(table);
  return table;
}

Result<std::unique_ptr<Kernel>> createHostKernel(const KernelSite &site) {
  static const KernelTable table = buildTable();
  auto found = table.find(site.kernel);
  if (found == table.end())
    return invalid("the host backend has no kernel '" + site.kernel + "'" +
                   (site.label.empty() ? "" : " (" + site.label + ")") +
                   "; docs/kernels.md lists those that exist");
  return found->second(site);
}

} // namespace omnibal::rt
