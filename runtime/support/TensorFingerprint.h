//===- TensorFingerprint.h - Tells a stored tensor from another -------------------------------===//
#ifndef RUNTIME_SUPPORT_TENSORFINGERPRINT_H
#define RUNTIME_SUPPORT_TENSORFINGERPRINT_H

#include "runtime/support/Safetensors.h"
#include <string>

namespace omnibal::rt {

/// A text that follows from type, shape and all bytes of the tensor, wherever it is stored.
std::string fingerprintOf(const StoredTensor &tensor);

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_TENSORFINGERPRINT_H
