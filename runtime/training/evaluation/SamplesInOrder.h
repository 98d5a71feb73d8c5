//===- SamplesInOrder.h - Every sample of a data set once, cut into runs ----------------------===//
#ifndef RUNTIME_TRAINING_EVALUATION_SAMPLESINORDER_H
#define RUNTIME_TRAINING_EVALUATION_SAMPLESINORDER_H

#include "runtime/data/DataLoader.h"
#include "runtime/training/session/Session.h"
#include <utility>
#include <vector>

namespace omnibal::rt {

/// Every sample once, in order, cut into the mode's runs a part of the data set at a time: nobody
/// waits until all samples have been looked at. What is left over from a part goes first in the
/// next one, so the groups are those of the whole.
class SamplesInOrder {
public:
  SamplesInOrder(const Session &session, const Dataset &dataset, StepSource::Layout layout)
      : s(session), dataset(dataset), layout(std::move(layout)),
        rules(sampleRules(session.program())) {}

  bool isOver() const { return next == dataset.size() && numbers.empty(); }
  /// The part of the samples that are done when the next source is.
  double progress() const {
    return static_cast<double>(next - static_cast<int64_t>(numbers.size())) /
           static_cast<double>(dataset.size());
  }

  /// Looks up the next samples; all ranks call it, and agree about its outcome.
  Status lookUp();
  /// Returns the groups that can be run with what was looked up.
  std::shared_ptr<StepSource> nextPart();

private:
  struct Length {
    int64_t tiles = 0, tokens = 0;
  };
  Status lengthOf(int64_t number, Length &length) const;

  const Session &s;
  const Dataset &dataset;
  const StepSource::Layout layout;
  const SampleRules rules;
  int64_t next = 0;             ///< the first sample whose length was not looked up
  std::vector<int64_t> numbers; ///< of samples that are in no group yet
  std::vector<std::pair<int64_t, int64_t>> loads;
};

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_EVALUATION_SAMPLESINORDER_H
