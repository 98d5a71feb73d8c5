//===- MinCutTest.cpp - Minimum cuts against all cuts of small graphs --------------------===//
#include "passes/differentiate/MinCut.h"
#include <gtest/gtest.h>
#include <random>
#include <tuple>

using namespace omnibal;

namespace {
using Edges = std::vector<std::tuple<int, int, int64_t>>;

int64_t weightOf(const Edges &edges, const std::vector<bool> &sinkSide) {
  int64_t weight = 0;
  for (auto [from, to, capacity] : edges)
    if (!sinkSide[from] && sinkSide[to])
      weight += capacity;
  return weight;
}

TEST(MinCut, isTheCheapestOfAllCuts) {
  std::mt19937 generator(3);
  for (int round = 0; round < 200; ++round) {
    int nodes = 3 + static_cast<int>(generator() % 6); // source 0, sink nodes - 1
    Edges edges;
    MinCut graph(nodes);
    for (int from = 0; from < nodes; ++from)
      for (int to = 0; to < nodes; ++to)
        if (from != to && generator() % 2) {
          int64_t capacity = static_cast<int64_t>(generator() % 10);
          edges.push_back({from, to, capacity});
          graph.addEdge(from, to, capacity);
        }
    int64_t best = MinCut::infinite;
    int smallest = nodes;
    for (int mask = 0; mask < (1 << (nodes - 2)); ++mask) {
      std::vector<bool> sinkSide(nodes);
      sinkSide[nodes - 1] = true;
      int count = 1;
      for (int node = 1; node + 1 < nodes; ++node)
        if (mask >> (node - 1) & 1) {
          sinkSide[node] = true;
          ++count;
        }
      int64_t weight = weightOf(edges, sinkSide);
      if (weight < best || (weight == best && count < smallest))
        smallest = count;
      best = std::min(best, weight);
    }
    EXPECT_EQ(graph.solve(0, nodes - 1), best);
    std::vector<bool> sinkSide = graph.sinkSide(nodes - 1);
    EXPECT_FALSE(sinkSide[0]);
    EXPECT_EQ(weightOf(edges, sinkSide), best);
    // Nearest to the sink: no other cheapest cut has fewer nodes on the sink's side.
    EXPECT_EQ(std::count(sinkSide.begin(), sinkSide.end(), true), smallest);
  }
}

TEST(MinCut, saysWhenNothingCanBeCut) {
  MinCut graph(3);
  graph.addEdge(0, 1, MinCut::infinite);
  graph.addEdge(1, 2, MinCut::infinite);
  EXPECT_GE(graph.solve(0, 2), MinCut::infinite);
}
} // namespace
