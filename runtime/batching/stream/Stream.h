//===- Stream.h - Balanced batches of data that never ends -----------------------------------===//
//
// Samples are read a window at a time, from one data set or several in given shares, and each
// window is balanced by itself: every promise of balance() holds in each window, and memory is that
// of one window, whatever the length of the data.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_STREAM_STREAM_H
#define RUNTIME_BATCHING_STREAM_STREAM_H

#include "runtime/batching/Balance.h"
#include "runtime/batching/pack/Mixture.h"
#include <functional>
#include <memory>

namespace omnibal::rt {

struct StreamSource {
  std::string name;  ///< for messages
  double weight = 1; ///< share of the samples, relative to the other sources'
  /// Appends up to `most` samples in the source's order and returns their number, which is 0 at the
  /// end.
  std::function<Result<int64_t>(int64_t most, SampleLengths &out)> read;
};

struct StreamOptions {
  BatchOptions batch;
  int64_t window = 1 << 16; ///< samples
};

struct StreamWindow {
  int64_t number = 0;               ///< from 0
  std::vector<MixedSample> samples; ///< of the window; Batches counts in these
  SampleLengths lengths;            ///< of the same
  Batches batches;                  ///< no group, where all samples are skipped
};

class BalancedStream {
public:
  /// Makes a stream; no source, no weight, or a window below 1 is an error.
  static Result<BalancedStream> create(std::vector<StreamSource> sources, StreamOptions options);

  /// Returns the next window, and one without samples at the end. When a source ends, the others go
  /// on in their ratios; the last window is shorter. The result is a function of the options, the
  /// window's number and its samples. Errors of a source and of balance() name source and sample.
  Result<StreamWindow> next();

private:
  BalancedStream(std::vector<StreamSource> sources, StreamOptions options);
  /// Adds the next sample of a source; false at its end.
  Result<bool> take(int32_t source, StreamWindow &window);

  /// What is read ahead of a source.
  struct Ahead {
    SampleLengths lengths;
    int64_t next = 0;  ///< in `lengths`
    int64_t first = 0; ///< the source's number of lengths[0]
  };

  std::vector<StreamSource> sources;
  std::vector<Ahead> ahead;
  StreamOptions options;
  WeightedTurns turns;
  int64_t windows = 0;
};

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_STREAM_STREAM_H
