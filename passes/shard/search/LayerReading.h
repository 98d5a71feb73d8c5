//===- LayerReading.h - A layer as a problem of its layouts -----------------------------------===//
#ifndef PASSES_SHARD_SEARCH_LAYERREADING_H
#define PASSES_SHARD_SEARCH_LAYERREADING_H

#include "passes/shard/OpWays.h"
#include "passes/shard/search/LayerBackward.h"
#include "passes/shard/search/MachineRates.h"

namespace omnibal::shard {

/// Layouts of all that a layer has.
struct LayerLayouts {
  std::vector<Way> ways;                 ///< by op
  llvm::SmallVector<LayoutAttr> held;    ///< by parameter
  llvm::SmallVector<LayoutAttr> borders; ///< of inputs, then of outputs
  /// Whether parts do anything else than all of it.
  bool isDivided() const;
};

/// Writes them on a layer and its ops; not on parameters.
void writeLayouts(LayerOp layer, const LayerLayouts &layouts);

/// Values that follow from constants and the micro-batch alone are made whole by all parts, and
/// read in any layout; they are not in the problem, nor are ops that make nothing else.
class LayerReading {
public:
  /// `active`: arguments of the body that a gradient reaches; `borders`: how parts have inputs and
  /// outputs, none: whole; `orthogonalized`: numbers of parameters that the optimizer
  /// orthogonalizes, which no part holds a share of. Nothing has a
  /// price yet. Where a value has more than `mostLayouts`, a warning says so, and nothing of the
  /// layer is divided. A diagnostic says where a gradient cannot be built.
  static mlir::FailureOr<LayerReading> read(LayerOp layer, llvm::ArrayRef<mlir::Value> active,
                                            const MachineRates &rates,
                                            llvm::ArrayRef<LayoutAttr> borders = {},
                                            llvm::ArrayRef<unsigned> orthogonalized = {},
                                            size_t mostLayouts = bitsOfLayouts);
  /// Layouts of a value are bits of the problem.
  static constexpr size_t bitsOfLayouts = 32;

  LayerProblem problem;
  /// Prices what is kept and held, in nanoseconds a byte.
  void setPrice(double priceNs);

  /// The number of a parameter among the problem's values; none if no op reads it.
  std::optional<unsigned> findParameter(unsigned parameter) const;
  /// The layouts of a value of the problem, by number.
  llvm::ArrayRef<LayoutAttr> layoutsOf(unsigned value) const { return layouts[value]; }
  /// What the rank holds for a parameter in a layout: bytes, and their price.
  int64_t heldBytes(unsigned value, unsigned layout) const { return bytes[value].held[layout]; }
  Cost memoryCost(unsigned value, unsigned layout) const {
    return rates.ofMemory(heldBytes(value, layout));
  }

  LayerLayouts layoutsAt(const LayerChoice &choice) const;

private:
  LayerReading(LayerOp layer, const MachineRates &rates) : layer(layer), rates(rates) {}

  void numberValues();
  unsigned add(mlir::Value value, SearchValue::Kind kind);
  void readOp(mlir::Operation &op, const OpWays &possible);
  void readYield();
  size_t numberLayouts();
  void keepWhole();
  mlir::LogicalResult priceWays();
  void describe(unsigned value);
  bool isOffered(mlir::Operation &op, const Way &way) const;

  /// What the price is of.
  struct Bytes {
    std::vector<int64_t> kept, held; ///< by layout
    std::vector<Cost> sums;          ///< of a parameter: of its gradients
  };

  LayerOp layer;
  MachineRates rates;
  llvm::SmallVector<LayoutAttr> borders;
  LayerBackward backward;
  llvm::DenseSet<mlir::Value> undivided; ///< parameters that are orthogonalized
  llvm::DenseMap<mlir::Value, unsigned> numbers;
  std::vector<mlir::Value> values;                    ///< by number
  std::vector<llvm::SmallVector<LayoutAttr>> layouts; ///< by value
  std::vector<Bytes> bytes;                           ///< by value
  std::vector<mlir::Operation *> ops;                 ///< of the problem, the yield last
  std::vector<std::vector<Way>> ways;                 ///< by op of the problem
};

} // namespace omnibal::shard
#endif // PASSES_SHARD_SEARCH_LAYERREADING_H
