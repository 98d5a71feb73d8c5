//===- FusedKernelTest.cpp - Generated kernels against the interpreter -------------------===//
#include "test/support/cuda_emulation/Control.h"
#include "test/unit/passes/lower/LoweredRun.h"

using omnibal::test::LoweredModule;

namespace {

/// `body` over %x, %y : [1, N, cols], %w : [cols]; the names of results with their types follow.
std::string withTypes(const std::string &text, int64_t cols) {
  std::string c = std::to_string(cols);
  return "#n = affine_map<(d0, d1) -> (1, d1, " + c +
         ")>\n#r = affine_map<(d0, d1) -> (1, d1, 1)>\n"
         "!x = tensor<1x?x" +
         c + "xf32, #n>\n!r = tensor<1x?x1xf32, #r>\n!w = tensor<" + c + "xf32>\n" + text;
}

const char *const rmsNorm = R"(
func.func @f(%x: !x {omnibal.role = "input", omnibal.index = 0 : i64},
             %w: !w {omnibal.role = "parameter", omnibal.index = 0 : i64})
    -> (!x {omnibal.role = "output", omnibal.index = 0 : i64}) {
  %0 = omnibal.rms_norm %x, %w {axis = -1 : i64, epsilon = 1.0e-6 : f64} : (!x, !w) -> !x
  return %0 : !x
})";

const char *const layerNorm = R"(
func.func @f(%x: !x {omnibal.role = "input", omnibal.index = 0 : i64},
             %w: !w {omnibal.role = "parameter", omnibal.index = 0 : i64},
             %b: !w {omnibal.role = "parameter", omnibal.index = 1 : i64})
    -> (!x {omnibal.role = "output", omnibal.index = 0 : i64}) {
  %0 = omnibal.layer_norm %x, %w, %b {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (!x, !w, !w) -> !x
  return %0 : !x
})";

const char *const softmaxRows = R"(
func.func @f(%x: !x {omnibal.role = "input", omnibal.index = 0 : i64})
    -> (!x {omnibal.role = "output", omnibal.index = 0 : i64},
        !x {omnibal.role = "output", omnibal.index = 1 : i64}) {
  %0 = omnibal.softmax %x {axis = -1 : i64} : (!x) -> !x
  %1 = omnibal.log_softmax %x {axis = 2 : i64} : (!x) -> !x
  return %0, %1 : !x, !x
})";

/// Gradients of rms_norm by hand: dx, dw; and a bias gradient that reads the same rows.
const char *const rmsNormGrad = R"(
func.func @f(%x: !x {omnibal.role = "input", omnibal.index = 0 : i64},
             %w: !w {omnibal.role = "parameter", omnibal.index = 0 : i64},
             %dy: !x {omnibal.role = "grad_output", omnibal.index = 0 : i64})
    -> (!x {omnibal.role = "grad_input", omnibal.index = 0 : i64},
        !w {omnibal.role = "parameter_grad", omnibal.index = 0 : i64},
        !w {omnibal.role = "parameter_grad", omnibal.index = 1 : i64}) {
  %eps = omnibal.constant dense<1.0e-5> : tensor<f32>
  %xx = omnibal.mul %x, %x : (!x, !x) -> !x
  %ms = omnibal.reduce %xx {kind = 1 : i32, axes = array<i64: 2>, keepdims} : (!x) -> !r
  %me = omnibal.add %ms, %eps : (!r, tensor<f32>) -> !r
  %rs = omnibal.rsqrt %me : (!r) -> !r
  %n = omnibal.mul %x, %rs : (!x, !r) -> !x
  %dyn = omnibal.mul %dy, %n : (!x, !x) -> !x
  %dw = omnibal.reduce %dyn {kind = 0 : i32, axes = array<i64: 0, 1>} : (!x) -> !w
  %db = omnibal.reduce %dy {kind = 0 : i32, axes = array<i64: 0, 1>} : (!x) -> !w
  %dn = omnibal.mul %dy, %w : (!x, !w) -> !x
  %p = omnibal.mul %dn, %n : (!x, !x) -> !x
  %m = omnibal.reduce %p {kind = 1 : i32, axes = array<i64: 2>, keepdims} : (!x) -> !r
  %q = omnibal.mul %n, %m : (!x, !r) -> !x
  %s = omnibal.sub %dn, %q : (!x, !x) -> !x
  %dx = omnibal.mul %s, %rs : (!x, !r) -> !x
  return %dx, %dw, %db : !x, !w, !w
})";

const char *const functions = R"(
func.func @f(%x: !x {omnibal.role = "input", omnibal.index = 0 : i64},
             %y: !x {omnibal.role = "input", omnibal.index = 1 : i64})
    -> (!x {omnibal.role = "output", omnibal.index = 0 : i64},
        !x {omnibal.role = "output", omnibal.index = 1 : i64},
        !x {omnibal.role = "output", omnibal.index = 2 : i64},
        !x {omnibal.role = "output", omnibal.index = 3 : i64},
        !x {omnibal.role = "output", omnibal.index = 4 : i64}) {
  %0 = omnibal.gelu %x : (!x) -> !x
  %1 = omnibal.gelu %x {tanh} : (!x) -> !x
  %2 = omnibal.silu %x : (!x) -> !x
  %3 = omnibal.gelu_grad %x, %y : (!x, !x) -> !x
  %4 = omnibal.silu_grad %x, %y : (!x, !x) -> !x
  return %0, %1, %2, %3, %4 : !x, !x, !x, !x, !x
})";

/// No reduction of a row: blocks have parts of it.
const char *const columnSums = R"(
func.func @f(%x: !x {omnibal.role = "input", omnibal.index = 0 : i64},
             %w: !w {omnibal.role = "parameter", omnibal.index = 0 : i64},
             %r: !r {omnibal.role = "input", omnibal.index = 1 : i64})
    -> (!x {omnibal.role = "output", omnibal.index = 0 : i64},
        !w {omnibal.role = "parameter_grad", omnibal.index = 0 : i64}) {
  %0 = omnibal.mul %x, %w : (!x, !w) -> !x
  %1 = omnibal.add %0, %r : (!x, !r) -> !x
  %2 = omnibal.reduce %1 {kind = 0 : i32, axes = array<i64: 0, 1>} : (!x) -> !w
  return %1, %2 : !x, !w
})";
const char *const columnsAndRows = R"(
func.func @f(%x: !x {omnibal.role = "input", omnibal.index = 0 : i64},
             %w: !w {omnibal.role = "parameter", omnibal.index = 0 : i64})
    -> (!x {omnibal.role = "output", omnibal.index = 0 : i64}) {
  %0 = omnibal.mul %x, %w : (!x, !w) -> !x
  return %0 : !x
})";

class FusedKernel : public testing::TestWithParam<int64_t> {};

TEST_P(FusedKernel, AgreesWithTheInterpreter) {
  for (const char *text : {rmsNorm, layerNorm, softmaxRows, rmsNormGrad, functions}) {
    LoweredModule module(withTypes(text, GetParam()), 0, 100);
    SCOPED_TRACE(text);
    if (GetParam() > 1) { // a row of one element has nothing to reduce
      EXPECT_EQ(module.count("f", "fused"), 1);
    }
    for (int64_t tokens : {0, 1, 37, 100})
      module.check("f", 0, tokens, 2e-5);
  }
}
/// Elementary functions that the generated code computes itself: a few units in the last place.
TEST(FusedKernel, FunctionsAreAccurate) {
  LoweredModule module(withTypes(functions, 64), 0, 500);
  module.check("f", 0, 500, 1e-6);
}
INSTANTIATE_TEST_SUITE_P(Columns, FusedKernel, testing::Values(1, 3, 16, 21, 48, 333));

/// The same groups as GPU kernels on the emulated device. The numbers of columns are for a part of
/// a warp, a warp, several warps, and more than a block's registers hold.
class GpuFusedKernel : public testing::TestWithParam<int64_t> {};

TEST_P(GpuFusedKernel, AgreesWithTheInterpreter) {
  const int64_t cap = GetParam() < 2000 ? 100 : 9;
  for (const char *text :
       {rmsNorm, layerNorm, softmaxRows, rmsNormGrad, columnSums, columnsAndRows, functions}) {
    LoweredModule module(withTypes(text, GetParam()), 0, cap, "cuda");
    SCOPED_TRACE(text);
    for (int64_t tokens : {int64_t(0), int64_t(1), cap / 3, cap})
      module.check("f", 0, tokens, 2e-5);
  }
}

/// Another order of blocks and threads would show a missing barrier, or a sum whose order is
/// chance.
TEST_P(GpuFusedKernel, OrderOfThreadsDoesNotMatter) {
  for (const char *text : {layerNorm, softmaxRows, rmsNormGrad}) {
    LoweredModule module(withTypes(text, GetParam()), 0, 37, "cuda");
    const int64_t tokens = GetParam() < 2000 ? 37 : 5;
    const std::string expected = module.results("f", 0, tokens, 1);
    for (uint64_t seed : {1, 2}) {
      omnibal::emulation::setOrder(seed);
      EXPECT_EQ(module.results("f", 0, tokens, 1), expected) << text;
    }
    omnibal::emulation::setOrder(0);
  }
}
INSTANTIATE_TEST_SUITE_P(Columns, GpuFusedKernel,
                         testing::Values(1, 3, 16, 21, 48, 333, 1000, 2560, 20000));

TEST(GpuFusedKernel, FunctionsAreAccurate) {
  LoweredModule module(withTypes(functions, 64), 0, 500, "cuda");
  module.check("f", 0, 500, 1e-6);
}

/// 1024 columns are 16 of each of 64 threads: a norm reads its row and its weight once, in vectors.
TEST(GpuFusedKernel, RowStaysInRegisters) {
  LoweredModule module(withTypes(rmsNorm, 1024), 0, 100, "cuda");
  auto count = [&](const std::string &text) {
    int found = 0;
    for (size_t at = 0; (at = module.ptx().find(text, at)) != std::string::npos; ++at)
      ++found;
    return found;
  };
  EXPECT_EQ(count("ld.global.nc.v4"), 8);
  EXPECT_EQ(count("ld.global"), 8);
  EXPECT_EQ(count("st.global.v4"), 4);
  EXPECT_EQ(count("bar.sync"), 1);
}

/// No function of a device library is left, and the assembler takes it for every device.
TEST(GpuFusedKernel, PtxAssembles) {
  for (int64_t cols : {21, 1000, 20000})
    for (const char *text : {rmsNorm, layerNorm, softmaxRows, rmsNormGrad, functions}) {
      LoweredModule module(withTypes(text, cols), 0, 100, "cuda");
      EXPECT_EQ(module.ptx().find("__nv"), std::string::npos);
      EXPECT_EQ(module.ptx().find(".extern .func"), std::string::npos);
      EXPECT_EQ(omnibal::test::assemblePtx(module.ptx()), "");
    }
}

} // namespace
