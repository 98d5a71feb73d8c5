//===- Update.h - Updates and sums over one block of values ------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_VECTOR_UPDATE_H
#define RUNTIME_BACKENDS_HOST_VECTOR_UPDATE_H

#include "runtime/backends/host/vector/Isa.h"
#include "runtime/device/DynamicMap.h"
#include "runtime/device/OptimizerKind.h"
#include "runtime/device/UpdateFactors.h"
#include <array>
#include <cstdint>

namespace omnibal::rt {

using UpdateRule = void (*)(float *param, float *grad, float *moment1, float *moment2, int64_t n,
                            const UpdateFactors &factors);

/// From the first element of a block of codes on.
using CodedRule = void (*)(float *param, float *grad, CodedMoment moment1, CodedMoment moment2,
                           int64_t n, const UpdateFactors &factors, const DynamicMap &map1,
                           const DynamicMap &map2);

struct UpdateTable {
  std::array<UpdateRule, optimizerKinds.size()>
      update;      ///< by OptimizerKind; Muon's is of what is no matrix, and there is none of
                   ///< codes and of Adafactor
  CodedRule coded; ///< of AdamW8bit
  double (*squares)(const float *x, int64_t n);
  /// average = keep average + take value
  void (*average)(const float *value, float *average, int64_t n, float keep, float take);
};
OMNIBAL_DECLARE_VECTOR_TABLE(UpdateTable, updateTable)

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_VECTOR_UPDATE_H
