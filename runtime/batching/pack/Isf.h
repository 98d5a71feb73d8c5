//===- Isf.h - Iterative sampling and filtering ----------------------------------------------===//
//
// This is the packer of OmniBal (arXiv 2407.20761), the baseline. It takes a permutation by
// next-fit, keeps the groups that are full enough, and permutes and packs the members of the other
// groups again. It differs from the published code where that has defects: no sample is lost,
// "full" is `>=` in both modalities, it stops when all groups are kept, and the round with the
// fewest groups is the result (more rounds can pack worse).
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_PACK_ISF_H
#define RUNTIME_BATCHING_PACK_ISF_H

#include "runtime/batching/rows/Grouping.h"
#include "runtime/batching/rows/Random.h"

namespace omnibal::rt {

struct IsfOptions {
  int32_t rounds = 50;     ///< the first packing included
  int32_t fullTiles = -1;  ///< a group with so many tiles is kept; -1: the cap
  int32_t fullTokens = -1; ///< or so many tokens; -1: the cap - 128 (- 1/32 of caps below 4096)
};

Grouping isfGroups(const SampleLengths &lengths, std::vector<uint32_t> samples, Caps caps,
                   Random random, IsfOptions options = {});

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_PACK_ISF_H
