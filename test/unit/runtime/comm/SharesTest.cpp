// Sums of which each rank gets its share, and shares that everybody gets.
#include "test/unit/runtime/comm/Messages.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

class Shares : public Messages {};

/// Pieces with holes between them, some of nobody's size, some owners without any.
struct OwnedLayout {
  std::vector<std::pair<int64_t, int>> sizes; ///< elements, owner
  int64_t length() const {
    int64_t total = 0;
    for (auto [elements, owner] : sizes)
      total += elements + 1;
    return total;
  }
  std::vector<OwnedPiece> in(std::vector<float> &data) const {
    std::vector<OwnedPiece> pieces;
    int64_t at = 0;
    for (auto [elements, owner] : sizes) {
      pieces.push_back({data.data() + at, elements * int64_t{sizeof(float)}, owner});
      at += elements + 1;
    }
    return pieces;
  }
};
const OwnedLayout ownedLayouts[] = {{{}},
                                    {{{1, 2}}},
                                    {{{5, 0}, {0, 1}, {1000, 1}, {7, 0}, {3, 2}}},
                                    {{{(1 << 16) + 3, 1}, {1 << 17, 1}, {17, 0}}},
                                    {{{1 << 16, 0}, {1 << 16, 1}, {(3 << 20) + 1, 2}}}};

/// Each owner has the bits of the whole sum; elsewhere nothing changes.
TEST_P(Shares, SharesOfSumsHaveTheBitsOfSums) {
  for (const OwnedLayout &layout : ownedLayouts)
    onRanks(3, 60s, [&](Communicator &c) {
      std::vector<float> data(layout.length()), before, sum;
      for (size_t i = 0; i < data.size(); ++i)
        data[i] = term(c.rank(), static_cast<int64_t>(i));
      before = sum = data;
      ASSERT_TRUE(c.allReduce(std::span<float>(sum), c.everyone()));
      ASSERT_TRUE(c.reduceScatter(layout.in(data), c.everyone()));
      std::vector<float> expected = before;
      int64_t at = 0;
      for (auto [elements, owner] : layout.sizes) {
        if (owner == c.rank())
          std::copy_n(sum.begin() + at, elements, expected.begin() + at);
        at += elements + 1;
      }
      EXPECT_EQ(data, expected);
    });
}

TEST_P(Shares, OwnersTellTheOthersTheirPieces) {
  for (const OwnedLayout &layout : ownedLayouts)
    onRanks(3, 60s, [&](Communicator &c) {
      auto of = [&](int rank) {
        std::vector<float> data(layout.length());
        for (size_t i = 0; i < data.size(); ++i)
          data[i] = term(rank, static_cast<int64_t>(i));
        return data;
      };
      std::vector<float> data = of(c.rank()), expected = data;
      ASSERT_TRUE(c.allGather(layout.in(data), c.everyone()));
      int64_t at = 0;
      for (auto [elements, owner] : layout.sizes) {
        const std::vector<float> theirs = of(owner);
        std::copy_n(theirs.begin() + at, elements, expected.begin() + at);
        at += elements + 1;
      }
      EXPECT_EQ(data, expected);
    });
}

/// By hand: of B bytes in equal shares a rank sends all but its own once in either direction.
TEST(Collectives, SharesSendTheirBytesOnce) {
  constexpr int64_t elements = int64_t{5} << 18;
  for (int64_t ranks : {2, 4}) {
    auto communicators = createThreadCommunicators(static_cast<int>(ranks), 120s);
    std::vector<std::thread> threads;
    for (int64_t r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        Communicator &c = *communicators[r];
        std::vector<float> values(elements, 1.0f);
        std::vector<OwnedPiece> pieces;
        for (int64_t i = 0; i < ranks; ++i)
          pieces.push_back(
              {values.data() + elements / ranks * i, elements / ranks * 4, static_cast<int>(i)});
        EXPECT_TRUE(c.reduceScatter(pieces, c.everyone()));
        EXPECT_EQ(c.traffic().bytes, elements * 4 * (ranks - 1) / ranks);
        EXPECT_TRUE(c.allGather(pieces, c.everyone()));
        EXPECT_EQ(c.traffic().bytes, 2 * elements * 4 * (ranks - 1) / ranks);
        EXPECT_EQ(values, std::vector<float>(elements, static_cast<float>(ranks)));
      });
    for (std::thread &t : threads)
      t.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Through, Shares, testing::Values("threads", "tcp"),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace omnibal::rt
