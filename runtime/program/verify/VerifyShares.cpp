//===- VerifyShares.cpp - The state of the optimizer: p18, and matrices of Muon ---------------===//
#include "runtime/program/BucketShares.h"
#include "runtime/program/verify/VerifierInternal.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

Status verifyShare(const Program &p, const Stage &stage, const Bucket &bucket,
                   const std::string &where) {
  auto bad = [&](const std::string &what) { return broken("p18", where, what); };
  if (bucket.share.has_value() != (p.zero > 0))
    return bad(p.zero > 0 ? "it has no shares, but the manifest says zero"
                          : "it has shares, but the manifest does not say zero");
  if (!bucket.share)
    return Status::ok();
  const BucketShare &share = *bucket.share;
  const int64_t elements = elementsOf(stage, bucket, bucketGrain(p.optimizer));
  if (static_cast<int64_t>(share.bounds.size()) != p.dataParallel + 1 ||
      !std::is_sorted(share.bounds.begin(), share.bounds.end()) || share.bounds.front() != 0 ||
      share.bounds.back() != elements)
    return bad("the bounds of its shares must ascend from 0 to its " + std::to_string(elements) +
               " elements, one share for each of " + std::to_string(p.dataParallel) + " replicas");
  for (int64_t bound : share.bounds)
    if (bound % normBlock != 0 && bound != elements)
      return bad("a share begins at element " + std::to_string(bound) + ", no multiple of " +
                 std::to_string(normBlock));
  const bool inBFloat16 =
      !bucket.parameters.empty() && stage.parameters[bucket.parameters[0]].dtype == DType::BF16;
  for (int32_t i : bucket.parameters)
    if ((stage.parameters[i].dtype == DType::BF16) != inBFloat16)
      return bad("its parameters have different types");
  if (!inBFloat16 && share.masterOffset != -1)
    return bad("only parameters in bf16 have float32 values beside them");
  return Status::ok();
}

} // namespace

Status verifyBuckets(const Program &p, const Stage &stage, const std::string &where) {
  std::vector<int> inBucket(stage.parameters.size());
  for (size_t b = 0; b < stage.buckets.size(); ++b) {
    for (int32_t i : stage.buckets[b].parameters)
      if (i < 0 || i >= static_cast<int64_t>(stage.parameters.size()) ||
          !stage.parameters[i].trainable || inBucket[i]++)
        return broken("p3", where,
                      "a bucket holds parameter " + std::to_string(i) +
                          ", which does not exist, is frozen, or is in two buckets");
    OMNIBAL_RETURN_IF_ERROR(
        verifyShare(p, stage, stage.buckets[b], where + ", bucket " + std::to_string(b)));
  }
  for (size_t i = 0; i < stage.parameters.size(); ++i)
    if (p.zero > 0 && stage.parameters[i].trainable && !inBucket[i])
      return broken("p18", where + ", parameter \"" + stage.parameters[i].name + "\"",
                    "it is in no bucket, so no replica has its moments");
  return Status::ok();
}

bool canOrthogonalize(const Program &p, const Parameter &q) {
  return p.optimizer == OptimizerKind::Muon && p.target == "host" && p.zero == 0 && q.trainable &&
         q.shape.size() == 2 && !q.held && std::min(q.shape[0], q.shape[1]) > 0;
}

} // namespace omnibal::rt
