//===- FakeNccl.cpp - NCCL's functions between ranks on fake devices --------------------------===//
//
// With zero-buffer semantics: a group of sends and receives begins when its stream has got there,
// and a message moves when both of its groups have begun; a stream goes on when its whole group is
// over. So an order that could hang NCCL hangs here. Sums are added in the order of ranks.
//
// OMNIBAL_FAKE_NCCL_FAULT=error:RANK:N gives rank RANK an asynchronous error at its N-th group
// (from 0), which then never ends; hang:RANK:N lets that group just hang.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/comm/NcclApi.h"
#include "test/support/fake_cuda/FakeCuda.h"
#include "test/support/fake_nccl/Board.h"
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

using namespace omnibal::rt::cuda;
using omnibal::fake::Board;

namespace omnibal::fake {

/// What ranks have in common is found by name on the board.
struct State {
  State(const std::string &folder, std::string name) : board(folder), name(std::move(name)) {}

  Board board;
  std::string folder, name;
  int rank = 0, worldRank = 0;
  std::vector<int> members; ///< world ranks
  bool isWorld = false;
  int splits = 0, groups = 0;
  int64_t sums = 0;
  std::vector<int64_t> mine;             ///< sums that others may still read
  std::map<int, int64_t> sent, received; ///< messages so far, by peer
  std::atomic<bool> aborted = false;
  std::atomic<nccl::Result> error = nccl::Success;
  std::function<bool()> pending; ///< of a call that other ranks must join

  std::string key(const std::string &kind, int64_t from, int64_t to, int64_t number) const {
    return name + "." + kind + "." + std::to_string(from) + "." + std::to_string(to) + "." +
           std::to_string(number);
  }
  bool allHave(const std::string &kind) const {
    for (size_t r = 0; r < members.size(); ++r)
      if (!board.has(key(kind, r, 0, 0)))
        return false;
    return true;
  }
};

} // namespace omnibal::fake

struct omnibal::rt::cuda::nccl::ncclComm {
  std::shared_ptr<omnibal::fake::State> state;
};

namespace {

using omnibal::fake::State;
using StatePointer = std::shared_ptr<State>;

struct Call {
  enum Kind { Send, Receive, Sum, Reduce, Broadcast } kind;
  StatePointer state;
  cudaStream_t stream;
  const void *from;
  void *to;
  size_t bytes;
  int peer;       ///< of a broadcast or reduce, its root
  int64_t number; ///< of the message between the two, or of what all do together
  bool started = false, done = false;
};

omnibal::fake::StreamBase &base(cudaStream_t stream) {
  return *reinterpret_cast<omnibal::fake::StreamBase *>(stream);
}

bool advanceMessage(Call &call) {
  State &s = *call.state;
  bool sends = call.kind == Call::Send;
  int64_t from = sends ? s.rank : call.peer, to = sends ? call.peer : s.rank;
  std::string asked = s.key("ask", from, to, call.number),
              data = s.key("data", from, to, call.number);
  if (sends) {
    if (!s.board.has(asked))
      return false;
    s.board.put(data, base(call.stream).interface->at(call.from, call.bytes), call.bytes);
    return true;
  }
  if (!call.started)
    s.board.put(asked);
  call.started = true;
  auto bytes = s.board.get(data);
  if (!bytes)
    return false;
  if (bytes->size() != call.bytes) {
    s.error = nccl::InvalidUsage;
    return false;
  }
  std::memcpy(base(call.stream).interface->at(call.to, call.bytes), bytes->data(), call.bytes);
  s.board.remove(data);
  s.board.remove(asked);
  return true;
}

bool advanceSum(Call &call) {
  State &s = *call.state;
  auto *values = static_cast<float *>(base(call.stream).interface->at(call.to, call.bytes));
  if (!call.started)
    s.board.put(s.key("sum", s.rank, 0, call.number), values, call.bytes);
  call.started = true;
  std::vector<std::vector<char>> parts;
  for (size_t r = 0; r < s.members.size(); ++r) {
    auto part = s.board.get(s.key("sum", r, 0, call.number));
    if (!part)
      return false;
    if (part->size() != call.bytes) {
      s.error = nccl::InvalidUsage;
      return false;
    }
    parts.push_back(std::move(*part));
  }
  if (call.kind == Call::Sum || call.peer == s.rank)
    std::memcpy(values, parts[0].data(), call.bytes);
  for (size_t r = 1; r < parts.size() && (call.kind == Call::Sum || call.peer == s.rank); ++r)
    for (size_t i = 0; i < call.bytes / sizeof(float); ++i) {
      float term;
      std::memcpy(&term, parts[r].data() + i * sizeof(float), sizeof term);
      values[i] += term;
    }
  s.board.put(s.key("seen", s.rank, 0, call.number));
  s.mine.push_back(call.number);
  std::erase_if(s.mine, [&](int64_t number) {
    for (size_t r = 0; r < s.members.size(); ++r)
      if (!s.board.has(s.key("seen", r, 0, number)))
        return false;
    s.board.remove(s.key("sum", s.rank, 0, number));
    return true;
  });
  return true;
}

bool advanceBroadcast(Call &call) {
  State &s = *call.state;
  const bool tells = s.rank == call.peer;
  const std::string told = s.key("told", call.peer, 0, call.number);
  if (!call.started) {
    if (tells)
      s.board.put(told, base(call.stream).interface->at(call.from, call.bytes), call.bytes);
    call.started = true;
  }
  if (!tells) {
    auto bytes = s.board.get(told);
    if (!bytes)
      return false;
    if (bytes->size() != call.bytes) {
      s.error = nccl::InvalidUsage;
      return false;
    }
    std::memcpy(base(call.stream).interface->at(call.to, call.bytes), bytes->data(), call.bytes);
    s.board.put(s.key("heard", s.rank, 0, call.number));
    return true;
  }
  for (int r = 0; r < static_cast<int>(s.members.size()); ++r)
    if (r != s.rank && !s.board.has(s.key("heard", r, 0, call.number)))
      return false;
  s.board.remove(told);
  for (size_t r = 0; r < s.members.size(); ++r)
    s.board.remove(s.key("heard", r, 0, call.number));
  return true;
}

/// The calls of one group on one stream, as one piece of work.
struct Group {
  std::vector<Call> calls;
  bool hangs = false;

  bool advance() {
    bool all = true;
    for (Call &call : calls) {
      if (call.state->aborted)
        return true;
      if (!call.done && !hangs)
        call.done = call.kind == Call::Sum || call.kind == Call::Reduce ? advanceSum(call)
                    : call.kind == Call::Broadcast                      ? advanceBroadcast(call)
                                                                        : advanceMessage(call);
      all &= call.done;
    }
    return all;
  }
};

void applyFault(const std::vector<Call> &calls, Group &group) {
  State &s = *calls[0].state;
  int number = s.groups++;
  const char *fault = std::getenv("OMNIBAL_FAKE_NCCL_FAULT");
  std::string which = ":" + std::to_string(s.worldRank) + ":" + std::to_string(number);
  if (!fault || !s.isWorld || (fault != "error" + which && fault != "hang" + which))
    return;
  group.hangs = true;
  if (std::string(fault).rfind("error", 0) == 0)
    s.error = nccl::RemoteError;
}

thread_local int depth = 0;
thread_local std::vector<Call> collected;

nccl::Result add(Call call) {
  if (!call.state || call.state->aborted)
    return nccl::InvalidUsage;
  bool alone = depth == 0;
  depth += alone;
  collected.push_back(std::move(call));
  if (!alone)
    return nccl::Success;
  depth = 0;
  std::vector<Call> calls = std::move(collected);
  collected.clear();
  std::map<cudaStream_t, std::vector<Call>> streams;
  for (Call &each : calls)
    streams[each.stream].push_back(std::move(each));
  for (auto &[stream, list] : streams) {
    auto group = std::make_shared<Group>();
    std::string name = "nccl";
    for (const Call &each : list)
      name += each.kind == Call::Sum         ? " sum"
              : each.kind == Call::Reduce    ? " sum at " + std::to_string(each.peer)
              : each.kind == Call::Broadcast ? " broadcast from " + std::to_string(each.peer)
              : each.kind == Call::Send      ? " send to " + std::to_string(each.peer)
                                             : " receive from " + std::to_string(each.peer);
    applyFault(list, *group);
    group->calls = std::move(list);
    base(stream).interface->enqueue(
        stream, name.c_str(), [group] { return group->advance(); }, [] {});
  }
  return nccl::Success;
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED nccl::Result ncclGetVersion(int *version) {
  *version = 22809;
  return nccl::Success;
}
EXPORTED const char *ncclGetErrorString(nccl::Result result) {
  return result == nccl::RemoteError    ? "remote process exited or there was a network error"
         : result == nccl::InvalidUsage ? "invalid usage"
                                        : "internal error";
}
EXPORTED const char *ncclGetLastError(nccl::Communicator) { return "fake"; }

EXPORTED nccl::Result ncclGetUniqueId(nccl::UniqueId *id) {
  std::string folder = Board::newFolder();
  if (folder.size() >= sizeof id->internal)
    return nccl::SystemError;
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, folder.data(), folder.size());
  return nccl::Success;
}

EXPORTED nccl::Result ncclCommInitRankConfig(nccl::Communicator *made, int ranks, nccl::UniqueId id,
                                             int rank, nccl::Config *config) {
  if (config->magic != 0xcafebeef || config->blocking)
    return nccl::InvalidArgument;
  auto state = std::make_shared<State>(id.internal, "w");
  state->folder = id.internal;
  state->rank = state->worldRank = rank;
  state->isWorld = true;
  for (int r = 0; r < ranks; ++r)
    state->members.push_back(r);
  if (rank == 0 && !state->board.make())
    return nccl::SystemError;
  // The others may be here before the first, who makes the board.
  state->pending = [s = state.get()] {
    if (std::string mine = s->key("init", s->rank, 0, 0); !s->board.has(mine))
      s->board.put(mine);
    return s->allHave("init");
  };
  *made = new nccl::ncclComm{state};
  return nccl::InProgress;
}

EXPORTED nccl::Result ncclCommSplit(nccl::Communicator parent, int color, int key,
                                    nccl::Communicator *made, nccl::Config *config) {
  if (config->magic != 0xcafebeef || config->blocking)
    return nccl::InvalidArgument;
  StatePointer s = parent->state;
  int number = s->splits++;
  s->board.put(s->key("split" + std::to_string(number), s->rank, 0, 0), &color, sizeof color);
  (void)key; // the parent's order
  // As with the real one, the child is there when the parent has settled.
  s->pending = [s = s.get(), number, color, made] {
    std::vector<int> members;
    int rank = 0;
    for (size_t r = 0; r < s->members.size(); ++r) {
      auto theirs = s->board.get(s->key("split" + std::to_string(number), r, 0, 0));
      if (!theirs)
        return false;
      int other;
      std::memcpy(&other, theirs->data(), sizeof other);
      if (other != color)
        continue;
      if (static_cast<int>(r) == s->rank)
        rank = static_cast<int>(members.size());
      members.push_back(s->members[r]);
    }
    if (color != nccl::noColor) {
      auto child = std::make_shared<State>(s->folder, s->name + "-" + std::to_string(number) + "-" +
                                                          std::to_string(color));
      child->folder = s->folder;
      child->rank = rank;
      child->worldRank = s->worldRank;
      child->members = members;
      *made = new nccl::ncclComm{child};
    }
    return true;
  };
  return nccl::InProgress;
}

EXPORTED nccl::Result ncclCommGetAsyncError(nccl::Communicator communicator, nccl::Result *error) {
  State &s = *communicator->state;
  if (s.pending && s.pending())
    s.pending = nullptr;
  *error = s.error != nccl::Success ? s.error.load() : s.pending ? nccl::InProgress : nccl::Success;
  return nccl::Success;
}

EXPORTED nccl::Result ncclCommFinalize(nccl::Communicator communicator) {
  State &s = *communicator->state;
  s.board.put(s.key("end", s.rank, 0, 0));
  s.pending = [&s] { return s.allHave("end"); };
  return nccl::InProgress;
}

EXPORTED nccl::Result ncclCommDestroy(nccl::Communicator communicator) {
  State &s = *communicator->state;
  if (s.isWorld) {
    s.board.put(s.key("gone", s.rank, 0, 0));
    // On a loaded machine the others may be seconds behind.
    for (int wait = 0; s.rank == 0 && wait < 10000 && !s.allHave("gone"); ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (s.rank == 0)
      s.board.destroy();
  }
  delete communicator;
  return nccl::Success;
}

EXPORTED nccl::Result ncclCommAbort(nccl::Communicator communicator) {
  State &s = *communicator->state;
  s.aborted = true;
  if (s.isWorld && s.rank == 0)
    s.board.destroy();
  delete communicator; // its work keeps the state
  return nccl::Success;
}

EXPORTED nccl::Result ncclGroupStart() {
  ++depth;
  return nccl::Success;
}

EXPORTED nccl::Result ncclGroupEnd() {
  if (depth == 0)
    return nccl::InvalidUsage;
  if (--depth > 0 || collected.empty())
    return nccl::Success;
  Call last = std::move(collected.back());
  collected.pop_back();
  return add(std::move(last));
}

EXPORTED nccl::Result ncclSend(const void *from, size_t count, nccl::DataType, int peer,
                               nccl::Communicator communicator, cudaStream_t stream) {
  StatePointer s = communicator->state;
  return add({Call::Send, s, stream, from, nullptr, count, peer, s->sent[peer]++});
}

EXPORTED nccl::Result ncclRecv(void *to, size_t count, nccl::DataType, int peer,
                               nccl::Communicator communicator, cudaStream_t stream) {
  StatePointer s = communicator->state;
  return add({Call::Receive, s, stream, nullptr, to, count, peer, s->received[peer]++});
}

EXPORTED nccl::Result ncclBroadcast(const void *from, void *to, size_t count, nccl::DataType type,
                                    int root, nccl::Communicator communicator,
                                    cudaStream_t stream) {
  StatePointer s = communicator->state;
  if (type != nccl::Bytes || root < 0 || root >= static_cast<int>(s->members.size()))
    return nccl::InvalidArgument;
  return add({Call::Broadcast, s, stream, from, to, count, root, s->sums++});
}

EXPORTED nccl::Result ncclReduce(const void *from, void *to, size_t count, nccl::DataType type,
                                 nccl::Operation, int root, nccl::Communicator communicator,
                                 cudaStream_t stream) {
  StatePointer s = communicator->state;
  if (from != to || type != nccl::Float32 || root < 0 ||
      root >= static_cast<int>(s->members.size()))
    return nccl::InvalidArgument;
  return add({Call::Reduce, s, stream, from, to, count * sizeof(float), root, s->sums++});
}

EXPORTED nccl::Result ncclAllReduce(const void *from, void *to, size_t count, nccl::DataType type,
                                    nccl::Operation, nccl::Communicator communicator,
                                    cudaStream_t stream) {
  if (from != to || type != nccl::Float32)
    return nccl::InvalidArgument;
  StatePointer s = communicator->state;
  return add({Call::Sum, s, stream, from, to, count * sizeof(float), -1, s->sums++});
}
