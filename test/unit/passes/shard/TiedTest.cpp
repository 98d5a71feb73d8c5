//===- TiedTest.cpp - Layouts of parameters that unlike layers share --------------------------===//
#include "test/unit/passes/shard/SearchFixture.h"

using namespace mlir;
using namespace omnibal;
using namespace omnibal::shard;
using omnibal::test::AllWays;

namespace {

/// Two unlike layers read one table: it has one layout, and counts once.
class TiedTest : public test::SearchFixture {
protected:
  TiedTest() { parse(tied); }
  void parse(StringRef text) {
    layers.clear();
    module = parseSourceString<ModuleOp>(text, &context);
    module->walk([&](LayerOp layer) { layers.push_back(layer); });
  }

  static constexpr const char *tied = R"(
    #NC = affine_map<(d0, d1) -> (1, d1, 8)>
    #NW = affine_map<(d0, d1) -> (1, d1, 11)>
    #L = affine_map<(d0, d1) -> (1, d1)>
    omnibal.parameter @table : tensor<11x8xf64>
    omnibal.parameter @norm : tensor<8xf64>
    func.func @main() {
      %t = omnibal.get_parameter @table : tensor<11x8xf64>
      %n = omnibal.get_parameter @norm : tensor<8xf64>
      %x = omnibal.layer "language.embedding" language inputs() parameters(%t) : (tensor<11x8xf64>) -> tensor<1x?x8xf64, #NC> {
      ^bb0(%pt: tensor<11x8xf64>):
        %ids = omnibal.batch_value "input_ids" : tensor<1x?xi32, #L>
        %e = omnibal.embedding %pt, %ids : (tensor<11x8xf64>, tensor<1x?xi32, #L>) -> tensor<1x?x8xf64, #NC>
        omnibal.yield %e : tensor<1x?x8xf64, #NC>
      }
      %y = omnibal.layer "head" head inputs(%x) parameters(%n, %t) : (tensor<1x?x8xf64, #NC>, tensor<8xf64>, tensor<11x8xf64>) -> tensor<1x?x11xf64, #NW> {
      ^bb0(%in: tensor<1x?x8xf64, #NC>, %pn: tensor<8xf64>, %pt: tensor<11x8xf64>):
        %a = omnibal.rms_norm %in, %pn {axis = -1 : i64, epsilon = 1.0e-3 : f64} : (tensor<1x?x8xf64, #NC>, tensor<8xf64>) -> tensor<1x?x8xf64, #NC>
        %b = omnibal.linear %a, %pt : (tensor<1x?x8xf64, #NC>, tensor<11x8xf64>) -> tensor<1x?x11xf64, #NW>
        %c = omnibal.silu %b : (tensor<1x?x11xf64, #NW>) -> tensor<1x?x11xf64, #NW>
        omnibal.yield %c : tensor<1x?x11xf64, #NW>
      }
      return
    })";

  /// The least cost of a layer whose table is held so, without the price of the table's memory.
  std::optional<Cost> leastOf(unsigned number, unsigned parameter, LayoutAttr held,
                              const MachineRates &rates, double priceNs, Cost *memory) {
    SmallVector<Value> active(layers[number].getBody().front().getArguments());
    LayerReading reading = read(layers[number], active, rates);
    reading.setPrice(priceNs);
    const unsigned value = *reading.findParameter(parameter);
    for (unsigned l = 0; l < reading.layoutsOf(value).size(); ++l) {
      Cost &cost = reading.problem.values[value].held[l];
      if (reading.layoutsOf(value)[l] != held) {
        cost = impossible;
        continue;
      }
      *memory = std::llround(static_cast<double>(reading.heldBytes(value, l)) * priceNs * 1000);
      cost -= *memory;
    }
    const AllWays all(reading.problem);
    return all.least < impossible ? std::optional(all.least) : std::nullopt;
  }

  /// The least cost of two layers that hold one table alike, with the price of its memory.
  Cost leastOfBoth(std::pair<unsigned, unsigned> a, std::pair<unsigned, unsigned> b,
                   const MachineRates &rates, double priceNs) {
    SmallVector<LayoutAttr> candidates{LayoutAttr::whole(&context), LayoutAttr::copied(&context)};
    for (int64_t dim : {0, 1})
      candidates.push_back(LayoutAttr::split(&context, dim, dim == 0 ? 11 : 8));
    Cost least = impossible;
    for (LayoutAttr each : candidates) {
      Cost memory = 0;
      auto first = leastOf(a.first, a.second, each, rates, priceNs, &memory);
      auto second = leastOf(b.first, b.second, each, rates, priceNs, &memory);
      if (first && second)
        least = std::min(least, *first + *second + memory);
    }
    return least;
  }

  Cost memoryOf(const DistinctLayer &layer, unsigned parameter) {
    const unsigned value = *layer.reading->findParameter(parameter);
    return layer.reading->memoryCost(value, layer.solution.choice.held[value]);
  }

  LayoutAttr heldBy(const DistinctLayer &layer, unsigned parameter) {
    return layer.reading->layoutsAt(layer.solution.choice).held[parameter];
  }
  ModelSearch searchOf(const MachineRates &rates, double priceNs, const SearchLimits &limits = {}) {
    auto graph = LayerGraph::get(*module, "test");
    EXPECT_TRUE(succeeded(graph));
    auto search = ModelSearch::read(*graph, rates);
    EXPECT_TRUE(succeeded(search));
    EXPECT_TRUE(succeeded(search->solve(priceNs, limits)));
    return std::move(*search);
  }

  SmallVector<LayerOp> layers;
};

TEST_F(TiedTest, EqualsAllLayoutsOfTheParameter) {
  int split = 0;
  for (int i = 0; i < 120; ++i) {
    const MachineRates rates = machine();
    const double priceNs = price();
    const ModelSearch search = searchOf(rates, priceNs);
    ASSERT_EQ(search.layers().size(), 2U);
    Cost found = 0;
    SmallVector<LayoutAttr> held;
    for (auto [number, layer] : llvm::enumerate(search.layers())) {
      found += layer.solution.cost.total();
      held.push_back(heldBy(layer, static_cast<unsigned>(number)));
    }
    ASSERT_EQ(held[0], held[1]);
    split += held[0].isSplit();

    ASSERT_EQ(found + memoryOf(search.layers()[0], 0), leastOfBoth({0, 0}, {1, 1}, rates, priceNs))
        << i;
  }
  EXPECT_GT(split, 10);
}

/// Beyond the limit of solutions a tied table is whole, and what is found does not count as exact.
TEST_F(TiedTest, TooManyChoicesStayWhole) {
  const MachineRates rates = machine();
  const ModelSearch usual = searchOf(rates, 1e6), limited = searchOf(rates, 1e6, {{}, 2});
  for (unsigned number : {0, 1}) {
    EXPECT_TRUE(usual.layers()[number].solution.isExact);
    EXPECT_TRUE(heldBy(usual.layers()[number], number).isSplit());
    EXPECT_FALSE(limited.layers()[number].solution.isExact);
    EXPECT_TRUE(heldBy(limited.layers()[number], number).isWhole());
  }
}

/// Layers that are alike but for their ties; the ties get other numbers when the layers part.
TEST_F(TiedTest, InterleavedTies) {
  const std::string types = R"(
    #NC = affine_map<(d0, d1) -> (1, d1, 8)>
    #NW = affine_map<(d0, d1) -> (1, d1, 11)>
    #L = affine_map<(d0, d1) -> (1, d1)>
    omnibal.parameter @a : tensor<11x8xf64>
    omnibal.parameter @p : tensor<11x8xf64>
    omnibal.parameter @q : tensor<11x8xf64>
    func.func @main() {
      %a = omnibal.get_parameter @a : tensor<11x8xf64>
      %p = omnibal.get_parameter @p : tensor<11x8xf64>
      %q = omnibal.get_parameter @q : tensor<11x8xf64>
)";
  auto embedding = [](std::string name, std::string table, bool twice) {
    return "%" + name + " = omnibal.layer \"" + name + "\" language inputs() parameters(" + table +
           R"() : (tensor<11x8xf64>) -> tensor<1x?x8xf64, #NC> {
      ^bb0(%t: tensor<11x8xf64>):
        %ids = omnibal.batch_value "input_ids" : tensor<1x?xi32, #L>
        %e = omnibal.embedding %t, %ids : (tensor<11x8xf64>, tensor<1x?xi32, #L>) -> tensor<1x?x8xf64, #NC>
)" +
           (twice ? "%s = omnibal.silu %e : (tensor<1x?x8xf64, #NC>) -> tensor<1x?x8xf64, #NC>\n"
                    "omnibal.yield %s : tensor<1x?x8xf64, #NC>\n}\n"
                  : "omnibal.yield %e : tensor<1x?x8xf64, #NC>\n}\n");
  };
  auto head = [](std::string name, std::string table) {
    return "%" + name + " = omnibal.layer \"" + name + "\" head inputs(%a1) parameters(" + table +
           R"() : (tensor<1x?x8xf64, #NC>, tensor<11x8xf64>) -> tensor<1x?x11xf64, #NW> {
      ^bb0(%in: tensor<1x?x8xf64, #NC>, %t: tensor<11x8xf64>):
        %b = omnibal.linear %in, %t : (tensor<1x?x8xf64, #NC>, tensor<11x8xf64>) -> tensor<1x?x11xf64, #NW>
        omnibal.yield %b : tensor<1x?x11xf64, #NW>
      }
)";
  };
  parse(types + embedding("a1", "%a", false) + embedding("b1", "%q", true) +
        embedding("a2", "%p", false) + head("c1", "%q") + head("c2", "%p") + "return\n}\n");
  ASSERT_EQ(layers.size(), 5U);
  int split = 0;
  for (int i = 0; i < 60; ++i) {
    const MachineRates rates = machine();
    const double priceNs = price();
    const ModelSearch search = searchOf(rates, priceNs);
    ASSERT_EQ(search.layers().size(), 5U);
    for (auto [a, b] : {std::pair(1U, 3U), std::pair(2U, 4U)}) {
      const DistinctLayer &first = search.layers()[a], &second = search.layers()[b];
      const LayoutAttr held = heldBy(first, 0);
      ASSERT_EQ(held, heldBy(second, 0));
      ASSERT_EQ(first.solution.cost.total() + second.solution.cost.total() + memoryOf(first, 0),
                leastOfBoth({a, 0}, {b, 0}, rates, priceNs))
          << i;
      split += held.isSplit();
    }
  }
  EXPECT_GT(split, 10);
}

} // namespace
