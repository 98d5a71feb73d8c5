//===- Agreement.h - How the ranks of a run decide together ------------------------------===//
#ifndef RUNTIME_CHECKPOINT_AGREEMENT_H
#define RUNTIME_CHECKPOINT_AGREEMENT_H

#include "runtime/core/Backend.h"
#include "runtime/core/Status.h"
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Called by every rank with its own outcome; returns success only where all succeeded, after all
/// have called (a barrier), else the error of a failed rank. Ranks may be threads or processes.
using Agreement = std::function<Status(Status mine)>;

/// For a run of one rank.
inline Status agreeAlone(Status mine) { return mine; }

/// A float32 tensor in memory under its name in the source checkpoint.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape; ///< as in the source checkpoint
  float *data = nullptr;
  bool transposed = false;        ///< rank 2, lies in memory as [shape[1], shape[0]]
  DeviceMemory *memory = nullptr; ///< whose memory `data` points to; null: the host's
};

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_AGREEMENT_H
