//===- MinCut.cpp - Cheapest cut of a small directed graph -------------------------------===//
#include "passes/differentiate/MinCut.h"
#include <algorithm>

using namespace omnibal;

void MinCut::addEdge(int from, int to, int64_t capacity) {
  adjacent[from].push_back(static_cast<int>(edges.size()));
  edges.push_back({to, capacity});
  adjacent[to].push_back(static_cast<int>(edges.size()));
  edges.push_back({from, 0});
}

bool MinCut::findLevels(int source, int sink) {
  level.assign(adjacent.size(), -1);
  level[source] = 0;
  std::vector<int> queue = {source};
  for (size_t head = 0; head < queue.size(); ++head)
    for (int id : adjacent[queue[head]]) {
      const Edge &edge = edges[id];
      if (edge.residual == 0 || level[edge.to] >= 0)
        continue;
      level[edge.to] = level[queue[head]] + 1;
      queue.push_back(edge.to);
    }
  return level[sink] >= 0;
}

int64_t MinCut::augment(int node, int sink, int64_t limit) {
  if (node == sink)
    return limit;
  for (int &position = next[node]; position < static_cast<int>(adjacent[node].size()); ++position) {
    int id = adjacent[node][position];
    int to = edges[id].to;
    if (edges[id].residual == 0 || level[to] != level[node] + 1)
      continue;
    int64_t flow = augment(to, sink, std::min(limit, edges[id].residual));
    if (flow == 0)
      continue;
    edges[id].residual -= flow;
    edges[id ^ 1].residual += flow;
    return flow;
  }
  return 0;
}

int64_t MinCut::solve(int source, int sink) {
  int64_t total = 0;
  while (total < infinite && findLevels(source, sink)) {
    next.assign(adjacent.size(), 0);
    while (int64_t flow = augment(source, sink, infinite)) {
      total += flow;
      if (total >= infinite)
        return total;
    }
  }
  return total;
}

std::vector<bool> MinCut::sinkSide(int sink) const {
  std::vector<bool> reaches(adjacent.size());
  reaches[sink] = true;
  std::vector<int> queue = {sink};
  for (size_t head = 0; head < queue.size(); ++head)
    for (int id : adjacent[queue[head]]) {
      // The reverse edge leads from `from` into this node; what is left on it can still flow.
      int from = edges[id].to;
      if (edges[id ^ 1].residual == 0 || reaches[from])
        continue;
      reaches[from] = true;
      queue.push_back(from);
    }
  return reaches;
}
