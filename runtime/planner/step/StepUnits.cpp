//===- StepUnits.cpp ---------------------------------------------------------------------===//
#include "runtime/planner/step/StepUnits.h"
#include "runtime/planner/model/LinkTimes.h"
#include <algorithm>

namespace omnibal::planner {
namespace {

int64_t roundedUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

} // namespace

ExactTime::ExactTime(const TimeModel &model) {
  int32_t scale = 0;
  for (const Decimal *term : {&model.fixed, &model.tile, &model.token, &model.square, &model.label})
    scale = std::max(scale, term->scale);
  auto scaled = [&](const Decimal &term) {
    __int128 digits = term.digits;
    for (int32_t s = term.scale; s < scale; ++s)
      digits *= 10;
    return digits;
  };
  for (int32_t s = 0; s < scale; ++s)
    divisor *= 10;
  fixed = scaled(model.fixed);
  tile = scaled(model.tile);
  token = scaled(model.token);
  square = scaled(model.square);
  label = scaled(model.label);
}

int64_t ExactTime::at(const UnitLoad &load) const {
  __int128 sum =
      fixed + tile * load.tiles + token * load.tokens + square * load.squares + label * load.labels;
  return static_cast<int64_t>((sum + divisor - 1) / divisor);
}

StepModel::StepModel(const StepProblem &problem) : problem(problem) {
  feeders.resize(problem.chunks.size());
  fed.resize(problem.chunks.size());
  for (const StepChunk &chunk : problem.chunks) {
    auto &variants = times.emplace_back();
    for (const StepVariant &variant : chunk.variants)
      variants.push_back({ExactTime(variant.times[0]), ExactTime(variant.times[1]),
                          ExactTime(variant.times[2]), ExactTime(variant.times[3])});
  }
  for (size_t e = 0; e < problem.edges.size(); ++e) {
    feeders[problem.edges[e].to].push_back(static_cast<int32_t>(e));
    fed[problem.edges[e].from].push_back(static_cast<int32_t>(e));
  }
}

Borders wholeMicrobatches(const StepLoads &loads) {
  Borders borders;
  for (const MicrobatchLoad &microbatch : loads.microbatches) {
    borders.emplace_back();
    if (microbatch.load.tiles > 0)
      borders.back() = {0, microbatch.load.tiles};
  }
  return borders;
}

StepUnits::StepUnits(const StepModel &model, const StepLoads &loads, const Borders &borders)
    : model(model), borders(borders) {
  makeUnits(loads);
  connect();
}

void StepUnits::makeUnits(const StepLoads &loads) {
  const StepProblem &problem = model.problem;
  for (size_t c = 0; c < problem.chunks.size(); ++c)
    for (size_t m = 0; m < loads.microbatches.size(); ++m) {
      firstUnits.push_back(static_cast<int32_t>(units.size()));
      auto chunk = static_cast<int32_t>(c), microbatch = static_cast<int32_t>(m);
      if (problem.chunks[c].component != ChunkComponent::Vision) {
        addUnit(chunk, microbatch, 0, loads.microbatches[m].load);
        continue;
      }
      for (size_t p = 0; p + 1 < borders[m].size(); ++p)
        addUnit(chunk, microbatch, static_cast<int32_t>(p),
                {borders[m][p + 1] - borders[m][p], 0, 0, 0});
    }
  firstUnits.push_back(static_cast<int32_t>(units.size()));
}

void StepUnits::addUnit(int32_t chunk, int32_t microbatch, int32_t part, const UnitLoad &load) {
  Unit unit{chunk, microbatch, part, static_cast<int32_t>(model.problem.chunks[chunk].stage),
            static_cast<int32_t>(durations.size())};
  unit.tiles = load.tiles;
  unit.tokens = load.tokens;
  for (const std::array<ExactTime, 4> &variant : model.times[chunk]) {
    durations.push_back({});
    for (size_t kind = 0; kind < 4; ++kind)
      durations.back()[kind] = variant[kind].at(load);
    ++unit.variants;
  }
  units.push_back(unit);
}

int64_t StepUnits::bytesOf(int32_t unit, const Block &block) const {
  const StepProblem &problem = model.problem;
  int64_t rows = roundedUp(units[unit].tokens, problem.rowBucket);
  return roundedUp(block.bytes.at(units[unit].tiles, rows), problem.alignment);
}

int64_t StepUnits::delayOf(const StepEdge &edge, const SizeModel &size, int32_t sender) const {
  const StepProblem &problem = model.problem;
  if (problem.chunks[edge.from].stage == problem.chunks[edge.to].stage || size.isZero())
    return 0;
  return transferNs(problem.link, size.at(units[sender].tiles, units[sender].tokens));
}

/// Calls link(edge, unit of its sender, unit of its receiver). Between chunks of the vision
/// component parts meet their like; elsewhere a micro-batch meets all of its parts.
template <typename F> void StepUnits::eachLink(F link) const {
  const StepProblem &problem = model.problem;
  for (const StepEdge &edge : problem.edges)
    for (int64_t m = 0; m < problem.microbatches; ++m) {
      auto [from, fromEnd] = unitsOf(edge.from, m);
      auto [to, toEnd] = unitsOf(edge.to, m);
      bool isPartwise = problem.chunks[edge.to].component == ChunkComponent::Vision;
      for (int32_t u = from; u < fromEnd; ++u)
        if (to < toEnd)
          link(edge, u, isPartwise ? to + (u - from) : to);
    }
}

void StepUnits::connect() {
  for (NeedLists &lists : needs)
    lists.begins.assign(units.size() + 1, 0);
  auto count = [&](size_t list, int32_t unit) { ++needs[list].begins[unit + 1]; };
  eachLink([&](const StepEdge &edge, int32_t from, int32_t to) {
    count(0, to);
    count(1, from);
    if (edge.gradBytes.isZero())
      return;
    count(2, from);
    count(3, to);
  });
  for (NeedLists &lists : needs) {
    for (size_t u = 0; u < units.size(); ++u)
      lists.begins[u + 1] += lists.begins[u];
    lists.all.resize(lists.begins.back());
  }
  std::array<std::vector<int32_t>, 4> next;
  for (size_t list = 0; list < 4; ++list)
    next[list] = needs[list].begins;
  auto put = [&](size_t list, int32_t unit, const Need &need) {
    needs[list].all[next[list][unit]++] = need;
  };
  eachLink([&](const StepEdge &edge, int32_t from, int32_t to) {
    int64_t forward = delayOf(edge, edge.bytes, from);
    put(0, to, {from, forward});
    put(1, from, {to, forward});
    if (edge.gradBytes.isZero())
      return;
    int64_t backward = delayOf(edge, edge.gradBytes, from);
    put(2, from, {to, backward});
    put(3, to, {from, backward});
  });
}

} // namespace omnibal::planner
