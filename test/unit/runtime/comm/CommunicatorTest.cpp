// Messages between threads, through memory and through sockets: zero-buffer semantics, deadlines,
// aborts, sums in rank order.
#include "runtime/comm/Gather.h"
#include "runtime/comm/tcp/TcpCommunicator.h"
#include "runtime/comm/threads/ThreadCommunicator.h"
#include "test/unit/runtime/comm/Messages.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <gtest/gtest.h>
#include <optional>
#include <set>
#include <sys/resource.h>
#include <thread>

namespace omnibal::rt {
namespace {

using Piece = Communicator::Piece;

INSTANTIATE_TEST_SUITE_P(Through, Messages, testing::Values("threads", "tcp"),
                         [](const auto &info) { return info.param; });

TEST_P(Messages, PiecesArriveInOrderOfTags) {
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

TEST_P(Messages, SendEndsOnlyWhenTheReceiverHasPosted) {
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

TEST_P(Messages, DeadlineNamesBothRanksAndTheirActions) {
  onRanks(2, 600ms, [](Communicator &c) {
    c.announce({.step = 4,
                .stage = c.rank(),
                .microbatch = 2,
                .action = c.rank() == 0 ? "wait_recv" : "backward"});
    if (c.rank() == 1) {
      std::this_thread::sleep_for(1200ms);
      return;
    }
    int value;
    Piece piece{&value, 4};
    std::this_thread::sleep_for(30ms);
    auto handle = c.receive(1, 0, {&piece, 1});
    ASSERT_TRUE(handle);
    Status status = c.wait(*handle);
    EXPECT_EQ(status.code(), Code::DeadlineExceeded);
    EXPECT_NE(status.message().find("rank 0 (step 5, stage 0, micro-batch 2, wait_recv) waited"),
              std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find("for rank 1"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("(step 5, stage 1, micro-batch 2, backward)"),
              std::string::npos)
        << status.message();
    EXPECT_EQ(c.activityOf(1), "step 5, stage 1, micro-batch 2, backward");
    c.abort(status);
  });
}

TEST_P(Messages, WhoeverHeardFromARankKnowsItsStep) {
  onRanks(2, 10s, [](Communicator &c) {
    int value = 7;
    Piece piece{&value, 4};
    for (int64_t step : {0, 1, 2}) {
      c.announce({.step = step, .stage = c.rank(), .part = 1, .action = "send"});
      auto handle = c.rank() == 1 ? c.send(0, step, {&piece, 1}) : c.receive(1, step, {&piece, 1});
      ASSERT_TRUE(handle && c.wait(*handle));
      if (c.rank() == 0) {
        EXPECT_EQ(c.activityOf(1), stepForPeople(step) + ", stage 1, part 1, send");
      }
      auto turn = c.rank() == 0 ? c.send(1, step, {&piece, 1}) : c.receive(0, step, {&piece, 1});
      ASSERT_TRUE(turn && c.wait(*turn));
    }
  });
}

TEST_P(Messages, AbortWakesEveryoneAtOnce) {
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
    EXPECT_EQ(c.health().code(), Code::Aborted);
    EXPECT_EQ(c.send(0, 1, {&piece, 1}).status().code(), Code::Aborted);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST_P(Messages, SizesMustAgree) {
  onRanks(2, 10s, [](Communicator &c) {
    char bytes[8];
    Piece piece{bytes, c.rank() == 0 ? 4 : 8};
    auto handle = c.rank() == 0 ? c.send(1, 0, {&piece, 1}) : c.receive(0, 0, {&piece, 1});
    ASSERT_TRUE(handle);
    EXPECT_EQ(c.wait(*handle).code(), Code::Internal);
  });
}

TEST_P(Messages, SumsInRankOrder) {
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

TEST_P(Messages, EveryRankGathersInTheOrderOfRanks) {
  for (int ranks : {1, 2, 3, 5, 8, 13})
    onRanks(ranks, 60s, [ranks](Communicator &c) {
      auto all = c.gatherAll(std::array{c.rank() * 7, 'a' + c.rank()}, c.everyone());
      ASSERT_TRUE(all);
      ASSERT_EQ(static_cast<int>(all->size()), ranks);
      for (int r = 0; r < ranks; ++r)
        EXPECT_EQ((*all)[r], (std::array{r * 7, 'a' + r}));
      std::string text(1 + c.rank() * 1000, static_cast<char>('a' + c.rank()));
      auto texts = gatherTexts(c, c.rank() % 3 == 1 ? "" : text);
      ASSERT_TRUE(texts);
      ASSERT_EQ(static_cast<int>(texts->size()), c.rank() == 0 ? ranks : 0);
      for (size_t r = 0; r < texts->size(); ++r)
        EXPECT_EQ((*texts)[r],
                  r % 3 == 1 ? "" : std::string(1 + r * 1000, static_cast<char>('a' + r)));
      for (int root = 0; root < ranks; ++root) {
        std::string told = c.rank() == root ? "told by " + std::to_string(root) : "";
        ASSERT_TRUE(c.broadcast(told, root));
        EXPECT_EQ(told, "told by " + std::to_string(root));
      }
    });
}

/// By hand: a value goes to everyone in log2(ranks) messages of each rank, and the values that a
/// rank sends on are those of all others.
TEST(Collectives, MessagesGrowWithTheLogarithmOfTheRanks) {
  for (int64_t ranks : {2, 16, 256, 1024}) {
    auto communicators = createThreadCommunicators(static_cast<int>(ranks), 120s);
    std::vector<std::thread> threads;
    std::vector<Communicator::Traffic> ofSum(ranks), ofText(ranks);
    for (int64_t r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        Communicator &c = *communicators[r];
        double value = static_cast<double>(r);
        EXPECT_TRUE(c.allReduce(std::span<double>(&value, 1), c.everyone()));
        EXPECT_EQ(value, static_cast<double>(ranks * (ranks - 1) / 2));
        ofSum[r] = c.traffic();
        auto texts = gatherTexts(c, "four");
        EXPECT_TRUE(texts && texts->size() == (r ? 0u : static_cast<size_t>(ranks)));
        ofText[r] = c.traffic();
        ofText[r].messages -= ofSum[r].messages;
        ofText[r].bytes -= ofSum[r].bytes;
      });
    for (std::thread &t : threads)
      t.join();
    const int64_t rounds = std::countr_zero(static_cast<uint64_t>(ranks));
    int64_t texts = 0;
    for (int64_t r = 0; r < ranks; ++r) {
      EXPECT_EQ(ofSum[r].messages, rounds);
      EXPECT_EQ(ofSum[r].bytes, (ranks - 1) * 8);
      EXPECT_LE(ofText[r].messages, 2);
      texts += ofText[r].messages;
    }
    EXPECT_EQ(texts, 2 * (ranks - 1)); // lengths and texts of all but rank 0, each once
  }
}

/// By hand: in a round every rank gets its share of everybody's values, and everybody its sum.
TEST(Collectives, LargeSumsSendTheirBytesTwiceAtMost) {
  constexpr int64_t bytes = int64_t{5} << 20;
  // As many rounds as shares of 256 KiB, of all ranks 8 MiB together, take.
  for (auto [ranks, rounds] : {std::pair<int64_t, int64_t>{2, 10}, {4, 5}, {16, 2}, {64, 1}}) {
    auto communicators = createThreadCommunicators(static_cast<int>(ranks), 120s);
    std::vector<std::thread> threads;
    for (int64_t r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        Communicator &c = *communicators[r];
        std::vector<float> values(bytes / sizeof(float), 1.0f);
        EXPECT_TRUE(c.allReduce(std::span<float>(values), c.everyone()));
        EXPECT_EQ(values.back(), static_cast<float>(ranks));
        EXPECT_EQ(c.traffic().messages, rounds * 2 * (ranks - 1));
        EXPECT_LE(c.traffic().bytes, 2 * bytes);
      });
    for (std::thread &t : threads)
      t.join();
  }
}

TEST_P(Messages, CheckEqualFindsTheRankThatDiffers) {
  for (uint64_t difference : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63})
    onRanks(3, 10s, [&](Communicator &c) {
      uint64_t value = 0x123456789abcdef0u ^ (c.rank() == 2 ? difference : 0);
      Status status = c.checkEqual(value, "apples");
      EXPECT_EQ(status.message(), difference ? "rank 2 and rank 0 have different apples" : "");
    });
}

TEST_P(Messages, SubsetsDoNotMeet) {
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

/// Straight from the root, and in shares of one and of several rounds.
TEST_P(Messages, BroadcastsReachEveryRankOfTheGroup) {
  for (int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1} << 16, (int64_t{1} << 16) + 1,
                        (int64_t{3} * 16 << 20) + 5})
    for (int root : {0, 1, 3}) {
      if (bytes > 1 << 20 && root != 1)
        continue; // a few are enough
      onRanks(4, 60s, [&](Communicator &c) {
        const std::vector<int> members = {0, 1, 3};
        std::vector<std::byte> sent(bytes), data(bytes, std::byte{255});
        for (int64_t i = 0; i < bytes; ++i)
          sent[i] = static_cast<std::byte>(i * 31 + i / 251 + root);
        if (c.rank() == root)
          data = sent;
        if (c.rank() != 2) {
          ASSERT_TRUE(c.broadcast(data, root, members));
          // Not byte by byte with a macro, for which the others would wait longer than the
          // deadline.
          EXPECT_EQ(std::ranges::mismatch(data, sent).in1 - data.begin(), bytes);
        } else {
          EXPECT_EQ(c.broadcast(data, root, members).code(), Code::Internal);
        }
        std::string text = c.rank() == 2 ? "told" : "something longer, or nothing";
        ASSERT_TRUE(c.broadcast(text, 2));
        EXPECT_EQ(text, "told");
      });
    }
}

TEST_P(Messages, RanksAgreeOnTheLowestThatFailed) {
  onRanks(3, 10s, [](Communicator &c) {
    EXPECT_TRUE(c.agree(Status::ok()));
    const std::string why(3000, 'x');
    Status status = c.agree(c.rank() == 0 ? Status::ok() : invalid(why + std::to_string(c.rank())));
    EXPECT_EQ(status.code(), c.rank() == 1 ? Code::InvalidArgument : Code::Aborted);
    EXPECT_NE(status.message().find(why + "1"), std::string::npos);
    // Who was told of an error does not become its origin.
    Status again = c.agree(status);
    EXPECT_EQ(again.code(), status.code());
    EXPECT_EQ(again.message(), status.message());
  });
}

/// More than sockets hold, both ways at once, in pieces of any size; aborted in the middle too.
TEST_P(Messages, LargeOnesInBothDirections) {
  onRanks(2, 60s, [](Communicator &c) {
    constexpr int64_t count = 3 << 20;
    std::vector<int32_t> out(count), in(count + 2, -1);
    for (int64_t i = 0; i < count; ++i)
      out[i] = static_cast<int32_t>(i * 7 + c.rank());
    auto pieces = [](int32_t *data) {
      return std::vector<Piece>{
          {data, 4}, {data, 0}, {data + 1, (count - 4) * 4}, {data + count - 3, 12}};
    };
    auto b = c.receive(1 - c.rank(), 3, pieces(in.data() + 1));
    auto a = c.send(1 - c.rank(), 3, pieces(out.data()));
    ASSERT_TRUE(a && b && c.wait(*a) && c.wait(*b));
    EXPECT_EQ(in.front(), -1);
    EXPECT_EQ(in.back(), -1);
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(in[i + 1], static_cast<int32_t>(i * 7 + 1 - c.rank()));
  });
  onRanks(2, 60s, [](Communicator &c) {
    std::vector<char> bytes(64 << 20);
    Piece piece{bytes.data(), static_cast<int64_t>(bytes.size())};
    auto handle = c.rank() == 0 ? c.send(1, 0, {&piece, 1}) : c.receive(0, 0, {&piece, 1});
    c.abort(c.rank() == 0 ? invalid("enough") : handle ? c.wait(*handle) : handle.status());
    std::vector<char>().swap(bytes); // nothing touches it any more
  });
}

TEST(TcpMesh, OtherRunsAndNumbersAreRefused) {
  // `inTurn`: the last one comes when the one before it has been answered.
  auto meet = [](std::vector<TcpPlace> places, std::chrono::milliseconds deadline,
                 bool inTurn = false) {
    int port = freePort();
    std::vector<Status> results(places.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < places.size(); ++i) {
      if (inTurn && i + 1 == places.size())
        threads.back().join();
      threads.emplace_back([&, i] {
        places[i].address = "127.0.0.1";
        places[i].port = port;
        results[i] = meetRanks(places[i], deadline).status();
      });
    }
    for (std::thread &t : threads)
      if (t.joinable())
        t.join();
    return results;
  };
  auto contains = [](const Status &status, const std::string &part) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  // Rank 1 of another run does not take the place of ours.
  auto results = meet({{0, 2, "", 0, 1}, {1, 2, "", 0, 2}, {1, 2, "", 0, 1}}, 20s, true);
  EXPECT_TRUE(results[0]) << results[0].message();
  EXPECT_TRUE(results[2]) << results[2].message();
  contains(results[1], "was given another program's path or belongs to another job");

  results = meet({{0, 3, "", 0, 1}, {1, 2, "", 0, 1}, {2, 3, "", 0, 1}}, 20s);
  contains(results[0], "was started as one of 2 ranks, rank 0 as one of 3");

  results = meet({{0, 3, "", 0, 1}, {1, 3, "", 0, 1}, {1, 3, "", 0, 1}}, 20s);
  contains(results[0], "is that rank already");

  results = meet({{0, 4, "", 0, 1}, {2, 4, "", 0, 1}}, 300ms);
  contains(results[0], "waited 0.3 s at 127.0.0.1");
  contains(results[0], "for ranks 1, 3, which did not come");
  EXPECT_EQ(results[1].code(), Code::Aborted) << results[1].message();

  results = meet({{1, 2, "", 0, 1}}, 300ms);
  contains(results[0], "rank 1 waited 0.3 s for rank 0 at 127.0.0.1");
}

TEST(TcpMesh, StrangersHoldNobodyUp) {
  int port = freePort();
  std::thread stranger([&] {
    auto socket = Socket::connect("127.0.0.1", port, Socket::Time::now() + 10s);
    ASSERT_TRUE(socket);
    const std::string_view request = "GET / HTTP/1.0\r\nHost: somebody else entirely\r\n\r\n";
    EXPECT_TRUE(socket->sendAll(request.data(), request.size(), Socket::Time::now() + 1s));
  });
  std::thread other([&] {
    stranger.join();
    auto joined = meetRanks({1, 2, "127.0.0.1", port, 1}, 20s);
    EXPECT_TRUE(joined) << joined.status().message();
  });
  auto gathered = meetRanks({0, 2, "127.0.0.1", port, 1}, 20s);
  EXPECT_TRUE(gathered) << gathered.status().message();
  other.join();
  EXPECT_EQ(gathered->addresses[1].host, "127.0.0.1");
}

/// By hand: a rank's parent lacks its lowest bit, and rank 0 has those with one bit.
TEST(TcpMesh, WhatStaysIsATree) {
  constexpr int ranks = 21;
  int port = freePort();
  std::vector<std::set<int>> neighbors(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      auto met = meetRanks({r, ranks, "127.0.0.1", port, 1}, 20s);
      ASSERT_TRUE(met) << met.status().message();
      for (int other = 0; other < ranks; ++other)
        if (met->sockets[other])
          neighbors[r].insert(other);
    });
  for (std::thread &t : threads)
    t.join();
  EXPECT_EQ(neighbors[0], (std::set{1, 2, 4, 8, 16}));
  EXPECT_EQ(neighbors[12], (std::set{8, 13, 14}));
  EXPECT_EQ(neighbors[16], (std::set{0, 17, 18, 20}));
  EXPECT_EQ(neighbors[19], (std::set{18}));
  size_t ends = 0;
  for (int r = 0; r < ranks; ++r)
    ends += neighbors[r].size();
  EXPECT_EQ(ends, 2u * (ranks - 1));
}

/// Nobody of this run listens at the given port once all have met, and rank 0 can still be reached.
TEST(TcpMesh, ThePortIsFreeForTheNextRun) {
  const int port = freePort();
  const TcpPlace first{1, 2, "localhost", port, 1};
  std::optional<Result<TcpMeeting>> joined;
  std::thread other([&] { joined = meetRanks(first, 20s); });
  auto gathered = meetRanks({0, 2, "localhost", port, 1}, 20s);
  other.join();
  ASSERT_TRUE(gathered && *joined);
  int chosen = 0;
  EXPECT_TRUE(Socket::listen(port, chosen));
  auto later = connectToRank(first, (*joined)->addresses, 0, Socket::Time::now() + 5s);
  EXPECT_TRUE(later) << later.status().message();
  EXPECT_TRUE(gathered->listener.accept(Socket::Time::now() + 5s));
}

/// Waiting would not help.
TEST(TcpMesh, WithoutDescriptorsConnectingFailsAtOnce) {
  int port = 0;
  auto listener = Socket::listen(0, port);
  ASSERT_TRUE(listener);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto begin = Socket::Time::now();
  auto made = Socket::connect("127.0.0.1", port, begin + 10s);
  const auto end = Socket::Time::now();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(made.status().code(), Code::Unavailable);
  EXPECT_NE(made.status().message().find("ulimit -n"), std::string::npos)
      << made.status().message();
  EXPECT_LT(end - begin, 5s);
}

/// A rank gives up, and its memory is its own again although others come later.
TEST_P(Messages, CollectivesThatFailedLeaveTheCallersMemory) {
  onRanks(2, 300ms, [](Communicator &c) {
    std::vector<char> mine(1000, 1), all(2000), data(1000, 1);
    std::vector<double> sum(10, 1);
    const auto everyone = c.everyone();
    auto bytes = [](std::vector<char> &v) { return std::as_writable_bytes(std::span(v)); };
    if (c.rank() == 1)
      std::this_thread::sleep_for(1300ms);
    Status gathered = c.allGather(bytes(mine), bytes(all), everyone);
    Status summed = c.allReduce(sum, everyone);
    Status broad = c.broadcast(bytes(data), 1, everyone);
    // More than those before it held; a message of the first may still come to where they held it.
    std::vector<double> more(1000, 1);
    Status last = c.allReduce(more, everyone);
    if (c.rank() == 1)
      return;
    EXPECT_FALSE(gathered || summed || broad || last);
    for (std::vector<char> *v : {&mine, &all, &data})
      std::fill(v->begin(), v->end(), 5);
    sum.assign(10, 5.0);
    std::this_thread::sleep_for(1000ms);
    for (const std::vector<char> *v : {&mine, &all, &data})
      EXPECT_EQ(std::count(v->begin(), v->end(), 5), static_cast<ptrdiff_t>(v->size()));
    EXPECT_EQ(sum, std::vector<double>(10, 5.0));
  });
}

/// Ranks wait for others that they are not connected to, when one that they never talked to fails.
TEST_P(Messages, AnAbortReachesThoseWhoNeverTalked) {
  auto begin = std::chrono::steady_clock::now();
  onRanks(11, 60s, [](Communicator &c) {
    if (c.rank() == 5) {
      std::this_thread::sleep_for(300ms);
      c.abort(Status(Code::InvalidArgument, "the disk is full"));
      return;
    }
    int value;
    Piece piece{&value, 4};
    const int peer = c.rank() < 5 ? c.rank() + 6 : (c.rank() + 3) % 5;
    auto handle = c.receive(peer, 0, {&piece, 1});
    Status status = handle ? c.wait(*handle) : handle.status();
    EXPECT_EQ(status.code(), Code::Aborted) << status.message();
    EXPECT_NE(status.message().find("the disk is full"), std::string::npos) << status.message();
    c.abort(status);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

/// Rank 2 comes when rank 1 has given up, but ranks 0 and 3 still wait in the sum, rank 3 for what
/// rank 1 passes on. Were rank 1 to agree with the late one, what it sends next would be taken for
/// a part of the sum.
TEST_P(Messages, AfterACollectiveThatFailedNoOtherBegins) {
  std::atomic<bool> gaveUp = false;
  onRanks(4, 1000ms, [&gaveUp](Communicator &c) {
    if (c.rank() == 2)
      gaveUp.wait(false);
    else if (c.rank() != 1)
      std::this_thread::sleep_for(700ms);
    double value = 1;
    Status summed = c.allReduce(std::span<double>(&value, 1), c.everyone());
    if (c.rank() == 1) {
      EXPECT_EQ(summed.code(), Code::DeadlineExceeded) << summed.message();
      gaveUp = true;
      gaveUp.notify_all();
    }
    Status agreed = c.agree(summed);
    if (!summed) {
      EXPECT_EQ(agreed.message(), summed.message());
    }
    Status met = c.barrier(c.everyone());
    EXPECT_FALSE(agreed || met);
    EXPECT_EQ(met.message(), agreed.message());
    for (const Status &status : {summed, agreed, met})
      EXPECT_EQ(status.message().find("disagree"), std::string::npos) << status.message();
    std::this_thread::sleep_for(3s); // nobody ends while others wait
    c.abort(agreed);
  });
}

/// Connections are made when they are needed, from either side, also by many at once.
TEST_P(Messages, EveryPairCanTalk) {
  constexpr int ranks = 12;
  onRanks(ranks, 60s, [](Communicator &c) {
    std::vector<int> in(ranks, -1), out(ranks);
    std::vector<Communicator::Handle> handles;
    for (int step = 1; step < ranks; ++step) {
      const int to = (c.rank() + step) % ranks, from = (c.rank() - step + ranks) % ranks;
      out[to] = 100 * c.rank() + to;
      Piece sent{&out[to], 4}, received{&in[from], 4};
      auto a = c.send(to, 3, {&sent, 1}), b = c.receive(from, 3, {&received, 1});
      ASSERT_TRUE(a && b);
      handles.insert(handles.end(), {*a, *b});
    }
    for (Communicator::Handle handle : handles)
      ASSERT_TRUE(c.wait(handle));
    for (int r = 0; r < ranks; ++r)
      EXPECT_EQ(in[r], r == c.rank() ? -1 : 100 * r + c.rank());
  });
}

} // namespace
} // namespace omnibal::rt
