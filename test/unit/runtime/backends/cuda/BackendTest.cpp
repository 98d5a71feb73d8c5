#include "runtime/backends/cuda/driver/Staging.h"
#include "runtime/backends/host/Optimizer.h"
#include "test/unit/runtime/backends/cuda/FakeRank.h"
#include <algorithm>
#include <cmath>
#include <random>

namespace omnibal::rt::cuda {
namespace {

using Lines = std::vector<std::string>;

TEST(CudaBackend, WorkIsEnqueuedInOrderOnOneStream) {
  fake::reset();
  FakeRank rank;
  rank.put(0, {1, 2, 3});
  EXPECT_OK(rank.run("fill", {{"dst", rank.row(256, 3)}}, {{"value", 4}}));
  EXPECT_OK(rank.run("copy", {{"src", rank.row(0, 3)}, {"dst", rank.row(256, 3)}},
                     {{"accumulate", true}}));
  auto sum = rank.backend->startRead(rank.floats(256), 12);
  ASSERT_TRUE(sum);
  EXPECT_OK(rank.backend->reach(sum->ready));
  std::vector<float> got(3);
  std::memcpy(got.data(), sum->data, 12);
  EXPECT_EQ(got, (std::vector<float>{5, 6, 7}));
  EXPECT_EQ(fake::calls(),
            (Lines{"stream 1: allocate 65536", "stream 1: copy 12 host to device 0+0",
                   "stream 1: launch fill 3 0+256", "stream 1: launch add 3 0+0 to 0+256",
                   "stream 1: copy 12 device 0+256 to host"}));
  EXPECT_EQ(fake::mistakes(), Lines{});
}

TEST(CudaBackend, NothingRunsBeforeItIsWaitedFor) {
  fake::reset();
  bool ran = false;
  auto opened = openCudaBackend(0, {});
  ASSERT_TRUE(opened);
  fake::addKernel("code", "touch", 1, [&](dim3, dim3, const auto &) { ran = true; });
  ASSERT_TRUE((*opened)->loadCode("code"));
  BoundCall call;
  call.kernel = "fused";
  call.attributes = {{"symbol", "touch"}, {"rows", 1}};
  auto kernel = (*opened)->createKernel(call);
  ASSERT_TRUE(kernel) << kernel.status().message();
  ThreadPool pool(1);
  EXPECT_OK((*kernel)->run({}, SymbolValues(), pool));
  Event end = (*opened)->recordEvent();
  EXPECT_FALSE(ran);
  EXPECT_OK((*opened)->reach(end));
  EXPECT_TRUE(ran);
}

TEST(CudaBackend, MemoryIsGivenBack) {
  fake::reset();
  {
    FakeRank rank(0, 5000);
    EXPECT_EQ(rank.arena->bytes(), 5000);
    EXPECT_EQ(fake::largestBytes(), 5000);
    auto first = rank.backend->startRead(rank.floats(0), 100);
    auto second = rank.backend->startRead(rank.floats(0), 100);
    ASSERT_TRUE(first && second);
    EXPECT_NE(first->data, second->data);
    int64_t before = fake::liveAllocations();
    rank.backend->release(*first);
    auto third = rank.backend->startRead(rank.floats(0), 50);
    ASSERT_TRUE(third);
    EXPECT_EQ(third->data, first->data); // used again
    EXPECT_EQ(fake::liveAllocations(), before);
  }
  EXPECT_EQ(fake::liveAllocations(), 0);
  EXPECT_EQ(fake::mistakes(), Lines{});
}

TEST(CudaBackend, GuardsCatchAnOverrunAndPoisonIsNaN) {
  fake::reset();
  FakeRank rank(0, 1024, true);
  EXPECT_TRUE(std::isnan(rank.get(0, 1)[0]));
  EXPECT_OK(rank.run("fill", {{"dst", rank.row(0, 256)}}, {{"value", 1}}));
  EXPECT_OK(rank.arena->checkGuards());
  EXPECT_OK(rank.run("fill", {{"dst", rank.row(0, 257)}}, {{"value", 1}}));
  EXPECT_NE(rank.arena->checkGuards().message().find("bytes after the arena"), std::string::npos);
  FakeRank other(0, 1024, true);
  EXPECT_OK(other.run("fill", {{"dst", other.row(-4, 1)}}, {{"value", 1}}));
  EXPECT_NE(other.arena->checkGuards().message().find("bytes before the arena"), std::string::npos);
  EXPECT_EQ(fake::mistakes(), Lines{});
}

TEST(CudaBackend, SaysWhatItTakesBesideTheArena) {
  fake::reset();
  FakeRank rank;
  auto bytesOf = [&](const std::string &what) {
    int64_t bytes = 0;
    for (const WorkspaceUse &use : rank.backend->workspaceOf())
      bytes += use.what == what ? use.bytes : 0;
    return bytes;
  };
  EXPECT_EQ(bytesOf("batch values"), 4096); // of no program
  EXPECT_EQ(totalOf(rank.backend->workspaceOf()), 4096);
  EXPECT_OK(rank.backend->prefetch(rank.floats(0), 4, [](std::byte *) { return Status::ok(); }));
  EXPECT_EQ(bytesOf("batch values"), 4096); // as expected
  BoundCall sum;
  sum.kernel = "reduce";
  sum.operands = {"src", "dst"};
  sum.attributes = {{"kind", "sum"}};
  auto first = rank.backend->createKernel(sum), second = rank.backend->createKernel(sum);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(bytesOf("column sums"), 1 << 20);
  FloatRun runs[] = {{rank.floats(0), 10}, {rank.floats(64), 20}};
  EXPECT_OK(rank.backend->scale(runs, 2));
  EXPECT_OK(rank.backend->scale(runs, 3));
  EXPECT_GE(bytesOf("optimizer's lists"), 2 * (56 + 24));
  EXPECT_LE(bytesOf("optimizer's lists"), cuda::updateListBytes(2, 2));
  EXPECT_EQ(fake::largestBytes(), 65536 + totalOf(rank.backend->workspaceOf()));
}

TEST(CudaBackend, MemoryThatIsNotThere) {
  fake::Device small;
  small.memory = 1000;
  fake::reset(0, small);
  auto opened = openCudaBackend(0, {});
  ASSERT_TRUE(opened);
  auto arena = (*opened)->allocateArena(1001, false);
  ASSERT_FALSE(arena);
  EXPECT_EQ(arena.status().code(), Code::OutOfMemory);
  EXPECT_NE(arena.status().message().find("cannot allocate the planned 1001 bytes of device memory "
                                          "(1000 of the device's 1000 bytes are free)"),
            std::string::npos)
      << arena.status().message();

  // What the backend itself will need must fit too.
  (*opened).reset(); // before its device
  small.memory = 8000;
  fake::reset(0, small);
  opened = openCudaBackend(0, {});
  ASSERT_TRUE(opened);
  EXPECT_NE(
      (*opened)
          ->allocateArena(3905, false)
          .status()
          .message()
          .find(
              "beside the planned 3905 bytes of device memory the backend needs 4096 (4095 of the "
              "device's 8000 bytes are free); use more stages"),
      std::string::npos);
  EXPECT_OK((*opened)->finish()); // what was refused is free again
  EXPECT_TRUE((*opened)->allocateArena(3904, false));
}

/// The next launch asks for the last error, and is not the one that failed.
TEST(CudaBackend, AFailureIsReportedOnce) {
  fake::Device small;
  small.memory = 1000;
  fake::reset(0, small);
  auto stream = cuda::Stream::create();
  ASSERT_TRUE(stream);
  auto buffer = cuda::DeviceBuffer::allocate(1001, (*stream)->handle());
  EXPECT_EQ(buffer.status().code(), Code::OutOfMemory);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(CudaBackend, AStuckDeviceIsADeadline) {
  fake::reset();
  FakeRank rank(0, 1024, false, std::chrono::milliseconds(50));
  fake::device().stuck = true;
  Status status = rank.backend->finish();
  EXPECT_EQ(status.code(), Code::DeadlineExceeded);
  EXPECT_NE(status.message().find("within 0.05"), std::string::npos) << status.message();
  fake::device().stuck = false;
}

TEST(CudaBackend, TimesGrowAlongTheQueue) {
  fake::reset();
  FakeRank rank;
  auto before = Clock::now();
  rank.backend->forgetEvents();
  Event a = rank.backend->recordEvent();
  EXPECT_OK(rank.run("fill", {{"dst", rank.row(0, 4000)}}));
  Event b = rank.backend->recordEvent();
  EXPECT_OK(rank.backend->finish());
  EXPECT_GE(rank.backend->timeOf(a), before);
  EXPECT_GT(rank.backend->timeOf(b), rank.backend->timeOf(a));
  EXPECT_LE(rank.backend->timeOf(b), Clock::now() + std::chrono::seconds(1));
}

/// Copies of all sizes through a small ring, against plain memory.
TEST(CudaStaging, RingIsNeverUsedTooEarly) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    fake::reset(seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    constexpr int64_t bytes = 20000;
    auto stream = Stream::create();
    ASSERT_TRUE(stream);
    auto memory = DeviceBuffer::allocate(bytes, (*stream)->handle());
    auto staging = Staging::create((*stream)->handle(), 8192, std::chrono::seconds(20));
    ASSERT_TRUE(memory && staging);
    std::vector<char> expected(bytes, 0), values;
    EXPECT_OK((*staging)->upload((*memory)->data(), expected.data(), bytes));
    for (int round = 0; round < 60; ++round) {
      int64_t most = random() % 3 == 0 ? bytes : 700;
      int64_t size = random() % most, at = random() % (bytes - size + 1);
      if (random() % 3) {
        values.resize(size);
        for (char &v : values)
          v = static_cast<char>(random());
        EXPECT_OK((*staging)->upload((*memory)->data() + at, values.data(), size));
        std::copy(values.begin(), values.end(), expected.begin() + at);
        std::fill(values.begin(), values.end(), 'x'); // it may be reused at once
      } else {
        values.assign(size, 'y');
        EXPECT_OK((*staging)->download(values.data(), (*memory)->data() + at, size));
        ASSERT_TRUE(std::equal(values.begin(), values.end(), expected.begin() + at))
            << seed << " " << round;
      }
    }
    EXPECT_EQ(fake::mistakes(), Lines{});
  }
}

TEST(CudaBackend, OptimizerArithmeticOnCachedLists) {
  fake::reset(3);
  FakeRank rank(0, 1 << 20);
  constexpr int64_t n = 20000; // more than a block
  std::vector<float> p(n), g(n), m(n), v(n);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (auto *list : {&p, &g, &m})
    for (float &x : *list)
      x = normal(random);
  const int64_t at[] = {0, 4 * n, 8 * n, 12 * n};
  rank.put(at[0], p), rank.put(at[1], g), rank.put(at[2], m), rank.put(at[3], v);
  FloatRun run{rank.floats(at[1]), n}, nothing{rank.floats(0), 0};
  double squares = 0;
  for (float x : g)
    squares += double(x) * x;
  std::vector<FloatRun> runs = {nothing, run};
  auto norm = rank.backend->squaredNorm(runs);
  ASSERT_TRUE(norm);
  EXPECT_NEAR(*norm, squares, 1e-6 * squares);
  UpdatedTensor tensor{
      rank.floats(at[0]), rank.floats(at[1]), rank.floats(at[2]), rank.floats(at[3]), n, true};
  UpdateOptions options;
  for (int64_t step = 1; step <= 3; ++step) {
    options.step = step;
    options.gradientScale = 0.5;
    EXPECT_OK(rank.backend->update({&tensor, 1}, options));
    UpdatedTensor host{p.data(), g.data(), m.data(), v.data(), n, true};
    ThreadPool pool(1);
    rt::update({&host, 1}, options, pool);
  }
  std::vector<float> got = rank.get(at[0], n);
  for (int64_t i = 0; i < n; ++i)
    ASSERT_EQ(got[i], p[i]) << i;
  EXPECT_EQ(rank.get(at[1], n), g); // zeros, ready for the next sums
  Lines calls = fake::calls();
  EXPECT_EQ(std::count_if(calls.begin(), calls.end(),
                          [](const auto &c) { return c.find("allocate") != std::string::npos; }),
            3); // arena, list of the norm, list of the update
  auto none = rank.backend->squaredNorm({});
  ASSERT_TRUE(none);
  EXPECT_EQ(*none, 0);
  EXPECT_EQ(fake::mistakes(), Lines{});
}

TEST(CudaBackend, FusedKernelsGetOperandsSizesAndRows) {
  fake::reset();
  std::vector<int64_t> seen;
  fake::addKernel("program/kernels.cubin", "twice", 4,
                  [&](dim3 grid, dim3 block, const std::vector<int64_t> &values) {
                    seen = {grid.x, block.x, values[2], values[3]};
                    auto *x = static_cast<float *>(
                        fake::at(reinterpret_cast<void *>(values[0]), 4 * values[3]));
                    auto *y = static_cast<float *>(
                        fake::at(reinterpret_cast<void *>(values[1]), 4 * values[3]));
                    for (int64_t i = 0; i < values[3]; ++i)
                      y[i] = 2 * x[i];
                  });
  FakeRank rank;
  nlohmann::json attributes = {
      {"symbol", "twice"},
      {"rows", nlohmann::json::array({1, 0, 2})},
      {"grain", 4},
      {"threads", 128},
      {"sizes", nlohmann::json::array({nlohmann::json::array({7, 0, 1})})}};
  auto operands = [&] {
    return std::vector<std::pair<std::string, TensorView>>{{"x", rank.row(0, 7)},
                                                           {"y", rank.row(512, 7)}};
  };
  EXPECT_NE(rank.run("fused", operands(), attributes, 3).message().find("no generated code"),
            std::string::npos);
  EXPECT_NE(rank.backend->loadCode("absent.cubin").message().find("absent.cubin"),
            std::string::npos);
  EXPECT_OK(rank.backend->loadCode("program/kernels.cubin"));
  rank.put(0, {1, 2, 3, 4, 5, 6, 7});
  EXPECT_OK(rank.run("fused", operands(), attributes, 3));
  EXPECT_EQ(rank.get(512, 7), (std::vector<float>{2, 4, 6, 8, 10, 12, 14}));
  EXPECT_EQ(seen, (std::vector<int64_t>{2, 128, 10, 7})); // 7 rows by 4; 7 + 3 tokens
  attributes["symbol"] = "thrice";
  EXPECT_NE(rank.run("fused", operands(), attributes, 3)
                .message()
                .find("program/kernels.cubin has no kernel 'thrice'"),
            std::string::npos);
  attributes["threads"] = 2048;
  EXPECT_FALSE(rank.run("fused", operands(), attributes, 3));
  EXPECT_NE(rank.run("gemmm", {}).message().find("the cuda backend has no kernel 'gemmm'"),
            std::string::npos);
}

TEST(CudaKind, SaysWhatIsMissing) {
  auto message = [](fake::Device device) {
    fake::reset(0, device);
    auto kind = findCudaDevice();
    return kind ? (*kind)->description() : kind.status().message();
  };
  auto expect = [&](const fake::Device &device, const std::string &part) {
    std::string text = message(device);
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos);
  };
  fake::Device device;
  expect(device, "Fake, compute capability 9.0, 1073741824 bytes, CUDA 13.0, driver for CUDA 13.0");
  device.driverVersion = 0;
  expect(device, "there is no NVIDIA driver on this machine");
  device.driverVersion = 12040;
  expect(device, "the NVIDIA driver knows CUDA 12.4, but this plugin was built with CUDA 13.0");
  device = {};
  device.devices = 0;
  expect(device, "finds no device");
  device = {};
  device.major = 7, device.minor = 5;
  expect(device, "the device Fake has compute capability 7.5, but 8.0 or newer is needed");
}

} // namespace
} // namespace omnibal::rt::cuda
