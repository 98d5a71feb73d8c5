//===- LayoutWriter.h - Layouts of a layer for tests -----------------------------------------===//
#ifndef TEST_UNIT_PASSES_SHARD_LAYOUTWRITER_H
#define TEST_UNIT_PASSES_SHARD_LAYOUTWRITER_H

#include "passes/shard/LayerLetters.h"
#include <random>

namespace omnibal::test {

/// Writes the attributes of ops from letters.
class LayoutWriter {
public:
  explicit LayoutWriter(LayerOp layer)
      : letters(layer), layer(layer), context(layer.getContext()) {}

  /// A letter of an op's rule, and one of the layer's that it has.
  struct Place {
    unsigned ofOp, ofLayer;
    bool operator==(const Place &) const = default;
  };

  /// Gives all operands of an op one layout, and all results another.
  void fill(mlir::Operation *op, LayoutAttr reads, LayoutAttr layouts);
  /// Splits an op along neighboring letters, or along one of the layer; false where it cannot be.
  bool split(mlir::Operation *op, llvm::ArrayRef<Place> run);
  bool split(mlir::Operation *op, unsigned letter);
  /// Chooses how a parameter is held from how it is read; false where its readers disagree.
  bool hold(unsigned parameter);
  void set(mlir::Operation *op, llvm::StringRef name, llvm::ArrayRef<LayoutAttr> list);

  shard::LayerLetters letters;

protected:
  LayoutAttr whole() { return LayoutAttr::whole(context); }
  LayoutAttr copied() { return LayoutAttr::copied(context); }
  LayoutAttr partial() { return LayoutAttr::partial(context); }
  llvm::SmallVector<Place> placesOf(mlir::Operation *op, const DimLetters &dim);
  LayoutAttr splitOf(int64_t dim, llvm::ArrayRef<Place> all, size_t begin, size_t count);
  /// The split of a value along these letters; null without any of them, none if not side by side.
  std::optional<LayoutAttr> along(mlir::Operation *op, const ValueLetters &dims,
                                  llvm::ArrayRef<Place> run);

  LayerOp layer;
  mlir::MLIRContext *context;
};

/// Draws legal layouts for a layer: for each op a way, for parameters what all readers agree on.
class RandomLayouts : public LayoutWriter {
public:
  RandomLayouts(LayerOp layer, std::mt19937 &random) : LayoutWriter(layer), random(random) {}

  /// Writes the attributes; false where parameters found no layout for all their readers.
  bool draw();

private:
  size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); }
  void drawWay(mlir::Operation *op);
  bool drawSplit(mlir::Operation *op, const FactorRule &rule);
  LayoutAttr border(mlir::Value value);

  std::mt19937 &random;
};

} // namespace omnibal::test
#endif // TEST_UNIT_PASSES_SHARD_LAYOUTWRITER_H
