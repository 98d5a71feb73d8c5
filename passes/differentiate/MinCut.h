//===- MinCut.h - Cheapest cut of a small directed graph ---------------------------------===//
#ifndef PASSES_DIFFERENTIATE_MINCUT_H
#define PASSES_DIFFERENTIATE_MINCUT_H

#include <cstdint>
#include <limits>
#include <vector>

namespace omnibal {

/// Maximum flow by shortest augmenting paths with blocking flows (Dinic). Graphs here have one or
/// two nodes a value of one layer, so hundreds.
class MinCut {
public:
  static constexpr int64_t infinite = std::numeric_limits<int64_t>::max() / 4;

  explicit MinCut(int nodes) : adjacent(nodes) {}
  void addEdge(int from, int to, int64_t capacity);

  /// Weight of the cheapest cut; at least `infinite` if there is none of finite weight.
  int64_t solve(int source, int sink);
  /// Returns, after solve, the nodes on the sink's side of the cheapest cut that lies nearest to
  /// the sink.
  std::vector<bool> sinkSide(int sink) const;

private:
  struct Edge {
    int to;
    int64_t residual;
  };
  bool findLevels(int source, int sink);
  int64_t augment(int node, int sink, int64_t limit);

  std::vector<Edge> edges; ///< edge 2i and its reverse 2i + 1
  std::vector<std::vector<int>> adjacent;
  std::vector<int> level, next;
};

} // namespace omnibal
#endif // PASSES_DIFFERENTIATE_MINCUT_H
