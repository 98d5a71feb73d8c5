//===- Candidates.h - The length groups that may be chosen -----------------------------------===//
#ifndef RUNTIME_BATCHING_LENGTHS_CANDIDATES_H
#define RUNTIME_BATCHING_LENGTHS_CANDIDATES_H

#include "runtime/batching/lengths/LengthGroups.h"
#include "runtime/support/Status.h"
#include <span>

namespace omnibal::rt {

/// What candidates need that are given as text.
struct CandidateText {
  std::string text; ///< "4096,32768:4": tokens and, after a colon, the degree
  int32_t replicas = 1, stages = 1;
  int64_t tokensPerStep = 0;
  ModeCost cost; ///< of degree 1: the first three are divided by the degree
};
/// Makes candidates of a text. Tile caps follow the data's tiles a token and are at least the
/// largest of a sample that the tokens' cap holds.
Result<LengthGroups> candidatesFromText(const CandidateText &text, const SampleLengths &lengths);

/// Tokens of a step: as given, or where that is 0 `microbatches` of the longest sample a replica.
int64_t tokensOfStep(const SampleLengths &lengths, int64_t given, int64_t microbatches,
                     int32_t replicas);

/// Makes candidates of these degrees, which divide `replicas`, for packing lengths of 512 x
/// (1, 1.5, 2, 3, 4, 6, ..) tokens and of the longest sample, up to four times the longest sample
/// or, where this is less, to what a context group has of a step's tokens. They ascend by tokens,
/// then by degree. Costs are left open.
Result<LengthGroups> candidatesOfData(const SampleLengths &lengths, int32_t replicas,
                                      int32_t stages, int64_t tokensPerStep,
                                      std::span<const int64_t> degrees);

/// Sets every mode's micro-batches so that steps have about `tokens` tokens.
void setTokensPerStep(LengthGroups &groups, int64_t tokens);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_LENGTHS_CANDIDATES_H
