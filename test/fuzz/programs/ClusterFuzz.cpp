//===- ClusterFuzz.cpp - Files of clusters, calibrations and costs ---------------------------===//
//
// The text is given to the reader of each.
//
//===-----------------------------------------------------------------------------------------===//
#include "passes/cost/Calibration.h"
#include "passes/cost/Device.h"
#include "runtime/batching/io/CostFile.h"
#include "runtime/planner/json/ClusterJson.h"
#include "test/fuzz/Fuzz.h"
#include <cmath>
#include <nlohmann/json.hpp>

namespace omnibal::fuzz {

const Allowance allowance;

namespace {

void readCluster(std::string_view text) {
  auto file = planner::parseClusterFile(text, "cluster.json");
  if (!file)
    return;
  const planner::Cluster &cluster = file->cluster;
  require(cluster.stages >= 1 && cluster.dataParallel >= 1 && cluster.link.bytesPerSecond >= 1 &&
              cluster.dataParallelLink.latencyNs >= 0,
          "a cluster out of bounds");
  if (!file->deviceName.empty())
    (void)cost::findDevice(file->deviceName);
  if (!file->deviceObject)
    return;
  auto device = cost::readDevice(*file->deviceObject, "cluster.json");
  if (!device)
    return;
  const cost::Work work{int64_t{1} << 30, int64_t{1} << 20};
  require(cost::rooflineNs(*device, device->flops.begin()->first, work) >= 0,
          "work takes less than no time");
}

void readCalibration(const std::string &text) {
  auto table = cost::parseCalibration(text, "calibration.json");
  if (!table)
    return;
  const cost::MicrobatchLoad load{1 << 16, 1 << 20};
  for (const auto &[digest, time] : table->functions)
    require(std::isfinite(time.at(load, table->labelsPerToken)), "a layer takes no finite time");
  cost::Calibration both = *table;
  both.add(*table);
  require(both.functions.size() == table->functions.size(), "a table added to itself grows");
}

void readCosts(std::string_view text) {
  static MemoryFile file;
  file.set(text);
  if (auto costs = rt::readCostFile(file.path()))
    require(costs->step.stages >= 1 && costs->step.cost.isSet(), "costs out of bounds");
}

} // namespace

void run(std::string_view input) {
  readCluster(input);
  readCalibration(std::string(input));
  readCosts(input);
}

} // namespace omnibal::fuzz
