//===- OnExecutorTest.cpp - Whole training runs on the fake device ---------------------------===//
//
// The executor with the cuda backend's memory, queue, copies, marks and messages; the kernels are
// the host's, enqueued. So every number must have the host backend's bits, whatever order the
// device chose, unless some work is not ordered behind what it needs.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/CudaBackend.h"
#include "runtime/backends/host/ThreadCommunicator.h"
#include "runtime/executor/Executor.h"
#include "test/support/fake_cuda/FakeCuda.h"
#include "test/unit/executor/TinyRun.h"
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <mutex>

namespace omnibal::rt::cuda {
namespace {

/// A host kernel that the device runs when its queue gets there.
class EnqueuedKernel final : public Kernel {
public:
  EnqueuedKernel(std::unique_ptr<Kernel> kernel, std::string name, cudaStream_t stream)
      : kernel(std::move(kernel)), name(std::move(name)), stream(stream) {}

  Status run(std::span<const TensorView> operands, int64_t tiles, int64_t tokens,
             ThreadPool &) override {
    fake::enqueue(stream, "launch " + name,
                  [this, views = std::vector<TensorView>(operands.begin(), operands.end()), tiles,
                   tokens]() mutable {
                    for (TensorView &view : views)
                      view.data = view.elements() > 0 ? inside(view) : nullptr;
                    ThreadPool pool(1);
                    if (Status status = kernel->run(views, tiles, tokens, pool); !status)
                      fake::mistake(status.message());
                  });
    return Status::ok();
  }

private:
  static void *inside(const TensorView &view) {
    int64_t last = 0;
    for (int d = 0; d < view.rank; ++d)
      last += (view.shape[d] - 1) * view.strides[d];
    return fake::at(view.data, (last + 1) * byteSize(view.dtype));
  }

  std::unique_ptr<Kernel> kernel;
  std::string name;
  cudaStream_t stream;
};

/// The cuda backend with the host's kernels.
class MixedBackend final : public Backend {
public:
  MixedBackend(std::unique_ptr<Backend> backend, cudaStream_t stream)
      : inner(std::move(backend)), stream(stream) {}

  bool immediate() const override { return inner->immediate(); }
  Result<std::unique_ptr<Arena>> allocateArena(int64_t bytes, bool guarded) override {
    return inner->allocateArena(bytes, guarded);
  }
  Status loadCode(const std::string &path) override { return inner->loadCode(path); }
  Result<std::unique_ptr<Kernel>> createKernel(const KernelSite &site) override {
    OMNIBAL_ASSIGN_OR_RETURN(auto kernel, createHostKernel(site));
    return std::unique_ptr<Kernel>(
        std::make_unique<EnqueuedKernel>(std::move(kernel), site.kernel, stream));
  }
  Result<std::unique_ptr<Transport>> openTransport(Communicator &control) override {
    return inner->openTransport(control);
  }
  Status write(void *to, int64_t bytes, const std::function<Status(std::byte *)> &fill) override {
    return inner->write(to, bytes, fill);
  }
  Status read(const void *from, int64_t bytes,
              const std::function<Status(const std::byte *)> &use) override {
    return inner->read(from, bytes, use);
  }
  Status upload(void *to, const void *from, int64_t bytes) override {
    return inner->upload(to, from, bytes);
  }
  Status zero(void *to, int64_t bytes) override { return inner->zero(to, bytes); }
  Result<Readback> startRead(const void *from, int64_t bytes) override {
    return inner->startRead(from, bytes);
  }
  void release(const Readback &readback) override { inner->release(readback); }
  Status adamW(std::span<const AdamWTensor> tensors, const AdamWOptions &options) override {
    return inner->adamW(tensors, options);
  }
  Result<double> squaredNorm(std::span<const FloatRun> runs) override {
    return inner->squaredNorm(runs);
  }
  Status copyParameters(std::span<const AdamWTensor> tensors) override {
    return inner->copyParameters(tensors);
  }
  Status scale(std::span<const FloatRun> runs, double factor) override {
    return inner->scale(runs, factor);
  }
  Status fillZero(std::span<const FloatRun> runs) override { return inner->fillZero(runs); }
  Mark mark() override { return inner->mark(); }
  Status reach(Mark mark) override { return inner->reach(mark); }
  Clock::time_point timeOf(Mark mark) const override { return inner->timeOf(mark); }
  void forgetMarks() override { inner->forgetMarks(); }

private:
  std::unique_ptr<Backend> inner;
  cudaStream_t stream;
};

class MixedKind final : public BackendKind {
public:
  std::string description() const override { return "mixed"; }
  Result<std::unique_ptr<Backend>> open(const BackendOptions &options) override {
    std::lock_guard lock(mutex); // the newest stream is this backend's
    OMNIBAL_ASSIGN_OR_RETURN(auto backend, openCudaBackend(0, options));
    return std::unique_ptr<Backend>(
        std::make_unique<MixedBackend>(std::move(backend), fake::lastStream()));
  }

private:
  std::mutex mutex;
};

class OnExecutor : public testing::Test {
protected:
  void SetUp() override {
    folder = (std::filesystem::temp_directory_path() / "omnibal-cuda-backend-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    weights = writeTinyWeights(folder);
    step.adamW.learningRate = 0.05;
    step.adamW.weightDecay = 0.1;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  MixedKind kind;
  std::string folder, weights;
  StepOptions step;
};

TEST_F(OnExecutor, TrainsWithTheHostsBits) {
  uint64_t seed = 0;
  for (TinyOptions options :
       {TinyOptions{1, 3, 1, false}, TinyOptions{1, 2, 2, true}, TinyOptions{2, 4, 1, false},
        TinyOptions{2, 3, 2, true}, TinyOptions{2, 4, 1, false, true},
        TinyOptions{1, 2, 2, true, false, 1, true}, TinyOptions{2, 3, 1, false, true, 1, true}}) {
    LoadedProgram program = loadedTiny(options);
    TinyOutcome host = trainTinyThreads(program, weights, 4, step);
    ASSERT_TRUE(host.status) << host.status.message();
    for (int round = 0; round < 3; ++round, ++seed) {
      fake::reset(seed);
      TinyOutcome device =
          trainTinyThreads(program, weights, 4, step, {.guarded = seed % 2 == 1, .backend = &kind});
      ASSERT_TRUE(device.status) << device.status.message();
      ASSERT_EQ(device.steps.size(), host.steps.size());
      for (size_t i = 0; i < host.steps.size(); ++i) {
        EXPECT_EQ(device.steps[i].loss, host.steps[i].loss) << seed << " step " << i;
        EXPECT_EQ(device.steps[i].gradientNorm, host.steps[i].gradientNorm) << seed;
        EXPECT_GE(device.steps[i].bubble, 0);
        EXPECT_LE(device.steps[i].bubble, 1);
      }
      EXPECT_EQ(device.parameters, host.parameters) << seed;
      EXPECT_EQ(fake::mistakes(), std::vector<std::string>{});
      EXPECT_EQ(fake::liveAllocations(), 0);
    }
  }
}

TEST_F(OnExecutor, MemoryIsThePlannedArena) {
  fake::reset();
  LoadedProgram program = loadedTiny({1, 2, 1, false});
  TinyOutcome outcome = trainTinyThreads(program, weights, 2, step, {.backend = &kind});
  ASSERT_TRUE(outcome.status) << outcome.status.message();
  int64_t arena = program.program.stageList[0].arenaBytes;
  EXPECT_GE(fake::largestBytes(), arena);
  EXPECT_LE(fake::largestBytes(), arena + 8192); // the optimizer's lists
}

TEST_F(OnExecutor, EvaluateGivesTheHostsResults) {
  LoadedProgram program = loadedTiny({1, 2, 1, true});
  auto evaluate = [&](BackendKind &backend) {
    std::vector<float> losses;
    std::vector<int32_t> predictions;
    auto communicators = createThreadCommunicators(1);
    auto executor =
        Executor::prepare(program, *communicators[0], {.guarded = true, .backend = &backend});
    EXPECT_TRUE(executor) << executor.status().message();
    EXPECT_TRUE((*executor)->initialise(*TensorFiles::open(weights)));
    TinySource source(tinyStep(1, 2), 1, 0);
    Trace trace(0, 0);
    (*executor)->setTrace(&trace);
    Status status = (*executor)->run(
        "evaluate", source,
        [&](int32_t, const BatchValue &value, const std::byte *data, const PackedMicrobatch &b) {
          if (value.name == "loss")
            losses.insert(losses.end(), reinterpret_cast<const float *>(data),
                          reinterpret_cast<const float *>(data) + b.tokens);
          else
            predictions.insert(predictions.end(), reinterpret_cast<const int32_t *>(data),
                               reinterpret_cast<const int32_t *>(data) + b.tokens);
          return Status::ok();
        });
    EXPECT_TRUE(status) << status.message();
    auto events = nlohmann::json::parse("[" + trace.toJson() + "]");
    int kernels = 0;
    for (const auto &event : events)
      if (event["ph"] == "X") {
        EXPECT_GE(double(event["dur"]), 0);
        kernels += event["args"].contains("label");
      }
    return std::make_tuple(losses, predictions, kernels);
  };
  auto expected = evaluate(hostBackendKind());
  EXPECT_FALSE(std::get<0>(expected).empty());
  for (uint64_t seed = 0; seed < 4; ++seed) {
    fake::reset(seed);
    EXPECT_EQ(evaluate(kind), expected);
    EXPECT_EQ(fake::mistakes(), std::vector<std::string>{});
  }
}

} // namespace
} // namespace omnibal::rt::cuda
