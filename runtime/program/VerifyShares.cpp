//===- VerifyShares.cpp - Rule p18: replicas' shares of a bucket ------------------------------===//
#include "runtime/program/BucketShares.h"
#include "runtime/program/VerifierInternal.h"
#include <algorithm>

namespace omnibal::rt {

Status verifyShare(const Program &p, const Stage &stage, const Bucket &bucket,
                   const std::string &where) {
  auto bad = [&](const std::string &what) { return broken("p18", where, what); };
  if (bucket.share.has_value() != (p.zero > 0))
    return bad(p.zero > 0 ? "it has no shares, but the manifest says zero"
                          : "it has shares, but the manifest does not say zero");
  if (!bucket.share)
    return Status::ok();
  const BucketShare &share = *bucket.share;
  const int64_t elements = elementsOf(stage, bucket);
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

} // namespace omnibal::rt
