//===- AttachCluster.cpp - omnibal-attach-cluster -------------------------------------------===//
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/common/ProblemAttributes.h"
#include "passes/cost/InputFiles.h"
#include "passes/plan/Passes.h"
#include "runtime/program/Names.h"
#include "llvm/Support/Error.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_ATTACHCLUSTER
#include "passes/plan/Passes.h.inc"

namespace {

llvm::Error bad(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

struct AttachCluster : impl::AttachClusterBase<AttachCluster> {
  using AttachClusterBase::AttachClusterBase;
  AttachCluster(const AttachClusterOptions &options, std::shared_ptr<cost::InputFiles> files)
      : AttachClusterBase(options), files(std::move(files)) {}

  /// A wrong file is found before the first pass of the pipeline runs.
  LogicalResult initialize(MLIRContext *context) override {
    llvm::Error error = describe();
    if (!error)
      error = useMeasuredLinks();
    if (error)
      return emitError(UnknownLoc::get(context), llvm::toString(std::move(error)));
    return success();
  }

  void runOnOperation() override { plan::writeCluster(getOperation(), described.cluster); }

private:
  llvm::Error describe() {
    described = {};
    planner::Cluster &to = described.cluster;
    if (stages < 1 || dataParallel < 1 || memoryLimitBytes < 0 || ranks < 0)
      return bad("omnibal-attach-cluster: stages and data-parallel must be >= 1, "
                 "memory-limit-bytes and ranks >= 0");
    if (parts < 1 || parts > mostParts)
      return bad("omnibal-attach-cluster: parts must be from 1 to " + llvm::Twine(mostParts));
    if (parts > 1 && ranks > 0)
      return bad(
          "omnibal-attach-cluster: with ranks, which are divided by a search, stages have no "
          "parts; leave one of the two out");
    if (cluster.empty()) {
      to.stages = stages;
      to.dataParallel = dataParallel;
      to.link = to.dataParallelLink = planner::defaultLink;
      to.zero = zero;
    } else if (llvm::Error error = useFile()) {
      return error;
    }
    if (ranks > 0) {
      to.stages = 1;
      to.dataParallel = ranks;
      to.zero = zero != 0 && ranks > 1;
    }
    if (to.zero != 0 && (to.zero != 1 || to.dataParallel < 2))
      return bad("--zero is " + llvm::Twine(to.zero) + " with " + llvm::Twine(to.dataParallel) +
                 " data-parallel replicas: it is 0 or, where several replicas can divide the "
                 "optimizer's state, 1");
    to.parts = parts;
    const std::optional<rt::RankOrder> order = rt::fromName<rt::RankOrder>(rankOrder.getValue());
    if (!order)
      return bad("omnibal-attach-cluster: rank-order is " + rankOrder.getValue() +
                 "; it must be stage or replica");
    to.rankOrder = *order;
    if (memoryLimitBytes)
      to.memoryBytes = {memoryLimitBytes};
    if (described.node && ranks == 0) // else it depends on how they are divided
      planner::useNode(to, *described.node);
    // From here on every stage has a limit of its own, or none has.
    if (to.memoryBytes.size() == 1)
      to.memoryBytes.resize(to.stages, to.memoryBytes.front());
    return llvm::Error::success();
  }

  /// What the file leaves open is as the options say; where both say something, it has to be the
  /// same.
  llvm::Error useFile() {
    rt::Result<planner::ClusterFile> file = files->cluster(cluster);
    if (!file)
      return bad(file.status().message());
    described = *std::move(file);
    planner::Cluster &to = described.cluster;
    if (!described.givesStages && stages == 1 && ranks == 0)
      return bad(cluster + ": `stages` is missing, there and as --stages of more than 1");
    if (ranks > 0 && to.memoryBytes.size() > 1)
      return bad(cluster + ": `memory_bytes` has " + llvm::Twine(to.memoryBytes.size()) +
                 " numbers; with --ranks, which decides how many stages there are, all ranks "
                 "have the same memory");
    if (ranks > 0)
      to.stages = to.dataParallel = 1;
    if (!described.givesStages)
      to.stages = stages;
    if (!described.givesReplicas)
      to.dataParallel = dataParallel;
    if (stages != 1 && to.stages != stages)
      return bad(cluster + ": `stages` is " + llvm::Twine(to.stages) + ", --stages says " +
                 llvm::Twine(stages));
    if (dataParallel != 1 && to.dataParallel != dataParallel)
      return bad(cluster + ": `data_parallel.size` is " + llvm::Twine(to.dataParallel) +
                 ", --data-parallel says " + llvm::Twine(dataParallel));
    if (zero != 0)
      to.zero = zero;
    return llvm::Error::success();
  }

  /// They stand in for the default links; what the cluster's file says wins.
  llvm::Error useMeasuredLinks() {
    if (described.node)
      described.givesLink = described.givesDataParallelLink = true;
    rt::Result<cost::Calibration> table = files->calibrations(*calibration);
    if (!table)
      return bad(table.status().message());
    auto use = [](const std::optional<cost::MeasuredLink> &measured, bool given,
                  planner::Link &link) {
      if (measured && !given)
        link = {measured->latencyNs, measured->bytesPerSecond};
    };
    use(table->link, described.givesLink, described.cluster.link);
    use(table->dataParallel, described.givesDataParallelLink, described.cluster.dataParallelLink);
    return llvm::Error::success();
  }

  planner::ClusterFile described;
  std::shared_ptr<cost::InputFiles> files = std::make_shared<cost::InputFiles>();
};

} // namespace

std::unique_ptr<Pass> createAttachCluster(const AttachClusterOptions &options,
                                          std::shared_ptr<cost::InputFiles> files) {
  return std::make_unique<AttachCluster>(options, std::move(files));
}

} // namespace omnibal
