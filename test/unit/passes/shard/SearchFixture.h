//===- SearchFixture.h - Machines and layers to search layouts for ----------------------------===//
#ifndef TEST_UNIT_PASSES_SHARD_SEARCHFIXTURE_H
#define TEST_UNIT_PASSES_SHARD_SEARCHFIXTURE_H

#include "passes/shard/search/ModelSearch.h"
#include "test/unit/passes/shard/LayerFixture.h"

namespace omnibal::test {

using namespace omnibal::shard;

/// Draws machines and prices.
class SearchFixture : public LayerFixture {
protected:
  int64_t between(int64_t a, int64_t b) {
    return std::uniform_int_distribution<int64_t>(a, b)(random);
  }
  /// A number that is as likely to be large as small.
  int64_t upTo(double exponent) {
    return static_cast<int64_t>(
        std::pow(10, std::uniform_real_distribution<double>(0, exponent)(random)));
  }
  MachineRates machine() {
    MachineRates rates;
    rates.parts = between(2, 8);
    rates.costs.load = {tiles, between(1, 4000)};
    rates.costs.device.flops["float32"] = 10'000 * upTo(11);
    rates.costs.device.bytesPerSecond = 10'000 * upTo(8);
    rates.link = {between(0, 3) ? upTo(5) : 0, 10'000 * upTo(8)};
    return rates;
  }
  double price() { return between(0, 2) ? 1e-3 * static_cast<double>(upTo(9)) : 0; }
  /// Whole, or of some values each part's rows; losses are whole.
  SmallVector<LayoutAttr> someBorders(LayerOp layer) {
    SmallVector<LayoutAttr> borders;
    auto add = [&](Value value, bool maySplit) {
      auto type = cast<RankedTensorType>(value.getType());
      LayoutAttr rows = isa<FloatType>(type.getElementType()) ? rowSplitOf(type) : LayoutAttr();
      borders.push_back(rows && maySplit && between(0, 1) ? rows : LayoutAttr::whole(&context));
    };
    for (Value input : layer.getInputs())
      add(input, true);
    for (auto [i, output] : llvm::enumerate(layer.getOutputs()))
      add(output, getOutputKind(layer, i) == OutputKind::Output);
    return borders;
  }
  LayerReading read(LayerOp layer, ArrayRef<Value> active, const MachineRates &rates,
                    ArrayRef<LayoutAttr> borders = {}) {
    auto reading = LayerReading::read(layer, active, rates, borders);
    EXPECT_TRUE(succeeded(reading));
    return std::move(*reading);
  }
};

/// The least cost of all ways of the ops; each parameter is held as is cheapest for its readers.
class AllWays {
public:
  explicit AllWays(const LayerProblem &problem) : problem(problem) {
    choice.ways.assign(problem.ops.size(), 0);
    choice.held.assign(problem.values.size(), 0);
    walk(0);
  }
  Cost least = impossible;
  int64_t count = 0;

private:
  void walk(size_t op) {
    if (op == problem.ops.size())
      return price();
    for (unsigned way = 0; way < problem.ops[op].ways.size(); ++way) {
      choice.ways[op] = way;
      walk(op + 1);
    }
  }
  void price() {
    ++count;
    for (unsigned v = 0; v < problem.values.size(); ++v) {
      const SearchValue &value = problem.values[v];
      if (value.kind != SearchValue::Kind::Parameter)
        continue;
      Cost best = impossible;
      for (unsigned native = 0; native < value.layouts; ++native) {
        Cost cost = value.held[native];
        for (size_t i = 0; i < problem.ops.size(); ++i)
          for (size_t j = 0; j < problem.ops[i].operands.size(); ++j)
            if (problem.ops[i].operands[j] == v)
              cost = std::max(cost, value.moves[native * value.layouts +
                                                problem.ops[i].ways[choice.ways[i]].reads[j]]);
        if (cost < best) {
          best = cost;
          choice.held[v] = native;
        }
      }
      if (best == impossible)
        return;
    }
    if (auto cost = costOf(problem, choice))
      least = std::min(least, cost->total());
  }

  const LayerProblem &problem;
  LayerChoice choice;
};

} // namespace omnibal::test
#endif // TEST_UNIT_PASSES_SHARD_SEARCHFIXTURE_H
