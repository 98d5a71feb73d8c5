#include "runtime/backends/cuda/libraries/Product.h"
#include <gtest/gtest.h>
#include <vector>

using namespace omnibal::rt::cuda;

namespace {

/// [m, k] x [k, n] with dense rows, of bfloat16.
GemmShape dense(int64_t m, int64_t n, int64_t k) {
  GemmShape s;
  s.m = m, s.n = n, s.k = k;
  s.type = s.resultType = Element::BF16;
  s.a.strides = {k, 1};
  s.b.strides = {n, 1};
  s.c.strides = s.residual.strides = s.pre.strides = s.at.strides = {n, 1};
  return s;
}

alignas(64) std::byte memory[6][1 << 16];
const GemmData all{memory[0], memory[1], memory[2], memory[3], memory[4], memory[5]};

} // namespace

TEST(Product, RowsAreTheTransposedColumns) {
  GemmShape s = dense(16, 24, 8);
  s.b.strides = {1, 8}; // a weight [24, 8]
  auto plan = planProduct(s, {all.a, all.b, all.c});
  ASSERT_TRUE(plan);
  const Product &p = plan->product;
  EXPECT_EQ(std::tuple(p.m, p.n, p.k), std::tuple(24, 16, 8));
  EXPECT_TRUE(p.transposedA);
  EXPECT_FALSE(p.transposedB);
  EXPECT_EQ(std::tuple(p.lineA, p.lineB, p.lineD), std::tuple(8, 8, 24));
  EXPECT_EQ(plan->calls.size(), 1u);
  EXPECT_EQ(plan->calls[0].a, all.b);
  EXPECT_EQ(p.alignment, 16);
  EXPECT_FALSE(plan->rest.any());
}

TEST(Product, AWeightGradientAddsToFloat32) {
  GemmShape s = dense(24, 8, 16); // dy^T x
  s.a.strides = {1, 24};
  s.resultType = Element::F32;
  s.accumulate = true;
  auto plan = planProduct(s, {all.a, all.b, all.c});
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->product.beta);
  EXPECT_EQ(plan->calls[0].c, all.c);
  EXPECT_EQ(plan->calls[0].d, all.c);
  EXPECT_TRUE(plan->product.transposedB);
}

TEST(Product, BatchesOfOneWeightAreRows) {
  GemmShape s = dense(16, 24, 8);
  s.batchRank = 2;
  s.batch[0] = 3, s.batch[1] = 5;
  s.a.batch[0] = 5 * 16 * 8, s.a.batch[1] = 16 * 8;
  s.c.batch[0] = 5 * 16 * 24, s.c.batch[1] = 16 * 24;
  auto plan = planProduct(s, {all.a, all.b, all.c});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->product.n, 3 * 5 * 16);
  EXPECT_EQ(plan->product.batches, 1);
}

TEST(Product, IrregularBatchesAreSeveralCalls) {
  GemmShape s = dense(4, 8, 8);
  s.batchRank = 2;
  s.batch[0] = 3, s.batch[1] = 5;
  s.a.batch[0] = 1000, s.a.batch[1] = 32;
  s.b.batch[0] = 64, s.b.batch[1] = 0;
  s.c.batch[0] = 400, s.c.batch[1] = 32;
  auto plan = planProduct(s, {all.a, all.b, all.c});
  ASSERT_TRUE(plan);
  // The weight of each of the three is shared by its five, whose rows go on.
  EXPECT_EQ(plan->product.n, 20);
  EXPECT_EQ(plan->product.batches, 3);
  s.a.batch[1] = 40;
  plan = planProduct(s, {all.a, all.b, all.c});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->product.batches, 5);
  ASSERT_EQ(plan->calls.size(), 3u);
  EXPECT_EQ(plan->calls[2].b, memory[0] + 2 * 2000);
  EXPECT_EQ(plan->calls[2].a, memory[1] + 2 * 128);
  EXPECT_EQ(plan->calls[2].d, memory[2] + 2 * 800);
}

TEST(Product, WhatTheEpilogueTakes) {
  GemmShape s = dense(16, 24, 8);
  auto epilogue = [&](GemmActivation activation, bool bias, bool residual, bool pre) {
    s.activation = activation;
    auto plan = planProduct(s, {all.a, all.b, all.c, bias ? all.bias : nullptr,
                                residual ? all.residual : nullptr, pre ? all.pre : nullptr});
    const GemmRest r = plan ? plan->rest : GemmRest{};
    return std::tuple(plan ? plan->product.epilogue : 0, plan && plan->product.beta,
                      std::string(r.bias ? "b" : "") + (r.activation ? "a" : "") +
                          (r.residual ? "r" : "") + (r.fromPre ? "p" : ""));
  };
  using A = GemmActivation;
  EXPECT_EQ(epilogue(A::None, true, true, false), std::tuple(4u, true, ""));
  EXPECT_EQ(epilogue(A::None, false, false, true), std::tuple(1u, false, "p"));
  EXPECT_EQ(epilogue(A::GeluTanh, true, false, true), std::tuple(164u, false, ""));
  EXPECT_EQ(epilogue(A::GeluTanh, true, true, true), std::tuple(164u, false, "r"));
  EXPECT_EQ(epilogue(A::GeluTanh, false, false, false), std::tuple(32u, false, ""));
  EXPECT_EQ(epilogue(A::Relu, true, false, false), std::tuple(6u, false, ""));
  EXPECT_EQ(epilogue(A::Relu, true, false, true), std::tuple(4u, false, "ap"));
  EXPECT_EQ(epilogue(A::Gelu, true, false, true), std::tuple(4u, false, "ap"));
  EXPECT_EQ(epilogue(A::Gelu, true, true, false), std::tuple(4u, false, "ar"));
  EXPECT_EQ(epilogue(A::Silu, false, false, false), std::tuple(1u, false, "a"));
  s.type = s.resultType = Element::F32; // the library's tanh has too few digits for it
  EXPECT_EQ(epilogue(A::GeluTanh, true, false, false), std::tuple(4u, false, "a"));
  EXPECT_EQ(epilogue(A::Relu, true, false, false), std::tuple(6u, false, ""));
  s.type = Element::BF16; // the bias of its float32 results would have to be float32 too
  EXPECT_EQ(epilogue(A::None, true, false, false), std::tuple(1u, false, "b"));
  s = dense(16, 20, 8); // lines of the auxiliary matrix are multiples of 8
  EXPECT_EQ(epilogue(A::GeluTanh, true, false, true), std::tuple(4u, false, "ap"));
}

TEST(Product, DerivativesAndSums) {
  GemmShape s = dense(16, 24, 8);
  s.activation = GemmActivation::GeluTanh;
  GemmData d{all.a, all.b, all.c};
  d.at = all.pre;
  auto plan = planProduct(s, d);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->product.epilogue, 192u);
  EXPECT_TRUE(plan->product.isSpecial() && !plan->product.writesAux());
  EXPECT_EQ(plan->product.lineAux, 24);
  EXPECT_EQ(plan->calls[0].aux, all.pre);
  EXPECT_FALSE(plan->rest.any());
  plan = planProduct(s, d, Epilogues::Ordinary);
  EXPECT_EQ(plan->product.epilogue, 1u);
  EXPECT_TRUE(plan->rest.derivative && !plan->rest.activation);
  s.activation = GemmActivation::Gelu; // by erf, which the library lacks
  EXPECT_TRUE(planProduct(s, d)->rest.derivative);
  d.at = d.c;
  EXPECT_FALSE(planProduct(s, d)) << "the product would overwrite it";
  s = dense(16, 20, 8); // lines of 20
  s.activation = GemmActivation::GeluTanh;
  d.at = all.pre;
  EXPECT_EQ(planProduct(s, d)->product.epilogue, 1u);

  // dy^T x: the sum of dy is the library's of B; x^T dy: of A; turned when the result is.
  float sums[64];
  auto epilogue = [&](bool byColumns, bool ofA) {
    GemmShape weight = dense(24, 8, 16);
    weight.a.strides = {1, 24};
    weight.resultType = Element::F32;
    weight.accumulate = true;
    if (byColumns)
      weight.c.strides = {1, 24};
    GemmData data{all.a, all.b, all.c};
    (ofA ? data.sumA : data.sumB) = sums;
    auto made = planProduct(weight, data);
    EXPECT_TRUE(made->product.beta && made->sums == sums && !made->sumsApart);
    EXPECT_EQ(made->sumCount, ofA ? 24 : 8);
    return made->product.epilogue;
  };
  EXPECT_EQ(epilogue(false, true), 512u);
  EXPECT_EQ(epilogue(false, false), 256u);
  EXPECT_EQ(epilogue(true, true), 256u);
  EXPECT_EQ(epilogue(true, false), 512u);
  // The library's sums have the result's type, and one operand's alone.
  GemmShape weight = dense(24, 8, 16);
  d = {all.a, all.b, all.c};
  d.sumA = sums;
  EXPECT_TRUE(planProduct(weight, d)->sumsApart);
  weight.resultType = Element::F32;
  EXPECT_FALSE(planProduct(weight, d)->sumsApart);
  d.sumB = sums;
  EXPECT_TRUE(planProduct(weight, d)->sumsApart);
  d.sumB = nullptr;
  weight.alpha = 0.5f;
  EXPECT_TRUE(planProduct(weight, d)->sumsApart);
}

TEST(Product, AResidualInThePlaceOfTheResult) {
  GemmShape s = dense(16, 24, 8);
  auto plan = planProduct(s, {all.a, all.b, all.c, nullptr, all.c});
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->product.beta);
  s.activation = GemmActivation::Silu;
  EXPECT_FALSE(planProduct(s, {all.a, all.b, all.c, nullptr, all.c}))
      << "the product would overwrite it";
  EXPECT_TRUE(planProduct(s, {all.a, all.b, all.c, nullptr, all.c, all.pre}));
}

TEST(Product, WhatIsLeftToOurKernel) {
  GemmShape s = dense(16, 24, 8);
  const GemmData d{all.a, all.b, all.c};
  s.a.strides = {16, 2}; // no dense line
  EXPECT_FALSE(planProduct(s, d));
  s = dense(16, 24, 8);
  s.a.strides = {4, 1}; // rows that overlap
  EXPECT_FALSE(planProduct(s, d));
  s = dense(16, 24, 0);
  EXPECT_FALSE(planProduct(s, d));
  s = dense(16, 24, 8);
  s.batchRank = 1, s.batch[0] = 2;
  s.b.batch[0] = 5; // all add to one result
  EXPECT_FALSE(planProduct(s, d));
}

TEST(Product, AlignmentOfAllThatIsRead) {
  GemmShape s = dense(16, 24, 8);
  auto alignment = [&](GemmData d) { return planProduct(s, d)->product.alignment; };
  EXPECT_EQ(alignment({memory[0] + 4, all.b, all.c}), 4);
  EXPECT_EQ(alignment({all.a, all.b, all.c, memory[3] + 2}), 2);
  s.a.strides = {9, 1};
  EXPECT_EQ(alignment({all.a, all.b, all.c}), 2);
  s.m = 1; // one line: its distance to the next does not matter
  s.a.strides = {7, 1};
  EXPECT_EQ(alignment({all.a, all.b, all.c}), 16);
}

TEST(Product, SizesNearToEachOtherShareAKey) {
  auto key = [](int64_t m) {
    return algorithmKey(planProduct(dense(m, 2048, 512), {all.a, all.b, all.c})->product);
  };
  EXPECT_EQ(key(4096), "bf16>bf16 NN 2048 4096 512 epilogue 1 align 16");
  EXPECT_EQ(key(4097), key(6144));
  EXPECT_NE(key(4096), key(4097));
  EXPECT_EQ(key(65), key(128));
  EXPECT_NE(key(63), key(64));
}
