//===- BucketShares.h - The elements of a bucket, and who has which
//-------------------------------===//
#ifndef RUNTIME_PROGRAM_BUCKETSHARES_H
#define RUNTIME_PROGRAM_BUCKETSHARES_H

#include "runtime/program/Program.h"

namespace omnibal::rt {

/// Some elements of a parameter, as it lies in the arena, in a bucket.
struct BucketPiece {
  int32_t parameter = 0;
  int64_t first = 0, count = 0; ///< of the parameter's elements
  int64_t at = 0;               ///< the first one's place in the bucket
  int owner = 0;                ///< the replica whose share it is; 0 where there are no shares
};

/// The bucket's elements in the order of its gradients in the arena, cut where a parameter or a
/// share ends. Parameters without elements are left out. Every parameter begins at a multiple of
/// `grain` (bucketGrain of the optimizer).
std::vector<BucketPiece> piecesOf(const Stage &stage, const Bucket &bucket, int64_t grain);

/// With what lies between parameters.
int64_t elementsOf(const Stage &stage, const Bucket &bucket, int64_t grain);

/// Bounds of as many shares of `elements` as there are replicas, as equal as multiples of normBlock
/// allow.
std::vector<int64_t> cutIntoShares(int64_t elements, int64_t replicas);
/// What the largest share has.
int64_t largestShare(const std::vector<int64_t> &bounds);

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_BUCKETSHARES_H
