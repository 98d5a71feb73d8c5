//===- FusedAttention.h - One rank's attention by a library -----------------------------------===//
//
// Takes the calls that the library knows and leaves the others to our own kernels; both keep the
// same lse, so either may do the backward of the other's forward. A plan serves all calls of a
// form, whose number of samples and longest sample are rounded up (Load.h): few forms, few plans.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_LIBRARIES_FUSEDATTENTION_H
#define RUNTIME_BACKENDS_CUDA_LIBRARIES_FUSEDATTENTION_H

#include "runtime/backends/cuda/driver/Runtime.h"
#include "runtime/backends/cuda/driver/WorkspaceLedger.h"
#include "runtime/backends/cuda/kernels/attention/Attention.h"
#include "runtime/backends/cuda/libraries/AttentionLibrary.h"
#include "runtime/device/Load.h"
#include <map>
#include <vector>

namespace omnibal::rt::cuda {

/// The values of OMNIBAL_CUDA_ATTENTION: "cudnn" (the default), "cudnn-forward" (gradients by our
/// own kernels), "cudnn-unordered" (gradients by additions in any order: less memory, other bits in
/// every run) or "own". Others give a notice and the default.
enum class AttentionWish { Library, LibraryForward, LibraryUnordered, Own };
AttentionWish attentionWish();

class FusedAttention {
public:
  /// The most workspace of one launch, outside the arena. A gradient that needs more is computed in
  /// several launches, of fewer samples or of a part of the heads.
  static constexpr int64_t mostWorkspace = int64_t{576} << 20;
  static constexpr int64_t mostPieces = 8, mostLaunches = 16;
  /// Returns about what the library takes for a form's gradient: the gradient of the scores
  /// (ordered) or sums of the queries' gradients, those of keys and values for each query head, and
  /// one number per row.
  static int64_t expectedWorkspace(const AttentionForm &form);

  /// `own` may be null.
  FusedAttention(std::unique_ptr<AttentionLibrary> library, AttentionWish wish, cudaStream_t stream,
                 WorkspaceLedger *own)
      : library(std::move(library)), wish(wish), stream(stream), own(own) {}

  std::string description() const { return library->description(); }
  /// Enqueues the whole call, or does nothing (false) if the library is not to do it. `load` is
  /// that of the micro-batch; null: nothing is known.
  Result<bool> run(const AttentionShape &shape, const AttentionData &data, const Load *load,
                   bool backward);

private:
  struct Prepared {
    AttentionForm form;                  ///< of a launch
    std::unique_ptr<AttentionPlan> plan; ///< null: declined
    int64_t pieces = 1;                  ///< of the samples
    int64_t headParts = 1;
  };

  Prepared &prepare(const AttentionForm &form);
  static bool divide(const AttentionForm &form, Prepared &prepared);
  /// Returns the last workspace, or a larger one; all stay, because recorded work holds their
  /// addresses.
  Result<std::byte *> workspace(int64_t bytes);

  std::unique_ptr<AttentionLibrary> library;
  AttentionWish wish;
  cudaStream_t stream;
  WorkspaceLedger *own;
  std::map<AttentionForm, Prepared> prepared;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers; ///< the last is the largest
  int64_t largest = 0;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_LIBRARIES_FUSEDATTENTION_H
