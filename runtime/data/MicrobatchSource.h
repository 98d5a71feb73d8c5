//===- MicrobatchSource.h - Where a run takes its micro-batches from --------------------===//
#ifndef RUNTIME_DATA_MICROBATCHSOURCE_H
#define RUNTIME_DATA_MICROBATCHSOURCE_H

#include "runtime/data/Packing.h"

namespace omnibal::rt {

/// What a micro-batch weighs.
struct MicrobatchWeight {
  int64_t tiles = 0, tokens = 0;
  int64_t squaredTokens = 0; ///< sum over samples of length^2

  void addSample(int64_t length) {
    tokens += length;
    squaredTokens += length * length;
  }
};
MicrobatchWeight weightOf(const PackedMicrobatch &batch);

/// The micro-batches of one run of a mode, for one replica. get() may block while data is read; the
/// result stays valid until the run ends.
class MicrobatchSource {
public:
  virtual ~MicrobatchSource() = default;
  virtual Result<const PackedMicrobatch *> get(int32_t microbatch) = 0;
  /// What the micro-batches of the next run weigh; empty while that is not known.
  virtual std::vector<MicrobatchWeight> next() const { return {}; }
  /// Whether something stands in a micro-batch that was got in place of what could not be read, so
  /// that no rank may learn from this step.
  virtual bool isDamaged() const { return false; }
};

} // namespace omnibal::rt
#endif // RUNTIME_DATA_MICROBATCHSOURCE_H
