// Ranks on devices of their own over the fake of NCCL: order of events, bits, errors, ranks that
// are late or gone.
#include "runtime/comm/threads/ThreadCommunicator.h"
#include "test/support/TemporaryFolder.h"
#include "test/unit/runtime/backends/cuda/FakeRank.h"
#include "test/unit/runtime/backends/cuda/Moves.h"
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

namespace omnibal::rt::cuda {
namespace {

using Lines = std::vector<std::string>;
using Seconds = std::chrono::seconds;

std::vector<float> numbers(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> list(count);
  for (float &x : list)
    x = normal(random);
  return list;
}

class CudaNccl : public testing::Test {
protected:
  void SetUp() override {
    setenv("OMNIBAL_CUDA_TRANSPORT", "nccl", 1);
    setenv("OMNIBAL_CUDA_LIBRARIES", OMNIBAL_FAKE_NCCL_FOLDER, 1);
    unsetenv("OMNIBAL_FAKE_NCCL_FAULT");
    setenv("TMPDIR", folder.path.c_str(), 1); // for the fake's boards
  }
  void TearDown() override {
    unsetenv("OMNIBAL_CUDA_TRANSPORT");
    unsetenv("OMNIBAL_CUDA_LIBRARIES");
    unsetenv("OMNIBAL_FAKE_NCCL_FAULT");
    unsetenv("TMPDIR");
    EXPECT_TRUE(std::filesystem::is_empty(folder.path)) << "something was left behind";
    EXPECT_EQ(fake::liveAllocations(), 0);
  }
  static void reset(uint64_t seed = 0, int devices = 8) {
    fake::Device device;
    device.devices = devices;
    fake::reset(seed, device);
  }
  /// Runs body(rank, fake rank, transport) as `ranks` threads, each with a device of its own; what
  /// it returns is told to all.
  void asRanks(int ranks, const RankGroups &groups,
               const std::function<Status(int, FakeRank &, Transport &, Communicator &)> &body,
               Communicator::Milliseconds deadline = Seconds(20)) {
    auto controls = createThreadCommunicators(ranks, Seconds(20));
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        FakeRank rank(r, 1 << 20, true, deadline, r);
        auto transport = rank.backend->openTransport(*controls[r], groups);
        ASSERT_TRUE(transport) << transport.status().message();
        if (Status status = body(r, rank, **transport, *controls[r]); !status)
          controls[r]->abort(status);
        transport->reset();
      });
    for (std::thread &thread : threads)
      thread.join();
  }

  test::TemporaryFolder folder;
};

/// Everybody sends to everybody, again and again from the same memory: a missing event shows as
/// numbers of another round.
TEST_F(CudaNccl, PartsMoveWhatTheyHave) {
  for (int parts : {2, 3}) {
    reset(parts);
    std::vector<movetest::MoveCase> cases = movetest::plainMoves(parts);
    const std::vector<movetest::MoveCase> more = movetest::movesOfMicrobatches(parts);
    cases.insert(cases.end(), more.begin(), more.end());
    std::vector<int> ranks;
    for (int each = 0; each <= parts; ++each)
      if (each != 1)
        ranks.push_back(each);
    asRanks(parts + 1, {ranks}, [&](int me, FakeRank &rank, Transport &transport, Communicator &) {
      if (me != 1)
        expectMoves(cases, me > 1 ? me - 1 : me, rank, transport, ranks);
      return Status::ok();
    });
    EXPECT_EQ(fake::mistakes(), Lines{});
  }
}

TEST_F(CudaNccl, ReusedBuffersHoldTheRightRound) {
  constexpr int ranks = 3, rounds = 8;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    reset(seed);
    asRanks(ranks, {}, [&](int me, FakeRank &rank, Transport &transport, Communicator &) {
      for (int round = 0; round < rounds; ++round) {
        size_t count = (round * 37) % 50; // sometimes nothing
        rank.put(0, numbers(round * ranks + me, count));
        std::vector<Transport::Handle> handles;
        for (int peer = 0; peer < ranks; ++peer) {
          if (peer == me)
            continue;
          std::vector<Transport::Piece> in, out;
          for (size_t begin : {size_t(0), count / 3}) {
            int64_t bytes = int64_t((begin == 0 ? count / 3 : count - count / 3) * 4);
            in.push_back({rank.floats(4096 * (peer + 1)) + begin, bytes});
            out.push_back({rank.floats(0) + begin, bytes});
          }
          handles.push_back(*transport.receive(peer, round, in));
          handles.push_back(*transport.send(peer, round, out));
        }
        transport.progress();
        for (auto handle : handles)
          EXPECT_OK(transport.wait(handle));
        for (int peer = 0; peer < ranks; ++peer)
          if (peer != me && count > 0)
            EXPECT_OK(
                rank.run("copy", {{"src", rank.row(4096 * (peer + 1), count)},
                                  {"dst", rank.row(65536 * (peer + 1) + round * 256, count)}}));
      }
      for (int round = 0; round < rounds; ++round)
        for (int peer = 0; peer < ranks; ++peer)
          if (peer != me) {
            size_t count = (round * 37) % 50;
            EXPECT_EQ(rank.get(65536 * (peer + 1) + round * 256, count),
                      numbers(round * ranks + peer, count))
                << "seed " << seed << " round " << round;
          }
      return Status::ok();
    });
    EXPECT_EQ(fake::mistakes(), Lines{});
  }
}

TEST_F(CudaNccl, SumsOfGroupsBeginAtTheirMarks) {
  const RankGroups groups = {{0, 2}, {1, 3}, {0, 1}, {2, 3}, {0, 1, 2, 3}};
  for (uint64_t seed = 0; seed < 4; ++seed) {
    reset(seed);
    asRanks(4, groups, [&](int me, FakeRank &rank, Transport &transport, Communicator &) {
      for (const std::vector<int> &group : groups) {
        if (std::find(group.begin(), group.end(), me) == group.end())
          continue;
        rank.put(0, numbers(me, 1001));
        Event complete = rank.backend->recordEvent();
        rank.put(8192, numbers(100 + me, 64)); // goes on beside the sum
        FloatRun runs[] = {{rank.floats(0), 1000}, {rank.floats(4000), 1}, {rank.floats(0), 0}};
        auto handle = transport.startSum(runs, group, complete);
        if (!handle)
          return handle.status();
        EXPECT_OK(transport.wait(*handle));
        std::vector<float> expected(1001);
        for (int other : group) {
          auto theirs = numbers(other, 1001);
          for (size_t e = 0; e < expected.size(); ++e)
            expected[e] = other == group[0] ? theirs[e] : expected[e] + theirs[e];
        }
        EXPECT_EQ(rank.get(0, 1001), expected) << "seed " << seed;
      }
      return Status::ok();
    });
    EXPECT_EQ(fake::mistakes(), Lines{});
  }
}

TEST_F(CudaNccl, BroadcastsReachEveryRankOfTheGroup) {
  const RankGroups groups = {{0, 2}, {1, 3}, {0, 1, 2, 3}};
  for (uint64_t seed = 0; seed < 4; ++seed) {
    reset(seed);
    asRanks(4, groups, [&](int me, FakeRank &rank, Transport &transport, Communicator &) {
      int round = 0;
      for (const std::vector<int> &group : groups)
        for (int root : {group.front(), group.back()}) {
          const int number = round++;
          if (std::find(group.begin(), group.end(), me) == group.end())
            continue;
          rank.put(0, numbers(10 * number + me, 1600));
          // More than go into one group of NCCL's.
          std::vector<Transport::Piece> pieces = {{rank.floats(0), 0}};
          for (int64_t i = 0; i < 600; ++i)
            pieces.push_back({rank.floats(8 * i), 4});
          EXPECT_OK(transport.broadcast(pieces, root, group));
          EXPECT_OK(rank.run("copy", {{"src", rank.row(0, 1600)},
                                      {"dst", rank.row(65536 + number * 8192, 1600)}}));
          auto expected = numbers(10 * number + me, 1600), told = numbers(10 * number + root, 1600);
          for (int64_t i = 0; i < 600; ++i)
            expected[2 * i] = told[2 * i];
          EXPECT_EQ(rank.get(65536 + number * 8192, 1600), expected) << "seed " << seed;
        }
      return Status::ok();
    });
    EXPECT_EQ(fake::mistakes(), Lines{});
  }
}

/// A trace draws sums when they were performed: here when the late rank has come.
TEST_F(CudaNccl, TellsWhenASumWasPerformed) {
  reset();
  std::atomic<Clock::time_point> came;
  asRanks(2, {{0, 1}}, [&](int me, FakeRank &rank, Transport &transport, Communicator &control) {
    const std::vector<int> both = {0, 1};
    rank.backend->forgetEvents();
    if (me == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      came = Clock::now();
    }
    FloatRun run{rank.floats(0), 100};
    auto handle = transport.startSum({&run, 1}, both, std::nullopt);
    if (!handle)
      return handle.status();
    const Clock::time_point called = Clock::now();
    auto clock = transport.clockOf(*handle);
    EXPECT_TRUE(clock);
    EXPECT_OK(transport.wait(*handle));
    const Event behind = rank.backend->recordEvent();
    EXPECT_OK(rank.backend->reach(behind));
    const TimeSpan span = clock();
    if (me == 0) {
      EXPECT_LT(called, came.load());
      EXPECT_GT(span.end, came.load() - std::chrono::milliseconds(1));
      EXPECT_LT(span.begin, came.load()); // it waits where it was called
    }
    EXPECT_LE(span.begin, span.end);
    EXPECT_LE(span.end, rank.backend->timeOf(behind) + std::chrono::microseconds(5));
    return control.barrier(both);
  });
}

TEST_F(CudaNccl, OneRankAlone) {
  reset();
  asRanks(1, {{0}}, [&](int, FakeRank &rank, Transport &transport, Communicator &) {
    rank.put(0, {1, 2, 3});
    EXPECT_OK(transport.allReduce({rank.floats(0), 3}, std::vector<int>{0}));
    EXPECT_EQ(rank.get(0, 3), (std::vector<float>{1, 2, 3}));
    return Status::ok();
  });
}

TEST_F(CudaNccl, TwoRanksOnOneDeviceAreRefused) {
  reset();
  auto controls = createThreadCommunicators(3, Seconds(20));
  std::vector<std::thread> threads;
  std::vector<Status> results(3);
  for (int r = 0; r < 3; ++r)
    threads.emplace_back([&, r] {
      FakeRank rank(r, 1024, false, Seconds(20), r / 2);
      results[r] = rank.backend->openTransport(*controls[r], {}).status();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_NE(results[1].message().find("rank 1 has the same device as rank 0 (0000:00:00.0 of "),
            std::string::npos)
      << results[1].message();
  EXPECT_EQ(results[0].code(), Code::Aborted);
  EXPECT_EQ(results[2].code(), Code::Aborted);
}

TEST_F(CudaNccl, ARankThatIsLateIsNamed) {
  reset();
  std::atomic<bool> done = false;
  asRanks(
      2, {},
      [&](int me, FakeRank &rank, Transport &transport, Communicator &control) {
        control.announce({.step = 3,
                          .stage = me,
                          .microbatch = 1,
                          .action = me == 0 ? "wait_send" : "backward"});
        if (me == 1) {
          while (!done)
            std::this_thread::yield();
          return control.health();
        }
        Transport::Piece out{rank.floats(0), 8};
        auto handle = transport.send(1, 12, {&out, 1});
        EXPECT_OK(transport.wait(*handle));     // enqueued
        Status status = rank.backend->finish(); // never gets there
        EXPECT_EQ(status.code(), Code::DeadlineExceeded);
        EXPECT_NE(status.message().find("the first that did not get through is message 12 to rank "
                                        "1 (step 4, stage 1, micro-batch 1, backward)"),
                  std::string::npos)
            << status.message();
        control.abort(status);
        done = true;
        return status;
      },
      std::chrono::milliseconds(300));
}

/// Each sends before it receives, on one queue: neither send ends. In one group they would.
TEST_F(CudaNccl, AnOrderThatHangsIsNoticed) {
  reset();
  std::atomic<int> late = 0;
  asRanks(
      2, {},
      [&](int me, FakeRank &rank, Transport &transport, Communicator &) {
        Transport::Piece out{rank.floats(0), 8}, in{rank.floats(64), 8};
        auto sent = transport.send(1 - me, 0, {&out, 1});
        transport.progress();
        auto received = transport.receive(1 - me, 0, {&in, 1});
        transport.progress();
        EXPECT_OK(transport.wait(*sent));
        EXPECT_OK(transport.wait(*received));
        Status status = rank.backend->finish();
        late += status.code() == Code::DeadlineExceeded;
        return status;
      },
      std::chrono::milliseconds(300));
  EXPECT_GE(late, 1); // the other may hear of it first
}

TEST_F(CudaNccl, AnErrorInTheBackgroundEndsAllRanks) {
  setenv("OMNIBAL_FAKE_NCCL_FAULT", "error:1:2", 1);
  reset();
  std::vector<Status> results(3);
  auto begin = Clock::now();
  asRanks(3, {}, [&](int me, FakeRank &rank, Transport &transport, Communicator &) {
    for (int round = 0; round < 5; ++round) {
      Transport::Piece piece{rank.floats(4 * me), 4}, in{rank.floats(64), 4};
      auto received = transport.receive((me + 2) % 3, round, {&in, 1});
      auto sent = transport.send((me + 1) % 3, round, {&piece, 1});
      for (auto &handle : {&received, &sent}) {
        if (!*handle)
          return results[me] = handle->status();
        if (Status status = transport.wait(**handle); !status)
          return results[me] = status;
      }
    }
    return results[me] = rank.backend->finish();
  });
  EXPECT_LT(Clock::now() - begin, Seconds(15));
  EXPECT_NE(results[1].message().find("NCCL: communication failed: remote process exited"),
            std::string::npos)
      << results[1].message();
  for (int other : {0, 2}) {
    EXPECT_EQ(results[other].code(), Code::Aborted) << results[other].message();
    EXPECT_NE(results[other].message().find("remote process exited"), std::string::npos);
  }
}

TEST_F(CudaNccl, AMissingLibraryIsSaid) {
  setenv("OMNIBAL_CUDA_TRANSPORT", "ncl", 1);
  reset();
  auto controls = createThreadCommunicators(1, Seconds(20));
  FakeRank rank;
  EXPECT_EQ(rank.backend->openTransport(*controls[0], {}).status().message(),
            "OMNIBAL_CUDA_TRANSPORT is \"ncl\", but local or nccl is expected");
  rank.arena.reset();
  rank.backend.reset();
}

} // namespace
} // namespace omnibal::rt::cuda
