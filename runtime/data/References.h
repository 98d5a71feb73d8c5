//===- References.h - What the model which training begins with thinks of pairs of answers
//------===//
//
// The log-probabilities of both answers of every pair of a data set, beside a digest of the pair's
// tokens: of a pair that has changed since, they say nothing. In a file they have a line each
// (JSON), behind a line that says by which weights they were found.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DATA_REFERENCES_H
#define RUNTIME_DATA_REFERENCES_H

#include "runtime/data/Dataset.h"
#include <span>
#include <string>
#include <vector>

namespace omnibal::rt {

/// A digest of the tokens of a pair and of their targets (PackedMicrobatch::targets).
uint64_t digestOfPair(std::span<const int32_t> inputIds, std::span<const int32_t> targets);
uint64_t digestOfPair(const Sample &pair);

class References {
public:
  struct Entry {
    PairReference values;
    uint64_t digest = 0;
  };
  /// `entries`: by sample. `from`: where they come from, for errors.
  References(std::vector<Entry> entries, std::string from)
      : entries(std::move(entries)), from(std::move(from)) {}

  /// Those of a sample, if they are about this pair.
  Result<PairReference> of(int64_t index, const Sample &sample) const;
  const std::vector<Entry> &all() const { return entries; }
  int64_t size() const { return static_cast<int64_t>(entries.size()); }

  /// Writes the file, all of it or nothing. `weights`: a fingerprint of those that found them.
  Status write(const std::string &path, const Dataset &dataset, const std::string &weights) const;
  /// Reads the file, which must know every sample of the data set. Unless `weights` is empty,
  /// others than these are an error.
  static Result<References> read(const std::string &path, const Dataset &dataset,
                                 const std::string &weights);

private:
  std::vector<Entry> entries;
  std::string from;
};

} // namespace omnibal::rt
#endif // RUNTIME_DATA_REFERENCES_H
