//===- WorkspaceLedger.h - What a rank takes of its device beside the arena ------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_DRIVER_WORKSPACELEDGER_H
#define RUNTIME_BACKENDS_CUDA_DRIVER_WORKSPACELEDGER_H

#include "runtime/device/WorkspaceUse.h"
#include <map>

namespace omnibal::rt::cuda {

/// Whoever allocates device memory that stays reports it here: what it will take, as early as it
/// knows (when its kernels are created, before the arena), and what it has taken. A figure that
/// depends on the program alone also belongs into runtime/program/Workspace.cpp, so that plans
/// leave room.
class WorkspaceLedger {
public:
  /// Announces that at most this many bytes will be taken for `what`.
  void expect(const std::string &what, int64_t bytes) {
    int64_t &expected = uses[what].expected;
    expected = std::max(expected, bytes);
  }
  void took(const std::string &what, int64_t bytes) { uses[what].taken += bytes; }

  std::vector<WorkspaceUse> list() const {
    std::vector<WorkspaceUse> list;
    for (const auto &[what, use] : uses)
      if (const int64_t bytes = std::max(use.expected, use.taken); bytes > 0)
        list.push_back({what, bytes});
    return list;
  }
  /// Returns the bytes that were announced and are not taken yet.
  int64_t outstanding() const {
    int64_t sum = 0;
    for (const auto &[what, use] : uses)
      sum += std::max<int64_t>(0, use.expected - use.taken);
    return sum;
  }

private:
  struct Use {
    int64_t expected = 0, taken = 0;
  };
  std::map<std::string, Use> uses;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_DRIVER_WORKSPACELEDGER_H
