//===- LayerProblem.cpp ----------------------------------------------------------------------===//
#include "passes/shard/search/LayerProblem.h"
#include <algorithm>

namespace omnibal::shard {

Cost keptCost(const SearchValue &value, uint32_t kept) {
  Cost cost = 0;
  for (unsigned layout = 0; layout < value.layouts; ++layout) {
    if (value.covers[layout] == 0)
      continue;
    // All that are made from it, or it in place of them.
    Cost covered = 0;
    for (unsigned other = 0; other < value.layouts; ++other)
      if ((kept & value.covers[layout]) >> other & 1)
        covered += value.kept[other];
    cost += kept >> layout & 1 ? value.kept[layout] : std::min(covered, value.kept[layout]);
    kept &= ~(value.covers[layout] | 1U << layout);
  }
  for (unsigned layout = 0; layout < value.layouts; ++layout)
    if (kept >> layout & 1)
      cost += value.kept[layout];
  return cost;
}

unsigned sourceOf(const SearchValue &value, uint32_t made, unsigned to) {
  const int64_t *order = value.sources.data() + to * value.layouts;
  unsigned source = value.layouts;
  for (unsigned from = 0; from < value.layouts; ++from)
    if ((made >> from & 1) && (source == value.layouts || order[from] < order[source]))
      source = from;
  return source;
}

std::optional<LayerCost> costOf(const LayerProblem &problem, const LayerChoice &choice) {
  struct Held {
    uint32_t made = 0, kept = 0;
  };
  std::vector<Held> values(problem.values.size());
  LayerCost cost;
  for (size_t i = 0; i < values.size(); ++i) {
    const SearchValue &value = problem.values[i];
    if (value.kind == SearchValue::Kind::Made)
      continue;
    const bool isParameter = value.kind == SearchValue::Kind::Parameter;
    const unsigned native = isParameter ? choice.held[i] : value.native;
    values[i].made = 1U << native;
    if (isParameter)
      cost.held += value.held[native];
  }
  auto keep = [&](unsigned number, unsigned layout) {
    const SearchValue &value = problem.values[number];
    if (!value.kept.empty())
      values[number].kept |= 1U << value.keptAs[layout];
  };
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const SearchOp &op = problem.ops[i];
    const SearchWay &way = op.ways[choice.ways[i]];
    cost.work += way.work;
    for (size_t j = 0; j < op.operands.size(); ++j) {
      const SearchValue &value = problem.values[op.operands[j]];
      uint32_t &made = values[op.operands[j]].made;
      if (!(made >> way.reads[j] & 1)) {
        const unsigned from = sourceOf(value, made, way.reads[j]);
        const Cost move = value.moves[from * value.layouts + way.reads[j]];
        if (move >= impossible)
          return std::nullopt;
        cost.moves += move;
        if (value.kind != SearchValue::Kind::Parameter)
          made |= 1U << way.reads[j];
      }
      if (op.keepsOperand[j])
        keep(op.operands[j], way.reads[j]);
    }
    for (size_t j = 0; j < op.results.size(); ++j) {
      values[op.results[j]].made = 1U << way.layouts[j];
      if (op.keepsResult[j])
        keep(op.results[j], way.layouts[j]);
    }
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].kept)
      cost.kept += keptCost(problem.values[i], values[i].kept);
  if (cost.total() >= impossible)
    return std::nullopt;
  return cost;
}

} // namespace omnibal::shard
