#include "runtime/backends/cuda/CudaBackend.h"
#include "runtime/backends/cuda/DeviceArena.h"
#include "runtime/backends/cuda/KernelTable.h"
#include "runtime/backends/cuda/Libraries.h"
#include "runtime/backends/cuda/LocalTransport.h"
#include "runtime/backends/cuda/UpdateLists.h"
#include <new>

namespace omnibal::rt::cuda {
namespace {

class CudaBackend final : public Backend {
public:
  static Result<std::unique_ptr<Backend>> open(int device, const BackendOptions &options) {
    OMNIBAL_RETURN_IF_ERROR(check(cudaSetDevice(device), "choosing the device"));
    std::unique_ptr<CudaBackend> made(new CudaBackend);
    made->deadline = options.deadline;
    OMNIBAL_ASSIGN_OR_RETURN(made->stream, Stream::create());
    made->queue = made->stream->handle();
    OMNIBAL_ASSIGN_OR_RETURN(made->staging,
                             Staging::create(made->queue, Staging::defaultBytes, options.deadline));
    made->lists = std::make_unique<UpdateLists>(made->queue, *made->staging);
    cudaDeviceProp properties{};
    OMNIBAL_RETURN_IF_ERROR(
        check(cudaGetDeviceProperties(&properties, device), "looking at the device"));
    made->libraries = std::make_unique<Libraries>(properties.name, made->queue);
    made->forgetMarks();
    OMNIBAL_RETURN_IF_ERROR(made->health);
    return std::unique_ptr<Backend>(std::move(made));
  }

  /// Work that is still under way uses what goes now.
  ~CudaBackend() override {
    if (!marks.empty())
      (void)finish();
  }

  bool immediate() const override { return false; }

  Result<std::unique_ptr<Arena>> allocateArena(int64_t bytes, bool guarded) override {
    return allocateDeviceArena(bytes, guarded, queue, *staging);
  }
  Status loadCode(const std::string &path) override {
    OMNIBAL_ASSIGN_OR_RETURN(code, ProgramCode::load(path));
    return Status::ok();
  }
  Result<std::unique_ptr<Kernel>> createKernel(const KernelSite &site) override {
    return createDeviceKernel(site, {queue, code.get(), libraries.get()});
  }
  Result<std::unique_ptr<Transport>> openTransport(Communicator &control) override {
    return openLocalTransport(control, queue, deadline);
  }

  Status write(void *to, int64_t bytes, const std::function<Status(std::byte *)> &fill) override {
    OMNIBAL_ASSIGN_OR_RETURN(auto buffer, hostBuffer(bytes));
    OMNIBAL_RETURN_IF_ERROR(fill(buffer.get()));
    return staging->upload(to, buffer.get(), bytes);
  }
  Status read(const void *from, int64_t bytes,
              const std::function<Status(const std::byte *)> &use) override {
    OMNIBAL_ASSIGN_OR_RETURN(auto buffer, hostBuffer(bytes));
    OMNIBAL_RETURN_IF_ERROR(staging->download(buffer.get(), from, bytes));
    return use(buffer.get());
  }
  Status upload(void *to, const void *from, int64_t bytes) override {
    return staging->upload(to, from, bytes);
  }
  Status zero(void *to, int64_t bytes) override {
    return bytes > 0 ? check(cudaMemsetAsync(to, 0, bytes, queue), "writing zeros") : Status::ok();
  }
  Result<Readback> startRead(const void *from, int64_t bytes) override {
    OMNIBAL_ASSIGN_OR_RETURN(std::byte * to, readbacks.take(bytes));
    if (bytes > 0)
      OMNIBAL_RETURN_IF_ERROR(check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue),
                                    "a copy from the device"));
    return Readback{to, mark()};
  }
  void release(const Readback &readback) override { readbacks.giveBack(readback.data); }

  Status adamW(std::span<const AdamWTensor> tensors, const AdamWOptions &options) override {
    OMNIBAL_ASSIGN_OR_RETURN(const DeviceList *here, lists->get(listOf(tensors)));
    if (here->list.count == 0)
      return Status::ok();
    AdamWShape shape;
    shape.list = here->list;
    shape.learningRate = options.learningRate;
    shape.beta1 = options.beta1;
    shape.beta2 = options.beta2;
    shape.epsilon = options.epsilon;
    shape.weightDecay = options.weightDecay;
    shape.step = options.step;
    shape.gradientScale = options.gradientScale;
    shape.zeroGradients = options.zeroGradients;
    return check(launchAdamW(shape, nullptr, queue), "the update");
  }
  Status copyParameters(std::span<const AdamWTensor> tensors) override {
    std::vector<UpdateTensor> copied = listOf(tensors);
    std::erase_if(copied, [](const UpdateTensor &t) { return !t.copy; });
    OMNIBAL_ASSIGN_OR_RETURN(const DeviceList *here, lists->get(std::move(copied)));
    return here->list.count == 0 ? Status::ok()
                                 : check(launchCopyParameters(here->list, queue), "copying");
  }
  Result<double> squaredNorm(std::span<const FloatRun> runs) override {
    OMNIBAL_ASSIGN_OR_RETURN(const DeviceList *here, lists->get(gradientsOf(runs)));
    double sum = 0;
    if (here->list.count == 0)
      return sum;
    OMNIBAL_RETURN_IF_ERROR(
        check(launchSquaredNorm(here->list, here->partial, here->result, queue), "a norm"));
    OMNIBAL_RETURN_IF_ERROR(staging->download(&sum, here->result, sizeof sum));
    return sum;
  }
  Status scale(std::span<const FloatRun> runs, double factor) override {
    OMNIBAL_ASSIGN_OR_RETURN(const DeviceList *here, lists->get(gradientsOf(runs)));
    return here->list.count == 0
               ? Status::ok()
               : check(launchScale(here->list, factor, nullptr, queue), "scaling");
  }
  Status fillZero(std::span<const FloatRun> runs) override {
    OMNIBAL_ASSIGN_OR_RETURN(const DeviceList *here, lists->get(gradientsOf(runs)));
    return here->list.count == 0 ? Status::ok()
                                 : check(launchZero(here->list, queue), "writing zeros");
  }

  Mark mark() override {
    if (used == marks.size()) {
      auto made = Event::create(true);
      if (!made)
        return fail(std::move(made).status());
      marks.push_back(*std::move(made));
    }
    if (Status status = marks[used]->record(queue); !status)
      return fail(std::move(status));
    return {static_cast<int64_t>(used++)};
  }
  Status reach(Mark mark) override {
    OMNIBAL_RETURN_IF_ERROR(health);
    return marks[mark.value]->wait(deadline, "the end of its work");
  }
  /// From the first mark, whose time is known on the host. A difference of CUDA's times is a float
  /// of milliseconds: exact enough over one run of a mode, which is why marks are forgotten.
  Clock::time_point timeOf(Mark mark) const override {
    float milliseconds = 0;
    if (mark.value > 0 && health &&
        cudaEventElapsedTime(&milliseconds, marks[0]->handle(), marks[mark.value]->handle()) !=
            cudaSuccess)
      milliseconds = 0;
    return origin + std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double, std::milli>(milliseconds));
  }
  void forgetMarks() override {
    used = 0;
    Mark first = mark();
    if (health)
      if (Status status = reach(first); !status)
        (void)fail(std::move(status));
    origin = Clock::now();
  }

private:
  CudaBackend() = default;

  /// Marks cannot fail; the next reach() does.
  Mark fail(Status status) {
    if (health)
      health = std::move(status);
    return {};
  }

  static std::vector<UpdateTensor> listOf(std::span<const AdamWTensor> tensors) {
    std::vector<UpdateTensor> list;
    for (const AdamWTensor &t : tensors)
      list.push_back({t.param, t.grad, t.moment1, t.moment2, t.copy, t.elements, t.decay});
    return list;
  }
  static std::vector<UpdateTensor> gradientsOf(std::span<const FloatRun> runs) {
    std::vector<UpdateTensor> list;
    for (const FloatRun &run : runs) {
      UpdateTensor &tensor = list.emplace_back();
      tensor.grad = run.data;
      tensor.elements = run.elements;
    }
    return list;
  }

  static Result<std::unique_ptr<std::byte[]>> hostBuffer(int64_t bytes) {
    std::unique_ptr<std::byte[]> buffer(new (std::nothrow) std::byte[bytes]);
    if (!buffer)
      return Status(Code::OutOfMemory,
                    "cannot allocate " + std::to_string(bytes) + " bytes of host memory");
    return buffer;
  }

  Communicator::Milliseconds deadline{};
  std::unique_ptr<Stream> stream;
  cudaStream_t queue = nullptr;
  std::unique_ptr<Staging> staging;
  ReadbackPool readbacks;
  std::unique_ptr<UpdateLists> lists;
  std::unique_ptr<ProgramCode> code;
  std::unique_ptr<Libraries> libraries;
  std::vector<std::shared_ptr<Event>> marks;
  size_t used = 0;
  Clock::time_point origin;
  Status health; ///< what the first mark that failed says
};

} // namespace

Result<std::unique_ptr<Backend>> openCudaBackend(int device, const BackendOptions &options) {
  return CudaBackend::open(device, options);
}

} // namespace omnibal::rt::cuda
