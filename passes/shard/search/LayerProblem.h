//===- LayerProblem.h - The layouts of one layer as numbers ----------------------------------===//
//
// Each op of a layer, in order, is run in one of its ways. A way says in which layout the op reads
// each operand, in which it gives each result, and what the op takes then. A value is made in one
// layout and moves where an op reads another one for the first time. Costs are picoseconds, and
// each of them ends with the last op that touches its value, so that a dynamic program over the ops
// in order is exact.
//
// Knows no MLIR: LayerReading.h makes problems of layers.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_SHARD_SEARCH_LAYERPROBLEM_H
#define PASSES_SHARD_SEARCH_LAYERPROBLEM_H

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace omnibal::shard {

/// Picoseconds of a micro-batch, forward and backward.
using Cost = int64_t;
/// Of what is not legal; a sum of some of these does not overflow.
constexpr Cost impossible = std::numeric_limits<Cost>::max() / 64;

/// A value of the layer. Its layouts are numbered as it likes, at most 32 of them.
struct SearchValue {
  enum class Kind {
    Input,     ///< made outside, in `native`
    Parameter, ///< held in a layout that is chosen, and read in others for nothing or not at all
    Made
  };
  Kind kind = Kind::Made;
  unsigned layouts = 0;
  unsigned native = 0; ///< of an input
  /// At from * layouts + to: what value and gradient take to move.
  std::vector<Cost> moves;
  /// At to * layouts + from: the order in which layouts that are there already are taken as the
  /// source of a move. No two are equal.
  std::vector<int64_t> sources;
  /// By layout, if backward keeps the value: the price of keeping it so, as which layout it is kept
  /// (those that are the same in memory are kept once), and the layouts, as bits, that are made
  /// from it for nothing. At most one makes others: they are not kept beside it, and all of them
  /// cost no more than it.
  std::vector<Cost> kept;
  std::vector<unsigned> keptAs;
  std::vector<uint32_t> covers;
  std::vector<Cost> held; ///< of a parameter, by layout
};

struct SearchWay {
  std::vector<unsigned> reads;   ///< a layout of each operand
  std::vector<unsigned> layouts; ///< and of each result
  Cost work = 0;
};

struct SearchOp {
  std::vector<unsigned> operands, results;     ///< numbers of values
  std::vector<bool> keepsOperand, keepsResult; ///< backward reads them as the op does
  std::vector<SearchWay> ways;
};

struct LayerProblem {
  std::vector<SearchValue> values;
  /// Operands are made by earlier ones. The last one reads what leaves the layer.
  std::vector<SearchOp> ops;
};

struct LayerCost {
  Cost work = 0, moves = 0, kept = 0, held = 0;
  Cost total() const { return work + moves + kept + held; }
  bool operator==(const LayerCost &) const = default;
};

struct LayerChoice {
  std::vector<unsigned> ways; ///< by op
  std::vector<unsigned> held; ///< by value; of parameters how they are held
};

/// What a choice costs; none where it moves what may not move.
std::optional<LayerCost> costOf(const LayerProblem &problem, const LayerChoice &choice);

/// The price of all buffers of a value that is kept in these layouts (bits); it never falls with
/// more of them.
Cost keptCost(const SearchValue &value, uint32_t kept);
/// From which of the layouts that are there (bits, at least one) a value moves to another.
unsigned sourceOf(const SearchValue &value, uint32_t made, unsigned to);

} // namespace omnibal::shard
#endif // PASSES_SHARD_SEARCH_LAYERPROBLEM_H
