#include "runtime/backends/cuda/comm/NcclTransport.h"
#include "runtime/backends/cuda/comm/DeviceMove.h"
#include "runtime/backends/cuda/comm/NcclRanks.h"
#include <algorithm>
#include <deque>

namespace omnibal::rt::cuda {
namespace {

using EventPointer = std::shared_ptr<DriverEvent>;

/// Broadcasts in one group of NCCL's; there are limits of a few thousand.
constexpr size_t mostInGroup = 512;

/// One side of a message, or what a group of ranks does together.
struct Operation {
  bool sends = false;
  int peer = -1;
  int64_t tag = 0;
  std::string together; ///< names it for messages where there is no peer
  std::vector<Transport::Piece> pieces;
  EventPointer begun; ///< of a sum
  EventPointer done;  ///< set when it has been given to NCCL
};
using OperationPointer = std::shared_ptr<Operation>;

class NcclTransport final : public Transport, WaitWatch {
public:
  NcclTransport(Communicator &control, const RankStream &queue, std::unique_ptr<NcclRanks> ranks,
                std::unique_ptr<Stream> messages, std::unique_ptr<Stream> sums,
                std::unique_ptr<Stream> moves)
      : control(control), queue(queue), messages(std::move(messages)), sums(std::move(sums)),
        moves(std::move(moves)), ranks(std::move(ranks)), nccl(this->ranks->api()) {
    watchWaits(this);
  }

  ~NcclTransport() override {
    bool orderly = open.empty() && failed.isOk() && control.health().isOk();
    orderly = orderly && finishStream(*messages) && finishStream(*sums) && finishStream(*moves);
    watchWaits(nullptr);
    if (orderly && ranks->finish())
      return;
    ranks->abort(); // what waits for other ranks on the device ends
    (void)cudaStreamSynchronize(messages->handle());
    (void)cudaStreamSynchronize(sums->handle());
    (void)cudaStreamSynchronize(moves->handle());
  }

  Result<Handle> send(int peer, int64_t tag, std::span<const Piece> pieces) override {
    return post(true, peer, tag, pieces);
  }
  Result<Handle> receive(int peer, int64_t tag, std::span<const Piece> pieces) override {
    return post(false, peer, tag, pieces);
  }

  Status wait(Handle handle) override {
    auto found = open.find(handle);
    if (found == open.end())
      return {Code::Internal, "wait for an operation that was never started"};
    OperationPointer operation = found->second;
    OMNIBAL_RETURN_IF_ERROR(flush());
    open.erase(handle);
    return operation->done ? orderBehind(queue.stream, *operation->done) : Status::ok();
  }

  void progress() override {
    (void)fail(flush()); // the next wait tells
  }

  Result<Handle> startSum(std::span<const FloatRun> runs, std::span<const int> members,
                          std::optional<Event> after) override {
    std::vector<int> group(members.begin(), members.end());
    Handle handle = next++;
    auto operation = open[handle] = std::make_shared<Operation>();
    operation->together = "the sum of gradients with other ranks";
    OMNIBAL_ASSIGN_OR_RETURN(nccl::Communicator communicator, join(group, after));
    if (!communicator)
      return handle;
    OMNIBAL_ASSIGN_OR_RETURN(operation->begun, DriverEvent::after(sums->handle(), true));
    OMNIBAL_RETURN_IF_ERROR(begin());
    for (const FloatRun &run : runs)
      if (run.elements > 0)
        OMNIBAL_RETURN_IF_ERROR(
            call(nccl.ncclAllReduce(run.data, run.data, run.elements, nccl::Float32, nccl::Sum,
                                    communicator, sums->handle()),
                 "a sum", communicator));
    OMNIBAL_RETURN_IF_ERROR(end("a sum", communicator));
    OMNIBAL_ASSIGN_OR_RETURN(operation->done, DriverEvent::after(sums->handle(), true));
    underWay.push_back(operation);
    return handle;
  }

  Result<Handle> startBroadcast(std::span<const Piece> pieces, int root,
                                std::span<const int> members) override {
    std::vector<int> group(members.begin(), members.end());
    const auto position = std::find(group.begin(), group.end(), root);
    if (position == group.end())
      return Status(Code::Internal, "a broadcast's ranks must contain its root");
    Handle handle = next++;
    auto operation = open[handle] = std::make_shared<Operation>();
    operation->together = "what rank " + std::to_string(root) + " tells the others";
    OMNIBAL_ASSIGN_OR_RETURN(nccl::Communicator communicator, join(group, std::nullopt));
    if (!communicator)
      return handle;
    for (; !pieces.empty(); pieces = pieces.subspan(std::min(pieces.size(), mostInGroup))) {
      OMNIBAL_RETURN_IF_ERROR(begin());
      for (const Piece &piece : pieces.first(std::min(pieces.size(), mostInGroup)))
        if (piece.bytes > 0)
          OMNIBAL_RETURN_IF_ERROR(
              call(nccl.ncclBroadcast(piece.data, piece.data, piece.bytes, nccl::Bytes,
                                      static_cast<int>(position - group.begin()), communicator,
                                      sums->handle()),
                   "a broadcast", communicator));
      OMNIBAL_RETURN_IF_ERROR(end("a broadcast", communicator));
    }
    OMNIBAL_ASSIGN_OR_RETURN(operation->done, DriverEvent::after(sums->handle()));
    underWay.push_back(operation);
    return handle;
  }

  /// NCCL's own reduce-scatter wants equal shares that follow each other; these are neither.
  Result<Handle> startScatter(std::span<const OwnedPiece> pieces, std::span<const int> members,
                              std::optional<Event> after) override {
    return forOwners(pieces, members, after, "the sum of gradients with other ranks",
                     [this](const OwnedPiece &piece, nccl::Communicator communicator) {
                       return nccl.ncclReduce(piece.data, piece.data, piece.bytes / sizeof(float),
                                              nccl::Float32, nccl::Sum, piece.owner, communicator,
                                              sums->handle());
                     });
  }

  Result<Handle> startGather(std::span<const OwnedPiece> pieces,
                             std::span<const int> members) override {
    return forOwners(pieces, members, std::nullopt, "what each rank tells the others",
                     [this](const OwnedPiece &piece, nccl::Communicator communicator) {
                       return nccl.ncclBroadcast(piece.data, piece.data, piece.bytes, nccl::Bytes,
                                                 piece.owner, communicator, sums->handle());
                     });
  }

  /// Over messages in the group's communicator, on a stream of its own: neither sums of gradients
  /// nor messages between stages, which may wait long, are in front of it. Sums are in the order of
  /// parts, as in one process.
  Status exchange(const PartMove &move, std::span<const TensorView> operands,
                  const SymbolValues &symbols, std::span<const int> members) override {
    const std::vector<int> parts(members.begin(), members.end());
    const auto place = std::find(parts.begin(), parts.end(), control.rank()) - parts.begin();
    OMNIBAL_ASSIGN_OR_RETURN(const DeviceMove own,
                             DeviceMove::of(move, operands, symbols, static_cast<int>(place),
                                            static_cast<int>(parts.size())));
    if (!own.sends())
      return own.performAlone(queue.stream);
    const nccl::Communicator communicator = ranks->of(parts);
    if (!communicator)
      return fail({Code::Internal, "the transport was not opened for this group of ranks"});
    OMNIBAL_RETURN_IF_ERROR(flush());
    OMNIBAL_ASSIGN_OR_RETURN(EventPointer ready, DriverEvent::after(queue.stream));
    OMNIBAL_RETURN_IF_ERROR(orderBehind(moves->handle(), *ready));
    OMNIBAL_RETURN_IF_ERROR(own.kind == PartMoveKind::AllReduce ? sumEverywhere(own, communicator)
                                                                : moveUnits(own, communicator));
    auto operation = std::make_shared<Operation>();
    operation->together = "a move among the parts of a stage";
    OMNIBAL_ASSIGN_OR_RETURN(operation->done, DriverEvent::after(moves->handle()));
    underWay.push_back(operation);
    return orderBehind(queue.stream, *operation->done);
  }

  std::function<TimeSpan()> clockOf(Handle sum) override {
    auto found = open.find(sum);
    if (found == open.end() || !found->second->begun || !found->second->done)
      return nullptr;
    return [operation = found->second, timeOf = queue.timeOf] {
      return TimeSpan{timeOf(*operation->begun), timeOf(*operation->done)};
    };
  }

private:
  /// The group's communicator, when the stream of sums is behind `after`; null for a rank by
  /// itself.
  Result<nccl::Communicator> join(const std::vector<int> &group, std::optional<Event> after) {
    if (group.size() == 1 && control.size() > 1)
      return nccl::Communicator(nullptr);
    nccl::Communicator communicator = ranks->of(group);
    if (!communicator)
      return fail({Code::Internal, "the transport was not opened for this group of ranks"});
    OMNIBAL_RETURN_IF_ERROR(flush()); // launched in the order of the calls
    OMNIBAL_ASSIGN_OR_RETURN(EventPointer ready, queue.eventOf(after));
    OMNIBAL_RETURN_IF_ERROR(orderBehind(sums->handle(), *ready));
    return communicator;
  }

  /// A call for each piece, in groups.
  template <typename Call>
  Result<Handle> forOwners(std::span<const OwnedPiece> pieces, std::span<const int> members,
                           std::optional<Event> after, const char *together, Call callFor) {
    std::vector<int> group(members.begin(), members.end());
    Handle handle = next++;
    auto operation = open[handle] = std::make_shared<Operation>();
    operation->together = together;
    OMNIBAL_ASSIGN_OR_RETURN(nccl::Communicator communicator, join(group, after));
    if (!communicator)
      return handle;
    OMNIBAL_ASSIGN_OR_RETURN(operation->begun, DriverEvent::after(sums->handle(), true));
    for (; !pieces.empty(); pieces = pieces.subspan(std::min(pieces.size(), mostInGroup))) {
      OMNIBAL_RETURN_IF_ERROR(begin());
      for (const OwnedPiece &piece : pieces.first(std::min(pieces.size(), mostInGroup)))
        if (piece.bytes > 0)
          OMNIBAL_RETURN_IF_ERROR(call(callFor(piece, communicator), together, communicator));
      OMNIBAL_RETURN_IF_ERROR(end(together, communicator));
    }
    OMNIBAL_ASSIGN_OR_RETURN(operation->done, DriverEvent::after(sums->handle(), true));
    underWay.push_back(operation);
    return handle;
  }

  /// What a part sends to another one and gets from it.
  struct Letter {
    const std::byte *out = nullptr;
    std::byte *in = nullptr;
    int64_t outBytes = 0, inBytes = 0;
  };

  /// `letters`: by part.
  Status swap(const std::vector<Letter> &letters, nccl::Communicator communicator) {
    const std::string what = "a move among the parts of a stage";
    OMNIBAL_RETURN_IF_ERROR(begin());
    for (size_t part = 0; part < letters.size(); ++part) {
      const Letter &each = letters[part];
      const int peer = static_cast<int>(part);
      if (each.outBytes > 0)
        OMNIBAL_RETURN_IF_ERROR(call(nccl.ncclSend(each.out, each.outBytes, nccl::Bytes, peer,
                                                   communicator, moves->handle()),
                                     what, communicator));
      if (each.inBytes > 0)
        OMNIBAL_RETURN_IF_ERROR(call(
            nccl.ncclRecv(each.in, each.inBytes, nccl::Bytes, peer, communicator, moves->handle()),
            what, communicator));
    }
    return end(what, communicator);
  }

  /// Units of one part that others get, or their summands of them.
  Status moveUnits(const DeviceMove &own, nccl::Communicator communicator) {
    cudaStream_t stream = moves->handle();
    const int64_t width = bytesOf(own.type);
    std::vector<Letter> letters(own.parts);
    int64_t bytes = 0;
    for (int part = 0; part < own.parts; ++part)
      if (part != own.place) {
        letters[part].outBytes = own.common(own.place, part) * width;
        letters[part].inBytes = own.common(part, own.place) * width;
        bytes += letters[part].outBytes + letters[part].inBytes;
      }
    OMNIBAL_ASSIGN_OR_RETURN(const auto buffer, DeviceBuffer::allocate(bytes, stream));
    std::byte *next = buffer->data();
    for (int part = 0; part < own.parts; ++part) {
      Letter &each = letters[part];
      if (part != own.place)
        OMNIBAL_RETURN_IF_ERROR(own.pack(part, next, stream));
      each.out = next;
      each.in = next + each.outBytes;
      next = each.in + each.inBytes;
    }
    OMNIBAL_RETURN_IF_ERROR(swap(letters, communicator));
    const bool adds = own.kind == PartMoveKind::ReduceScatter;
    for (int part = 0; part < own.parts; ++part)
      OMNIBAL_RETURN_IF_ERROR(part == own.place
                                  ? own.copy(part, own.src, part, own.dst, adds && part > 0, stream)
                                  : own.unpack(part, letters[part].in, adds && part > 0, stream));
    return Status::ok();
  }

  /// Each part adds its share of the elements, and tells the others.
  Status sumEverywhere(const DeviceMove &own, nccl::Communicator communicator) {
    cudaStream_t stream = moves->handle();
    const int64_t width = bytesOf(own.type);
    auto share = [&](int part) { return own.wholeElements * part / own.parts * width; };
    const int64_t mine = share(own.place + 1) - share(own.place);
    OMNIBAL_ASSIGN_OR_RETURN(const auto buffer,
                             DeviceBuffer::allocate(mine * (own.parts + 1), stream));
    std::byte *sum = buffer->data() + mine * own.parts;
    std::vector<Letter> summands(own.parts), sums(own.parts);
    for (int part = 0; part < own.parts; ++part) {
      if (part == own.place)
        continue;
      const int64_t theirs = share(part + 1) - share(part);
      summands[part] = {own.src + share(part), buffer->data() + mine * part, theirs, mine};
      sums[part] = {own.dst + share(own.place), own.dst + share(part), mine, theirs};
    }
    OMNIBAL_RETURN_IF_ERROR(swap(summands, communicator));
    CopyShape add{{}, own.type, own.type};
    add.strides.append(mine / width, 1, 1);
    for (int part = 0; part < own.parts && mine > 0; ++part) {
      const std::byte *summand =
          part == own.place ? own.src + share(part) : buffer->data() + mine * part;
      add.accumulate = part > 0;
      OMNIBAL_RETURN_IF_ERROR(cuda::check(launchCopy(add, sum, summand, stream), "adding"));
    }
    if (mine > 0)
      OMNIBAL_RETURN_IF_ERROR(
          cuda::check(cudaMemcpyAsync(own.dst + share(own.place), sum, static_cast<size_t>(mine),
                                      cudaMemcpyDeviceToDevice, stream),
                      "a sum's copy"));
    return swap(sums, communicator);
  }

  Result<Handle> post(bool sends, int peer, int64_t tag, std::span<const Piece> pieces) {
    if (peer < 0 || peer >= control.size() || peer == control.rank())
      return Status(Code::Internal, "there is no rank " + std::to_string(peer) + " to talk to");
    auto operation = std::make_shared<Operation>();
    operation->sends = sends;
    operation->peer = peer;
    operation->tag = tag;
    operation->pieces.assign(pieces.begin(), pieces.end());
    // Sender: the data are made; receiver: the place is free.
    OMNIBAL_ASSIGN_OR_RETURN(EventPointer ready, DriverEvent::after(queue.stream));
    OMNIBAL_RETURN_IF_ERROR(orderBehind(messages->handle(), *ready));
    Handle handle = next++;
    open[handle] = operation;
    group.push_back(operation);
    return handle;
  }

  /// Gives NCCL what was started since the last time, as one group.
  Status flush() {
    OMNIBAL_RETURN_IF_ERROR(failed);
    if (group.empty())
      return Status::ok();
    OMNIBAL_RETURN_IF_ERROR(begin());
    nccl::Communicator world = ranks->world();
    for (const OperationPointer &operation : group)
      for (const Piece &piece : operation->pieces) {
        if (piece.bytes == 0)
          continue;
        nccl::Result result = operation->sends
                                  ? nccl.ncclSend(piece.data, piece.bytes, nccl::Bytes,
                                                  operation->peer, world, messages->handle())
                                  : nccl.ncclRecv(piece.data, piece.bytes, nccl::Bytes,
                                                  operation->peer, world, messages->handle());
        OMNIBAL_RETURN_IF_ERROR(call(result, describe(*operation), world));
      }
    OMNIBAL_RETURN_IF_ERROR(end("a group of messages", world));
    OMNIBAL_ASSIGN_OR_RETURN(EventPointer done, DriverEvent::after(messages->handle()));
    for (OperationPointer &operation : group) {
      operation->done = done;
      underWay.push_back(std::move(operation));
    }
    group.clear();
    OMNIBAL_RETURN_IF_ERROR(forgetTheFinished());
    return Status::ok();
  }

  Status begin() { return fail(ranks->check(nccl.ncclGroupStart(), "a group", nullptr)); }
  Status end(const std::string &what, nccl::Communicator communicator) {
    return fail(ranks->settle(nccl.ncclGroupEnd(), what, communicator));
  }
  Status call(nccl::Result result, const std::string &what, nccl::Communicator communicator) {
    Status status = ranks->check(result, what, communicator);
    if (!status)
      (void)nccl.ncclGroupEnd();
    return fail(std::move(status));
  }
  /// Errors stay.
  Status fail(Status status) {
    if (!status && failed)
      failed = status;
    return status;
  }

  Status forgetTheFinished() {
    while (!underWay.empty()) {
      OMNIBAL_ASSIGN_OR_RETURN(bool reached, underWay.front()->done->reached());
      if (!reached)
        break;
      underWay.pop_front();
    }
    return Status::ok();
  }

  bool finishStream(const Stream &stream) {
    auto end = DriverEvent::after(stream.handle());
    return end && (*end)->wait(queue.deadline, "the end of its messages");
  }

  static std::string describe(const Operation &operation) {
    return operation.peer < 0 ? operation.together
                              : "message " + std::to_string(operation.tag) +
                                    (operation.sends ? " to rank " : " from rank ") +
                                    std::to_string(operation.peer);
  }

  // Looked at by waits for the device.
  Status check() override { return failed ? ranks->health() : failed; }
  std::string late() override {
    (void)forgetTheFinished();
    if (underWay.empty())
      return "";
    const Operation &first = *underWay.front();
    std::string doing = first.peer < 0 ? "" : control.activityOf(first.peer);
    return "the first that did not get through is " + describe(first) +
           (doing.empty() ? "" : " (" + doing + ")");
  }

  Communicator &control;
  RankStream queue;
  std::unique_ptr<Stream> messages, sums, moves;
  std::unique_ptr<NcclRanks> ranks;
  const nccl::Functions &nccl;
  Handle next = 0;
  std::map<Handle, OperationPointer> open;
  std::vector<OperationPointer> group; ///< started and not given to NCCL
  std::deque<OperationPointer> underWay;
  Status failed;
};

} // namespace

Result<std::unique_ptr<Transport>> openNcclTransport(Communicator &control, const RankStream &queue,
                                                     const RankGroups &groups) {
  OMNIBAL_ASSIGN_OR_RETURN(auto ranks, NcclRanks::connect(control, queue, groups));
  OMNIBAL_ASSIGN_OR_RETURN(auto messages, Stream::create());
  OMNIBAL_ASSIGN_OR_RETURN(auto sums, Stream::create());
  OMNIBAL_ASSIGN_OR_RETURN(auto moves, Stream::create());
  return std::unique_ptr<Transport>(std::make_unique<NcclTransport>(
      control, queue, std::move(ranks), std::move(messages), std::move(sums), std::move(moves)));
}

} // namespace omnibal::rt::cuda
