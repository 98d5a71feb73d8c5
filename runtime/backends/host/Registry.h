//===- Registry.h - Kernel families of the host backend ----------------------------------===//
//
// A family is one file that adds its kernels; Registry.cpp lists the families.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_REGISTRY_H
#define RUNTIME_BACKENDS_HOST_REGISTRY_H

#include "runtime/device/CallReader.h"
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace omnibal::rt {

using KernelFactory = Result<std::unique_ptr<Kernel>> (*)(const BoundCall &call);
using KernelTable = std::map<std::string, KernelFactory>;

/// The usual factory: a kernel class whose constructor reads the call through the CallReader.
template <typename K> Result<std::unique_ptr<Kernel>> createKernel(const BoundCall &call) {
  CallReader reader(call);
  auto kernel = std::make_unique<K>(reader, call);
  OMNIBAL_RETURN_IF_ERROR(reader.finish());
  return std::unique_ptr<Kernel>(std::move(kernel));
}

void addAttentionKernels(KernelTable &table);
void addConvKernels(KernelTable &table);
void addCopyKernels(KernelTable &table);
void addCrossAttentionKernels(KernelTable &table);
void addCrossEntropyKernels(KernelTable &table);
void addElementwiseKernels(KernelTable &table);
void addEmbeddingKernels(KernelTable &table);
void addFusedKernels(KernelTable &table);
void addGemmKernels(KernelTable &table);
void addGroupedKernels(KernelTable &table);
void addIndexingKernels(KernelTable &table);
void addNormalizeKernels(KernelTable &table);
void addPreferenceKernels(KernelTable &table);
void addDequantizeKernels(KernelTable &table);
void addQuantizedKernels(KernelTable &table);
void addRecurrentKernels(KernelTable &table);
void addReduceKernels(KernelTable &table);
void addRopeKernels(KernelTable &table);
void addRowSquaresKernels(KernelTable &table);
void addWordLossKernels(KernelTable &table);

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_REGISTRY_H
