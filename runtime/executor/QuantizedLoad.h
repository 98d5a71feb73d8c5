//===- QuantizedLoad.h - Frozen matrices on their way into the arena --------------------------===//
#ifndef RUNTIME_EXECUTOR_QUANTIZEDLOAD_H
#define RUNTIME_EXECUTOR_QUANTIZEDLOAD_H

#include "runtime/program/Program.h"
#include "runtime/support/Safetensors.h"
#include "runtime/support/Status.h"
#include <functional>
#include <span>

namespace omnibal::rt {

/// Writes elements from `first` on, in row-major order, as many as `values` takes.
using ElementReader = std::function<Status(int64_t first, std::span<float> values)>;

/// Quantizes a matrix piece by piece into the words at `to`. Numbers that are not finite are an
/// error that names the first one's place.
Status quantizeInto(const QuantizedShape &shape, const ElementReader &read, std::byte *to);

/// Quantizes a parameter's tensor. An error names the parameter.
Status loadQuantized(const StoredTensor &tensor, const Parameter &parameter, std::byte *to);

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_QUANTIZEDLOAD_H
