//===- PlanStages.h - From layers to a plan -------------------------------------------------===//
#ifndef PASSES_PARTITION_PLANSTAGES_H
#define PASSES_PARTITION_PLANSTAGES_H

#include "passes/cost/Device.h"
#include "passes/partition/LayerFacts.h"
#include "passes/partition/StepLoads.h"
#include "passes/planner/PlanJson.h"
#include "passes/planner/Problem.h"
#include "passes/planner/Simulator.h"
#include <memory>
#include <optional>

namespace omnibal::partition {

/// How numbers are kept, in bytes an element.
struct Numbers {
  std::string compute = "float32"; ///< of products, as the device table calls it
  int64_t activation = 4;          ///< an activation and its gradient
  int64_t parameter = 4;           ///< resident
  int64_t trainable = 12;          ///< more where it trains: gradient and two moments, float32
  int64_t gradient = 4;            ///< reduced over data-parallel ranks
};
/// bfloat16 with float32 master weights, gradients and moments: 18 bytes a parameter that trains.
inline Numbers mixedPrecision() { return {"bfloat16", 2, 2, 16, 4}; }

struct PlanOptions {
  std::string method = "layers"; ///< search | layers | parameters | greedy
  std::string remat = "auto";    ///< auto | none | full
  std::string schedule = "1f1b"; ///< gpipe | 1f1b
  Numbers numbers;
  cost::Device device;
  planner::Cluster cluster;
  int64_t microbatches = 4;
  Load load; ///< full caps; `batches` says what the data's micro-batches have of them
  std::shared_ptr<const EpochLoads> batches; ///< null: every micro-batch is full, of one sample
  std::string planFile; ///< a plan by hand; wins over method, remat and schedule where it says so
};

struct PlannedModule {
  planner::Problem problem;
  planner::Plan plan;
  planner::Timeline timeline;
  std::vector<int64_t> parameterElements; ///< by stage; one that several layers use counts once
  std::vector<int64_t> peakBytesAtCaps;   ///< by stage, as rule 6 counts, micro-batches full
  UnitCosts costs;
  std::string assumption;                    ///< about the micro-batches' load, for people
  std::optional<planner::PlanSearch> search; ///< how the cuts were found, if by a search
};

/// Plans a module in form L with a loss (after omnibal-attach-loss): derives the problem from the
/// functions that the layers would have with and without rematerialisation, chooses cuts and remat,
/// and simulates the result. Method "search" chooses cuts and, with remat "auto", what is
/// recomputed together; otherwise each stage recomputes the least that its memory limit needs. With
/// `batches`, times are those of the data's typical step (a factor a micro-batch in the problem),
/// while memory is planned for full micro-batches. Writes `omnibal.chunk` and `omnibal.remat` on
/// the layers. Reports on the module; nothing is written unless the plan is complete.
llvm::FailureOr<PlannedModule> planStages(mlir::ModuleOp module, const PlanOptions &options);

} // namespace omnibal::partition
#endif // PASSES_PARTITION_PLANSTAGES_H
