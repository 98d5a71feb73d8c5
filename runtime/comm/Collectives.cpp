//===- Collectives.cpp - What many ranks do together, from messages ---------------------------===//
//
// Small data travel along powers of two: a rank talks to those 1, 2, 4, ... places before and after
// it, so the messages of a rank grow with the logarithm of the number of ranks. Large data are cut
// into a share for each rank, so the bytes of a rank do not grow with their number.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/comm/Communicator.h"
#include "runtime/comm/RankTree.h"
#include "runtime/support/Shares.h"
#include <algorithm>
#include <cstring>
#include <ranges>

namespace omnibal::rt {
namespace {

/// Tag of collectives: callers' tags are not negative.
constexpr int64_t collectiveTag = -1;
/// Sums are gathered whole where this holds them, and cut into shares otherwise.
constexpr int64_t gatheredSum = int64_t{256} << 10;
/// The most elements of a rank's share in one round.
constexpr int64_t shareElements = 1 << 16;
/// Broadcasts of up to so many bytes are passed down a tree, texts in pieces of as many.
constexpr int64_t smallBroadcast = 1 << 16;
/// Bytes of each rank's share of one round of a larger one.
constexpr int64_t broadcastShare = int64_t{16} << 20;

} // namespace

/// The messages of a collective in this rank's place among `ranks`.
class Collective {
public:
  Collective(Communicator &communicator, std::span<const int> ranks)
      : communicator(communicator), ranks(ranks),
        found(std::find(ranks.begin(), ranks.end(), communicator.rank())) {}

  bool isMember() const { return found != ranks.end(); }
  int64_t members() const { return static_cast<int64_t>(ranks.size()); }
  int64_t me() const { return found - ranks.begin(); }

  Status send(int64_t member, const void *data, int64_t bytes) {
    Communicator::Piece piece{const_cast<void *>(data), bytes};
    return send(member, {&piece, 1});
  }
  Status receive(int64_t member, void *data, int64_t bytes) {
    Communicator::Piece piece{data, bytes};
    return receive(member, {&piece, 1});
  }
  Status send(int64_t member, std::span<const Communicator::Piece> pieces) {
    return start(Communicator::Direction::Send, member, pieces);
  }
  Status receive(int64_t member, std::span<const Communicator::Piece> pieces) {
    return start(Communicator::Direction::Receive, member, pieces);
  }
  Status finish() {
    for (Communicator::Handle handle : handles)
      if (Status status = communicator.wait(handle); !status)
        return communicator.failure = std::move(status);
    handles.clear();
    return Status::ok();
  }

private:
  Status start(Communicator::Direction direction, int64_t member,
               std::span<const Communicator::Piece> pieces) {
    OMNIBAL_RETURN_IF_ERROR(communicator.failure);
    auto handle = communicator.start(direction, ranks[member], collectiveTag, pieces);
    if (!handle)
      return communicator.failure = handle.status();
    handles.push_back(*handle);
    return Status::ok();
  }

  Communicator &communicator;
  std::span<const int> ranks;
  std::span<const int>::iterator found;
  std::vector<Communicator::Handle> handles;
};

/// Bruck et al. 1997: in each round a rank has the values of itself and of those behind it, and
/// their number doubles. Returns them in that order, in memory that outlives a failure: messages of
/// late ranks may still arrive then, until this one aborts.
Result<std::span<const std::byte>> Communicator::gatherBehind(std::span<const std::byte> mine,
                                                              std::span<const int> ranks) {
  Collective c(*this, ranks);
  const int64_t members = c.members(), bytes = static_cast<int64_t>(mine.size()), me = c.me();
  OMNIBAL_ASSIGN_OR_RETURN(std::byte *const all, stage(members * bytes));
  if (bytes > 0)
    std::memcpy(all, mine.data(), bytes);
  for (int64_t distance = 1; distance < members; distance *= 2) {
    const int64_t count = std::min(distance, members - distance);
    OMNIBAL_RETURN_IF_ERROR(
        c.receive((me + distance) % members, all + distance * bytes, count * bytes));
    OMNIBAL_RETURN_IF_ERROR(c.send((me - distance + members) % members, all, count * bytes));
    OMNIBAL_RETURN_IF_ERROR(c.finish());
  }
  return std::span<const std::byte>(all, members * bytes);
}

/// Messages of a collective that failed may still refer to the memory, so no other gets it.
Result<std::byte *> Communicator::stage(int64_t bytes) {
  OMNIBAL_RETURN_IF_ERROR(failure);
  if (static_cast<int64_t>(staging.size()) < bytes)
    staging.resize(bytes);
  return staging.data();
}

Status Communicator::allGather(std::span<const std::byte> mine, std::span<std::byte> all,
                               std::span<const int> ranks) {
  Collective c(*this, ranks);
  if (!c.isMember() || all.size() != ranks.size() * mine.size())
    return {Code::Internal, "a collective's ranks must contain the caller, and its result must "
                            "hold a value of each"};
  OMNIBAL_ASSIGN_OR_RETURN(const auto behind, gatherBehind(mine, ranks));
  std::rotate_copy(behind.begin(), behind.end() - c.me() * static_cast<int64_t>(mine.size()),
                   behind.end(), all.begin());
  return Status::ok();
}

/// Adds what all ranks have, in their order.
template <typename T>
Status Communicator::sumGathered(std::span<T> data, std::span<const int> ranks) {
  OMNIBAL_ASSIGN_OR_RETURN(const auto behind, gatherBehind(std::as_bytes(data), ranks));
  const int64_t members = static_cast<int64_t>(ranks.size()), me = Collective(*this, ranks).me();
  auto valuesOf = [&](int64_t member) {
    return reinterpret_cast<const T *>(behind.data()) +
           (member - me + members) % members * static_cast<int64_t>(data.size());
  };
  for (int64_t member = 0; member < members; ++member) {
    const T *values = valuesOf(member);
    for (size_t e = 0; e < data.size(); ++e)
      data[e] = member == 0 ? values[e] : data[e] + values[e];
  }
  return Status::ok();
}

/// Sums in rounds: everyone sends each rank its share, and that rank adds the shares in the order
/// of ranks and sends the sum back to all.
template <typename T>
Status Communicator::sumShares(std::span<T> data, std::span<const int> ranks) {
  Collective c(*this, ranks);
  const int64_t members = c.members(), me = c.me(), total = static_cast<int64_t>(data.size());
  const int64_t inStaging =
      std::max<int64_t>(1, collectiveStaging / (members * static_cast<int64_t>(sizeof(T))));
  const int64_t round = std::min(std::min(shareElements, inStaging) * members, total);
  const int64_t largest = (round + members - 1) / members;
  OMNIBAL_ASSIGN_OR_RETURN(std::byte *const staged,
                           stage(largest * members * static_cast<int64_t>(sizeof(T))));
  T *parts = reinterpret_cast<T *>(staged);
  for (int64_t begin = 0; begin < total; begin += round) {
    const int64_t n = std::min(round, total - begin);
    T *values = data.data() + begin;
    auto share = [&](int64_t i) {
      const UnitRange of = shareOf(n, i, members);
      return std::span<T>(values + of.begin, of.size());
    };
    const std::span<T> own = share(me);
    for (int64_t i = 0; i < members; ++i) {
      if (i == me)
        continue;
      OMNIBAL_RETURN_IF_ERROR(c.receive(i, parts + i * largest, own.size_bytes()));
      OMNIBAL_RETURN_IF_ERROR(c.send(i, share(i).data(), share(i).size_bytes()));
    }
    OMNIBAL_RETURN_IF_ERROR(c.finish());
    for (size_t e = 0; e < own.size(); ++e) {
      T value = me == 0 ? own[e] : parts[e];
      for (int64_t i = 1; i < members; ++i)
        value += i == me ? own[e] : parts[i * largest + e];
      own[e] = value;
    }
    for (int64_t i = 0; i < members; ++i) {
      if (i == me)
        continue;
      OMNIBAL_RETURN_IF_ERROR(c.receive(i, share(i).data(), share(i).size_bytes()));
      OMNIBAL_RETURN_IF_ERROR(c.send(i, own.data(), own.size_bytes()));
    }
    OMNIBAL_RETURN_IF_ERROR(c.finish());
  }
  return Status::ok();
}

template <typename T> Status Communicator::sum(std::span<T> data, std::span<const int> ranks) {
  if (!Collective(*this, ranks).isMember() || !std::is_sorted(ranks.begin(), ranks.end()))
    return {Code::Internal, "a collective's ranks must be ascending and contain the caller"};
  if (ranks.size() == 1)
    return Status::ok();
  return static_cast<int64_t>(data.size_bytes() * ranks.size()) <= gatheredSum
             ? sumGathered(data, ranks)
             : sumShares(data, ranks);
}

Status Communicator::allReduce(std::span<float> data, std::span<const int> ranks) {
  return sum(data, ranks);
}
Status Communicator::allReduce(std::span<double> data, std::span<const int> ranks) {
  return sum(data, ranks);
}

namespace {

/// The pieces of each owner as one row of bytes.
class OwnedRows {
public:
  OwnedRows(std::span<const OwnedPiece> pieces, int64_t members)
      : rows(static_cast<size_t>(members)), lengths(static_cast<size_t>(members)) {
    for (const OwnedPiece &piece : pieces) {
      rows[static_cast<size_t>(piece.owner)].push_back({piece.data, piece.bytes});
      lengths[static_cast<size_t>(piece.owner)] += piece.bytes;
    }
  }

  static bool areOf(std::span<const OwnedPiece> pieces, int64_t members) {
    return std::ranges::all_of(pieces, [&](const OwnedPiece &piece) {
      return piece.owner >= 0 && piece.owner < members && piece.bytes >= 0;
    });
  }
  int64_t longest() const { return lengths.empty() ? 0 : *std::ranges::max_element(lengths); }

  /// What of an owner's row lies in [begin, begin + bytes): none where the row ends before.
  std::vector<Communicator::Piece> window(int64_t owner, int64_t begin, int64_t bytes) const {
    std::vector<Communicator::Piece> found;
    int64_t at = 0;
    for (const Communicator::Piece &piece : rows[static_cast<size_t>(owner)]) {
      const int64_t from = std::max(begin, at), to = std::min(begin + bytes, at + piece.bytes);
      if (from < to)
        found.push_back({static_cast<std::byte *>(piece.data) + (from - at), to - from});
      at += piece.bytes;
    }
    return found;
  }

private:
  std::vector<std::vector<Communicator::Piece>> rows;
  std::vector<int64_t> lengths;
};

/// Pieces of the same sizes that follow each other in memory.
std::vector<Communicator::Piece> packedLike(const std::vector<Communicator::Piece> &pieces,
                                            std::byte *memory) {
  std::vector<Communicator::Piece> packed;
  for (const Communicator::Piece &piece : pieces) {
    packed.push_back({memory, piece.bytes});
    memory += piece.bytes;
  }
  return packed;
}

const Status notOwned(Code::Internal, "a collective's ranks must contain the caller and the owner "
                                      "of each piece");

} // namespace

/// In rounds: everyone sends each owner its values, and the owner adds them in the order of ranks.
Status Communicator::reduceScatter(std::span<const OwnedPiece> pieces, std::span<const int> ranks) {
  Collective c(*this, ranks);
  const int64_t members = c.members(), me = c.me();
  if (!c.isMember() || !OwnedRows::areOf(pieces, members))
    return notOwned;
  if (members == 1)
    return Status::ok();
  const OwnedRows rows(pieces, members);
  const int64_t total = rows.longest();
  const int64_t size = sizeof(float),
                round = std::min(
                    total, std::min(shareElements,
                                    std::max<int64_t>(1, collectiveStaging / (members * size))) *
                               size);
  OMNIBAL_ASSIGN_OR_RETURN(std::byte *const staged, stage(round * members));
  for (int64_t begin = 0; begin < total; begin += round) {
    const std::vector<Piece> own = rows.window(me, begin, round);
    for (int64_t i = 0; i < members; ++i) {
      if (i == me)
        continue;
      if (!own.empty())
        OMNIBAL_RETURN_IF_ERROR(c.receive(i, packedLike(own, staged + i * round)));
      if (const std::vector<Piece> theirs = rows.window(i, begin, round); !theirs.empty())
        OMNIBAL_RETURN_IF_ERROR(c.send(i, theirs));
    }
    OMNIBAL_RETURN_IF_ERROR(c.finish());
    int64_t at = 0;
    for (const Piece &piece : own) {
      auto *values = static_cast<float *>(piece.data);
      auto of = [&](int64_t member) {
        return member == me ? values
                            : reinterpret_cast<const float *>(staged + member * round + at);
      };
      for (int64_t e = 0; e < piece.bytes / size; ++e) {
        float value = of(0)[e];
        for (int64_t member = 1; member < members; ++member)
          value += of(member)[e];
        values[e] = value;
      }
      at += piece.bytes;
    }
  }
  return Status::ok();
}

Status Communicator::allGather(std::span<const OwnedPiece> pieces, std::span<const int> ranks) {
  Collective c(*this, ranks);
  const int64_t members = c.members(), me = c.me();
  if (!c.isMember() || !OwnedRows::areOf(pieces, members))
    return notOwned;
  const OwnedRows rows(pieces, members);
  for (int64_t begin = 0; begin < rows.longest(); begin += broadcastShare) {
    const std::vector<Piece> own = rows.window(me, begin, broadcastShare);
    for (int64_t i = 0; i < members; ++i) {
      if (i == me)
        continue;
      if (const std::vector<Piece> theirs = rows.window(i, begin, broadcastShare); !theirs.empty())
        OMNIBAL_RETURN_IF_ERROR(c.receive(i, theirs));
      if (!own.empty())
        OMNIBAL_RETURN_IF_ERROR(c.send(i, own));
    }
    OMNIBAL_RETURN_IF_ERROR(c.finish());
  }
  return Status::ok();
}

/// Places of the tree are counted from the root. As in gatherBehind, no message refers to the
/// caller's memory.
Status Communicator::passDown(std::span<std::byte> data, int root, std::span<const int> ranks) {
  Collective c(*this, ranks);
  const int64_t members = c.members(), bytes = static_cast<int64_t>(data.size());
  const int64_t first = std::find(ranks.begin(), ranks.end(), root) - ranks.begin();
  const int64_t place = (c.me() - first + members) % members;
  auto memberAt = [&](int64_t other) { return (other + first) % members; };
  OMNIBAL_ASSIGN_OR_RETURN(std::byte *const staged, stage(bytes));
  if (place > 0) {
    OMNIBAL_RETURN_IF_ERROR(c.receive(memberAt(treeParent(place)), staged, bytes));
    OMNIBAL_RETURN_IF_ERROR(c.finish());
    std::copy_n(staged, bytes, data.data());
  } else {
    std::copy_n(data.data(), bytes, staged);
  }
  for (int64_t child : std::views::reverse(treeChildren(place, members))) // the farthest first
    OMNIBAL_RETURN_IF_ERROR(c.send(memberAt(child), staged, bytes));
  return c.finish();
}

/// In rounds, every rank gets a share and passes it on to the others: what the root sends hardly
/// grows with the number of ranks.
Status Communicator::broadcastShares(std::span<std::byte> data, int root,
                                     std::span<const int> ranks) {
  Collective c(*this, ranks);
  const int64_t members = c.members(), me = c.me(), total = static_cast<int64_t>(data.size());
  const int64_t first = std::find(ranks.begin(), ranks.end(), root) - ranks.begin();
  for (int64_t begin = 0; begin < total; begin += broadcastShare * members) {
    const int64_t n = std::min(broadcastShare * members, total - begin);
    auto share = [&](int64_t i) {
      const UnitRange of = shareOf(n, i, members);
      return data.subspan(begin + of.begin, of.size());
    };
    if (me != first)
      OMNIBAL_RETURN_IF_ERROR(c.receive(first, share(me).data(), share(me).size()));
    for (int64_t i = 0; me == first && i < members; ++i)
      if (i != first)
        OMNIBAL_RETURN_IF_ERROR(c.send(i, share(i).data(), share(i).size()));
    OMNIBAL_RETURN_IF_ERROR(c.finish());
    for (int64_t i = 0; i < members; ++i) {
      if (i == me)
        continue;
      if (me != first)
        OMNIBAL_RETURN_IF_ERROR(c.receive(i, share(i).data(), share(i).size()));
      if (i != first)
        OMNIBAL_RETURN_IF_ERROR(c.send(i, share(me).data(), share(me).size()));
    }
    OMNIBAL_RETURN_IF_ERROR(c.finish());
  }
  return Status::ok();
}

Status Communicator::broadcast(std::span<std::byte> data, int root, std::span<const int> ranks) {
  if (!Collective(*this, ranks).isMember() ||
      std::find(ranks.begin(), ranks.end(), root) == ranks.end())
    return {Code::Internal, "a broadcast's ranks must contain its root and the caller"};
  return static_cast<int64_t>(data.size()) <= smallBroadcast ? passDown(data, root, ranks)
                                                             : broadcastShares(data, root, ranks);
}

Status Communicator::broadcast(std::string &text, int root) {
  const std::vector<int> everyone = this->everyone();
  uint64_t length = text.size();
  OMNIBAL_RETURN_IF_ERROR(passDown(std::as_writable_bytes(std::span(&length, 1)), root, everyone));
  text.resize(length);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(text.data(), text.size()));
  for (size_t begin = 0; begin < bytes.size(); begin += smallBroadcast) {
    const size_t piece = std::min<size_t>(smallBroadcast, bytes.size() - begin);
    OMNIBAL_RETURN_IF_ERROR(passDown(bytes.subspan(begin, piece), root, everyone));
  }
  return Status::ok();
}

Status Communicator::barrier(std::span<const int> ranks) { return allGather({}, {}, ranks); }

Status Communicator::checkEqual(uint64_t value, const std::string &what) {
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<uint64_t> values, gatherAll(value, everyone()));
  for (int r = 1; r < size(); ++r)
    if (values[r] != values[0])
      return invalid("rank " + std::to_string(r) + " and rank 0 have different " + what);
  return Status::ok();
}

Status Communicator::agree(Status mine) {
  if (!failure) // perhaps that is what would be agreed about
    return mine ? failure : mine;
  // Where ranks agree again, all report what one of them began with.
  enum class State : uint8_t { Fine, HeardOf, Began };
  const State state = mine                           ? State::Fine
                      : mine.code() == Code::Aborted ? State::HeardOf
                                                     : State::Began;
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<State> states, gatherAll(state, everyone()));
  const auto worst = std::max_element(states.begin(), states.end()); // the first of several
  if (*worst == State::Fine)
    return Status::ok();
  const int origin = static_cast<int>(worst - states.begin());
  std::string text = mine.message();
  Status told = broadcast(text, origin);
  // Only the rank whose error it is reports it; those that heard of it first may be gone by now.
  if (origin == rank())
    return mine;
  return told ? Status(Code::Aborted, text) : told;
}

} // namespace omnibal::rt
