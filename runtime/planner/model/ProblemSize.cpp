//===- ProblemSize.cpp -------------------------------------------------------------------===//
#include "runtime/planner/model/ProblemSize.h"
#include "runtime/planner/model/ScheduleRules.h"

namespace omnibal::planner {
namespace {

using Wide = __int128;

constexpr int64_t mostChunkMicrobatches = 10'000'000, mostReplicas = int64_t{1} << 30;
constexpr int64_t mostMemory = int64_t{1} << 60;
constexpr Wide largestSum = Wide{1} << 59;

struct Sums {
  Wide timeNs = 0, bytes = 0, sentBytes = 0;
};

/// What `count` micro-batches of one load add. At most 10^7 micro-batches and 10^6 numbers of at
/// most 2^63: far below 2^127.
void addLoad(const Problem &problem, int64_t microbatch, Wide count, Sums &sums) {
  for (const Layer &layer : problem.layers) {
    Decimal factor = problem.factor(microbatch, layer.kind);
    for (int64_t ns : {layer.forwardNs, layer.inputGradNs, layer.weightGradNs})
      sums.timeNs += count * factor.times(ns);
    for (const RematOption &option : layer.remat) {
      sums.timeNs += count * factor.times(option.recomputeNs);
      sums.bytes +=
          count * (Wide{factor.times(option.savedBytes)} + factor.times(option.heldWhileSplit()));
    }
  }
  for (const Edge &edge : problem.edges) {
    Decimal factor = problem.factor(microbatch, problem.layers[edge.from].kind);
    sums.sentBytes += count * (Wide{factor.times(edge.bytes)} + factor.times(edge.gradBytes));
  }
}

Sums sumUp(const Problem &problem) {
  Sums sums;
  if (problem.factors.empty()) {
    addLoad(problem, 0, problem.microbatches, sums);
  } else {
    std::map<LoadFactors, std::pair<int64_t, Wide>> counts; // an example, how many
    for (int64_t m = 0; m < problem.microbatches; ++m)
      ++counts.try_emplace(problem.factors[m], m, 0).first->second.second;
    for (const auto &[factors, which] : counts)
      addLoad(problem, which.first, which.second, sums);
  }
  for (const Layer &layer : problem.layers) {
    sums.bytes += Wide{layer.paramBytes} + layer.gradBytes + layer.updateBytes;
    for (const RematOption &option : layer.remat)
      sums.bytes += option.workspaceBytes;
  }
  sums.bytes += sums.sentBytes;
  return sums;
}

} // namespace

std::string tooLarge(const Problem &problem) {
  const Cluster &cluster = problem.cluster;
  Wide chunks = Wide{cluster.stages} * chunksPerStage(problem.schedule).value_or(1);
  if (chunks > mostChunkMicrobatches || problem.microbatches > mostChunkMicrobatches ||
      chunks * problem.microbatches > mostChunkMicrobatches)
    return "`stages` (times chunks a stage) times `microbatches` is more than " +
           std::to_string(mostChunkMicrobatches) + "; a plan lists every action";
  if (cluster.dataParallel > mostReplicas)
    return "`cluster`: `data_parallel.size` is more than 2^30";
  for (int64_t limit : cluster.memoryBytes)
    if (limit > mostMemory)
      return "`cluster`: `memory_bytes` is more than 2^60; without a limit leave it out";
  Sums sums = sumUp(problem);
  if (sums.timeNs > largestSum || sums.bytes > largestSum)
    return std::string("the sum of all ") + (sums.bytes > largestSum ? "sizes" : "times") +
           " (over layers, options and micro-batches) exceeds 2^59";
  Wide messages = 2 * Wide{problem.microbatches} * static_cast<int64_t>(problem.edges.size());
  Wide sendNs = sums.sentBytes * 1'000'000'000 / cluster.link.bytesPerSecond +
                messages * (Wide{cluster.link.latencyNs} + 1);
  if (sendNs > largestSum)
    return "`cluster.link`: sending everything would last more than 2^59 ns";
  Wide rounds = 2 * (Wide{cluster.dataParallel} - 1);
  const Link &link = cluster.dataParallelLink;
  if (rounds * (sums.bytes * 1'000'000'000 / link.bytesPerSecond + link.latencyNs + 1) > largestSum)
    return "`cluster.data_parallel`: reducing all gradients would last more than 2^59 ns";
  return "";
}

} // namespace omnibal::planner
