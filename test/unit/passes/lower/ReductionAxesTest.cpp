//===- ReductionAxesTest.cpp - Reductions over any axes and what reads them, fused and not -===//
//
// Sizes repeat on purpose: a value of one number a channel has as many elements as one of one
// number a column then, and only its place among the dimensions tells them apart.
//
//===-------------------------------------------------------------------------------------------===//
#include "test/unit/passes/lower/LoweredRun.h"

using omnibal::test::LoweredModule;

namespace {

using Sizes = std::vector<int64_t>;

std::string tensor(const Sizes &sizes) {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + "f32>";
}

/// Replaces every occurrence of each name in `text`.
std::string
substitute(std::string text,
           std::initializer_list<std::pair<std::string_view, std::string>> replacements) {
  for (const auto &[name, value] : replacements)
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at))
      text.replace(at, name.size(), value);
  return text;
}

/// Normalization and softmax over the axes, and a factor of the statistics' shape.
const char *const statistics = R"(
func.func @NAME(%x: XTYPE {omnibal.role = "input", omnibal.index = 0 : i64},
                %g: KTYPE {omnibal.role = "input", omnibal.index = 1 : i64})
    -> (XTYPE {omnibal.role = "output", omnibal.index = 0 : i64},
        XTYPE {omnibal.role = "output", omnibal.index = 1 : i64},
        XTYPE {omnibal.role = "output", omnibal.index = 2 : i64}) {
  %eps = omnibal.constant dense<1.0e-2> : tensor<f32>
  %mean = omnibal.reduce %x {kind = 1 : i32, axes = array<i64: AXES>, keepdims} : (XTYPE) -> KTYPE
  %centered = omnibal.sub %x, %mean : (XTYPE, KTYPE) -> XTYPE
  %square = omnibal.mul %centered, %centered : (XTYPE, XTYPE) -> XTYPE
  %var = omnibal.reduce %square {kind = 1 : i32, axes = array<i64: AXES>, keepdims} : (XTYPE) -> KTYPE
  %shifted = omnibal.add %var, %eps : (KTYPE, tensor<f32>) -> KTYPE
  %root = omnibal.sqrt %shifted : (KTYPE) -> KTYPE
  %normal = omnibal.div %centered, %root : (XTYPE, KTYPE) -> XTYPE
  %max = omnibal.reduce %x {kind = 2 : i32, axes = array<i64: AXES>} : (XTYPE) -> DTYPE
  %kept = omnibal.reshape %max : (DTYPE) -> KTYPE
  %below = omnibal.sub %x, %kept : (XTYPE, KTYPE) -> XTYPE
  %exp = omnibal.exp %below : (XTYPE) -> XTYPE
  %sum = omnibal.reduce %exp {kind = 0 : i32, axes = array<i64: AXES>, keepdims} : (XTYPE) -> KTYPE
  %share = omnibal.div %exp, %sum : (XTYPE, KTYPE) -> XTYPE
  %factor = omnibal.mul %sum, %g : (KTYPE, KTYPE) -> KTYPE
  %scaled = omnibal.mul %normal, %factor : (XTYPE, KTYPE) -> XTYPE
  return %normal, %share, %scaled : XTYPE, XTYPE, XTYPE
}
)";

constexpr auto targets = {"host", "cuda"};

class ReductionAxes : public testing::TestWithParam<std::tuple<Sizes, const char *>> {
protected:
  const Sizes &sizes() const { return std::get<0>(GetParam()); }
  std::string target() const { return std::get<1>(GetParam()); }
};

TEST_P(ReductionAxes, AgreeWithTheInterpreter) {
  const Sizes &sizes = this->sizes();
  std::string text;
  for (size_t subset = 1; subset < size_t(1) << sizes.size(); ++subset) {
    Sizes kept = sizes, dropped;
    std::string axes;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (subset >> i & 1) {
        kept[i] = 1;
        axes += (axes.empty() ? "" : ", ") + std::to_string(i);
      } else {
        dropped.push_back(sizes[i]);
      }
    }
    text += substitute(statistics, {{"NAME", "f" + std::to_string(subset)},
                                    {"XTYPE", tensor(sizes)},
                                    {"KTYPE", tensor(kept)},
                                    {"DTYPE", tensor(dropped)},
                                    {"AXES", axes}});
  }
  LoweredModule module(text, 0, 1, target());
  EXPECT_EQ(module.functions().size(), (size_t(1) << sizes.size()) - 1);
  for (const std::string &name : module.functions())
    module.check(name, 0, 1);
}
INSTANTIATE_TEST_SUITE_P(Shapes, ReductionAxes,
                         testing::Combine(testing::Values(Sizes{3, 3, 3, 1}, Sizes{4, 3, 3},
                                                          Sizes{2, 3, 2, 3}, Sizes{3, 4, 5},
                                                          Sizes{2, 2, 2}),
                                          testing::ValuesIn(targets)));

class FusionLegality : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Targets, FusionLegality, testing::ValuesIn(targets));

/// %e is as large as a row of columns, but one number a group of rows for %0.
TEST_P(FusionLegality, ChannelsAreNotColumns) {
  LoweredModule module(R"(
func.func @f(%x: tensor<5x3x3xf32> {omnibal.role = "input", omnibal.index = 0 : i64},
             %c: tensor<3x1xf32> {omnibal.role = "input", omnibal.index = 1 : i64})
    -> (tensor<5x3x3xf32> {omnibal.role = "output", omnibal.index = 0 : i64}) {
  %e = omnibal.exp %c : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %0 = omnibal.mul %x, %e : (tensor<5x3x3xf32>, tensor<3x1xf32>) -> tensor<5x3x3xf32>
  return %0 : tensor<5x3x3xf32>
})",
                       0, 1, GetParam());
  module.check("f", 0, 1);
}

/// %v is one number a column for the first op, one a group of rows for the second.
TEST_P(FusionLegality, OneValueSeenInTwoWays) {
  LoweredModule module(R"(
func.func @f(%x: tensor<12x3x1xf32> {omnibal.role = "input", omnibal.index = 0 : i64},
             %v: tensor<3x1xf32> {omnibal.role = "input", omnibal.index = 1 : i64})
    -> (tensor<4x3x3xf32> {omnibal.role = "output", omnibal.index = 0 : i64}) {
  %0 = omnibal.add %x, %v : (tensor<12x3x1xf32>, tensor<3x1xf32>) -> tensor<12x3x1xf32>
  %1 = omnibal.reshape %0 : (tensor<12x3x1xf32>) -> tensor<4x3x3xf32>
  %2 = omnibal.mul %1, %v : (tensor<4x3x3xf32>, tensor<3x1xf32>) -> tensor<4x3x3xf32>
  return %2 : tensor<4x3x3xf32>
}
func.func @square(%x: tensor<3x3x1xf32> {omnibal.role = "input", omnibal.index = 0 : i64},
                  %v: tensor<3x1xf32> {omnibal.role = "input", omnibal.index = 1 : i64})
    -> (tensor<3x3xf32> {omnibal.role = "output", omnibal.index = 0 : i64}) {
  %0 = omnibal.add %x, %v : (tensor<3x3x1xf32>, tensor<3x1xf32>) -> tensor<3x3x1xf32>
  %1 = omnibal.reshape %0 : (tensor<3x3x1xf32>) -> tensor<3x3xf32>
  %2 = omnibal.mul %1, %v : (tensor<3x3xf32>, tensor<3x1xf32>) -> tensor<3x3xf32>
  return %2 : tensor<3x3xf32>
})",
                       0, 1, GetParam());
  EXPECT_EQ(module.count("f", "fused"), 1);
  module.check("f", 0, 1);
  module.check("square", 0, 1);
}

/// %b is one number a column for its reader and is read outside too: all of it must be written.
TEST_P(FusionLegality, ColumnsThatOthersRead) {
  LoweredModule module(R"(
func.func @f(%x: tensor<3x2x2xf32> {omnibal.role = "input", omnibal.index = 0 : i64},
             %m: tensor<2x2xf32> {omnibal.role = "input", omnibal.index = 1 : i64})
    -> (tensor<3x2x2xf32> {omnibal.role = "output", omnibal.index = 0 : i64},
        tensor<2x2xf32> {omnibal.role = "output", omnibal.index = 1 : i64},
        tensor<4xf32> {omnibal.role = "output", omnibal.index = 2 : i64}) {
  %b = omnibal.exp %m : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %s = omnibal.add %x, %b : (tensor<3x2x2xf32>, tensor<2x2xf32>) -> tensor<3x2x2xf32>
  %c = omnibal.neg %m : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %v = omnibal.reshape %c : (tensor<2x2xf32>) -> tensor<4xf32>
  %t = omnibal.mul %s, %c : (tensor<3x2x2xf32>, tensor<2x2xf32>) -> tensor<3x2x2xf32>
  return %t, %b, %v : tensor<3x2x2xf32>, tensor<2x2xf32>, tensor<4xf32>
})",
                       0, 1, GetParam());
  module.check("f", 0, 1);
}

/// Rows of -inf give NaN, which a guard must see: nothing may assume that numbers are finite.
TEST_P(FusionLegality, NotANumberIsSeen) {
  for (int64_t cols : {2, 3, 16, 21}) {
    SCOPED_TRACE(cols);
    std::string type = "64x" + std::to_string(cols);
    LoweredModule module(substitute(R"(
func.func @f(%x: tensor<XTYPExf32> {omnibal.role = "input", omnibal.index = 0 : i64},
             %r: tensor<64x1xf32> {omnibal.role = "input", omnibal.index = 1 : i64})
    -> (tensor<XTYPExf32> {omnibal.role = "output", omnibal.index = 0 : i64}) {
  %zero = omnibal.constant dense<0.0> : tensor<f32>
  %low = omnibal.constant dense<0xFF800000> : tensor<f32>
  %c = omnibal.compare %r, %zero {predicate = 3 : i32} : (tensor<64x1xf32>, tensor<f32>) -> tensor<64x1xi1>
  %s = omnibal.select %c, %x, %low : (tensor<64x1xi1>, tensor<XTYPExf32>, tensor<f32>) -> tensor<XTYPExf32>
  %p = omnibal.softmax %s {axis = -1 : i64} : (tensor<XTYPExf32>) -> tensor<XTYPExf32>
  %n = omnibal.is_nan %p : (tensor<XTYPExf32>) -> tensor<XTYPExi1>
  %g = omnibal.select %n, %zero, %p : (tensor<XTYPExi1>, tensor<f32>, tensor<XTYPExf32>) -> tensor<XTYPExf32>
  return %g : tensor<XTYPExf32>
})",
                                    {{"XTYPE", type}}),
                         0, 1, GetParam());
    module.check("f", 0, 1);
  }
}

} // namespace
