#include "runtime/program/BucketShares.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

int64_t roundUp(int64_t elements, int64_t grain) { return (elements + grain - 1) / grain * grain; }

} // namespace

std::vector<BucketPiece> piecesOf(const Stage &stage, const Bucket &bucket, int64_t grain) {
  std::vector<int32_t> order = bucket.parameters;
  std::sort(order.begin(), order.end(), [&](int32_t x, int32_t y) {
    return stage.parameters[x].gradOffset < stage.parameters[y].gradOffset;
  });
  std::vector<BucketPiece> pieces;
  int64_t at = 0;
  size_t owner = 0;
  for (int32_t number : order) {
    const int64_t elements = stage.parameters[number].elements();
    for (int64_t first = 0; first < elements;) {
      int64_t count = elements - first;
      if (bucket.share) {
        while (owner + 2 < bucket.share->bounds.size() && at >= bucket.share->bounds[owner + 1])
          ++owner;
        count = std::min(count, bucket.share->bounds[owner + 1] - at);
      }
      pieces.push_back({number, first, count, at, static_cast<int>(owner)});
      first += count;
      at += count;
    }
    at = roundUp(at, grain);
  }
  return pieces;
}

int64_t elementsOf(const Stage &stage, const Bucket &bucket, int64_t grain) {
  int64_t elements = 0;
  for (int32_t number : bucket.parameters)
    elements += roundUp(stage.parameters[number].elements(), grain);
  return elements;
}

std::vector<int64_t> cutIntoShares(int64_t elements, int64_t replicas) {
  const int64_t blocks = (elements + normBlock - 1) / normBlock;
  std::vector<int64_t> bounds;
  for (int64_t replica = 0; replica <= replicas; ++replica)
    bounds.push_back(std::min(elements, blocks * replica / replicas * normBlock));
  return bounds;
}

int64_t largestShare(const std::vector<int64_t> &bounds) {
  int64_t most = 0;
  for (size_t replica = 1; replica < bounds.size(); ++replica)
    most = std::max(most, bounds[replica] - bounds[replica - 1]);
  return most;
}

} // namespace omnibal::rt
