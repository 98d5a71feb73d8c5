//===- GroupsFile.h - omnibal.length-groups/1 -----------------------------------------------===//
#ifndef RUNTIME_BATCHING_LENGTHS_GROUPSFILE_H
#define RUNTIME_BATCHING_LENGTHS_GROUPSFILE_H

#include "runtime/batching/lengths/LengthGroups.h"
#include "runtime/support/Status.h"

namespace omnibal::rt {

/// Reads candidates or chosen length groups. Unknown keys, values out of range, ranks that are not
/// replicas / degree, and caps that do not ascend are errors that name file and field.
Result<LengthGroups> readLengthGroups(const std::string &path);
Result<LengthGroups> parseLengthGroups(const std::string &text, const std::string &where);

/// The object of the file.
nlohmann::ordered_json describe(const LengthGroups &groups);

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

/// Sets every mode's micro-batches so that steps have about `tokens` tokens.
void setTokensPerStep(LengthGroups &groups, int64_t tokens);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_LENGTHS_GROUPSFILE_H
