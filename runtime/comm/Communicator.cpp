#include "runtime/comm/Communicator.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace omnibal::rt {
namespace {

/// Tag of collectives: callers' tags are not negative.
constexpr int64_t collectiveTag = -1;
/// Elements of each rank's share of one round; bounds the staging memory.
constexpr int64_t shareElements = 1 << 16;
/// Broadcasts of up to so many bytes go straight to everyone.
constexpr int64_t smallBroadcast = 1 << 16;
/// Bytes of each rank's share of one round of a larger one.
constexpr int64_t broadcastShare = int64_t{16} << 20;

} // namespace

std::string stepForPeople(int64_t step) { return "step " + std::to_string(step + 1); }

std::string toString(const Activity &a) {
  std::string text = a.step >= 0 ? stepForPeople(a.step) + ", " : "";
  text += "stage " + std::to_string(a.stage);
  if (a.microbatch >= 0)
    text += ", micro-batch " + std::to_string(a.microbatch);
  return text + ", " + a.action;
}

Communicator::Milliseconds deadlineFromEnvironment() {
  if (const char *text = std::getenv("OMNIBAL_DEADLINE_SECONDS")) {
    char *end = nullptr;
    double seconds = std::strtod(text, &end);
    if (end != text && *end == 0 && seconds > 0 && seconds < 1e9)
      return Communicator::Milliseconds(static_cast<int64_t>(seconds * 1000));
  }
  return Communicator::defaultDeadline;
}

Result<Communicator::Handle> Communicator::start(Direction direction, int peer, int64_t tag,
                                                 std::span<const Piece> pieces) {
  if (peer < 0 || peer >= size() || peer == rank())
    return Status(Code::Internal, "there is no rank " + std::to_string(peer) + " to talk to");
  return post(direction, peer, tag, pieces);
}

Status Communicator::checkEqual(uint64_t value, const std::string &what) {
  // Halves of 32 bits, which doubles hold exactly.
  std::vector<double> halves(2 * static_cast<size_t>(size()));
  halves[2 * rank()] = static_cast<double>(value >> 32);
  halves[2 * rank() + 1] = static_cast<double>(value & 0xffffffffu);
  OMNIBAL_RETURN_IF_ERROR(allReduce(std::span<double>(halves), everyone()));
  for (int r = 1; r < size(); ++r)
    if (halves[2 * r] != halves[0] || halves[2 * r + 1] != halves[1])
      return invalid("rank " + std::to_string(r) + " and rank 0 have different " + what);
  return Status::ok();
}

std::vector<int> Communicator::everyone() const {
  std::vector<int> ranks(size());
  for (int r = 0; r < size(); ++r)
    ranks[r] = r;
  return ranks;
}

/// Sums in rounds of `shareElements` per rank: everyone sends each rank its share, and that rank
/// adds the shares in rank order and sends the sum back to all.
template <typename T> Status Communicator::sum(std::span<T> data, std::span<const int> ranks) {
  int64_t members = ranks.size();
  auto found = std::find(ranks.begin(), ranks.end(), rank());
  if (found == ranks.end() || !std::is_sorted(ranks.begin(), ranks.end()))
    return {Code::Internal, "a collective's ranks must be ascending and contain the caller"};
  if (members == 1)
    return Status::ok();
  int64_t me = found - ranks.begin(), total = data.size();
  int64_t round = std::min(shareElements * members, total);
  // The share of rank i in a round of n elements is [n * i / members, n * (i + 1) / members).
  auto bound = [&](int64_t n, int64_t i) { return n * i / members; };
  int64_t largest = (round + members - 1) / members;
  staging.resize(std::max<size_t>(staging.size(), largest * members * sizeof(T)));
  T *parts = reinterpret_cast<T *>(staging.data());
  std::vector<Handle> handles;
  auto start = [&](Result<Handle> handle) {
    if (!handle)
      return std::move(handle).status();
    handles.push_back(*handle);
    return Status::ok();
  };
  auto finish = [&] {
    for (Handle handle : handles)
      OMNIBAL_RETURN_IF_ERROR(wait(handle));
    handles.clear();
    return Status::ok();
  };
  for (int64_t begin = 0; begin < total; begin += round) {
    int64_t n = std::min(round, total - begin);
    T *values = data.data() + begin;
    auto share = [&](int64_t i) {
      return Piece{values + bound(n, i),
                   static_cast<int64_t>((bound(n, i + 1) - bound(n, i)) * sizeof(T))};
    };
    Piece mine = share(me);
    int64_t mineCount = mine.bytes / static_cast<int64_t>(sizeof(T));
    for (int64_t i = 0; i < members; ++i) {
      if (i == me)
        continue;
      Piece in{parts + i * largest, mine.bytes}, out = share(i);
      OMNIBAL_RETURN_IF_ERROR(start(receive(ranks[i], collectiveTag, {&in, 1})));
      OMNIBAL_RETURN_IF_ERROR(start(send(ranks[i], collectiveTag, {&out, 1})));
    }
    OMNIBAL_RETURN_IF_ERROR(finish());
    T *own = static_cast<T *>(mine.data);
    for (int64_t e = 0; e < mineCount; ++e) {
      T value = me == 0 ? own[e] : parts[e];
      for (int64_t i = 1; i < members; ++i)
        value += i == me ? own[e] : parts[i * largest + e];
      own[e] = value;
    }
    for (int64_t i = 0; i < members; ++i) {
      if (i == me)
        continue;
      Piece in = share(i);
      OMNIBAL_RETURN_IF_ERROR(start(receive(ranks[i], collectiveTag, {&in, 1})));
      OMNIBAL_RETURN_IF_ERROR(start(send(ranks[i], collectiveTag, {&mine, 1})));
    }
    OMNIBAL_RETURN_IF_ERROR(finish());
  }
  return Status::ok();
}

Status Communicator::allReduce(std::span<float> data, std::span<const int> ranks) {
  return sum(data, ranks);
}
Status Communicator::allReduce(std::span<double> data, std::span<const int> ranks) {
  return sum(data, ranks);
}

/// Small data go from the root to everyone. Of more, in rounds, every rank gets a share and passes
/// it on to the others: what the root sends hardly grows with the number of ranks.
Status Communicator::broadcast(std::span<std::byte> data, int root, std::span<const int> ranks) {
  const int64_t members = ranks.size(), total = data.size();
  auto found = std::find(ranks.begin(), ranks.end(), rank());
  if (found == ranks.end() || std::find(ranks.begin(), ranks.end(), root) == ranks.end())
    return {Code::Internal, "a broadcast's ranks must contain its root and the caller"};
  if (members == 1)
    return Status::ok();
  const int64_t me = found - ranks.begin();
  std::vector<Handle> handles;
  auto start = [&](Direction direction, int peer, Piece piece) {
    OMNIBAL_ASSIGN_OR_RETURN(Handle handle,
                             this->start(direction, peer, collectiveTag, {&piece, 1}));
    handles.push_back(handle);
    return Status::ok();
  };
  auto finish = [&] {
    for (Handle handle : handles)
      OMNIBAL_RETURN_IF_ERROR(wait(handle));
    handles.clear();
    return Status::ok();
  };
  if (total <= smallBroadcast) {
    Piece all{data.data(), total};
    for (int peer : ranks)
      if (rank() == root ? peer != root : peer == root)
        OMNIBAL_RETURN_IF_ERROR(
            start(rank() == root ? Direction::Send : Direction::Receive, peer, all));
    return finish();
  }
  for (int64_t begin = 0; begin < total; begin += broadcastShare * members) {
    const int64_t n = std::min(broadcastShare * members, total - begin);
    auto share = [&](int64_t i) {
      const int64_t from = n * i / members, to = n * (i + 1) / members;
      return Piece{data.data() + begin + from, to - from};
    };
    if (rank() != root)
      OMNIBAL_RETURN_IF_ERROR(start(Direction::Receive, root, share(me)));
    for (int64_t i = 0; rank() == root && i < members; ++i)
      if (ranks[i] != root)
        OMNIBAL_RETURN_IF_ERROR(start(Direction::Send, ranks[i], share(i)));
    OMNIBAL_RETURN_IF_ERROR(finish());
    for (int64_t i = 0; i < members; ++i) {
      if (i == me)
        continue;
      if (rank() != root)
        OMNIBAL_RETURN_IF_ERROR(start(Direction::Receive, ranks[i], share(i)));
      if (ranks[i] != root)
        OMNIBAL_RETURN_IF_ERROR(start(Direction::Send, ranks[i], share(me)));
    }
    OMNIBAL_RETURN_IF_ERROR(finish());
  }
  return Status::ok();
}

Status Communicator::broadcast(std::string &text, int root) {
  const std::vector<int> everyone = this->everyone();
  uint64_t length = text.size();
  OMNIBAL_RETURN_IF_ERROR(broadcast(std::as_writable_bytes(std::span(&length, 1)), root, everyone));
  text.resize(length);
  return broadcast(std::as_writable_bytes(std::span(text.data(), text.size())), root, everyone);
}

Status Communicator::agree(Status mine) {
  // Where ranks agree again, all report what one of them began with.
  constexpr double fine = 0, heardOf = 1, began = 2;
  std::vector<double> states(size());
  states[rank()] = mine ? fine : mine.code() == Code::Aborted ? heardOf : began;
  OMNIBAL_RETURN_IF_ERROR(allReduce(std::span<double>(states), everyone()));
  const auto worst = std::max_element(states.begin(), states.end()); // the first of several
  if (*worst == fine)
    return Status::ok();
  const int origin = static_cast<int>(worst - states.begin());
  std::string text = mine.message();
  Status told = broadcast(text, origin);
  // Only the rank whose error it is reports it; those that heard of it first may be gone by now.
  if (origin == rank())
    return mine;
  return told ? Status(Code::Aborted, text) : told;
}

Status Communicator::barrier(std::span<const int> ranks) {
  double nothing = 0;
  return allReduce(std::span<double>(&nothing, 1), ranks);
}

} // namespace omnibal::rt
