//===- ReshardTest.cpp - Moves between layouts, their gradients and what they send -----------===//
//
// Every move between every pair of layouts, run by parts in step, against a direct statement of who
// holds which element. Values are small integers, so sums are exact and bits are compared.
//
//===-------------------------------------------------------------------------------------------===//
#include "dialects/omnibal/interpreter/PartsInterpreter.h"
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "dialects/omnibal/rules/BFloat16Values.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "runtime/support/Shares.h"
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace omnibal;

namespace {

/// What each part holds, a value a part.
using Held = std::vector<HostTensor>;

class ReshardTest : public ::testing::Test {
protected:
  ReshardTest() { context.loadDialect<OmnibalDialect, func::FuncDialect, PlanDialect>(); }

  /// Whole, copied, partial, and splits that have elements in front, behind, both and neither.
  std::vector<LayoutAttr> layouts() {
    return {LayoutAttr::whole(&context),         LayoutAttr::copied(&context),
            LayoutAttr::partial(&context),       LayoutAttr::split(&context, 0, 5),
            LayoutAttr::split(&context, 1, 12),  LayoutAttr::split(&context, 1, 3, 4),
            LayoutAttr::split(&context, 1, 4),   LayoutAttr::split(&context, 1, 2, 3),
            LayoutAttr::split(&context, 2, 3, 1)};
  }
  static constexpr int64_t shape[] = {5, 12, 3};
  static constexpr int64_t elements = 5 * 12 * 3;

  /// Whether `part` holds this element, said once more without any code of the product.
  static bool holds(LayoutAttr layout, int64_t parts, int64_t part, int64_t element) {
    if (!layout.isSplit())
      return true;
    const int64_t index[] = {element / 36, element / 3 % 12, element % 3};
    const int64_t unit = index[layout.getDim()] / layout.getInner() % layout.getUnits();
    int64_t owner = 0;
    while (layout.getUnits() * (owner + 1) / parts <= unit)
      ++owner;
    return owner == part;
  }

  RankedTensorType wholeType() { return RankedTensorType::get(shape, Float32Type::get(&context)); }
  RankedTensorType typeOf(LayoutAttr layout, int64_t parts, int64_t part) {
    return partType(wholeType(), layout, parts, part);
  }

  Held randomValue(LayoutAttr layout, int64_t parts) {
    Held held;
    for (int64_t part = 0; part < parts; ++part) {
      HostTensor &value =
          held.emplace_back(Float32Type::get(&context), typeOf(layout, parts, part).getShape());
      for (double &each : value.floats)
        each = std::uniform_int_distribution<int>(-9, 9)(random);
      if (layout.isWhole() || layout.isCopied())
        value = held.front();
    }
    return held;
  }

  /// The value itself, element by element.
  static std::vector<double> valueOf(const Held &held, LayoutAttr layout) {
    std::vector<double> value(elements, 0.0);
    const auto parts = static_cast<int64_t>(held.size());
    for (int64_t part = 0; part < parts; ++part) {
      if (part > 0 && (layout.isWhole() || layout.isCopied()))
        break;
      for (int64_t element = 0, i = 0; element < elements; ++element)
        if (holds(layout, parts, part, element))
          value[element] += held[part].floats[i++];
    }
    return value;
  }
  /// A value becomes summands where it is: part 0 keeps it, or each part its units.
  static Held expected(const std::vector<double> &value, LayoutAttr from, LayoutAttr to,
                       const Held &like, int64_t parts) {
    auto isZero = [&](int64_t part, int64_t element) {
      return to.isPartial() && (from.isSplit() ? !holds(from, parts, part, element) : part > 0);
    };
    Held result = like;
    for (int64_t part = 0; part < parts; ++part) {
      result[part].floats.clear();
      for (int64_t element = 0; element < elements; ++element)
        if (holds(to, parts, part, element))
          result[part].floats.push_back(isZero(part, element) ? 0.0 : value[element]);
    }
    return result;
  }

  /// A function for each part with one move; with `gradient` the move's gradient instead.
  void build(LayoutAttr from, LayoutAttr to, int64_t parts, bool gradient) {
    OpBuilder builder(&context);
    Location loc = builder.getUnknownLoc();
    module = ModuleOp::create(loc);
    blocks.clear();
    for (int64_t part = 0; part < parts; ++part) {
      builder.setInsertionPointToEnd(module->getBody());
      RankedTensorType in = typeOf(from, parts, part), out = typeOf(to, parts, part);
      auto function = func::FuncOp::create(builder, loc, "part" + std::to_string(part),
                                           builder.getFunctionType({in}, {out}));
      Block *block = function.addEntryBlock();
      builder.setInsertionPointToEnd(block);
      auto op =
          ReshardOp::create(builder, loc, out, block->getArgument(0), from, to, parts, wholeType());
      Value result = op;
      if (gradient) {
        SmallVector<Value> gradients;
        block->addArgument(out, loc);
        ASSERT_TRUE(
            succeeded(op.buildGradients(builder, {block->getArgument(1)}, {true}, gradients)));
        ASSERT_EQ(gradients[0].getType(), in);
        result = gradients[0];
      }
      func::ReturnOp::create(builder, loc, result);
      if (gradient) {
        op.erase();
        block->eraseArgument(0);
      }
      function.setType(builder.getFunctionType(block->getArgumentTypes(), result.getType()));
      blocks.push_back(block);
    }
    ASSERT_TRUE(succeeded(verify(*module)));
  }

  Held run(const Held &arguments, SmallVector<int64_t> *sent = nullptr) {
    PartsInterpreter interpreter(static_cast<int64_t>(arguments.size()), {});
    std::vector<SmallVector<HostTensor>> lists;
    for (const HostTensor &argument : arguments)
      lists.push_back({argument});
    auto results = interpreter.run(blocks, lists);
    EXPECT_TRUE(succeeded(results));
    if (sent)
      *sent = interpreter.sent;
    Held held;
    for (const auto &list : *results)
      held.push_back(list[0]);
    return held;
  }

  /// <x, y> of a value and its gradient, which lie in a layout and its dual.
  static double product(const Held &x, const Held &y, LayoutAttr layout) {
    double sum = 0;
    for (size_t part = 0; part < x.size(); ++part) {
      if (layout.isWhole() && part > 0)
        break;
      for (size_t i = 0; i < x[part].floats.size(); ++i)
        sum += x[part].floats[i] * y[part].floats[i];
    }
    return sum;
  }

  template <typename Check> void forEachMove(Check check) {
    for (int64_t parts : {2, 3, 4, 8})
      for (LayoutAttr from : layouts())
        for (LayoutAttr to : layouts()) {
          std::string text;
          llvm::raw_string_ostream stream(text);
          stream << from << " to " << to << " on " << parts;
          SCOPED_TRACE(text);
          check(from, to, parts);
          if (HasFatalFailure())
            return;
        }
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  SmallVector<Block *> blocks;
  std::mt19937 random{11};
};

TEST_F(ReshardTest, SharesAreThoseOfTheRule) {
  for (int64_t units = 0; units < 40; ++units)
    for (int64_t members = 1; members < 9; ++members) {
      int64_t next = 0;
      for (int64_t member = 0; member < members; ++member) {
        rt::UnitRange share = rt::shareOf(units, member, members);
        EXPECT_EQ(share.begin, next);
        EXPECT_GE(share.size(), units / members);
        EXPECT_LE(share.size(), (units + members - 1) / members);
        next = share.end;
      }
      EXPECT_EQ(next, units);
    }
  EXPECT_EQ(rt::shareOf(25, 0, 4).size(), 6);
  EXPECT_EQ(rt::shareOf(25, 3, 4).size(), 7);
  EXPECT_EQ(rt::shareOf(3, 0, 4).size(), 0);
}

TEST_F(ReshardTest, EveryMoveGivesEachPartWhatItHolds) {
  forEachMove([&](LayoutAttr from, LayoutAttr to, int64_t parts) {
    build(from, to, parts, false);
    Held x = randomValue(from, parts), moved = run(x);
    Held want = expected(valueOf(x, from), from, to, moved, parts);
    if (from.isPartial() && to.isPartial())
      want = x;
    for (int64_t part = 0; part < parts; ++part) {
      EXPECT_EQ(ArrayRef<int64_t>(moved[part].shape), typeOf(to, parts, part).getShape());
      ASSERT_EQ(moved[part].floats, want[part].floats) << "part " << part;
    }
  });
}

TEST_F(ReshardTest, TheGradientIsTheTranspose) {
  forEachMove([&](LayoutAttr from, LayoutAttr to, int64_t parts) {
    build(from, to, parts, false);
    Held x = randomValue(from, parts), moved = run(x);
    build(from, to, parts, true);
    Held y = randomValue(to.getDual(), parts), gradient = run(y);
    EXPECT_EQ(product(moved, y, to), product(x, gradient, from));
    // A gradient is what its layout says: equal on all parts, where it says so.
    if (from.getDual().isWhole() || from.getDual().isCopied()) {
      for (const HostTensor &each : gradient)
        ASSERT_EQ(each.floats, gradient[0].floats);
    }
  });
}

/// What the table of duals is worth: with another dual the products differ.
TEST_F(ReshardTest, AnotherDualIsNoGradient) {
  LayoutAttr whole = LayoutAttr::whole(&context), copied = LayoutAttr::copied(&context);
  LayoutAttr partial = LayoutAttr::partial(&context), split = LayoutAttr::split(&context, 1, 3, 4);
  auto differs = [&](LayoutAttr from, LayoutAttr to, LayoutAttr dualOfTo, LayoutAttr dualOfFrom) {
    build(from, to, 3, false);
    Held x = randomValue(from, 3), moved = run(x);
    build(dualOfTo, dualOfFrom, 3, false);
    Held y = randomValue(dualOfTo, 3), gradient = run(y);
    return product(moved, y, to) != product(x, gradient, from);
  };
  EXPECT_FALSE(differs(copied, split, split, partial));
  EXPECT_TRUE(differs(copied, split, split, whole));
  EXPECT_FALSE(differs(whole, copied, partial, whole));
  EXPECT_TRUE(differs(whole, copied, whole, whole));
  EXPECT_FALSE(differs(partial, whole, whole, copied));
  EXPECT_TRUE(differs(partial, whole, whole, partial));
}

TEST_F(ReshardTest, PartsSendWhatOthersLack) {
  forEachMove([&](LayoutAttr from, LayoutAttr to, int64_t parts) {
    build(from, to, parts, false);
    SmallVector<int64_t> sent;
    run(randomValue(from, parts), &sent);
    auto shareOfSums = [&](int64_t part) {
      return elements * (part + 1) / parts - elements * part / parts;
    };
    int64_t total = 0;
    for (int64_t part = 0; part < parts; ++part) {
      int64_t want = 0;
      for (int64_t other = 0; other < parts; ++other) {
        if (other == part || from == to)
          continue;
        for (int64_t i = 0; i < elements; ++i) {
          bool hasIt = holds(from, parts, part, i);
          bool otherHasIt = holds(from, parts, other, i), needsIt = holds(to, parts, other, i);
          if (from.isSplit() && !to.isPartial())
            want += hasIt && !otherHasIt && needsIt;
          else if (from.isPartial() && to.isSplit())
            want += needsIt;
        }
        if (from.isPartial() && !to.isSplit()) // sums are made in shares, then gathered
          want += shareOfSums(other) + shareOfSums(part);
      }
      EXPECT_EQ(sent[part], want) << "part " << part;
      total += sent[part];
    }
    // The volumes of the design: (k - 1) / k of the value a part, twice that for all sums.
    Move move = moveOf(from, to);
    if (move == Move::AllGather || move == Move::ReduceScatter)
      EXPECT_EQ(total, (parts - 1) * elements);
    else if (move == Move::AllReduce)
      EXPECT_EQ(total, 2 * (parts - 1) * elements);
    else // 12 units on 3 parts are those of 3 units of 4
      EXPECT_TRUE(total == 0 || move == Move::AllToAll);
  });
}

TEST_F(ReshardTest, EvenAllToAllSendsAKthOfAllGather) {
  SmallVector<int64_t> square = {8, 8};
  auto rows = LayoutAttr::split(&context, 0, 8), columns = LayoutAttr::split(&context, 1, 8);
  for (int64_t parts : {2, 4, 8})
    for (int64_t part = 0; part < parts; ++part)
      EXPECT_EQ(sentElements(square, rows, columns, parts, part) * parts,
                sentElements(square, rows, LayoutAttr::whole(&context), parts, part));
}

TEST_F(ReshardTest, TilesAndTokensAreUnitsOfTheMicroBatch) {
  module = parseSourceString<ModuleOp>(R"(
    func.func @part(%x: tensor<1x?x2xf32>) -> tensor<1x?x2xf32> {
      %y = omnibal.reshard %x from <split(1 : N)> to <copied> parts 2
        of tensor<1x?x2xf32, affine_map<(d0, d1) -> (1, d1, 2)>>
        : (tensor<1x?x2xf32>) -> tensor<1x?x2xf32>
      return %y : tensor<1x?x2xf32>
    })",
                                       &context);
  ASSERT_TRUE(module);
  Block &block = module->lookupSymbol<func::FuncOp>("part").getBody().front();
  InterpreterOptions options;
  options.tokens = 3;
  PartsInterpreter interpreter(2, options);
  HostTensor one(Float32Type::get(&context), {1, 1, 2}), two(one.elementType, {1, 2, 2});
  one.floats = {1, 2};
  two.floats = {3, 4, 5, 6};
  auto results = interpreter.run({&block, &block}, {{one}, {two}});
  ASSERT_TRUE(succeeded(results));
  for (const auto &list : *results)
    EXPECT_EQ(list[0].floats, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(interpreter.sent, (SmallVector<int64_t>{2, 4}));
}

TEST_F(ReshardTest, PartsThatDoNotMeetAreFound) {
  LayoutAttr whole = LayoutAttr::whole(&context), copied = LayoutAttr::copied(&context);
  build(whole, copied, 2, false);
  auto op = *blocks[1]->getOps<ReshardOp>().begin();
  std::string message;
  ScopedDiagnosticHandler handler(&context,
                                  [&](Diagnostic &diagnostic) { message = diagnostic.str(); });
  HostTensor x(Float32Type::get(&context), shape);
  op.setFromAttr(copied);
  EXPECT_TRUE(failed(PartsInterpreter(2, {}).run(blocks, {{x}, {x}})));
  EXPECT_NE(message.find("is where part 1 is while part 0 is elsewhere"), std::string::npos);
  op.getResult().replaceAllUsesWith(op.getInput());
  op.erase();
  EXPECT_TRUE(failed(PartsInterpreter(2, {}).run(blocks, {{x}, {x}})));
  EXPECT_NE(message.find("is where part 1 is while part 0 is elsewhere"), std::string::npos);

  build(whole, copied, 2, false);
  EXPECT_TRUE(failed(PartsInterpreter(1, {}).run({blocks[0]}, {{x}})));
  EXPECT_NE(message.find("joins 2 parts, but 1 run"), std::string::npos);
  EXPECT_TRUE(failed(Interpreter({}).run(*blocks[0], {x})));
  EXPECT_NE(message.find("is where parts meet"), std::string::npos);

  build(LayoutAttr::split(&context, 0, 5), copied, 2, false);
  EXPECT_TRUE(failed(PartsInterpreter(2, {}).run(blocks, {{x}, {x}})));
  EXPECT_NE(message.find("gets a value of another size"), std::string::npos);
}

TEST_F(ReshardTest, MovesThatSendAreDear) {
  forEachMove([&](LayoutAttr from, LayoutAttr to, int64_t parts) {
    build(from, to, parts, false);
    auto op = *blocks.back()->getOps<ReshardOp>().begin();
    SmallVector<int64_t> sent;
    run(randomValue(from, parts), &sent);
    const bool isDear = llvm::any_of(sent, [](int64_t each) { return each > 0; });
    EXPECT_EQ(op.isCheapToRecompute(), !sends(moveOf(from, to)));
    EXPECT_FALSE(isDear && op.isCheapToRecompute());
    const int64_t bytes = op.getCost().bytes.constant;
    if (moveOf(from, to) == Move::None)
      EXPECT_EQ(bytes, 0);
    else
      EXPECT_GT(bytes, isDear ? 8 * 4 * elements * (parts - 1) / parts / parts : 0);
  });
  build(LayoutAttr::partial(&context), LayoutAttr::whole(&context), 4, false);
  auto op = *blocks[0]->getOps<ReshardOp>().begin(); // twice 3/4 of 720 bytes, each as dear as 8
  EXPECT_EQ(op.getCost().bytes, SymbolicDim(2 * 720 + 8 * 2 * 540));
}

TEST_F(ReshardTest, MovesStayInBFloat16) {
  build(LayoutAttr::partial(&context), LayoutAttr::whole(&context), 2, false);
  auto op = *blocks[0]->getOps<ReshardOp>().begin();
  Value input = op.getInput();
  EXPECT_TRUE(findBFloat16Values({op}, {input}).contains(op.getResult()));
  EXPECT_FALSE(findBFloat16Values({op}, {}).contains(op.getResult()));
}

} // namespace
