//===- LayoutChainTest.cpp ---------------------------------------------------------------===//
#include "passes/raise/match/LayoutChain.h"
#include <gtest/gtest.h>

using namespace omnibal;
using namespace omnibal::raise;

namespace {
const SymbolicDim V = SymbolicDim::tiles(), N = SymbolicDim::tokens();
SymbolicDim times(SymbolicDim dim, int64_t factor) { return *multiply(dim, factor); }

TEST(LayoutChain, IdentityCostsNothing) {
  LayoutChain chain({V, 17, 48});
  EXPECT_EQ(chain.cost(), 0);
  ASSERT_TRUE(chain.reshape({V, 17, 4, 12}));
  ASSERT_TRUE(chain.reshape({V, 17, 48}));
  EXPECT_EQ(chain.cost(), 0);
}

TEST(LayoutChain, HeadSplitIsReshapeAndTranspose) {
  LayoutChain chain({1, N, 64});
  ASSERT_TRUE(chain.reshape({1, N, 4, 16}));
  chain.transpose({0, 2, 1, 3});
  EXPECT_EQ(chain.cost(), 2);
}

TEST(LayoutChain, KeyTransposeThroughThreeDimensionsAndBackIsNothing) {
  LayoutChain chain({V, 4, 17, 12});
  ASSERT_TRUE(chain.reshape({times(V, 4), 17, 12}));
  chain.transpose({0, 2, 1});
  ASSERT_TRUE(chain.reshape({V, 4, 12, 17}));
  EXPECT_EQ(chain.cost(), 1);
  chain.transpose({0, 1, 3, 2});
  EXPECT_EQ(chain.cost(), 0);
}

TEST(LayoutChain, PixelShuffleIsThreeSteps) {
  LayoutChain chain({V, 16, 48});
  ASSERT_TRUE(chain.reshape({V, 4, 4, 48}));
  ASSERT_TRUE(chain.reshape({V, 4, 2, 96}));
  chain.transpose({0, 2, 1, 3});
  ASSERT_TRUE(chain.reshape({V, 2, 2, 192}));
  chain.transpose({0, 2, 1, 3});
  ASSERT_TRUE(chain.reshape({V, 4, 192}));
  EXPECT_EQ(chain.cost(), 3);
}

TEST(LayoutChain, DimensionsOfOneMoveFreely) {
  LayoutChain chain({1, N, 4, 16});
  chain.transpose({1, 0, 2, 3});
  ASSERT_TRUE(chain.reshape({N, 4, 1, 16}));
  EXPECT_EQ(chain.cost(), 1); // only the shape differs
}

TEST(LayoutChain, SplitThatArithmeticCannotFollowFails) {
  LayoutChain chain({V, 6});
  EXPECT_FALSE(chain.reshape({4, V, 6}));
  EXPECT_FALSE(chain.reshape({V, 4}));
  EXPECT_TRUE(chain.reshape({times(V, 2), 3}));
}
} // namespace
