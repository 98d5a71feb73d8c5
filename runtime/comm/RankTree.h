//===- RankTree.h - The binomial tree in which ranks talk to few others -----------------------===//
//
// Place 0 is the root. The parent of a place lacks its lowest bit, so the way to the root has at
// most as many steps as the place has bits. The subtree of a child are the places from it up to the
// next child, or to the end.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_COMM_RANKTREE_H
#define RUNTIME_COMM_RANKTREE_H

#include <cstdint>
#include <vector>

namespace omnibal::rt {

/// Returns the parent of a place other than the root, which is given itself.
constexpr int64_t treeParent(int64_t place) { return place & (place - 1); }

/// Returns the children of a place among `places`, in ascending order: the smallest subtree first.
inline std::vector<int64_t> treeChildren(int64_t place, int64_t places) {
  std::vector<int64_t> children;
  for (int64_t bit = 1; !(place & bit) && place + bit < places; bit *= 2)
    children.push_back(place + bit);
  return children;
}

/// Returns how many places the subtree of a child has.
constexpr int64_t subtreeSize(int64_t child, int64_t places) {
  const int64_t full = child - treeParent(child);
  return full < places - child ? full : places - child;
}

} // namespace omnibal::rt
#endif // RUNTIME_COMM_RANKTREE_H
