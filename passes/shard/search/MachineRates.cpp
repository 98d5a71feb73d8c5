//===- MachineRates.cpp ----------------------------------------------------------------------===//
#include "passes/shard/search/MachineRates.h"
#include "passes/cost/LayerFacts.h"
#include <cmath>

using namespace mlir;

namespace omnibal::shard {
namespace {

constexpr int64_t picosecondsPerSecond = 1'000'000'000'000, picosecondsPerNs = 1000;

Cost timeOf(__int128 amount, int64_t perSecond, double efficiency) {
  const int64_t reached =
      efficiency == 1
          ? perSecond
          : std::max<int64_t>(1, std::llround(static_cast<double>(perSecond) * efficiency));
  const __int128 time = (amount * picosecondsPerSecond + reached - 1) / reached;
  return static_cast<Cost>(std::min<__int128>(time, impossible));
}

} // namespace

Cost MachineRates::ofWork(const cost::Work &work) const {
  const cost::Device &device = costs.device;
  auto peak = device.flops.find(costs.precision.compute);
  const int64_t flops = peak != device.flops.end() ? peak->second : device.flops.begin()->second;
  return timeOf(work.matrixFlops, flops, device.flopsEfficiency) +
         timeOf(work.bytes, device.bytesPerSecond, device.bytesEfficiency) +
         timeOf(static_cast<__int128>(work.exchanges) * link.latencyNs, 1'000'000'000, 1) +
         timeOf(work.sentBytes, link.bytesPerSecond, 1);
}

Cost MachineRates::ofOp(Operation *op) const {
  cost::MicrobatchLoad load = costs.load;
  load.parts = parts;
  cost::Work work;
  cost::addWork(*op, load, costs.precision.activation, work);
  return ofWork(work);
}

int64_t MachineRates::heldBytes(RankedTensorType whole, LayoutAttr layout) const {
  return cost::heldBytes(whole, layout, parts, costs.load, costs.precision.activation);
}

Cost MachineRates::ofMove(RankedTensorType whole, LayoutAttr from, LayoutAttr to) const {
  cost::Work work;
  cost::addMove(whole, from, to, parts, costs.load, costs.precision.activation, work);
  return ofWork(work);
}

Cost MachineRates::ofMemory(int64_t bytes) const {
  const double cost = static_cast<double>(bytes) * priceNs * picosecondsPerNs;
  return cost < static_cast<double>(impossible) ? std::llround(cost) : impossible;
}

} // namespace omnibal::shard
