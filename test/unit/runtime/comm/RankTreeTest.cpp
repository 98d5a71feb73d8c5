#include "runtime/comm/RankTree.h"
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

/// Every number of ranks, also those that are no power of two.
TEST(RankTree, ReachesEveryPlaceOnceAndSoon) {
  for (int64_t places = 1; places <= 300; ++places) {
    int64_t deepest = 0;
    while ((int64_t{1} << deepest) < places)
      ++deepest;
    std::vector<int64_t> depth(places, -1), order{0};
    depth[0] = 0;
    for (size_t next = 0; next < order.size(); ++next)
      for (int64_t child : treeChildren(order[next], places)) {
        ASSERT_GT(child, order[next]);
        ASSERT_LT(child, places);
        ASSERT_EQ(depth[child], -1) << child << " of " << places << " is reached twice";
        ASSERT_EQ(treeParent(child), order[next]);
        depth[child] = depth[order[next]] + 1;
        ASSERT_LE(depth[child], deepest);
        order.push_back(child);
      }
    ASSERT_EQ(order.size(), static_cast<size_t>(places));
  }
}

/// Texts are collected by it: a subtree is a range, and those of the children follow each other.
TEST(RankTree, SubtreesAreNeighbors) {
  for (int64_t places = 1; places <= 300; ++places) {
    std::vector<int64_t> size(places, 1); // by counting: children come after their parents
    for (int64_t place = places - 1; place > 0; --place)
      size[treeParent(place)] += size[place];
    ASSERT_EQ(size[0], places);
    for (int64_t place = 0; place < places; ++place) {
      int64_t next = place + 1;
      for (int64_t child : treeChildren(place, places)) {
        ASSERT_EQ(child, next);
        ASSERT_EQ(subtreeSize(child, places), size[child]);
        next += size[child];
      }
      ASSERT_EQ(next, place + size[place]);
    }
  }
}

} // namespace
} // namespace omnibal::rt
