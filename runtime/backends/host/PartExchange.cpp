#include "runtime/backends/host/PartExchange.h"
#include <algorithm>
#include <cstring>

namespace omnibal::rt {
namespace {

/// Of messages among parts, which send each other nothing else.
constexpr int64_t exchangeTag = 0;

class PartExchange {
public:
  PartExchange(Communicator &communicator, const PartMove &move,
               std::span<const TensorView> operands, const SymbolValues &symbols,
               std::span<const int> ranks)
      : communicator(communicator), move(move), src(operands[move.src]), dst(operands[move.dst]),
        workspace(move.workspace < 0 ? nullptr
                                     : static_cast<std::byte *>(operands[move.workspace].data)),
        ranks(ranks), width(byteSize(src.dtype)) {
    me = std::find(ranks.begin(), ranks.end(), communicator.rank()) - ranks.begin();
    from = splitAt(move.from, symbols);
    to = splitAt(move.to, symbols);
  }

  Status run() {
    if (me == parts())
      return {Code::Internal, "a move among parts of which this rank is none"};
    whole = PartMove::wholeShape({src.shape, static_cast<size_t>(src.rank)}, from, me, parts());
    const bool sums =
        move.kind == PartMoveKind::AllReduce || move.kind == PartMoveKind::ReduceScatter;
    if (src.rank != dst.rank || src.dtype != dst.dtype || (src.rank > 0 && whole.empty()) ||
        (sums && src.dtype != DType::F32))
      return {Code::Internal, "a move among parts has operands of other shapes than it says"};
    switch (move.kind) {
    case PartMoveKind::AllReduce:
      return sumEverywhere();
    case PartMoveKind::AllGather:
    case PartMoveKind::AllToAll:
      return exchangeUnits();
    case PartMoveKind::ReduceScatter:
      return sumOwn();
    case PartMoveKind::Take:
      copyOwn();
      return Status::ok();
    case PartMoveKind::Place:
      clear();
      copyOwn();
      return Status::ok();
    case PartMoveKind::KeepFirst:
      me == 0 ? keep() : clear();
      return Status::ok();
    }
    return Status::ok();
  }

private:
  using Pieces = std::vector<Communicator::Piece>;

  int64_t parts() const { return static_cast<int64_t>(ranks.size()); }
  size_t bytesOf(const TensorView &view) const {
    return static_cast<size_t>(view.elements() * width);
  }
  // A part that has nothing may have no memory either.
  void clear() { std::fill_n(static_cast<std::byte *>(dst.data), bytesOf(dst), std::byte{0}); }
  void keep() {
    if (const size_t bytes = bytesOf(src); bytes > 0)
      std::memmove(dst.data, src.data, bytes);
  }
  PartSide source(int64_t part) const {
    return {&from, from ? from->of(part, parts()) : UnitRange()};
  }
  PartSide result(int64_t part) const { return {&to, to ? to->of(part, parts()) : UnitRange()}; }

  void copyOwn() {
    auto given = static_cast<const std::byte *>(src.data);
    auto made = static_cast<std::byte *>(dst.data);
    forCommonRuns(whole, source(me), result(me), [&](int64_t at, int64_t into, int64_t count) {
      std::memcpy(made + into * width, given + at * width, static_cast<size_t>(count * width));
    });
  }

  /// What this part has of what another one is to have, and what it is to have of another's.
  Pieces sentTo(int64_t part) const {
    Pieces pieces;
    forCommonRuns(whole, source(me), result(part), [&](int64_t at, int64_t, int64_t count) {
      pieces.push_back({static_cast<std::byte *>(src.data) + at * width, count * width});
    });
    return pieces;
  }
  Pieces comingFrom(int64_t part) const {
    Pieces pieces;
    forCommonRuns(whole, source(part), result(me), [&](int64_t, int64_t into, int64_t count) {
      pieces.push_back({static_cast<std::byte *>(dst.data) + into * width, count * width});
    });
    return pieces;
  }

  Status sendToAll(std::vector<Communicator::Handle> &handles) {
    for (int64_t distance = 1; distance < parts(); ++distance) {
      const int64_t part = (me + distance) % parts();
      const Pieces pieces = sentTo(part);
      if (pieces.empty())
        continue;
      OMNIBAL_ASSIGN_OR_RETURN(auto handle, communicator.send(ranks[part], exchangeTag, pieces));
      handles.push_back(handle);
    }
    return Status::ok();
  }
  Status finish(const std::vector<Communicator::Handle> &handles) {
    for (Communicator::Handle handle : handles)
      OMNIBAL_RETURN_IF_ERROR(communicator.wait(handle));
    return Status::ok();
  }

  Status exchangeUnits() {
    std::vector<Communicator::Handle> handles;
    for (int64_t distance = 1; distance < parts(); ++distance) {
      const int64_t part = (me + parts() - distance) % parts();
      const Pieces pieces = comingFrom(part);
      if (pieces.empty())
        continue;
      OMNIBAL_ASSIGN_OR_RETURN(auto handle, communicator.receive(ranks[part], exchangeTag, pieces));
      handles.push_back(handle);
    }
    OMNIBAL_RETURN_IF_ERROR(sendToAll(handles));
    copyOwn();
    return finish(handles);
  }

  Status sumEverywhere() {
    if (src.data != dst.data)
      std::memcpy(dst.data, src.data, bytesOf(src));
    return communicator.allReduce(
        std::span<float>(static_cast<float *>(dst.data), static_cast<size_t>(dst.elements())),
        ranks);
  }

  /// Summands come one after the other, in the order in which they are added.
  Status sumOwn() {
    std::vector<Communicator::Handle> handles;
    OMNIBAL_RETURN_IF_ERROR(sendToAll(handles));
    const int64_t count = dst.elements();
    auto sum = static_cast<float *>(dst.data);
    for (int64_t part = 0; part < parts() && count > 0; ++part) {
      auto summand = reinterpret_cast<float *>(workspace);
      if (part == me) {
        auto own = static_cast<const float *>(src.data);
        forCommonRuns(whole, source(me), result(me), [&](int64_t at, int64_t into, int64_t run) {
          std::copy_n(own + at, run, summand + into);
        });
      } else {
        OMNIBAL_RETURN_IF_ERROR(receiveSummand(part));
      }
      if (part == 0)
        std::copy_n(summand, count, sum);
      else
        std::transform(sum, sum + count, summand, sum, std::plus<float>());
    }
    return finish(handles);
  }

  Status receiveSummand(int64_t part) {
    Pieces pieces;
    forCommonRuns(whole, source(part), result(me), [&](int64_t, int64_t into, int64_t count) {
      pieces.push_back({workspace + into * width, count * width});
    });
    OMNIBAL_ASSIGN_OR_RETURN(auto handle, communicator.receive(ranks[part], exchangeTag, pieces));
    return communicator.wait(handle);
  }

  Communicator &communicator;
  const PartMove &move;
  const TensorView &src, &dst;
  std::byte *workspace;
  std::span<const int> ranks;
  int64_t width, me = 0;
  std::optional<UnitSplit> from, to; ///< in the micro-batch
  std::vector<int64_t> whole;
};

} // namespace

Status exchangeParts(Communicator &communicator, const PartMove &move,
                     std::span<const TensorView> operands, const SymbolValues &symbols,
                     std::span<const int> ranks) {
  return PartExchange(communicator, move, operands, symbols, ranks).run();
}

} // namespace omnibal::rt
