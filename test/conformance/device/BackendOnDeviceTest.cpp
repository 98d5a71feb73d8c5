//===- BackendOnDeviceTest.cpp - The backend of target cuda by its interface ------------------===//
//
// Memory, queue, optimizer, messages between ranks of one process and whole training runs, against
// the host backend. The plugin is that of $OMNIBAL_PLUGINS: on a GPU the real one.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/host/Optimizer.h"
#include "runtime/comm/threads/ThreadCommunicator.h"
#include "test/conformance/KernelTest.h"
#include "test/conformance/device/Device.h"
#include "test/support/TemporaryFolder.h"
#include "test/unit/runtime/executor/TinyRun.h"
#include <thread>

namespace omnibal::rt::test {
namespace {

std::vector<float> numbers(uint32_t seed, int64_t count) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> list(count);
  for (float &x : list)
    x = normal(random);
  return list;
}

/// A backend with an arena.
struct Rank {
  explicit Rank(int rank = 0, int64_t bytes = 1 << 22) {
    auto opened = deviceKind().open({&pool, rank, std::chrono::seconds(60)});
    EXPECT_TRUE(opened) << opened.status().message();
    backend = *std::move(opened);
    auto allocated = backend->allocateArena(bytes, true);
    EXPECT_TRUE(allocated) << allocated.status().message();
    arena = *std::move(allocated);
  }

  float *at(int64_t offset) { return reinterpret_cast<float *>(arena->data() + offset); }
  void put(const float *to, const std::vector<float> &values) {
    EXPECT_OK(backend->upload(const_cast<float *>(to), values.data(), values.size() * 4));
  }
  std::vector<float> get(const float *from, int64_t count) {
    std::vector<float> values(count);
    EXPECT_OK(backend->read(from, count * 4, [&](const std::byte *bytes) {
      std::copy_n(bytes, count * 4, reinterpret_cast<std::byte *>(values.data()));
      return Status::ok();
    }));
    return values;
  }

  ThreadPool pool{1};
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Arena> arena;
};

TEST(BackendOnDevice, CopiesAreInTheOrderOfTheCalls) {
  Rank rank;
  const std::vector<float> one = numbers(1, 300000), two = numbers(2, 300000);
  rank.put(rank.at(0), one);
  auto early = rank.backend->startRead(rank.at(0), 300000 * 4);
  ASSERT_TRUE(early) << early.status().message();
  EXPECT_OK(rank.backend->write(rank.at(0), 300000 * 4, [&](std::byte *to) {
    std::memcpy(to, two.data(), 300000 * 4);
    return Status::ok();
  }));
  EXPECT_OK(rank.backend->zero(rank.at(400), 40));
  std::vector<float> want = two;
  std::fill_n(want.begin() + 100, 10, 0.f);
  EXPECT_EQ(rank.get(rank.at(0), 300000), want);
  EXPECT_OK(rank.backend->reach(early->ready));
  EXPECT_EQ(std::memcmp(early->data, one.data(), 300000 * 4), 0);
  rank.backend->release(*early);
  EXPECT_OK(rank.arena->checkGuards());
}

TEST(BackendOnDevice, GuardsSeeWritesAroundTheArena) {
  for (int64_t offset : {int64_t{-4}, int64_t{1} << 22}) {
    Rank rank;
    EXPECT_OK(rank.arena->checkGuards());
    EXPECT_OK(rank.backend->zero(rank.arena->data() + offset, 4));
    EXPECT_NE(rank.arena->checkGuards().message().find("the arena were overwritten"),
              std::string::npos);
  }
}

TEST(BackendOnDevice, MarksAreInOrderAndHaveTimes) {
  Rank rank;
  rank.backend->forgetEvents();
  std::vector<Event> events;
  for (int i = 0; i < 5; ++i) {
    EXPECT_OK(rank.backend->zero(rank.at(0), 1 << 22));
    events.push_back(rank.backend->recordEvent());
  }
  EXPECT_OK(rank.backend->reach(events.back()));
  for (size_t i = 1; i < events.size(); ++i)
    EXPECT_GE(rank.backend->timeOf(events[i]), rank.backend->timeOf(events[i - 1]));
}

/// Parameters, gradients and moments one after another, and bfloat16 copies of every other tensor.
struct Parameters {
  std::vector<int64_t> sizes = {1, 0, 17, 40000, 3, 16384, 16385};
  std::vector<std::vector<float>> values[4];
  std::vector<std::vector<BFloat16>> copies;

  explicit Parameters(uint32_t seed) {
    for (int kind = 0; kind < 4; ++kind)
      for (int64_t n : sizes) {
        values[kind].push_back(numbers(seed++, n));
        for (float &x : values[kind].back())
          x = kind == 3 ? std::abs(x) : x; // the second moments
      }
    for (int64_t n : sizes)
      copies.emplace_back(n);
  }
  std::vector<UpdatedTensor> tensors() {
    std::vector<UpdatedTensor> list;
    for (size_t i = 0; i < sizes.size(); ++i)
      list.push_back({values[0][i].data(), values[1][i].data(), values[2][i].data(),
                      values[3][i].data(), sizes[i], i % 2 == 0,
                      i % 2 == 0 ? copies[i].data() : nullptr});
    return list;
  }
};

TEST(BackendOnDevice, TheOptimizerIsTheHosts) {
  Parameters host(1);
  Rank rank;
  std::vector<UpdatedTensor> there;
  std::vector<FloatRun> runs, hostRuns;
  int64_t offset = 0;
  auto place = [&](const std::vector<float> &values) {
    float *at = rank.at(offset);
    rank.put(at, values);
    offset += (static_cast<int64_t>(values.size()) * 4 + 255) / 256 * 256;
    return at;
  };
  const std::vector<UpdatedTensor> here = host.tensors();
  for (size_t i = 0; i < here.size(); ++i) {
    UpdatedTensor t = here[i];
    t.param = place(host.values[0][i]);
    t.grad = place(host.values[1][i]);
    t.moment1 = place(host.values[2][i]);
    t.moment2 = place(host.values[3][i]);
    if (t.copy)
      t.copy = reinterpret_cast<BFloat16 *>(place(std::vector<float>(t.elements)));
    there.push_back(t);
    runs.push_back({t.grad, t.elements});
    hostRuns.push_back({here[i].grad, here[i].elements});
  }
  ThreadPool pool(2);
  const double norm = squaredNorm(hostRuns, pool);
  for (int again = 0; again < 2; ++again) {
    auto got = rank.backend->squaredNorm(runs);
    ASSERT_TRUE(got) << got.status().message();
    EXPECT_NEAR(*got, norm, 1e-9 * norm);
  }
  scale(hostRuns, 0.5, pool);
  EXPECT_OK(rank.backend->scale(runs, 0.5));
  UpdateOptions options;
  options.rates = decayAndNone(1e-2, 0.1), options.gradientScale = 0.25;
  options.zeroGradients = false;
  for (options.step = 1; options.step <= 3; ++options.step) {
    update(here, options, pool);
    EXPECT_OK(rank.backend->update(there, options));
  }
  for (size_t i = 0; i < here.size(); ++i)
    for (auto [device, values] : {std::pair{there[i].param, &host.values[0][i]},
                                  {there[i].grad, &host.values[1][i]},
                                  {there[i].moment1, &host.values[2][i]},
                                  {there[i].moment2, &host.values[3][i]}}) {
      const std::vector<float> got = rank.get(device, here[i].elements);
      for (size_t j = 0; j < got.size(); ++j)
        ASSERT_NEAR(got[j], (*values)[j], 2e-6 * (1 + std::abs((*values)[j]))) << i;
    }
  EXPECT_OK(rank.backend->copyParameters(there));
  for (size_t i = 0; i < here.size(); i += 2) {
    const std::vector<float> param = rank.get(there[i].param, here[i].elements);
    EXPECT_OK(rank.backend->read(there[i].copy, here[i].elements * 2, [&](const std::byte *bytes) {
      for (size_t j = 0; j < param.size(); ++j) {
        BFloat16 copy;
        std::memcpy(&copy, bytes + 2 * j, 2);
        EXPECT_EQ(copy.bits, BFloat16::fromFloat(param[j]).bits);
      }
      return Status::ok();
    }));
  }
  // The first moments serve as averages.
  std::vector<AveragedTensor> averages, averagesThere;
  for (size_t i = 0; i < here.size(); ++i) {
    averages.push_back({here[i].param, here[i].moment1, here[i].elements});
    averagesThere.push_back({there[i].param, there[i].moment1, there[i].elements});
  }
  average(averages, 0.75, pool);
  omnibal::rt::exchange(averages, pool); // std has one, too
  EXPECT_OK(rank.backend->average(averagesThere, 0.75));
  EXPECT_OK(rank.backend->exchange(averagesThere));
  for (size_t i = 0; i < here.size(); ++i)
    for (auto [device, values] :
         {std::pair{there[i].param, &host.values[0][i]}, {there[i].moment1, &host.values[2][i]}}) {
      const std::vector<float> got = rank.get(device, here[i].elements);
      for (size_t j = 0; j < got.size(); ++j)
        ASSERT_NEAR(got[j], (*values)[j], 3e-6 * (1 + std::abs((*values)[j]))) << i;
    }
  EXPECT_OK(rank.backend->fillZero(runs));
  auto nothing = rank.backend->squaredNorm(runs);
  ASSERT_TRUE(nothing);
  EXPECT_EQ(*nothing, 0);
  EXPECT_OK(rank.arena->checkGuards());
}

/// Of `count` numbers, how many differ by more than `little`; none may by more than `most`.
template <typename T>
int64_t countApart(const std::vector<T> &a, const std::vector<T> &b, double little, double most) {
  int64_t apart = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    apart += difference > little;
    EXPECT_LE(difference, most) << i;
  }
  return apart;
}

TEST(BackendOnDevice, MomentsOfEightBitsAreTheHosts) {
  ThreadPool pool(2);
  for (int64_t n : {1, 255, 256, 1000, 40000}) {
    Rank rank;
    std::vector<float> param = numbers(3, n), grad = numbers(4, n);
    const int64_t room = (codedBytes(n) + 3) / 4, step = (std::max(n, room) + 63) / 64 * 64 * 4;
    std::vector<float> moments[2] = {std::vector<float>(room), std::vector<float>(room)};
    UpdatedTensor here, there;
    here.param = param.data();
    here.grad = grad.data();
    here.elements = there.elements = n;
    there.param = rank.at(0);
    there.grad = rank.at(step);
    here.coded1 = codedMomentAt(moments[0].data(), n, 0);
    here.coded2 = codedMomentAt(moments[1].data(), n, 0);
    there.coded1 = codedMomentAt(rank.at(2 * step), n, 0);
    there.coded2 = codedMomentAt(rank.at(3 * step), n, 0);
    rank.put(there.param, param);
    for (int kind : {0, 1})
      rank.put(rank.at((2 + kind) * step), moments[kind]);
    UpdateOptions options;
    options.kind = OptimizerKind::AdamW8bit;
    options.rates = decayAndNone(1e-2, 0.1), options.gradientScale = 0.5;
    for (options.step = 1; options.step <= 4; ++options.step) {
      std::ranges::copy(numbers(10 + static_cast<uint32_t>(options.step), n), grad.begin());
      rank.put(there.grad, grad);
      update({&here, 1}, options, pool);
      EXPECT_OK(rank.backend->update({&there, 1}, options));
    }
    // Another rounding may make the next code of a few values, which moves them a little otherwise.
    EXPECT_LE(countApart(rank.get(there.param, n), param, 2e-6, 2e-3), n / 100) << n;
    EXPECT_EQ(rank.get(there.grad, n), std::vector<float>(n)) << "gradients are zeros again";
    for (int kind : {0, 1}) {
      const std::vector<float> got = rank.get(rank.at((2 + kind) * step), room);
      auto codesOf = [&](const std::vector<float> &memory) {
        const auto *bytes = reinterpret_cast<const uint8_t *>(memory.data());
        return std::vector<uint8_t>(bytes + codesAt(n), bytes + codedBytes(n));
      };
      auto scales = [&](const std::vector<float> &memory) {
        return std::vector<float>(memory.begin(), memory.begin() + scalesOf(n));
      };
      EXPECT_LE(countApart(codesOf(got), codesOf(moments[kind]), 0, 1), n / 100) << n;
      EXPECT_LE(countApart(scales(got), scales(moments[kind]), 1e-6, 0.1), scalesOf(n) / 4) << n;
    }
    EXPECT_OK(rank.arena->checkGuards());
  }
}

TEST(BackendOnDevice, RanksOfOneDeviceExchangeAndSum) {
  constexpr int ranks = 3;
  constexpr int64_t count = 100003;
  auto controls = createThreadCommunicators(ranks, std::chrono::seconds(60));
  std::vector<std::vector<float>> got(ranks), sums(ranks), heard(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      Rank rank(r);
      auto opened = rank.backend->openTransport(*controls[r], {});
      ASSERT_TRUE(opened) << opened.status().message();
      Transport &transport = **opened;
      rank.put(rank.at(0), numbers(10 + r, count));
      const Transport::Piece out{rank.at(0), count * 4}, in{rank.at(1 << 20), count * 4};
      const int next = (r + 1) % ranks, last = (r + ranks - 1) % ranks;
      auto received = transport.receive(last, 7, {&in, 1});
      auto sent = transport.send(next, 7, {&out, 1});
      ASSERT_TRUE(received && sent);
      EXPECT_OK(transport.wait(*received));
      EXPECT_OK(transport.wait(*sent));
      got[r] = rank.get(rank.at(1 << 20), count);
      const std::vector<int> all = {0, 1, 2};
      rank.backend->forgetEvents();
      const FloatRun run{rank.at(0), count};
      auto sum = transport.startSum({&run, 1}, all, std::nullopt);
      ASSERT_TRUE(sum);
      auto clock = transport.clockOf(*sum);
      EXPECT_OK(transport.wait(*sum));
      const Event behind = rank.backend->recordEvent();
      sums[r] = rank.get(rank.at(0), count);
      EXPECT_OK(rank.backend->reach(behind));
      ASSERT_TRUE(clock);
      const TimeSpan span = clock();
      EXPECT_LE(span.begin, span.end);
      EXPECT_LE(span.end, rank.backend->timeOf(behind) + std::chrono::microseconds(10));
      // What rank 1 has comes to all.
      const Transport::Piece told[] = {{rank.at(1 << 20), 4000}, {rank.at(2 << 20), 8}};
      rank.put(rank.at(2 << 20), {float(r), float(r + 1)});
      EXPECT_OK(transport.broadcast(told, 1, all));
      heard[r] = rank.get(rank.at(1 << 20), count);
      EXPECT_EQ(rank.get(rank.at(2 << 20), 2), (std::vector<float>{1, 2}));
      EXPECT_OK(rank.arena->checkGuards());
    });
  for (std::thread &thread : threads)
    thread.join();
  std::vector<float> want(count, 0.f);
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(got[r], numbers(10 + (r + ranks - 1) % ranks, count)) << r;
    const std::vector<float> mine = numbers(10 + r, count);
    for (int64_t i = 0; i < count; ++i)
      want[i] = r == 0 ? mine[i] : want[i] + mine[i];
  }
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(sums[r], want) << r;
    std::vector<float> expected = got[r];
    std::copy_n(got[1].begin(), 1000, expected.begin());
    EXPECT_EQ(heard[r], expected) << r;
  }
}

TEST(BackendOnDevice, TrainsLikeTheHost) {
  const omnibal::test::TemporaryFolder folder;
  const std::string weights = writeTinyWeights(folder.path);
  StepOptions step;
  step.update.rates = decayAndNone(0.05, 0.1);
  for (TinyOptions options :
       {TinyOptions{1, 3, 1, false}, TinyOptions{1, 2, 2, true}, TinyOptions{2, 4, 1, false},
        TinyOptions{2, 3, 2, true}, TinyOptions{2, 4, 1, false, true}}) {
    LoadedProgram program = loadedTiny(options);
    const TinyOutcome host = trainTinyThreads(program, weights, 4, step);
    ASSERT_TRUE(host.status) << host.status.message();
    std::vector<TinyOutcome> runs;
    for (int again = 0; again < 2; ++again) {
      setDeviceOrder(again);
      runs.push_back(
          trainTinyThreads(program, weights, 4, step, {.guarded = true, .backend = &deviceKind()}));
      setDeviceOrder(0);
      ASSERT_TRUE(runs.back().status) << runs.back().status.message();
      ASSERT_EQ(runs.back().steps.size(), host.steps.size());
    }
    for (size_t i = 0; i < host.steps.size(); ++i) {
      EXPECT_NEAR(runs[0].steps[i].loss, host.steps[i].loss, 1e-5 * host.steps[i].loss);
      EXPECT_NEAR(runs[0].steps[i].gradientNorm, host.steps[i].gradientNorm,
                  1e-4 * host.steps[i].gradientNorm);
      EXPECT_EQ(runs[0].steps[i].loss, runs[1].steps[i].loss);
      EXPECT_EQ(runs[0].steps[i].gradientNorm, runs[1].steps[i].gradientNorm);
    }
    EXPECT_EQ(runs[0].parameters, runs[1].parameters);
    for (size_t r = 0; r < host.parameters.size(); ++r)
      for (size_t i = 0; i < host.parameters[r].size(); ++i)
        ASSERT_NEAR(runs[0].parameters[r][i], host.parameters[r][i], 1e-4);
  }
}

} // namespace
} // namespace omnibal::rt::test
