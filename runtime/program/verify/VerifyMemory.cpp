//===- VerifyMemory.cpp - Rules p9, p10: every value lives as long as it is needed -------===//
//
// The action list is run on a shadow of the arena that knows, for every byte, which allocation
// (region, unit) wrote it last. A read must find its own allocation there: otherwise two
// allocations that live at the same time overlap, or nobody wrote the value. Bytes of a message
// under way belong to the communicator. All sizes are those at the caps: they contain the others.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/program/Names.h"
#include "runtime/program/Sizes.h"
#include "runtime/program/Verifier.h"
#include "runtime/program/verify/VerifierInternal.h"
#include <algorithm>
#include <map>
#include <set>

namespace omnibal::rt {
namespace {

struct Owner {
  int32_t region = -1;
  Unit holder{-1, 0};
  bool operator==(const Owner &) const = default;
};

/// Byte ranges and their last writers.
class Shadow {
public:
  void write(int64_t begin, int64_t end, Owner owner) {
    if (begin >= end)
      return;
    // Micro-batches write the same places in turn.
    if (auto same = ranges.find(begin); same != ranges.end() && same->second.end == end) {
      same->second.owner = owner;
      return;
    }
    erase(begin, end);
    ranges[begin] = {end, owner};
  }
  /// Whether all of [begin, end) was last written by `owner`; else `other` is who did.
  bool owned(int64_t begin, int64_t end, Owner owner, Owner &other) const {
    auto it = ranges.upper_bound(begin);
    if (it != ranges.begin())
      --it;
    int64_t at = begin;
    while (at < end) {
      other = Owner{};
      if (it == ranges.end() || it->first > at)
        return false;
      if (it->second.end > at) {
        other = it->second.owner;
        if (!(other == owner))
          return false;
        at = it->second.end;
      }
      ++it;
    }
    return true;
  }

private:
  struct Range {
    int64_t end;
    Owner owner;
  };
  void erase(int64_t begin, int64_t end) {
    auto it = ranges.upper_bound(begin);
    if (it != ranges.begin()) {
      --it;
      if (it->second.end > begin) {
        Range old = it->second;
        if (it->first < begin)
          it->second.end = begin, ++it;
        else
          it = ranges.erase(it);
        if (old.end > end) {
          ranges[end] = old;
          return;
        }
      } else {
        ++it;
      }
    }
    while (it != ranges.end() && it->first < end) {
      Range old = it->second;
      it = ranges.erase(it);
      if (old.end > end) {
        ranges[end] = old;
        break;
      }
    }
  }
  std::map<int64_t, Range> ranges;
};

struct Bytes {
  int64_t begin, end;
  bool meets(const Bytes &o) const { return begin < o.end && o.begin < end; }
};

/// The bytes of messages that are under way.
class InFlight {
public:
  using Message = std::pair<int32_t, Unit>; ///< transfer

  void add(Message message, bool receiving, Bytes b) {
    longest = std::max(longest, b.end - b.begin);
    messages[message].push_back(pieces.emplace(b.begin, Piece{b.end, receiving}));
  }
  void remove(Message message) {
    auto it = messages.find(message);
    if (it == messages.end())
      return;
    for (auto piece : it->second)
      pieces.erase(piece);
    messages.erase(it);
  }
  /// Whether an access meets bytes that it may not touch: what is being sent may be read.
  bool forbids(Bytes b, bool writes) const {
    for (auto it = pieces.lower_bound(b.begin - longest); it != pieces.end() && it->first < b.end;
         ++it)
      if (it->second.end > b.begin && b.begin < b.end && (writes || it->second.receiving))
        return true;
    return false;
  }

private:
  struct Piece {
    int64_t end;
    bool receiving;
  };
  std::multimap<int64_t, Piece> pieces; ///< by where they begin; what is sent twice is here twice
  std::map<Message, std::vector<std::multimap<int64_t, Piece>::iterator>> messages;
  int64_t longest = 0; ///< of all pieces so far: which of them can reach into given bytes
};

class StageRun {
public:
  StageRun(const Program &p, const Stage &stage, const std::string &name)
      : StageRun(p, stage, name, ownPlan(stage.modes.at(name)), {}) {}
  /// `loads` has one a micro-batch; none: all of them are full.
  StageRun(const Program &p, const Stage &stage, const std::string &name, RunPlan plan,
           std::span<const RunLoad> loads)
      : program(p), mode(stage.modes.at(name)), plan(std::move(plan)), loads(loads),
        full(RunLoad::of(p.capsOf(name).tiles, p.roundedTokens(p.capsOf(name).tokens),
                         stage.part % p.partsOf(name), p.partsOf(name))),
        provided(mode.batchValues.size()),
        base("stage " + std::to_string(stage.id) + ", mode " + name) {}

  Status run() {
    for (size_t i = 0; i < plan.actions.size(); ++i) {
      const Action &a = plan.actions[i];
      position = i;
      if (isCompute(a.kind))
        OMNIBAL_RETURN_IF_ERROR(compute(a));
      else if (a.kind <= ActionKind::WaitSend)
        OMNIBAL_RETURN_IF_ERROR(communicate(a));
    }
    return Status::ok();
  }

private:
  std::string where() const {
    const Action &a = plan.actions[position];
    return base + ", action " + std::to_string(position) + " " + nameOf(a.kind) + " of " +
           nameOf(a.unit());
  }
  RunLoad loadOf(int32_t microbatch) const { return loads.empty() ? full : loads[microbatch]; }
  /// The tiles of the action at hand.
  TileRange tilesOf(const Action &a) const {
    const int64_t all = loadOf(a.microbatch).tiles;
    const bool isDivided =
        isCompute(a.kind) ? plan.isDividedChunk(a.index) : plan.isDividedTransfer(a.index);
    return isDivided ? plan.tilesOf(a.unit(), all) : TileRange{0, all};
  }
  /// A unit's part of a value in a region.
  Bytes at(int32_t region, Unit unit, const TileRange &tiles, const Extent &offset,
           const std::vector<Extent> &shape, DType type) const {
    const RunLoad load = loadOf(unit.microbatch);
    const int64_t begin = plan.place(region, unit, tiles, load, offset, bytesOfTile(type, shape));
    return {begin, begin + denseBytes(shape, type, sizeOf(tiles, load))};
  }
  static SymbolValues sizeOf(const TileRange &tiles, const RunLoad &load) {
    SymbolValues size = load;
    size.tiles = tiles.count;
    return size;
  }
  Owner ownerOf(int32_t region, Unit unit) const { return {region, plan.holder(region, unit)}; }
  std::string name(Owner o) const {
    return o.region < 0 ? "nobody"
                        : "region \"" + mode.regions[o.region].name + "\" of " + nameOf(o.holder);
  }

  // Names are functions: nearly all of millions of accesses need none.
  template <typename Name> Status checkNotInFlight(Bytes b, bool writes, const Name &what) const {
    if (inFlight.forbids(b, writes))
      return broken("p10", where(), what() + " is touched while a message is under way there");
    return Status::ok();
  }
  template <typename Name> Status read(Bytes b, Owner owner, const Name &what) const {
    OMNIBAL_RETURN_IF_ERROR(checkNotInFlight(b, false, what));
    Owner other;
    if (!shadow.owned(b.begin, b.end, owner, other))
      return broken("p9", where(),
                    what() + " is read from " + name(owner) + ", but was last written by " +
                        name(other));
    return Status::ok();
  }
  template <typename Name> Status write(Bytes b, Owner owner, const Name &what) {
    OMNIBAL_RETURN_IF_ERROR(checkNotInFlight(b, true, what));
    shadow.write(b.begin, b.end, owner);
    return Status::ok();
  }

  /// The batch values that an action reads appear at its start, once a micro-batch.
  Status provide(const Action &a, const std::vector<LayerCall> &calls) {
    for (const LayerCall &call : calls) {
      const Function &f = program.functions[call.function];
      for (int32_t i = 0; i < f.formals; ++i) {
        if (f.buffers[i].role != Role::Batch)
          continue;
        const Location &l = call.bindings[i];
        size_t v = 0;
        while (v < mode.batchValues.size() &&
               (mode.batchValues[v].region != l.index ||
                Extent{mode.batchValues[v].offset, 0, 0} != l.offset ||
                mode.batchValues[v].dtype != f.buffers[i].dtype))
          ++v;
        if (v == mode.batchValues.size())
          return broken("p9", where(),
                        "\"" + f.buffers[i].name + "\" of layer \"" + call.layer +
                            "\" is bound to no batch value");
        const BatchValue &value = mode.batchValues[v];
        const Owner owner = ownerOf(value.region, a.unit());
        if (provided[v].insert(owner.holder).second)
          OMNIBAL_RETURN_IF_ERROR(write(at(value.region, owner.holder, tilesOf(a),
                                           {value.offset, 0, 0}, value.shape, value.dtype),
                                        owner,
                                        [&] { return "batch value \"" + value.name + "\""; }));
      }
    }
    return Status::ok();
  }

  Status compute(const Action &a) {
    const std::vector<LayerCall> &calls = mode.chunks[a.index].calls(a.kind);
    OMNIBAL_RETURN_IF_ERROR(provide(a, calls));
    for (const LayerCall &call : calls)
      if (joinsParts(a, call))
        for (int32_t p = 0; p < plan.partsOf(a.microbatch); ++p) {
          const Unit unit{a.microbatch, p};
          const TileRange tiles = plan.tilesOf(unit, loadOf(a.microbatch).tiles);
          OMNIBAL_RETURN_IF_ERROR(runLayer(a, call, unit, tiles));
        }
      else
        OMNIBAL_RETURN_IF_ERROR(runLayer(a, call, a.unit(), tilesOf(a)));
    return Status::ok();
  }

  /// A copy of what a divided chunk made is made for each of its parts.
  bool joinsParts(const Action &a, const LayerCall &call) const {
    return !plan.isDividedChunk(a.index) &&
           std::any_of(call.bindings.begin(), call.bindings.end(), [&](const Location &l) {
             return l.space == Space::Region && plan.isDividedRegion(l.index);
           });
  }

  /// What a layer accesses: a formal of its function, or its workspace.
  struct Access {
    Bytes bytes;
    int32_t formal;
  };
  static constexpr int32_t workspace = -1;
  static std::string nameOfAccess(const Function &f, const LayerCall &call, int32_t formal) {
    return (formal == workspace ? "the workspace" : "\"" + f.buffers[formal].name + "\"") +
           " of layer \"" + call.layer + "\"";
  }

  static bool isRead(Role role, ActionKind kind) {
    if (role == Role::Saved || role == Role::Output) // backward may read what forward left
      return kind != ActionKind::Forward;
    if (role == Role::Held)
      return kind == ActionKind::WeightGrad;
    return role == Role::Input || role == Role::GradOutput || role == Role::Batch;
  }

  Status runLayer(const Action &a, const LayerCall &call, Unit unit, const TileRange &tiles) {
    const Function &f = program.functions[call.function];
    layerReads.clear();
    layerWrites.clear();
    for (int32_t i = 0; i < f.formals; ++i)
      if (isRead(f.buffers[i].role, a.kind) && call.bindings[i].space == Space::Region)
        layerReads.push_back({bytesOf(f, call, i, unit, tiles), i});
    for (const Access &access : layerReads)
      OMNIBAL_RETURN_IF_ERROR(read(access.bytes, ownerOf(call.bindings[access.formal].index, unit),
                                   [&] { return nameOfAccess(f, call, access.formal); }));
    for (int32_t i = 0; i < f.formals; ++i)
      if (!isRead(f.buffers[i].role, a.kind) && call.bindings[i].space == Space::Region)
        OMNIBAL_RETURN_IF_ERROR(writeOfLayer(f, call, {bytesOf(f, call, i, unit, tiles), i},
                                             ownerOf(call.bindings[i].index, unit)));
    if (f.workspaceBytes == 0)
      return Status::ok();
    const int64_t begin = plan.offset(call.workspaceRegion, unit) + call.workspaceOffset;
    return writeOfLayer(f, call, {{begin, begin + f.workspaceBytes}, workspace},
                        ownerOf(call.workspaceRegion, unit));
  }
  Bytes bytesOf(const Function &f, const LayerCall &call, int32_t formal, Unit unit,
                const TileRange &tiles) const {
    const Location &l = call.bindings[formal];
    return at(l.index, unit, tiles, l.offset, f.buffers[formal].shape, f.buffers[formal].dtype);
  }

  /// What a layer writes meets neither what it reads nor what else it writes.
  Status writeOfLayer(const Function &f, const LayerCall &call, const Access &access, Owner owner) {
    auto what = [&] { return nameOfAccess(f, call, access.formal); };
    for (const auto &[others, how] : {std::pair{&layerReads, "reads"}, {&layerWrites, "writes"}})
      for (const Access &other : *others)
        if (other.bytes.meets(access.bytes))
          return broken("p9", where(),
                        what() + " overlaps " + nameOfAccess(f, call, other.formal) +
                            ", which the same layer " + how);
    layerWrites.push_back(access);
    return write(access.bytes, owner, what);
  }

  Status communicate(const Action &a) {
    const Transfer &t = mode.transfers[a.index];
    const InFlight::Message key{a.index, a.unit()};
    bool receiving = a.kind == ActionKind::PostRecv || a.kind == ActionKind::WaitRecv;
    const int32_t region = receiving ? t.recvRegion : t.sendRegion;
    const Owner owner = ownerOf(region, a.unit());
    auto bytesOfPiece = [&](const Piece &piece) {
      return at(region, a.unit(), tilesOf(a), receiving ? piece.recvOffset : piece.sendOffset,
                piece.shape, piece.dtype);
    };
    if (a.kind == ActionKind::PostRecv || a.kind == ActionKind::Send) {
      for (const Piece &piece : t.pieces) {
        auto what = [&] {
          return "piece \"" + piece.name + "\" of transfer " + std::to_string(t.id);
        };
        const Bytes b = bytesOfPiece(piece);
        OMNIBAL_RETURN_IF_ERROR(receiving ? write(b, owner, what) : read(b, owner, what));
      }
      for (const Piece &piece : t.pieces)
        inFlight.add(key, receiving, bytesOfPiece(piece));
    } else {
      inFlight.remove(key);
    }
    return Status::ok();
  }

  const Program &program;
  const Mode &mode;
  RunPlan plan;
  std::span<const RunLoad> loads;
  RunLoad full;                         ///< at the mode's caps
  std::vector<std::set<Unit>> provided; ///< units for which a batch value was written
  Shadow shadow;
  InFlight inFlight;
  std::vector<Access> layerReads, layerWrites; ///< of the layer at hand
  std::string base;
  size_t position = 0; ///< of the action
};

} // namespace

Status verifyMemoryOf(const Program &p, const Stage &stage, const std::string &mode,
                      const RunPlan &plan, std::span<const RunLoad> loads) {
  return StageRun(p, stage, mode, plan, loads).run();
}

Status verifyMemory(const Program &p) {
  for (const Stage &stage : p.stageList)
    for (const auto &[name, mode] : stage.modes)
      OMNIBAL_RETURN_IF_ERROR(StageRun(p, stage, name).run());
  return Status::ok();
}

} // namespace omnibal::rt
