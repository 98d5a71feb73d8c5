#include "passes/common/TrainModes.h"

using namespace mlir;

namespace omnibal {

FailureOr<SmallVector<ModuleOp>> trainModesOf(ModuleOp program) {
  SmallVector<ModuleOp> modes(program.getOps<ModuleOp>());
  if (modes.empty())
    return modes;
  for (Operation &op : *program.getBody())
    if (!isa<ModuleOp>(op))
      return op.emitOpError("stands beside modules of training modes, which hold all layers and "
                            "parameters themselves"),
             failure();
  for (auto [number, mode] : llvm::enumerate(modes)) {
    TrainModeAttr attribute = trainModeOf(mode);
    const bool isLast = number + 1 == modes.size();
    if (!attribute || attribute.getNumber() != static_cast<int64_t>(number) ||
        (attribute.getLast() != nullptr) != isLast)
      return mode.emitError("the module needs `omnibal.train_mode` with number ")
                 << number << (isLast ? " and `last`" : ""),
             failure();
  }
  return modes;
}

void writeMode(ModuleOp module, TrainModeAttr mode) {
  module->setAttr(trainModeAttrName, mode);
  if (mode.getDegree() == 1)
    return;
  auto of = module->getAttrOfType<ClusterAttr>(clusterAttrName);
  module->setAttr(clusterAttrName,
                  ClusterAttr::get(module.getContext(), of.getStages(), of.getMemory(),
                                   of.getLatency(), of.getBytesPerS(), of.getDataParallel(),
                                   of.getReplicaLatency(), of.getReplicaBytesPerS(), of.getZero(),
                                   mode.getDegree(), of.getRankOrder()));
}

std::string modePrefix(ModuleOp module) {
  TrainModeAttr mode = trainModeOf(module);
  return mode ? "length group " + mode.getName().str() + ": " : std::string();
}

} // namespace omnibal
