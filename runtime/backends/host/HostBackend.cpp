//===- HostBackend.cpp - The host as a device: every call performs its work ------------------===//
#include "runtime/backends/host/HostBackend.h"
#include "runtime/backends/host/Adafactor.h"
#include "runtime/backends/host/HostArena.h"
#include "runtime/backends/host/Optimizer.h"
#include "runtime/backends/host/Orthogonalize.h"
#include "runtime/backends/host/PartExchange.h"
#include "runtime/comm/StepSums.h"
#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <numeric>
#include <string>

namespace omnibal::rt {
namespace {

/// Tensors go the way of all messages.
class HostTransport final : public Transport {
public:
  explicit HostTransport(Communicator &communicator) : communicator(communicator) {}

  Result<Handle> send(int peer, int64_t tag, std::span<const Piece> pieces) override {
    return communicator.send(peer, tag, pieces);
  }
  Result<Handle> receive(int peer, int64_t tag, std::span<const Piece> pieces) override {
    return communicator.receive(peer, tag, pieces);
  }
  Status wait(Handle handle) override {
    return handle == performed ? Status::ok() : communicator.wait(handle);
  }
  void progress() override { communicator.progress(); }
  Result<Handle> startSum(std::span<const FloatRun> runs, std::span<const int> ranks,
                          std::optional<Event>) override {
    for (const FloatRun &run : runs)
      OMNIBAL_RETURN_IF_ERROR(communicator.allReduce(
          std::span<float>(run.data, static_cast<size_t>(run.elements)), ranks));
    return performed;
  }
  Result<Handle> startScatter(std::span<const OwnedPiece> pieces, std::span<const int> ranks,
                              std::optional<Event>) override {
    OMNIBAL_RETURN_IF_ERROR(communicator.reduceScatter(pieces, ranks));
    return performed;
  }
  Result<Handle> startGather(std::span<const OwnedPiece> pieces,
                             std::span<const int> ranks) override {
    OMNIBAL_RETURN_IF_ERROR(communicator.allGather(pieces, ranks));
    return performed;
  }
  Status exchange(const PartMove &move, std::span<const TensorView> operands,
                  const SymbolValues &symbols, std::span<const int> ranks) override {
    return exchangeParts(communicator, move, operands, symbols, ranks);
  }
  Status gatherSlots(std::span<float> slots, std::span<const int> ranks, size_t place) override {
    const size_t length = slots.size() / ranks.size();
    const std::vector<float> mine(slots.begin() + place * length,
                                  slots.begin() + (place + 1) * length);
    return communicator.allGather(std::as_bytes(std::span(mine)), std::as_writable_bytes(slots),
                                  ranks);
  }
  Result<Handle> startBroadcast(std::span<const Piece> pieces, int root,
                                std::span<const int> ranks) override {
    for (const Piece &piece : pieces)
      OMNIBAL_RETURN_IF_ERROR(communicator.broadcast(
          {static_cast<std::byte *>(piece.data), static_cast<size_t>(piece.bytes)}, root, ranks));
    return performed;
  }

private:
  static constexpr Handle performed = -1; ///< handles of messages are not negative

  Communicator &communicator;
};

class HostBackend final : public Backend {
public:
  explicit HostBackend(const BackendOptions &options) : pool(*options.pool) {}
  ~HostBackend() override {
    if (library)
      dlclose(library);
  }

  bool isSynchronous() const override { return true; }
  bool takeKeyRoom(int64_t) override { return true; }

  Result<std::unique_ptr<Arena>> allocateArena(int64_t bytes, bool guarded) override {
    return allocateHostArena(bytes, guarded);
  }
  Status loadCode(const std::string &name) override {
    // dlopen looks along the library path unless the name has a slash.
    std::string path = name.find('/') == std::string::npos ? "./" + name : name;
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library)
      return Status::ok();
    const char *why = dlerror();
    return {Code::Unavailable, path + ": cannot be loaded: " + (why ? why : "no reason")};
  }
  Result<std::unique_ptr<Kernel>> createKernel(const BoundCall &call) override {
    if (!library)
      return createHostKernel(call);
    BoundCall withCode = call;
    withCode.library = library;
    withCode.symbol = [](void *code, const char *name) { return dlsym(code, name); };
    return createHostKernel(withCode);
  }
  Result<std::unique_ptr<Transport>> openTransport(Communicator &control,
                                                   const RankGroups &) override {
    return std::unique_ptr<Transport>(std::make_unique<HostTransport>(control));
  }

  Status write(void *to, int64_t, const std::function<Status(std::byte *)> &fill) override {
    return fill(static_cast<std::byte *>(to));
  }
  Status read(const void *from, int64_t,
              const std::function<Status(const std::byte *)> &use) override {
    return use(static_cast<const std::byte *>(from));
  }
  Status upload(void *to, const void *from, int64_t bytes) override {
    if (bytes > 0)
      std::memcpy(to, from, bytes);
    return Status::ok();
  }
  Status zero(void *to, int64_t bytes) override {
    if (bytes > 0)
      std::memset(to, 0, bytes);
    return Status::ok();
  }
  Result<HostCopy> startRead(const void *from, int64_t) override {
    return HostCopy{static_cast<const std::byte *>(from), {}};
  }

  Status update(std::span<const UpdatedTensor> tensors, const UpdateOptions &options) override {
    UpdateOptions scaled = options;
    if (options.scaleOfStep) {
      if (std::isnan(stepScale))
        return Status::ok();
      scaled.gradientScale *= stepScale;
    }
    if (options.kind == OptimizerKind::Adafactor) {
      for (const UpdatedTensor &tensor : tensors)
        updateAdafactor(tensor, scaled, pool);
      return Status::ok();
    }
    std::vector<UpdatedTensor> others, matrices;
    for (const UpdatedTensor &tensor : tensors)
      (tensor.rows > 0 ? matrices : others).push_back(tensor);
    rt::update(others, scaled, pool);
    return updateMatrices(matrices, scaled);
  }
  Result<double> squaredNorm(std::span<const FloatRun> runs) override {
    return rt::squaredNorm(runs, pool);
  }
  Status copyParameters(std::span<const UpdatedTensor> tensors) override {
    rt::copyParameters(tensors, pool);
    return Status::ok();
  }
  Status average(std::span<const AveragedTensor> tensors, double decay) override {
    if (!std::isnan(stepScale))
      rt::average(tensors, decay, pool);
    return Status::ok();
  }
  Status exchange(std::span<const AveragedTensor> tensors) override {
    rt::exchange(tensors, pool);
    return Status::ok();
  }
  Status scale(std::span<const FloatRun> runs, double factor) override {
    rt::scale(runs, factor, pool);
    return Status::ok();
  }
  Status fillZero(std::span<const FloatRun> runs) override {
    rt::fillZero(runs, pool);
    return Status::ok();
  }

  Status addLosses(std::span<const float> losses, LossKind kind) override {
    double sum = 0;
    for (float loss : losses)
      sum += loss;
    lossesOfStep[static_cast<int>(kind)] += sum;
    return Status::ok();
  }
  Result<HostCopy> finishSums(std::span<const FloatRun> gradients, Transport &transport,
                              const SumsOptions &options) override {
    std::vector<float> byRank(options.ranks.size() * slotFloats);
    std::vector<double> squares = squaresOfBlocks(gradients, pool);
    if (!options.sharers.empty())
      OMNIBAL_RETURN_IF_ERROR(transport.gather(
          sumsOfOwners(gradients, options.owners, squares.data()), options.sharers));
    const double squaredNorm =
        options.counts ? std::accumulate(squares.begin(), squares.end(), 0.0) : 0;
    encodeSums(sumsOf(lossesOfStep, squaredNorm),
               byRank.data() + static_cast<size_t>(options.rank) * slotFloats);
    std::fill_n(lossesOfStep, lossKinds, 0.0);
    OMNIBAL_RETURN_IF_ERROR(transport.gatherSlots(byRank, options.ranks, options.rank));
    slots.resize(byRank.size());
    for (size_t rank = 0; rank < options.places.size(); ++rank)
      std::copy_n(byRank.begin() + static_cast<ptrdiff_t>(rank * slotFloats), slotFloats,
                  slots.begin() + ptrdiff_t{options.places[rank]} * slotFloats);
    if (options.updates)
      stepScale = updateScale(totalOf(slots.data(), static_cast<int>(options.ranks.size())),
                              options.labels, options.clip);
    return HostCopy{reinterpret_cast<const std::byte *>(slots.data()), recordEvent()};
  }
  Status restartSums() override {
    stepScale = 1;
    return Status::ok();
  }

  Event recordEvent() override { return {Clock::now().time_since_epoch().count()}; }
  Status reach(Event) override { return Status::ok(); }
  Clock::time_point timeOf(Event event) const override {
    return Clock::time_point(Clock::duration(event.value));
  }

private:
  /// The memory for it is the largest matrix's, and is kept (runtime/program/Workspace.h).
  Status updateMatrices(std::span<const UpdatedTensor> matrices, const UpdateOptions &options) {
    for (const UpdatedTensor &matrix : matrices) {
      const auto floats = static_cast<size_t>(orthogonalizationFloats(matrix.rows, matrix.cols));
      if (floats > matrixFloats) {
        matrixScratch.reset();
        matrixScratch.reset(new (std::nothrow) float[floats]);
        if (!matrixScratch)
          return {Code::OutOfMemory, "no memory for the update of a matrix of " +
                                         std::to_string(matrix.rows) + " x " +
                                         std::to_string(matrix.cols)};
        matrixFloats = floats;
      }
      OMNIBAL_RETURN_IF_ERROR(updateMatrix(matrix, options, {matrixScratch.get(), floats}, pool));
    }
    return Status::ok();
  }

  ThreadPool &pool;
  void *library = nullptr;
  std::unique_ptr<float[]> matrixScratch;
  size_t matrixFloats = 0;
  double lossesOfStep[lossKinds] = {}; ///< by LossKind
  float stepScale = 1;
  std::vector<float> slots;
};

class HostKind final : public BackendKind {
public:
  std::string description() const override { return "host"; }
  Result<std::unique_ptr<Backend>> open(const BackendOptions &options) override {
    return std::unique_ptr<Backend>(std::make_unique<HostBackend>(options));
  }
};

} // namespace

BackendKind &hostBackendKind() {
  static HostKind kind;
  return kind;
}

} // namespace omnibal::rt
