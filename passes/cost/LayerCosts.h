//===- LayerCosts.h - Costs of every layer as attributes ------------------------------------===//
#ifndef PASSES_COST_LAYERCOSTS_H
#define PASSES_COST_LAYERCOSTS_H

#include "passes/cost/Device.h"
#include "passes/cost/LayerFacts.h"
#include "passes/cost/StepLoads.h"
#include "runtime/planner/model/Node.h"

namespace omnibal::cost {

/// How numbers are kept, in bytes an element.
struct Precision {
  std::string target = "host";     ///< whose kernels compute
  std::string compute = "float32"; ///< of products, as the device table calls it
  int64_t activation = 4;          ///< an activation and its gradient
  int64_t parameter = 4;           ///< resident
  int64_t master = 0;              ///< of float32 values that the optimizer changes
  int64_t gradient = 4;            ///< reduced over data-parallel ranks
  int64_t moment = 4;              ///< of which the optimizer says how many there are
  int64_t average = 4;             ///< where averages are kept
};
/// bfloat16 with float32 master weights, gradients and moments: 18 bytes a parameter that trains
/// with AdamW.
inline Precision mixedPrecision() { return {"cuda", "bfloat16", 2, 2, 4, 4, 4}; }

class MeasuredTimes;

/// What the ranks that run a stage together are linked by.
struct PartsLink {
  std::optional<planner::Link> given; ///< by the cluster's file
  std::optional<planner::Node> node;
  planner::Link otherwise; ///< that of stages, by the file, else a usual one

  /// Returns the given link, else that of a node which holds such ranks.
  planner::Link of(int64_t parts) const;
};

/// The link of a module's parts: `ofParts`, or where they are replicas (LayerLayouts.h) that of
/// replicas in `omnibal.cluster`.
PartsLink linkIn(mlir::ModuleOp module, const PartsLink &ofParts);

/// What costs depend on besides the model.
struct CostOptions {
  Precision precision;
  Device device;
  int64_t parts = 1; ///< ranks that run a stage together
  PartsLink partsLink;
  MicrobatchLoad load;                     ///< a full micro-batch
  std::shared_ptr<MeasuredTimes> measured; ///< of a calibration table; null: the roofline alone
  bool timeModels = false;                 ///< write `omnibal.time_models` on layers
};

/// Times of one layer under one of its options. The backward includes what the option recomputes.
struct LayerTimes {
  int64_t forwardNs = 0, inputGradNs = 0, weightGradNs = 0;
  /// Of the backward as one function; both halves where nothing more is known.
  int64_t wholeBackwardNs = 0;
  int64_t backwardNs() const { return inputGradNs + weightGradNs; }
};
/// What moves among parts take that have so many rounds of messages and send so many bytes
/// together.
int64_t nsOfMoves(int64_t rounds, int64_t bytes, const planner::Link &link);

/// Returns a layer's times: measured ones if they exist, else the device's roofline over its
/// functions' work; and what its parts take to move values to each other, which is not measured. No
/// other place makes them.
LayerTimes timesOf(const LayerFacts &facts, const CostOptions &options);

/// What one more tile, token, squared token and squared unit of a picture cost the model under any
/// choice of options.
class UnitCostTable {
public:
  /// Returns the unit costs; `remat` has one option per layer, or is empty for "keep" everywhere.
  UnitCosts of(const std::vector<std::string> &remat) const;
  /// Returns the factors of a micro-batch by the times of each kind's layers, relative to those at
  /// `full`, with everything kept.
  planner::LoadFactors factorsOf(const GroupLoad &microbatch, const MicrobatchLoad &full) const;
  /// Layers and options (as "layer, option") whose functions no table has; only where one is used.
  llvm::SmallVector<std::pair<std::string, std::string>> unmeasured;

private:
  friend class CostAnnotator;
  /// The ns of forward and backward for each probe (no load, tiles, tokens, squares of tokens and
  /// of pictures), layer and option.
  std::vector<std::vector<std::map<std::string, int64_t>>> ns;
  std::vector<std::string> kinds; ///< by layer
};

/// What omnibal-annotate-costs knows that stands in no attribute, for reports.
struct CostReport {
  UnitCostTable units;
  Device device;                ///< that the roofline is of
  MicrobatchLoad full;          ///< a full micro-batch of the mode
  bool isMeasured = false;      ///< times are those of a calibration
  EpochLoads epoch;             ///< of the mode's micro-batches; empty: no batches are known
  planner::Link partsLink = {}; ///< over which ranks that run a micro-batch together talk

  /// How a micro-batch's times compare with those of a full one.
  planner::LoadFactors factorsOf(const GroupLoad &microbatch) const;
};

/// Those of a program's training modes, by number; one of a program without several.
using CostReports = std::vector<CostReport>;

/// What a micro-batch takes of a layer under one of its options, as a function of its load.
struct LayerTerms {
  std::string option;
  struct Terms {
    double fixedNs = 0, tileNs = 0, tokenNs = 0, squareNs = 0, tileSquareNs = 0;
  };
  Terms forward, backward; ///< the backward as a whole, with what the option recomputes
};

/// The functions that the layers of a module in form L with a loss (after omnibal-attach-loss)
/// would have under each of their options, built once for any number of loads.
class CostModel {
public:
  /// Errors are reported at the module. The module outlives the model.
  static llvm::FailureOr<std::unique_ptr<CostModel>> build(mlir::ModuleOp module,
                                                           const CostOptions &options);
  virtual ~CostModel() = default;

  /// Writes what every layer costs with this full micro-batch: `omnibal.cost`, `omnibal.buffers`
  /// and, where asked for, `omnibal.time_models` on layers, and `omnibal.cost` on parameters. Sizes
  /// are those of the functions, lowered. Errors are reported at the module.
  virtual llvm::FailureOr<UnitCostTable> annotate(const MicrobatchLoad &load) = 0;
  /// The same with bytes at the caps and times of another micro-batch.
  virtual llvm::FailureOr<UnitCostTable> annotate(const MicrobatchLoad &caps,
                                                  const MicrobatchLoad &timed) = 0;
  /// Returns the terms of every layer and option, in the order of `omnibal.cost`; call it after
  /// annotate().
  virtual std::vector<std::vector<LayerTerms>> terms() const = 0;
  /// Returns 32 hexadecimal digits that tell models apart whose layers do other work; call it after
  /// annotate().
  virtual std::string digest() const = 0;
};

} // namespace omnibal::cost
#endif // PASSES_COST_LAYERCOSTS_H
