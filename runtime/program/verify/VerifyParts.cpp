//===- VerifyParts.cpp - Rule p20: the parts of a stage fit together
//---------------------------===//
//
// Each part's entries are a program of their own to the other rules, as parts send messages to
// equal parts only. What is left is what parts do together: they hold each parameter once, or, as
// ranks of a context group, all of it; do the same actions; and make the same moves in the same
// order, each with its share of the same value.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/device/PartMove.h"
#include "runtime/program/Sizes.h"
#include "runtime/program/Verifier.h"
#include "runtime/program/verify/VerifierInternal.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

/// A move of a function, with the views that it is about.
struct FoundMove {
  const KernelCall *call;
  PartMove move;
};

class PartsCheck {
public:
  explicit PartsCheck(const Program &p) : p(p) {}

  Status run() {
    for (int32_t s = 0; s < p.stages; ++s)
      for (int32_t part = 0; part < p.entries(); ++part) {
        const Stage &stage = p.stageOf(s, part);
        if (stage.id != s || stage.part != part)
          return bad("stages.json", "an entry is of stage " + std::to_string(stage.id) + ", part " +
                                        std::to_string(stage.part) + " where stage " +
                                        std::to_string(s) + ", part " + std::to_string(part) +
                                        " is expected");
      }
    for (int32_t s = 0; s < p.stages; ++s)
      for (int32_t part = 0; part < p.entries(); ++part) {
        where = "stage " + std::to_string(s) + ", part " + std::to_string(part);
        OMNIBAL_RETURN_IF_ERROR(checkParameters(p.stageOf(s, 0), p.stageOf(s, part)));
        OMNIBAL_RETURN_IF_ERROR(checkModes(p.stageOf(s, 0), p.stageOf(s, part)));
      }
    return Status::ok();
  }

private:
  static Status bad(const std::string &where, const std::string &what) {
    return broken("p20", where, what);
  }

  /// Each has its share by the one rule, so together they have all of it once.
  Status checkParameters(const Stage &first, const Stage &own) {
    if (own.parameters.size() != first.parameters.size() ||
        own.buckets.size() != first.buckets.size())
      return bad(where, "its parameters or buckets are not as many as those of part 0");
    for (size_t i = 0; i < own.parameters.size(); ++i) {
      const Parameter &a = first.parameters[i], &b = own.parameters[i];
      const std::string name = where + ", parameter \"" + b.name + "\"";
      if (a.name != b.name || a.dtype != b.dtype || a.shape != b.shape ||
          a.trainable != b.trainable || a.decay != b.decay || a.counted != b.counted ||
          a.transposed != b.transposed || a.sharedGroup != b.sharedGroup ||
          a.orthogonalized != b.orthogonalized || a.quantization != b.quantization ||
          a.held.has_value() != b.held.has_value())
        return bad(name, "it differs from that of part 0");
      if (!p.hasOwnParts() && (b.held || !liesAlike(a, b)))
        return bad(name, "ranks of a context group hold all of it, in the same place");
      if (!b.held)
        continue;
      const UnitRange share = shareOf(b.held->units, own.part, p.modelParallel);
      if (a.held->dim != b.held->dim || a.held->units != b.held->units ||
          a.held->inner != b.held->inner || b.held->begin != share.begin ||
          b.held->end != share.end)
        return bad(name, "the units that it has of it are not its share");
    }
    for (size_t b = 0; b < own.buckets.size(); ++b)
      if (own.buckets[b].parameters != first.buckets[b].parameters ||
          boundsOf(own.buckets[b]) != boundsOf(first.buckets[b]))
        return bad(where, "bucket " + std::to_string(b) +
                              " has other parameters or shares than on part 0");
    return Status::ok();
  }

  std::vector<int64_t> boundsOf(const Bucket &bucket) const {
    // Parts of a stage have replicas of their own.
    return bucket.share && !p.hasOwnParts() ? bucket.share->bounds : std::vector<int64_t>();
  }

  static bool liesAlike(const Parameter &a, const Parameter &b) {
    return a.dataOffset == b.dataOffset && a.gradOffset == b.gradOffset &&
           a.moment1Offset == b.moment1Offset && a.moment2Offset == b.moment2Offset &&
           a.masterOffset == b.masterOffset && a.averageOffset == b.averageOffset;
  }

  Status checkModes(const Stage &first, const Stage &own) {
    for (const auto &[name, mode] : own.modes) {
      auto other = first.modes.find(name);
      if (other == first.modes.end() || own.modes.size() != first.modes.size())
        return bad(where, "its modes are not those of part 0");
      if (!sameActions(other->second.actions, mode.actions) ||
          other->second.chunks.size() != mode.chunks.size())
        return bad(where + ", mode " + name, "its actions or chunks are not those of part 0");
      for (size_t c = 0; c < mode.chunks.size(); ++c)
        for (ActionKind kind : computeKinds)
          OMNIBAL_RETURN_IF_ERROR(checkCalls(other->second.chunks[c].calls(kind),
                                             mode.chunks[c].calls(kind), own.part, p.capsOf(name)));
    }
    return Status::ok();
  }

  static bool sameActions(const std::vector<Action> &a, const std::vector<Action> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Action &x, const Action &y) {
      return x.kind == y.kind && x.microbatch == y.microbatch && x.index == y.index &&
             x.part == y.part;
    });
  }

  Status checkCalls(const std::vector<LayerCall> &first, const std::vector<LayerCall> &own,
                    int32_t entry, const MicrobatchCaps &caps) {
    if (first.size() != own.size())
      return bad(where, "a chunk has other layers than on part 0");
    for (size_t i = 0; i < own.size(); ++i) {
      const std::string layer = where + ", layer \"" + own[i].layer + "\"";
      if (first[i].layer != own[i].layer)
        return bad(layer, "part 0 runs \"" + first[i].layer + "\" in its place");
      OMNIBAL_ASSIGN_OR_RETURN(const auto expected, movesOf(p.functions[first[i].function]));
      OMNIBAL_ASSIGN_OR_RETURN(const auto found, movesOf(p.functions[own[i].function]));
      if (caps.parts == 1 && !found.empty())
        return bad(layer, "it makes moves among parts in a mode that each rank runs by itself");
      if (expected.size() != found.size())
        return bad(layer, "it makes " + std::to_string(found.size()) + " moves, part 0 makes " +
                              std::to_string(expected.size()));
      for (size_t m = 0; m < found.size(); ++m)
        if (!fit(p.functions[first[i].function], expected[m], p.functions[own[i].function],
                 found[m], entry % caps.parts, caps))
          return bad(layer, "move " + std::to_string(m) + " (" + found[m].call->kernel +
                                ") is not that of part 0, or not its share of the same value");
    }
    return Status::ok();
  }

  static Result<std::vector<FoundMove>> movesOf(const Function &function) {
    std::vector<FoundMove> moves;
    for (const KernelCall &call : function.calls) {
      if (!PartMove::isKernel(call.kernel))
        continue;
      BoundCall bound;
      bound.kernel = call.kernel;
      bound.attributes = call.attributes;
      for (const auto &[name, view] : call.operands)
        bound.operands.push_back(name);
      auto move = PartMove::read(bound);
      if (!move)
        return bad("function \"" + function.name + "\"", move.status().message());
      moves.push_back({&call, *move});
    }
    return moves;
  }

  /// The whole value that an operand is a share of; empty where it is none.
  static std::vector<int64_t> wholeOf(const FoundMove &move, int operand,
                                      const std::optional<PartSplit> &split, int32_t part,
                                      int32_t parts, const SymbolValues &at) {
    std::vector<int64_t> shape;
    for (const Extent &size : move.call->operands[operand].second.shape)
      shape.push_back(size.evaluate(at));
    return PartMove::wholeShape(shape, splitAt(split, at), part, parts);
  }

  static bool isDense(const View &view, const SymbolValues &at) {
    if (std::any_of(view.shape.begin(), view.shape.end(),
                    [&](const Extent &size) { return size.evaluate(at) == 0; }))
      return true; // nothing lies there
    int64_t stride = 1;
    for (size_t d = view.shape.size(); d-- > 0;) {
      const int64_t size = view.shape[d].evaluate(at);
      if (size != 1 && view.strides[d].evaluate(at) != stride)
        return false;
      stride *= size;
    }
    return true;
  }

  bool fit(const Function &firstFunction, const FoundMove &first, const Function &ownFunction,
           const FoundMove &own, int32_t part, const MicrobatchCaps &caps) const {
    const PartMove &a = first.move, &b = own.move;
    if (a.kind != b.kind || a.from != b.from || a.to != b.to)
      return false;
    auto typeOf = [](const Function &function, const FoundMove &move, int operand) {
      return function.buffers[move.call->operands[operand].second.buffer].dtype;
    };
    if (typeOf(firstFunction, first, a.src) != typeOf(ownFunction, own, b.src) ||
        typeOf(ownFunction, own, b.dst) != typeOf(ownFunction, own, b.src))
      return false;
    const int64_t v = caps.tiles, n = p.roundedTokens(caps.tokens);
    for (auto [tiles, tokens] : {std::pair{v, n}, std::pair{std::min<int64_t>(v, 1), int64_t{1}},
                                 std::pair{v / 2, n / 2}}) {
      const auto onFirst = SymbolValues::of(tiles, tokens, 0, caps.parts),
                 onOwn = SymbolValues::of(tiles, tokens, part, caps.parts);
      const std::vector<int64_t> whole = wholeOf(first, a.src, a.from, 0, caps.parts, onFirst);
      if (whole.empty() != first.call->operands[a.src].second.shape.empty() ||
          wholeOf(own, b.src, b.from, part, caps.parts, onOwn) != whole ||
          wholeOf(own, b.dst, b.to, part, caps.parts, onOwn) != whole || !areDense(own, onOwn))
        return false;
    }
    return true;
  }

  /// A sum arrives where there is room for it.
  static bool areDense(const FoundMove &own, const SymbolValues &at) {
    const auto &operands = own.call->operands;
    const PartMove &move = own.move;
    return isDense(operands[move.src].second, at) && isDense(operands[move.dst].second, at) &&
           (move.workspace < 0 ||
            (isDense(operands[move.workspace].second, at) &&
             operands[move.workspace].second.shape == operands[move.dst].second.shape));
  }

  const Program &p;
  std::string where;
};

} // namespace

Status verifyOwnParts(const Program &program) { return PartsCheck(program).run(); }

/// Only ranks with entries of their own have shares of a micro-batch and make moves, which are then
/// compared.
static Status refuseParts(const Program &program) {
  for (const Function &function : program.functions) {
    const std::string where = "function \"" + function.name + "\", ";
    for (const Buffer &buffer : function.buffers)
      if (isOwn(buffer.shape))
        return broken("p20", where + "buffer \"" + buffer.name + "\"",
                      "its size is that of a part's own share, but all parts do the same");
    for (const KernelCall &call : function.calls)
      if (PartMove::isKernel(call.kernel))
        return broken("p20", where + "call of " + call.kernel,
                      "it is a move among parts, but all parts do the same");
  }
  return Status::ok();
}

Status verifyProgram(const Program &program) {
  auto verify = [](const Program &whole) {
    OMNIBAL_RETURN_IF_ERROR(verifyStructure(whole));
    OMNIBAL_RETURN_IF_ERROR(verifyActions(whole));
    return verifyMemory(whole);
  };
  const auto listed = static_cast<int64_t>(program.stageList.size());
  const int64_t parts = int64_t{program.modelParallel} * program.largestDegree();
  if (program.stages < 1 || parts < 2 || listed != int64_t{program.stages} * parts) {
    OMNIBAL_RETURN_IF_ERROR(refuseParts(program));
    OMNIBAL_RETURN_IF_ERROR(verify(program));
    return program.largestDegree() == 1
               ? Status::ok()
               : broken("p20", "stages.json",
                        "it has no entry for each rank of the largest context group, " +
                            std::to_string(program.largestDegree()) + " a stage");
  }
  Program ofPart = program;
  for (int32_t part = 0; part < program.entries(); ++part) {
    ofPart.stageList.clear();
    for (int32_t stage = 0; stage < program.stages; ++stage)
      ofPart.stageList.push_back(program.stageOf(stage, part));
    OMNIBAL_RETURN_IF_ERROR(verify(ofPart).context("part " + std::to_string(part)));
  }
  return verifyOwnParts(program);
}

} // namespace omnibal::rt
