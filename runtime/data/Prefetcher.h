//===- Prefetcher.h - Micro-batches read and decoded ahead of time ----------------------===//
//
// The owner announces micro-batches in the order in which it will take them; threads read their
// samples and decode their tiles ahead, within a bound on the tiles held. take() normally only
// copies. The result does not depend on the number of threads.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DATA_PREFETCHER_H
#define RUNTIME_DATA_PREFETCHER_H

#include "runtime/data/References.h"
#include <chrono>
#include <optional>

namespace omnibal::rt {

/// A sample that could not be read, and why.
struct BadSample {
  int64_t sample = 0;
  Status reason;
};

struct LoadedBatch {
  std::vector<Sample> samples;   ///< in the announced order
  int64_t tiles = 0, tokens = 0; ///< sums over the samples
  /// [tiles, 3, height, width], of units [tiles, patches, values]; empty if not wanted.
  std::vector<float> pixels;
  /// LoaderOptions::standIns: what could not be read. Where only a picture was at fault, zeros
  /// stand in its place; else the micro-batch is empty. Either way all ranks find it of one size.
  std::vector<BadSample> bad;
};

struct LoaderOptions {
  int threads = 1;
  bool pixels = true;                    ///< false on stages that read no pictures
  int64_t tileHeight = 0, tileWidth = 0; ///< unless the data set has a grid
  int64_t tilesAhead = 256;  ///< decoded tiles held at most (one micro-batch always fits)
  int64_t batchesAhead = 64; ///< micro-batches read ahead at most
  SampleRules rules;         ///< checked for every sample
  /// What is known of the pairs; a sample that it is not about is an error. None: zeros.
  std::shared_ptr<const References> references = nullptr;
  bool standIns = false; ///< a sample in error is told with its micro-batch, instead of failing
};

/// What the threads have done so far.
struct LoaderCounters {
  int64_t samples = 0; ///< read, their pictures decoded where they are wanted
  int64_t tiles = 0;   ///< decoded
};

/// Sizes of a micro-batch that has been read.
struct BatchLengths {
  int64_t tiles = 0;
  std::vector<int64_t> tokens; ///< by sequence
};

class Prefetcher {
public:
  Prefetcher(std::shared_ptr<const Dataset> dataset, Preprocess preprocess, LoaderOptions options);
  ~Prefetcher(); ///< stops the threads; announced work is dropped
  Prefetcher(const Prefetcher &) = delete;
  Prefetcher &operator=(const Prefetcher &) = delete;

  /// Announces the sample numbers of the next micro-batch, of which there may be none. Never
  /// blocks.
  void announce(std::vector<int64_t> samples);
  /// The oldest micro-batch not yet taken. DeadlineExceeded names its samples; the first error in
  /// announced order is returned, and again on every later call (unless there are stand-ins).
  Result<LoadedBatch> take(std::chrono::milliseconds deadline);
  /// Sizes of a micro-batch by its place behind the oldest one that was not taken (0); none while
  /// it is being read, and where something of it cannot be read.
  std::optional<BatchLengths> lengths(size_t place) const;
  LoaderCounters counters() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace omnibal::rt
#endif // RUNTIME_DATA_PREFETCHER_H
