#include "runtime/backends/cuda/CudaBackend.h"
#include "runtime/backends/cuda/MultiTensorLists.h"
#include "runtime/backends/cuda/Sums.h"
#include "runtime/backends/cuda/calls/KernelTable.h"
#include "runtime/backends/cuda/comm/Transports.h"
#include "runtime/backends/cuda/driver/DeviceArena.h"
#include "runtime/backends/cuda/driver/EventLog.h"
#include "runtime/backends/cuda/driver/GraphCapture.h"
#include "runtime/backends/cuda/libraries/Libraries.h"
#include "runtime/device/DynamicMap.h"
#include <new>

namespace omnibal::rt::cuda {
namespace {

class CudaBackend final : public Backend {
public:
  static Result<std::unique_ptr<Backend>> open(int device, const BackendOptions &options) {
    OMNIBAL_RETURN_IF_ERROR(check(cudaSetDevice(device), "choosing the device"));
    std::unique_ptr<CudaBackend> made(new CudaBackend);
    made->deadline = options.deadline;
    made->device = device;
    OMNIBAL_ASSIGN_OR_RETURN(made->stream, Stream::create());
    made->queue = made->stream->handle();
    OMNIBAL_ASSIGN_OR_RETURN(made->staging,
                             Staging::create(made->queue, Staging::defaultBytes, options.deadline));
    made->lists = std::make_unique<MultiTensorLists>(made->queue, *made->staging, made->own);
    cudaDeviceProp properties{};
    OMNIBAL_RETURN_IF_ERROR(
        check(cudaGetDeviceProperties(&properties, device), "looking at the device"));
    made->libraries = std::make_unique<Libraries>(
        properties.name, properties.major * 10 + properties.minor, made->queue, &made->own);
    made->events = std::make_unique<EventLog>(made->queue, options.deadline);
    made->batchRing = batchRingBytes(options.batchBytes);
    made->own.expect("batch values", made->batchRing);
    made->own.expect("optimizer's lists", options.updateListBytes);
    made->own.expect("moves among parts", options.moveBytes);
    made->mostGraphs = graphsFromEnvironment();
    OMNIBAL_RETURN_IF_ERROR(made->events->restart());
    return std::unique_ptr<Backend>(std::move(made));
  }

  /// Work that is still under way uses what goes now.
  ~CudaBackend() override {
    if (events)
      (void)finish();
  }

  bool isSynchronous() const override { return false; }
  bool takeKeyRoom(int64_t bytes) override {
    auto taken = DeviceBuffer::allocate(bytes + own.outstanding(), queue);
    if (withoutKeys || !taken)
      return false;
    keyRoom = *std::move(taken);
    return true;
  }
  void giveKeyRoom() override { keyRoom.reset(); }

  Result<std::unique_ptr<Arena>> allocateArena(int64_t bytes, bool guarded) override {
    return allocateDeviceArena(bytes, guarded, queue, *staging, own);
  }
  std::vector<WorkspaceUse> workspaceOf() const override { return own.list(); }
  Status loadCode(const std::string &path) override {
    OMNIBAL_ASSIGN_OR_RETURN(code, ProgramCode::load(path));
    return Status::ok();
  }
  Result<std::unique_ptr<Kernel>> createKernel(const BoundCall &call) override {
    return createDeviceKernel(
        call, {queue, code.get(), libraries.get(), &load, &partials, &own, &withoutKeys});
  }
  Result<std::unique_ptr<Transport>> openTransport(Communicator &control,
                                                   const RankGroups &groups) override {
    auto eventOf = [this](Event event) { return events->event(event); };
    auto timeOf = [this](const DriverEvent &event) { return events->timeOf(event); };
    return openRankTransport(control, {device, queue, deadline, eventOf, timeOf}, groups);
  }

  Status write(void *to, int64_t bytes, const std::function<Status(std::byte *)> &fill) override {
    OMNIBAL_RETURN_IF_ERROR(useHere());
    OMNIBAL_ASSIGN_OR_RETURN(auto buffer, hostBuffer(bytes));
    OMNIBAL_RETURN_IF_ERROR(fill(buffer.get()));
    return staging->upload(to, buffer.get(), bytes);
  }
  Status read(const void *from, int64_t bytes,
              const std::function<Status(const std::byte *)> &use) override {
    OMNIBAL_RETURN_IF_ERROR(useHere());
    OMNIBAL_ASSIGN_OR_RETURN(auto buffer, hostBuffer(bytes));
    OMNIBAL_RETURN_IF_ERROR(staging->download(buffer.get(), from, bytes));
    return use(buffer.get());
  }
  Status upload(void *to, const void *from, int64_t bytes) override {
    return staging->upload(to, from, bytes);
  }
  Status prefetch(void *to, int64_t bytes,
                  const std::function<Status(std::byte *)> &fill) override {
    if (!prefetcher) {
      OMNIBAL_ASSIGN_OR_RETURN(prefetcher, Prefetcher::create(queue, batchRing, deadline));
      own.took("batch values", batchRing);
    }
    return prefetcher->takes(bytes) ? prefetcher->upload(to, bytes, fill) : write(to, bytes, fill);
  }
  Status zero(void *to, int64_t bytes) override {
    return bytes > 0 ? check(cudaMemsetAsync(to, 0, bytes, queue), "writing zeros") : Status::ok();
  }
  Result<HostCopy> startRead(const void *from, int64_t bytes) override {
    OMNIBAL_ASSIGN_OR_RETURN(std::byte * to, readbacks.take(bytes));
    if (bytes > 0)
      OMNIBAL_RETURN_IF_ERROR(check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue),
                                    "a copy from the device"));
    return HostCopy{to, recordEvent()};
  }
  void release(const HostCopy &readback) override { readbacks.giveBack(readback.data); }

  Status update(std::span<const UpdatedTensor> tensors, const UpdateOptions &options) override {
    if (updatesMatrices(options.kind))
      return invalid("target cuda has no such update");
    OMNIBAL_ASSIGN_OR_RETURN(const DeviceList *here, lists->get(listOf(tensors)));
    if (here->list.count == 0)
      return Status::ok();
    if (options.scaleOfStep)
      OMNIBAL_RETURN_IF_ERROR(openSums());
    const float *stepScale = options.scaleOfStep ? sums->scale() : nullptr;
    if (!isCoded(options.kind))
      return check(launchUpdate({here->list, options}, stepScale, queue), "the update");
    OMNIBAL_ASSIGN_OR_RETURN(const float *maps, codedMaps());
    return check(launchCodedUpdate({here->list, options}, maps, stepScale, queue), "the update");
  }
  Status copyParameters(std::span<const UpdatedTensor> tensors) override {
    std::vector<UpdateTensor> copied = listOf(tensors);
    std::erase_if(copied, [](const UpdateTensor &t) { return !t.copy; });
    OMNIBAL_ASSIGN_OR_RETURN(const DeviceList *here, lists->get(std::move(copied)));
    return here->list.count == 0 ? Status::ok()
                                 : check(launchCopyParameters(here->list, queue), "copying");
  }
  Status average(std::span<const AveragedTensor> tensors, double decay) override {
    OMNIBAL_ASSIGN_OR_RETURN(const DeviceList *here, lists->get(averagesOf(tensors)));
    if (here->list.count == 0)
      return Status::ok();
    OMNIBAL_RETURN_IF_ERROR(openSums());
    return check(launchAverage(here->list, decay, sums->scale(), queue), "an average");
  }
  Status exchange(std::span<const AveragedTensor> tensors) override {
    OMNIBAL_ASSIGN_OR_RETURN(const DeviceList *here, lists->get(averagesOf(tensors)));
    return here->list.count == 0
               ? Status::ok()
               : check(launchExchange(here->list, queue), "exchanging values and averages");
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

  Status addLosses(std::span<const float> losses, LossKind kind) override {
    OMNIBAL_RETURN_IF_ERROR(openSums());
    return sums->add(losses, kind);
  }
  Result<HostCopy> finishSums(std::span<const FloatRun> gradients, Transport &transport,
                              const SumsOptions &options) override {
    OMNIBAL_RETURN_IF_ERROR(openSums());
    OMNIBAL_ASSIGN_OR_RETURN(const DeviceList *here, lists->get(gradientsOf(gradients)));
    OMNIBAL_RETURN_IF_ERROR(
        check(launchSquaredNorm(here->list, here->partial, here->result, queue), "a norm"));
    if (!options.sharers.empty()) {
      OMNIBAL_RETURN_IF_ERROR(transport.gather(
          sumsOfOwners(gradients, options.owners, here->partial), options.sharers));
      OMNIBAL_RETURN_IF_ERROR(
          check(launchAddUp(here->partial, here->list.count, here->result, queue), "a norm"));
    }
    OMNIBAL_ASSIGN_OR_RETURN(
        std::span<float> slots,
        sums->finish(options.counts ? here->result : nullptr, transport, options));
    return startRead(slots.data(), static_cast<int64_t>(slots.size_bytes()));
  }
  Status restartSums() override { return sums ? sums->restart() : Status::ok(); }

  void expectLoad(const Load &expected) override { load = expected; }
  bool goesBySamples() const override { return libraries->usesAttention(); }
  int graphs() const override { return mostGraphs; }
  Status beginCapture() override { return startCapture(queue); }
  Result<std::unique_ptr<CapturedGraph>> endCapture() override { return finishCapture(queue); }
  Status enqueue(CapturedGraph &work) override { return launchGraph(work, queue); }

  Event recordEvent() override { return events->add(); }
  Status reach(Event event) override { return events->reach(event); }
  Clock::time_point timeOf(Event event) const override { return events->timeOf(event); }
  void forgetEvents() override { (void)events->restart(); } // what fails fails again in reach()
  void forgetEventsBefore(Event event) override { events->forgetBefore(event); }

private:
  CudaBackend() = default;

  /// A thread that does a rank's work for a while has not chosen the device.
  Status useHere() const { return check(cudaSetDevice(device), "choosing the device"); }

  Status openSums() {
    if (!sums) {
      OMNIBAL_ASSIGN_OR_RETURN(sums, Sums::create(queue, *staging));
    }
    return Status::ok();
  }

  static std::vector<UpdateTensor> listOf(std::span<const UpdatedTensor> tensors) {
    std::vector<UpdateTensor> list;
    for (const UpdatedTensor &t : tensors) {
      UpdateTensor &tensor = list.emplace_back();
      tensor = {t.param, t.grad, t.moment1, t.moment2, t.copy, t.elements, t.rate};
      if (t.coded1.codes) { // both moments lie alike
        tensor.moment1 = t.coded1.scales;
        tensor.moment2 = t.coded2.scales;
        tensor.codes = t.coded1.codes - reinterpret_cast<const uint8_t *>(t.coded1.scales);
      }
    }
    return list;
  }
  /// What codes of moments stand for, and the borders between them.
  Result<const float *> codedMaps() {
    if (!maps) {
      std::vector<float> numbers;
      for (const DynamicMap *map : {&signedMap(), &unsignedMap()}) {
        numbers.insert(numbers.end(), map->values.begin(), map->values.end());
        numbers.insert(numbers.end(), map->borders.begin(), map->borders.end());
        numbers.push_back(0); // behind the last value there is no border
      }
      const auto bytes = static_cast<int64_t>(numbers.size() * sizeof(float));
      OMNIBAL_ASSIGN_OR_RETURN(maps, DeviceBuffer::allocate(bytes, queue));
      own.took("values of codes", bytes);
      OMNIBAL_RETURN_IF_ERROR(staging->upload(maps->data(), numbers.data(), bytes));
    }
    return reinterpret_cast<const float *>(maps->data());
  }
  static std::vector<UpdateTensor> averagesOf(std::span<const AveragedTensor> tensors) {
    std::vector<UpdateTensor> list;
    for (const AveragedTensor &t : tensors) {
      UpdateTensor &tensor = list.emplace_back();
      tensor.param = t.value;
      tensor.moment1 = t.average;
      tensor.elements = t.elements;
    }
    return list;
  }
  static std::vector<UpdateTensor> gradientsOf(std::span<const FloatRun> runs) {
    std::vector<UpdateTensor> list;
    for (const FloatRun &run : runs) {
      UpdateTensor &tensor = list.emplace_back();
      tensor.grad = run.data;
      tensor.elements = run.elements;
      tensor.phase = static_cast<int32_t>(run.phase % normBlock);
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
  int device = 0;
  WorkspaceLedger own;
  std::unique_ptr<Stream> stream;
  cudaStream_t queue = nullptr;
  std::unique_ptr<Staging> staging;
  ReadbackPool readbacks;
  std::unique_ptr<MultiTensorLists> lists;
  std::unique_ptr<ProgramCode> code;
  std::unique_ptr<DeviceBuffer> partials, maps, keyRoom;
  std::unique_ptr<Libraries> libraries;
  std::unique_ptr<EventLog> events;
  std::unique_ptr<Prefetcher> prefetcher;
  std::unique_ptr<Sums> sums;
  bool withoutKeys = false; ///< some kernel cannot go on from kept keys
  int64_t batchRing = 0;
  int mostGraphs = 0;
  Load load;
};

} // namespace

Result<std::unique_ptr<Backend>> openCudaBackend(int device, const BackendOptions &options) {
  return CudaBackend::open(device, options);
}

} // namespace omnibal::rt::cuda
