//===- MixedBackend.h - The cuda backend on the fake device with the host's kernels -----------===//
#ifndef TEST_UNIT_RUNTIME_BACKENDS_CUDA_MIXEDBACKEND_H
#define TEST_UNIT_RUNTIME_BACKENDS_CUDA_MIXEDBACKEND_H

#include "runtime/backends/cuda/CudaBackend.h"
#include "runtime/backends/cuda/driver/Runtime.h"
#include "runtime/backends/host/HostBackend.h"
#include "test/support/fake_cuda/FakeCuda.h"
#include <mutex>

namespace omnibal::rt::cuda {

/// What the kernels of a loss do that cannot be recorded.
enum class Trouble { None, Waits, Allocates };

/// A host kernel that the device runs when its queue gets there.
class EnqueuedKernel final : public Kernel {
public:
  EnqueuedKernel(std::unique_ptr<Kernel> kernel, std::string name, cudaStream_t stream,
                 Trouble trouble)
      : kernel(std::move(kernel)), name(std::move(name)), stream(stream),
        trouble(this->name == "cross_entropy" ? trouble : Trouble::None) {}

  Status run(std::span<const TensorView> operands, const SymbolValues &symbols,
             ThreadPool &) override {
    if (trouble == Trouble::Waits) {
      OMNIBAL_ASSIGN_OR_RETURN(auto event, DriverEvent::after(stream));
      OMNIBAL_RETURN_IF_ERROR(event->wait(std::chrono::seconds(20), "a kernel"));
    } else if (trouble == Trouble::Allocates) {
      OMNIBAL_RETURN_IF_ERROR(PinnedBuffer::allocate(16).status());
    }
    fake::enqueue(
        stream, "launch " + name,
        [this, operands = std::vector<TensorView>(operands.begin(), operands.end()), symbols] {
          std::vector<TensorView> views = operands; // may run again
          for (TensorView &view : views)
            view.data = view.elements() > 0 ? inside(view) : nullptr;
          ThreadPool pool(1);
          if (Status status = kernel->run(views, symbols, pool); !status)
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
  Trouble trouble;
};

/// The cuda backend with the host's kernels.
class MixedBackend final : public Backend {
public:
  MixedBackend(std::unique_ptr<Backend> backend, cudaStream_t stream, Trouble trouble,
               std::function<void()> afterLaunch)
      : inner(std::move(backend)), stream(stream), trouble(trouble),
        afterLaunch(std::move(afterLaunch)) {}

  bool isSynchronous() const override { return inner->isSynchronous(); }
  std::vector<WorkspaceUse> workspaceOf() const override { return inner->workspaceOf(); }
  Result<std::unique_ptr<Arena>> allocateArena(int64_t bytes, bool guarded) override {
    return inner->allocateArena(bytes, guarded);
  }
  Status loadCode(const std::string &path) override { return inner->loadCode(path); }
  Result<std::unique_ptr<Kernel>> createKernel(const BoundCall &call) override {
    OMNIBAL_ASSIGN_OR_RETURN(auto kernel, createHostKernel(call));
    return std::unique_ptr<Kernel>(
        std::make_unique<EnqueuedKernel>(std::move(kernel), call.kernel, stream, trouble));
  }
  Result<std::unique_ptr<Transport>> openTransport(Communicator &control,
                                                   const RankGroups &groups) override {
    return inner->openTransport(control, groups);
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
  Result<HostCopy> startRead(const void *from, int64_t bytes) override {
    return inner->startRead(from, bytes);
  }
  void release(const HostCopy &readback) override { inner->release(readback); }
  Status update(std::span<const UpdatedTensor> tensors, const UpdateOptions &options) override {
    return inner->update(tensors, options);
  }
  Result<double> squaredNorm(std::span<const FloatRun> runs) override {
    return inner->squaredNorm(runs);
  }
  Status copyParameters(std::span<const UpdatedTensor> tensors) override {
    return inner->copyParameters(tensors);
  }
  Status average(std::span<const AveragedTensor> tensors, double decay) override {
    return inner->average(tensors, decay);
  }
  Status exchange(std::span<const AveragedTensor> tensors) override {
    return inner->exchange(tensors);
  }
  Status scale(std::span<const FloatRun> runs, double factor) override {
    return inner->scale(runs, factor);
  }
  Status fillZero(std::span<const FloatRun> runs) override { return inner->fillZero(runs); }
  Status prefetch(void *to, int64_t bytes,
                  const std::function<Status(std::byte *)> &fill) override {
    return inner->prefetch(to, bytes, fill);
  }
  Status addLosses(std::span<const float> losses, LossKind kind) override {
    return inner->addLosses(losses, kind);
  }
  Result<HostCopy> finishSums(std::span<const FloatRun> gradients, Transport &transport,
                              const SumsOptions &options) override {
    return inner->finishSums(gradients, transport, options);
  }
  Status restartSums() override { return inner->restartSums(); }
  void expectLoad(const Load &load) override { inner->expectLoad(load); }
  int graphs() const override { return inner->graphs(); }
  Status beginCapture() override { return inner->beginCapture(); }
  Result<std::unique_ptr<CapturedGraph>> endCapture() override { return inner->endCapture(); }
  Status enqueue(CapturedGraph &work) override {
    Status status = inner->enqueue(work);
    if (afterLaunch)
      afterLaunch();
    return status;
  }
  Event recordEvent() override { return inner->recordEvent(); }
  Status reach(Event event) override { return inner->reach(event); }
  Clock::time_point timeOf(Event event) const override { return inner->timeOf(event); }
  void forgetEvents() override { inner->forgetEvents(); }
  void forgetEventsBefore(Event event) override { inner->forgetEventsBefore(event); }

private:
  std::unique_ptr<Backend> inner;
  cudaStream_t stream;
  Trouble trouble;
  std::function<void()> afterLaunch;
};

class MixedKind final : public BackendKind {
public:
  std::string description() const override { return "mixed"; }
  Result<std::unique_ptr<Backend>> open(const BackendOptions &options) override {
    std::lock_guard<std::mutex> lock(mutex); // the newest stream is this backend's
    OMNIBAL_ASSIGN_OR_RETURN(
        auto backend, openCudaBackend(std::min(options.rank, fake::device().devices - 1), options));
    return std::unique_ptr<Backend>(std::make_unique<MixedBackend>(
        std::move(backend), fake::lastStream(), trouble, afterLaunch));
  }

  Trouble trouble = Trouble::None;
  std::function<void()> afterLaunch; ///< of recorded work

private:
  std::mutex mutex;
};

} // namespace omnibal::rt::cuda
#endif // TEST_UNIT_RUNTIME_BACKENDS_CUDA_MIXEDBACKEND_H
