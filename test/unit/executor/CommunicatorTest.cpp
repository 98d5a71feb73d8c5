// Messages between threads: zero-buffer semantics, deadlines, aborts, sums in rank order.
#include "runtime/backends/host/ThreadCommunicator.h"
#include <atomic>
#include <gtest/gtest.h>
#include <thread>

namespace omnibal::rt {
namespace {

using namespace std::chrono_literals;
using Piece = Communicator::Piece;

/// Runs body(communicator) on each rank's own thread.
template <typename F> void onRanks(int ranks, std::chrono::milliseconds deadline, F body) {
  auto communicators = createThreadCommunicators(ranks, deadline);
  std::vector<std::thread> threads;
  for (auto &c : communicators)
    threads.emplace_back([&body, &c] { body(*c); });
  for (std::thread &t : threads)
    t.join();
}

TEST(ThreadCommunicator, PiecesArriveInOrderOfTags) {
  onRanks(2, 10s, [](Communicator &c) {
    int values[2][3] = {{1, 2, 3}, {4, 5, 6}}, other[2][3] = {};
    auto pieces = [](int (&v)[3]) { return std::vector<Piece>{{v, 4}, {v + 1, 8}, {nullptr, 0}}; };
    if (c.rank() == 0) {
      auto a = c.send(1, 7, pieces(values[0]));
      auto b = c.send(1, 8, pieces(values[1]));
      EXPECT_TRUE(a && b && c.wait(*a) && c.wait(*b));
    } else {
      // Posted the other way round: tags decide.
      auto b = c.receive(0, 8, pieces(other[1]));
      auto a = c.receive(0, 7, pieces(other[0]));
      EXPECT_TRUE(a && b && c.wait(*b) && c.wait(*a));
      EXPECT_EQ(other[0][2], 3);
      EXPECT_EQ(other[1][0], 4);
    }
  });
}

TEST(ThreadCommunicator, SendEndsOnlyWhenTheReceiverHasPosted) {
  std::atomic<bool> posted = false;
  onRanks(2, 10s, [&](Communicator &c) {
    int value = 5;
    Piece piece{&value, 4};
    if (c.rank() == 0) {
      auto handle = c.send(1, 0, {&piece, 1});
      ASSERT_TRUE(handle && c.wait(*handle));
      EXPECT_TRUE(posted);
    } else {
      std::this_thread::sleep_for(50ms);
      posted = true;
      auto handle = c.receive(0, 0, {&piece, 1});
      ASSERT_TRUE(handle && c.wait(*handle));
    }
  });
}

TEST(ThreadCommunicator, DeadlineNamesBothRanksAndTheirActions) {
  onRanks(2, 100ms, [](Communicator &c) {
    c.announce({4, c.rank(), 2, c.rank() == 0 ? "wait_recv" : "backward"});
    if (c.rank() == 1) {
      std::this_thread::sleep_for(300ms);
      return;
    }
    int value;
    Piece piece{&value, 4};
    std::this_thread::sleep_for(30ms);
    auto handle = c.receive(1, 0, {&piece, 1});
    ASSERT_TRUE(handle);
    Status status = c.wait(*handle);
    EXPECT_EQ(status.code(), Code::DeadlineExceeded);
    EXPECT_NE(status.message().find("rank 0 (step 4, stage 0, micro-batch 2, wait_recv) waited"),
              std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find("rank 1 (step 4, stage 1, micro-batch 2, backward)"),
              std::string::npos)
        << status.message();
    c.abort(status);
  });
}

TEST(ThreadCommunicator, AbortWakesEveryoneAtOnce) {
  auto begin = std::chrono::steady_clock::now();
  onRanks(3, 60s, [](Communicator &c) {
    if (c.rank() == 0) {
      std::this_thread::sleep_for(50ms);
      c.abort(Status(Code::InvalidArgument, "the disk is full"));
      return;
    }
    int value;
    Piece piece{&value, 4};
    auto handle = c.receive(0, 0, {&piece, 1});
    ASSERT_TRUE(handle);
    Status status = c.wait(*handle);
    EXPECT_EQ(status.code(), Code::Aborted);
    EXPECT_NE(status.message().find("the disk is full"), std::string::npos);
    EXPECT_EQ(c.send(0, 1, {&piece, 1}).status().code(), Code::Aborted);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST(ThreadCommunicator, SizesMustAgree) {
  onRanks(2, 10s, [](Communicator &c) {
    char bytes[8];
    Piece piece{bytes, c.rank() == 0 ? 4 : 8};
    auto handle = c.rank() == 0 ? c.send(1, 0, {&piece, 1}) : c.receive(0, 0, {&piece, 1});
    ASSERT_TRUE(handle);
    EXPECT_EQ(c.wait(*handle).code(), Code::Internal);
  });
}

/// Values for which the order of addition shows in the last bits.
float term(int rank, int64_t i) {
  return 1.0f / static_cast<float>((i * 31 + rank * 1009) % 977 + 3);
}

TEST(Collectives, SumsInRankOrder) {
  for (int64_t n : {0, 1, 5, 1000, (1 << 16) * 3 + 17, (1 << 16) * 7 + 1}) {
    onRanks(3, 60s, [n](Communicator &c) {
      std::vector<float> data(n);
      for (int64_t i = 0; i < n; ++i)
        data[i] = term(c.rank(), i);
      ASSERT_TRUE(c.allReduce(std::span<float>(data), c.everyone()));
      for (int64_t i = 0; i < n; ++i) {
        float expected = term(0, i) + term(1, i);
        expected += term(2, i);
        ASSERT_EQ(data[i], expected) << i;
      }
    });
  }
}

TEST(Collectives, CheckEqualFindsTheRankThatDiffers) {
  for (uint64_t difference : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63})
    onRanks(3, 10s, [&](Communicator &c) {
      uint64_t value = 0x123456789abcdef0u ^ (c.rank() == 2 ? difference : 0);
      Status status = c.checkEqual(value, "apples");
      EXPECT_EQ(status.message(), difference ? "rank 2 and rank 0 have different apples" : "");
    });
}

TEST(Collectives, SubsetsDoNotMeet) {
  onRanks(4, 60s, [](Communicator &c) {
    std::vector<int> pair = c.rank() % 2 ? std::vector<int>{1, 3} : std::vector<int>{0, 2};
    double value = c.rank();
    for (int turn = 0; turn < 20; ++turn) {
      double sum = value;
      ASSERT_TRUE(c.allReduce(std::span<double>(&sum, 1), pair));
      ASSERT_EQ(sum, c.rank() % 2 ? 4 : 2);
    }
    ASSERT_TRUE(c.barrier(c.everyone()));
    int number = c.rank() == 2 ? 42 : 0;
    ASSERT_TRUE(c.broadcast(std::as_writable_bytes(std::span(&number, 1)), 2, c.everyone()));
    EXPECT_EQ(number, 42);
  });
}

} // namespace
} // namespace omnibal::rt
