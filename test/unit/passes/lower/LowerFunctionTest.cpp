//===- LowerFunctionTest.cpp - Whole functions -------------------------------------------===//
#include "test/support/TemporaryFolder.h"
#include "test/unit/passes/lower/LoweredRun.h"
#include <set>

using omnibal::test::LoweredModule;

namespace {

/// A pre-norm block: 2 query heads and 1 key head of 8, SwiGLU.
const char *const block = R"(
#x = affine_map<(d0, d1) -> (1, d1, 16)>
#kv = affine_map<(d0, d1) -> (1, d1, 8)>
#m = affine_map<(d0, d1) -> (1, d1, 24)>
#h = affine_map<(d0, d1) -> (1, d1, 2, 8)>
#hk = affine_map<(d0, d1) -> (1, d1, 1, 8)>
#q = affine_map<(d0, d1) -> (1, 2, d1, 8)>
#k = affine_map<(d0, d1) -> (1, 1, d1, 8)>
#l = affine_map<(d0, d1) -> (1, 2, d1)>
#i = affine_map<(d0, d1) -> (d1)>
#c = affine_map<(d0, d1) -> (d1 + 1)>
!x = tensor<1x?x16xf32, #x>
!kv = tensor<1x?x8xf32, #kv>
!m = tensor<1x?x24xf32, #m>
!h = tensor<1x?x2x8xf32, #h>
!hk = tensor<1x?x1x8xf32, #hk>
!q = tensor<1x2x?x8xf32, #q>
!k = tensor<1x1x?x8xf32, #k>
!l = tensor<1x2x?xf32, #l>
!i = tensor<?xi32, #i>
!c = tensor<?xi32, #c>
!t = tensor<64x8xf32>
func.func @forward(%x: !x {omnibal.role = "input", omnibal.index = 0 : i64},
    %n1: tensor<16xf32> {omnibal.role = "parameter", omnibal.index = 0 : i64},
    %wq: tensor<16x16xf32> {omnibal.role = "parameter", omnibal.index = 1 : i64},
    %bq: tensor<16xf32> {omnibal.role = "parameter", omnibal.index = 2 : i64},
    %wk: tensor<8x16xf32> {omnibal.role = "parameter", omnibal.index = 3 : i64},
    %wv: tensor<8x16xf32> {omnibal.role = "parameter", omnibal.index = 4 : i64},
    %wo: tensor<16x16xf32> {omnibal.role = "parameter", omnibal.index = 5 : i64},
    %n2: tensor<16xf32> {omnibal.role = "parameter", omnibal.index = 6 : i64},
    %wg: tensor<24x16xf32> {omnibal.role = "parameter", omnibal.index = 7 : i64},
    %wu: tensor<24x16xf32> {omnibal.role = "parameter", omnibal.index = 8 : i64},
    %wd: tensor<16x24xf32> {omnibal.role = "parameter", omnibal.index = 9 : i64},
    %cos: !t {omnibal.role = "parameter", omnibal.index = 10 : i64},
    %sin: !t {omnibal.role = "parameter", omnibal.index = 11 : i64})
    -> (!x {omnibal.role = "output", omnibal.index = 0 : i64},
        !q {omnibal.role = "saved", omnibal.index = 0 : i64},
        !l {omnibal.role = "saved", omnibal.index = 1 : i64},
        !m {omnibal.role = "saved", omnibal.index = 2 : i64}) {
  %pos = omnibal.batch_value "positions" : !i
  %cu = omnibal.batch_value "cu_seqlens" : !c
  %a = omnibal.rms_norm %x, %n1 {axis = -1 : i64, epsilon = 1.0e-6 : f64} : (!x, tensor<16xf32>) -> !x
  %q0 = omnibal.linear %a, %wq, %bq : (!x, tensor<16x16xf32>, tensor<16xf32>) -> !x
  %k0 = omnibal.linear %a, %wk : (!x, tensor<8x16xf32>) -> !kv
  %v0 = omnibal.linear %a, %wv : (!x, tensor<8x16xf32>) -> !kv
  %q1 = omnibal.reshape %q0 : (!x) -> !h
  %k1 = omnibal.reshape %k0 : (!kv) -> !hk
  %v1 = omnibal.reshape %v0 : (!kv) -> !hk
  %q2 = omnibal.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (!h) -> !q
  %k2 = omnibal.transpose %k1 {permutation = array<i64: 0, 2, 1, 3>} : (!hk) -> !k
  %v2 = omnibal.transpose %v1 {permutation = array<i64: 0, 2, 1, 3>} : (!hk) -> !k
  %q3 = omnibal.rope %q2, %pos, %cos, %sin : (!q, !i, !t, !t) -> !q
  %k3 = omnibal.rope %k2, %pos, %cos, %sin : (!k, !i, !t, !t) -> !k
  %o, %lse = omnibal.attention %q3, %k3, %v2, %cu {scale = 0.35 : f64, mask_kind = 2 : i32,
      operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>} : (!q, !k, !k, !c) -> (!q, !l)
  %o1 = omnibal.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : (!q) -> !h
  %o2 = omnibal.reshape %o1 : (!h) -> !x
  %o3 = omnibal.linear %o2, %wo : (!x, tensor<16x16xf32>) -> !x
  %r = omnibal.add %x, %o3 : (!x, !x) -> !x
  %b = omnibal.rms_norm %r, %n2 {axis = -1 : i64, epsilon = 1.0e-6 : f64} : (!x, tensor<16xf32>) -> !x
  %g = omnibal.linear %b, %wg : (!x, tensor<24x16xf32>) -> !m
  %u = omnibal.linear %b, %wu : (!x, tensor<24x16xf32>) -> !m
  %s = omnibal.silu %g : (!m) -> !m
  %gu = omnibal.mul %s, %u : (!m, !m) -> !m
  %d = omnibal.linear %gu, %wd : (!m, tensor<16x24xf32>) -> !x
  %y = omnibal.add %r, %d : (!x, !x) -> !x
  return %y, %o, %lse, %g : !x, !q, !l, !m
})";

TEST(LowerFunction, TransformerBlockForward) {
  LoweredModule module(block, 0, 64);
  for (int64_t tokens : {0, 1, 5, 64})
    module.check("forward", 0, tokens);
  // Norm, norm, SwiGLU; seven products with both residuals inside; nothing is transposed.
  EXPECT_EQ(module.count("forward", "fused"), 3);
  EXPECT_EQ(module.count("forward", "gemm"), 7);
  EXPECT_EQ(module.function("forward").calls.size(), 3u + 7u + 2u + 1u + 2u);
}

const char *const model = OMNIBAL_TEST_DATA "/../lit/Inputs/form-l.mlir";

/// Every function of a small vision-language model: embedding, blocks, projector, merge, head with
/// its loss; forward, backward with all gradients, evaluation.
class WholeModel : public testing::TestWithParam<const char *> {};

TEST_P(WholeModel, EveryFunctionAgreesWithTheInterpreter) {
  LoweredModule module = LoweredModule::fromLayers(model, GetParam(), 4, 20);
  int backwards = 0;
  for (const std::string &name : module.functions()) {
    backwards += name.find("backward") != std::string::npos;
    for (auto [tiles, tokens] : {std::pair(0, 5), {1, 1}, {3, 14}, {4, 20}})
      module.check(name, tiles, tokens);
  }
  EXPECT_GE(backwards, 5);
}

/// The generated code for GPUs on the emulated device, the rest by the host backend.
TEST_P(WholeModel, EveryFunctionAgreesWithTheInterpreterOnCuda) {
  LoweredModule module = LoweredModule::fromLayers(model, GetParam(), 4, 20, "cuda");
  for (const std::string &name : module.functions())
    for (auto [tiles, tokens] : {std::pair(0, 5), {1, 1}, {4, 20}})
      module.check(name, tiles, tokens);
}

/// With activations and parameters in bfloat16: every value that lies in it is off by 2^-9 of
/// itself at most; weights are random numbers about 1, so that errors grow from product to product,
/// more so where backward computes the forward again from a rounded input.
TEST_P(WholeModel, EveryFunctionInBFloat16IsNearTheInterpreter) {
  LoweredModule module = LoweredModule::fromLayers(model, GetParam(), 4, 20, "cuda", "bfloat16");
  bool again = std::string(GetParam()) == "full";
  for (const std::string &name : module.functions())
    for (auto [tiles, tokens] : {std::pair(0, 5), {3, 14}})
      module.check(name, tiles, tokens, again ? 0.15 : 0.03);
}

/// What may be left beside products, attention and generated kernels.
TEST_P(WholeModel, NoElementwiseCallStandsAlone) {
  LoweredModule module = LoweredModule::fromLayers(model, GetParam(), 4, 20);
  const std::set<std::string> kernels{"gemm",
                                      "attention",
                                      "attention_backward",
                                      "rope",
                                      "embedding",
                                      "embedding_backward",
                                      "image_merge",
                                      "image_merge_backward",
                                      "linear_cross_entropy",
                                      "fused",
                                      "fill",
                                      "reduce",
                                      "copy"};
  for (const std::string &name : module.functions())
    for (const omnibal::rt::KernelCall &call : module.function(name).calls)
      EXPECT_TRUE(kernels.contains(call.kernel)) << name << ": " << call.kernel;
}
INSTANTIATE_TEST_SUITE_P(Remat, WholeModel, testing::Values("keep", "full"));

/// The model with GELU by tanh, which the library of target cuda computes beside products.
std::string withTanh(const omnibal::test::TemporaryFolder &folder) {
  std::string text = omnibal::test::readFile(model);
  const std::string from = "omnibal.gelu %f :", to = "omnibal.gelu %f {tanh} :";
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  omnibal::test::writeFile(folder / "tanh.mlir", text);
  return folder / "tanh.mlir";
}

TEST(LowerFunction, ProductsOfCudaTakeGradientsOfGeluAndBias) {
  const omnibal::test::TemporaryFolder folder;
  const std::string path = withTanh(folder);
  LoweredModule inFloat32 = LoweredModule::fromLayers(path, "keep", 4, 20, "cuda");
  LoweredModule inBFloat16 = LoweredModule::fromLayers(path, "keep", 4, 20, "cuda", "bfloat16");
  LoweredModule host = LoweredModule::fromLayers(path, "keep", 4, 20);
  auto count = [](const LoweredModule &module, const std::string &name,
                  const std::string &operand) {
    int found = 0;
    for (const omnibal::rt::KernelCall &call : module.function(name).calls)
      for (const auto &[other, view] : call.operands)
        found += call.kernel == "gemm" && other == operand;
    return found;
  };
  for (const std::string &name : inFloat32.functions()) {
    for (auto [tiles, tokens] : {std::pair(0, 5), {1, 1}, {4, 20}})
      inFloat32.check(name, tiles, tokens);
    inBFloat16.check(name, 3, 14, 0.03);
  }
  EXPECT_EQ(count(inFloat32, "vision_1.forward", "pre"), 1);
  EXPECT_EQ(count(inFloat32, "vision_1.backward", "at"), 1);
  // Of fc1; that of the merged projection is summed where it is put together.
  EXPECT_EQ(count(inFloat32, "vision_1.backward", "sum_a"), 1);
  for (const char *operand : {"pre", "at", "sum_a", "sum_b"})
    EXPECT_EQ(count(host, "vision_1.forward", operand) + count(host, "vision_1.backward", operand),
              0)
        << operand;
  const omnibal::rt::Function &f = inBFloat16.function("vision_1.backward");
  for (const omnibal::rt::KernelCall &call : f.calls)
    for (const auto &[operand, view] : call.operands) {
      if (call.kernel == "gemm" && operand == "sum_a") {
        EXPECT_EQ(f.buffers[view.buffer].role, omnibal::rt::Role::ParameterGrad);
        EXPECT_EQ(f.buffers[view.buffer].dtype, omnibal::rt::DType::F32);
      }
      if (call.kernel == "gemm" && operand == "at") {
        EXPECT_EQ(f.buffers[view.buffer].dtype, omnibal::rt::DType::BF16);
      }
    }
}

TEST(LowerFunction, StorageOfATransformerBlock) {
  LoweredModule module(block, 0, 64, "cuda", "bfloat16");
  using omnibal::rt::DType;
  const omnibal::rt::Function &f = module.function("forward");
  auto dtypes = [&](const std::string &kernel, const std::string &operand) {
    std::set<DType> found;
    for (const omnibal::rt::KernelCall &call : f.calls)
      for (const auto &[name, view] : call.operands)
        if (call.kernel == kernel && name == operand)
          found.insert(f.buffers[view.buffer].dtype);
    return found;
  };
  const std::set<DType> inBFloat16{DType::BF16}, inFloat32{DType::F32};
  for (const char *operand : {"a", "b", "c", "bias", "residual"})
    EXPECT_EQ(dtypes("gemm", operand), inBFloat16) << operand;
  for (const char *operand : {"q", "k", "v", "out"})
    EXPECT_EQ(dtypes("attention", operand), inBFloat16) << operand;
  // Statistics and angles stay in float32; the saved log-sum-exp was not marked, so it is rounded.
  EXPECT_EQ(dtypes("attention", "lse"), inFloat32);
  EXPECT_EQ(dtypes("rope", "cos"), inFloat32);
  EXPECT_EQ(dtypes("rope", "x"), inBFloat16);
  EXPECT_EQ(dtypes("fused", "out0"), inBFloat16);
  for (int32_t i = 0; i < f.formals; ++i)
    EXPECT_EQ(f.buffers[i].dtype,
              f.buffers[i].role == omnibal::rt::Role::Batch ? DType::I32 : DType::BF16);
}

/// The head of a model with few tokens to choose from: [N, 64] to [N, 5].
const char *const narrowHead = R"(
#x = affine_map<(d0, d1) -> (d1, 64)>
#i = affine_map<(d0, d1) -> (d1)>
!x = tensor<?x64xf32, #x>
!i = tensor<?xi32, #i>
!f = tensor<?xf32, #i>
func.func @backward(%x: !x {omnibal.role = "input", omnibal.index = 0 : i64},
    %w: tensor<5x64xf32> {omnibal.role = "parameter", omnibal.index = 0 : i64})
    -> (!f {omnibal.role = "loss", omnibal.index = 0 : i64},
        !x {omnibal.role = "grad_input", omnibal.index = 0 : i64}) {
  %t = omnibal.batch_value "targets" : !i
  %l, %d, %dw = omnibal.linear_cross_entropy_grad %x, %w, %t {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0>} : (!x, tensor<5x64xf32>, !i) -> (!f, !x, tensor<5x64xf32>)
  return %l, %d : !f, !x
})";

TEST(LowerFunction, ScratchOfANarrowHeadHoldsOneTokenOnADevice) {
  LoweredModule module(narrowHead, 0, 1, "cuda");
  const omnibal::rt::Function &f = module.function("backward");
  int64_t bytes = 0;
  for (const omnibal::rt::KernelCall &call : f.calls)
    for (const auto &[operand, view] : call.operands)
      if (call.kernel == "linear_cross_entropy" && operand == "scratch")
        bytes =
            f.buffers[view.buffer].shape[0].constant * f.buffers[view.buffer].shape[1].constant * 4;
  // The order of one row and how many there are, five parts at places of 16 bytes, logits, a row
  // of hidden and its gradient.
  EXPECT_GE(bytes, 2 * 4 + 5 * 16 + 5 * 4 + 2 * 64 * 4);
}

TEST(LowerFunction, SameBytesAndSameResultsEveryTime) {
  LoweredModule first = LoweredModule::fromLayers(model, "keep", 4, 20);
  LoweredModule second = LoweredModule::fromLayers(model, "keep", 4, 20);
  EXPECT_EQ(first.library(), second.library());
  for (const std::string &name : first.functions()) {
    std::string one = first.results(name, 3, 14, 1);
    EXPECT_EQ(one, second.results(name, 3, 14, 2)) << name;
  }
}

} // namespace
