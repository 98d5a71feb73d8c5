//===- PartMove.h - A call in which the parts of a stage meet
//----------------------------------===//
//
// Parts of a stage hold values whole, as summands, or split along a dimension. A move takes a value
// from one of these ways to another (docs/kernels.md). It is a call of a function as any other, but
// a transport performs it: all parts make the same moves in the same order.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_PARTMOVE_H
#define RUNTIME_DEVICE_PARTMOVE_H

#include "runtime/device/Kernel.h"
#include "runtime/support/Shares.h"
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace omnibal::rt {

enum class PartMoveKind {
  AllReduce,     ///< everyone gets the sum, added in the order of parts
  AllGather,     ///< everyone gets the units of all
  ReduceScatter, ///< everyone gets the sum of its own units
  AllToAll,      ///< units of one dimension become units of another
  Take,          ///< everyone takes its units of what it has
  Place,         ///< zeros around everyone's own units
  KeepFirst      ///< part 0 keeps what it has, the others get zeros
};

/// A dimension is `outer` rows of `units` units of `inner` elements; a part has its share of the
/// units of each row.
struct UnitSplit {
  int64_t dim = 0, units = 1, inner = 1, outer = 1;

  UnitRange of(int64_t part, int64_t parts) const { return shareOf(units, part, parts); }
};

/// The same of a value whose size depends on the micro-batch: units are a number, V or N.
struct PartSplit {
  int64_t dim = 0;
  Extent units{1};
  int64_t inner = 1;
  Extent outer{1};

  UnitSplit at(const SymbolValues &symbols) const {
    return {dim, units.evaluate(symbols), inner, outer.evaluate(symbols)};
  }
  friend bool operator==(const PartSplit &, const PartSplit &) = default;
};
inline std::optional<UnitSplit> splitAt(const std::optional<PartSplit> &split,
                                        const SymbolValues &symbols) {
  return split ? std::optional(split->at(symbols)) : std::nullopt;
}

struct PartMove {
  PartMoveKind kind = PartMoveKind::AllReduce;
  std::optional<PartSplit> from, to; ///< of `src` and `dst`; none: all of it is there
  int src = 0, dst = 0;              ///< operands, which are dense
  int workspace = -1;                ///< of the size of `dst`, where sums arrive (ReduceScatter)

  static bool isKernel(std::string_view kernel);
  /// What the kernel of this name does; none: it is no move.
  static std::optional<PartMoveKind> kindOf(std::string_view kernel);
  /// Reads a call whose kernel is one of these.
  static Result<PartMove> read(const BoundCall &call);
  /// Whether parts send to each other.
  static bool sends(PartMoveKind kind) { return kind < PartMoveKind::Take; }
  bool sends() const { return sends(kind); }

  /// The size of the whole tensor's dimensions, of which a part has `shape`; empty where the part's
  /// share does not have this shape.
  static std::vector<int64_t> wholeShape(std::span<const int64_t> shape,
                                         const std::optional<UnitSplit> &split, int64_t part,
                                         int64_t parts);
};

/// One side of a move: what a part has of a tensor.
struct PartSide {
  const std::optional<UnitSplit> *split = nullptr;
  UnitRange own; ///< units
};

/// Calls use(at, to, count) for runs of elements that both sides have, in the order of the whole
/// tensor: `at` is where the run begins in the dense memory of the one side, `to` in the other's.
void forCommonRuns(std::span<const int64_t> whole, const PartSide &one, const PartSide &other,
                   const std::function<void(int64_t, int64_t, int64_t)> &use);

/// The same as blocks, of which there are few: each is a product of dimensions that advance evenly
/// on both sides.
struct CommonBlock {
  struct Dim {
    int64_t size = 0, one = 0, other = 0; ///< elements from one index to the next
  };
  int64_t one = 0, other = 0; ///< where it begins
  std::vector<Dim> dims;
};
std::vector<CommonBlock> commonBlocks(std::span<const int64_t> whole, const PartSide &one,
                                      const PartSide &other);

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_PARTMOVE_H
