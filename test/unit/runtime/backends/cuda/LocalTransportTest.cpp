#include "runtime/comm/threads/ThreadCommunicator.h"
#include "test/unit/runtime/backends/cuda/FakeRank.h"
#include "test/unit/runtime/backends/cuda/Moves.h"
#include <atomic>
#include <barrier>
#include <random>
#include <thread>

namespace omnibal::rt::cuda {
namespace {

using Lines = std::vector<std::string>;
using Seconds = std::chrono::seconds;

/// Runs body(rank, fake rank, transport) as `ranks` threads, each with a backend of its own.
void asRanks(int ranks, const std::function<void(int, FakeRank &, Transport &)> &body,
             Communicator::Milliseconds deadline = Seconds(20)) {
  auto controls = createThreadCommunicators(ranks, Seconds(20));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      FakeRank rank(r, 1 << 20, true, deadline);
      auto transport = rank.backend->openTransport(*controls[r], {});
      ASSERT_TRUE(transport) << transport.status().message();
      body(r, rank, **transport);
      EXPECT_OK(rank.arena->checkGuards());
    });
  for (std::thread &thread : threads)
    thread.join();
}

std::vector<float> numbers(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> list(count);
  for (float &x : list)
    x = normal(random);
  return list;
}

TEST(CudaLocalTransport, AMessageIsOrderedByEvents) {
  fake::reset();
  auto controls = createThreadCommunicators(2, Seconds(20));
  std::thread other;
  FakeRank sender(0, 1024), receiver(1, 1024); // streams 1 and 2
  std::unique_ptr<Transport> transports[2];
  FakeRank *ranks[] = {&sender, &receiver};
  other = std::thread([&] { transports[1] = *receiver.backend->openTransport(*controls[1], {}); });
  transports[0] = *sender.backend->openTransport(*controls[0], {});
  other.join();
  size_t before = fake::calls().size();
  sender.put(0, {1, 2});
  Transport::Piece out{sender.floats(0), 8}, in{receiver.floats(16), 8};
  auto sent = transports[0]->send(1, 5, {&out, 1});
  auto received = transports[1]->receive(0, 5, {&in, 1});
  ASSERT_TRUE(sent && received);
  EXPECT_OK(transports[1]->wait(*received));
  EXPECT_OK(transports[0]->wait(*sent));
  EXPECT_OK(sender.run("fill", {{"dst", sender.row(0, 2)}}, {{"value", 9}})); // after the copy
  EXPECT_EQ(ranks[1]->get(16, 2), (std::vector<float>{1, 2}));
  Lines calls = fake::calls(), got(calls.begin() + before, calls.end());
  // The stream of the receiver's copies is 3 or 4, by the threads' order.
  std::string copies = got[1].substr(0, got[1].find(':'));
  EXPECT_TRUE(copies == "stream 3" || copies == "stream 4") << copies;
  EXPECT_EQ(got,
            (Lines{"stream 1: copy 8 host to device 0+0", copies + ": wait for stream 1",
                   copies + ": wait for stream 2", copies + ": copy 8 device 0+0 to device 1+16",
                   "stream 2: wait for " + copies, "stream 1: wait for " + copies,
                   "stream 1: launch fill 2 0+0", "stream 2: copy 8 device 1+16 to host"}));
  EXPECT_EQ(fake::mistakes(), Lines{});
}

/// Everybody sends to everybody, again and again from the same memory: a missing event shows as
/// numbers of another round.
TEST(CudaLocalTransport, ReusedBuffersHoldTheRightRound) {
  constexpr int ranks = 3, rounds = 12;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    fake::reset(seed);
    asRanks(ranks, [&](int me, FakeRank &rank, Transport &transport) {
      for (int round = 0; round < rounds; ++round) {
        size_t count = 1 + (round * 37) % 50;
        rank.put(0, numbers(round * ranks + me, count)); // overwrites what was sent before
        std::vector<Transport::Handle> handles;
        for (int peer = 0; peer < ranks; ++peer) {
          if (peer == me)
            continue;
          Transport::Piece in{rank.floats(4096 * (peer + 1)), int64_t(count * 4)},
              out{rank.floats(0), int64_t(count * 4)};
          handles.push_back(*transport.receive(peer, round, {&in, 1}));
          handles.push_back(*transport.send(peer, round, {&out, 1}));
        }
        for (auto handle : handles)
          EXPECT_OK(transport.wait(handle));
        for (int peer = 0; peer < ranks; ++peer) // enqueued; looked at in the end
          if (peer != me)
            EXPECT_OK(
                rank.run("copy", {{"src", rank.row(4096 * (peer + 1), count)},
                                  {"dst", rank.row(65536 * (peer + 1) + round * 256, count)}}));
      }
      for (int round = 0; round < rounds; ++round)
        for (int peer = 0; peer < ranks; ++peer)
          if (peer != me) {
            size_t count = 1 + (round * 37) % 50;
            EXPECT_EQ(rank.get(65536 * (peer + 1) + round * 256, count),
                      numbers(round * ranks + peer, count))
                << "seed " << seed << " round " << round;
          }
    });
    EXPECT_EQ(fake::mistakes(), Lines{});
    EXPECT_EQ(fake::liveAllocations(), 0);
  }
}

/// Moves follow each other in the same memory: a missing event shows as another move's numbers.
TEST(CudaLocalTransport, PartsMoveWhatTheyHave) {
  for (uint64_t seed = 0; seed < 3; ++seed)
    for (int parts : {2, 3, 4}) {
      fake::reset(seed);
      std::vector<movetest::MoveCase> cases = movetest::plainMoves(parts);
      const std::vector<movetest::MoveCase> more = movetest::movesOfMicrobatches(parts);
      cases.insert(cases.end(), more.begin(), more.end());
      asRanks(parts + 1, [&](int me, FakeRank &rank, Transport &transport) {
        if (me == 1) // not one of them
          return;
        std::vector<int> ranks;
        for (int each = 0; each <= parts; ++each)
          if (each != 1)
            ranks.push_back(each);
        expectMoves(cases, me > 1 ? me - 1 : me, rank, transport, ranks);
      });
      EXPECT_EQ(fake::mistakes(), Lines{});
    }
}

TEST(CudaLocalTransport, SumsHaveTheHostsBits) {
  for (uint64_t seed = 0; seed < 6; ++seed)
    for (size_t count : {size_t(0), size_t(1), size_t(2), size_t(1001)}) {
      fake::reset(seed);
      asRanks(4, [&](int me, FakeRank &rank, Transport &transport) {
        std::vector<int> members = {0, 2, 3};
        if (me == 1)
          members = {1};
        for (int round = 0; round < 3; ++round) {
          rank.put(0, numbers(10 * round + me, count));
          EXPECT_OK(transport.allReduce({rank.floats(0), count}, members));
          std::vector<float> expected(count);
          for (size_t i = 0; i < members.size(); ++i) {
            auto theirs = numbers(10 * round + members[i], count);
            for (size_t e = 0; e < count; ++e)
              expected[e] = i == 0 ? theirs[e] : expected[e] + theirs[e];
          }
          EXPECT_EQ(rank.get(0, count), expected) << "seed " << seed;
        }
      });
      EXPECT_EQ(fake::mistakes(), Lines{});
    }
}

/// Sums of pieces at their owners, and then told to the others: the bits of the whole sum.
TEST(CudaLocalTransport, SharesHaveTheBitsOfSums) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    fake::reset(seed);
    asRanks(4, [&](int me, FakeRank &rank, Transport &transport) {
      const std::vector<int> members = {0, 2, 3};
      for (int round = 0; round < 3 && me != 1; ++round) {
        rank.put(0, numbers(10 * round + me, 1600));
        OwnedPiece pieces[] = {{rank.floats(0), 400, 1},
                               {rank.floats(400), 0, 0},
                               {rank.floats(400), 1200, 0},
                               {rank.floats(2000), 4400, 2}};
        auto sum = transport.startScatter(pieces, members, std::nullopt);
        ASSERT_TRUE(sum) << sum.status().message();
        EXPECT_OK(transport.wait(*sum));
        EXPECT_OK(transport.gather(pieces, members));
        std::vector<float> expected = numbers(10 * round + me, 1600);
        for (size_t i = 0; i < members.size(); ++i) {
          const std::vector<float> theirs = numbers(10 * round + members[i], 1600);
          for (auto [begin, end] : {std::pair<size_t, size_t>{0, 400}, {500, 1600}})
            for (size_t e = begin; e < end; ++e)
              expected[e] = i == 0 ? theirs[e] : expected[e] + theirs[e];
        }
        EXPECT_EQ(rank.get(0, 1600), expected) << "seed " << seed;
      }
      OwnedPiece strange{rank.floats(0), 4, 3};
      EXPECT_EQ(transport.startGather({&strange, 1}, std::vector<int>{me}).status().code(),
                Code::Internal);
    });
    EXPECT_EQ(fake::mistakes(), Lines{});
  }
}

TEST(CudaLocalTransport, BroadcastsReachEveryRankOfTheGroup) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    fake::reset(seed);
    asRanks(4, [&](int me, FakeRank &rank, Transport &transport) {
      const std::vector<int> members = {0, 2, 3};
      for (int round = 0; round < 4; ++round) {
        const int root = members[round % 3];
        const size_t count = round * 500; // sometimes nothing
        rank.put(0, numbers(10 * round + me, 1600));
        Transport::Piece pieces[] = {{rank.floats(0), int64_t(count * 4)}, {rank.floats(6000), 40}};
        if (me == 1) {
          EXPECT_EQ(transport.startBroadcast(pieces, root, members).status().code(),
                    Code::Internal);
          continue;
        }
        EXPECT_OK(transport.broadcast(pieces, root, members));
        // Enqueued behind it; another rank's memory may change from here on.
        EXPECT_OK(rank.run(
            "copy", {{"src", rank.row(0, 1600)}, {"dst", rank.row(65536 + round * 8192, 1600)}}));
        rank.put(0, numbers(1000 + me, 1600));
      }
      for (int round = 0; round < 4 && me != 1; ++round) {
        auto expected = numbers(10 * round + me, 1600),
             told = numbers(10 * round + members[round % 3], 1600);
        std::copy_n(told.begin(), round * 500, expected.begin());
        std::copy_n(told.begin() + 1500, 10, expected.begin() + 1500);
        EXPECT_EQ(rank.get(65536 + round * 8192, 1600), expected) << "seed " << seed;
      }
    });
    EXPECT_EQ(fake::mistakes(), Lines{});
  }
}

/// A trace draws sums when they were performed, not when they were asked for.
TEST(CudaLocalTransport, TellsWhenASumWasPerformed) {
  fake::reset();
  std::barrier<> met(2);
  asRanks(2, [&](int me, FakeRank &rank, Transport &transport) {
    rank.backend->forgetEvents();
    FloatRun runs[] = {{rank.floats(0), 100}, {rank.floats(800), 30}};
    auto handle = transport.startSum(runs, std::vector<int>{0, 1}, std::nullopt);
    ASSERT_TRUE(handle);
    auto clock = transport.clockOf(*handle);
    ASSERT_TRUE(clock);
    const Event asked = rank.backend->recordEvent();
    met.arrive_and_wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(30)); // the fake performs it below
    const auto waited = Clock::now();
    met.arrive_and_wait();
    EXPECT_OK(transport.wait(*handle));
    const Event behind = rank.backend->recordEvent();
    EXPECT_OK(rank.backend->reach(behind));
    const TimeSpan span = clock();
    EXPECT_LE(span.begin, span.end);
    EXPECT_GT(span.end, waited - std::chrono::milliseconds(1)) << me;
    EXPECT_LE(span.end, rank.backend->timeOf(behind) + std::chrono::microseconds(5));
    EXPECT_LE(rank.backend->timeOf(asked), rank.backend->timeOf(behind));
  });
}

TEST(CudaLocalTransport, ARankThatEndsIsToldToThoseWhoWait) {
  fake::reset();
  asRanks(3, [&](int me, FakeRank &rank, Transport &transport) {
    if (me == 1)
      return;
    Status status;
    if (me == 0) {
      Transport::Piece in{rank.floats(0), 8};
      auto handle = transport.receive(1, 0, {&in, 1});
      ASSERT_TRUE(handle);
      status = transport.wait(*handle);
    } else {
      status = transport.allReduce({rank.floats(0), 10}, std::vector<int>{1, 2});
    }
    EXPECT_EQ(status.code(), Code::Aborted);
    EXPECT_NE(status.message().find("rank 1 has ended"), std::string::npos) << status.message();
  });
}

TEST(CudaLocalTransport, ARankThatIsLateIsNamed) {
  fake::reset();
  std::atomic<bool> done = false;
  asRanks(
      2,
      [&](int me, FakeRank &rank, Transport &transport) {
        if (me == 1) {
          while (!done)
            std::this_thread::yield();
          return;
        }
        Transport::Piece out{rank.floats(0), 8};
        Status status = transport.wait(*transport.send(1, 0, {&out, 1}));
        EXPECT_EQ(status.code(), Code::DeadlineExceeded);
        EXPECT_NE(status.message().find("for rank 1"), std::string::npos) << status.message();
        done = true;
      },
      std::chrono::milliseconds(100));
}

TEST(CudaLocalTransport, SizesThatDiffer) {
  fake::reset();
  asRanks(2, [&](int me, FakeRank &rank, Transport &transport) {
    Transport::Piece piece{rank.floats(0), me == 0 ? 8 : 12};
    auto handle =
        me == 0 ? transport.send(1, 0, {&piece, 1}) : transport.receive(0, 0, {&piece, 1});
    ASSERT_TRUE(handle);
    EXPECT_NE(transport.wait(*handle).message().find("disagree about the sizes of message 0"),
              std::string::npos);
  });
}

} // namespace
} // namespace omnibal::rt::cuda
