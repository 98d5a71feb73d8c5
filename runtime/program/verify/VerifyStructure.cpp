//===- VerifyStructure.cpp - Rules p1-p5: indices, offsets, sizes ------------------------===//
#include "runtime/device/Kernel.h"
#include "runtime/program/BucketShares.h"
#include "runtime/program/MomentShapes.h"
#include "runtime/program/Sizes.h"
#include "runtime/program/Verifier.h"
#include "runtime/program/verify/VerifierInternal.h"
#include <algorithm>
#include <array>
#include <set>

namespace omnibal::rt {
namespace {

/// Sizes that no honest program reaches, and with which no sum of ours can overflow.
constexpr int64_t sizeLimit = int64_t{1} << 50;
bool sane(int64_t n) { return n >= 0 && n <= sizeLimit; }
/// Also its value in any micro-batch within the caps, and what is added up on the way there.
bool sane(const Program &p, const Extent &e) {
  auto size = [](int64_t n) {
    return n < 0 ? -static_cast<__int128>(n) : static_cast<__int128>(n);
  };
  const MicrobatchCaps caps = p.caps();
  return size(e.constant) + size(e.perTile) * std::max<int64_t>(caps.tiles, 1) +
             size(e.perToken) * std::max<int64_t>(p.roundedTokens(caps.tokens), 1) +
             size(e.perOwnTile) * std::max<int64_t>(caps.tiles, 1) +
             size(e.perOwnToken) * std::max<int64_t>(p.roundedTokens(caps.tokens), 1) <=
         sizeLimit;
}
bool sane(const Program &p, const std::vector<Extent> &list) {
  return std::all_of(list.begin(), list.end(), [&](const Extent &e) { return sane(p, e); });
}

/// Extents are affine, so that a view's reach is quadratic in V and N at most: these points bound
/// it for every view that a compiler writes. Where parts differ, the entries are those of one.
std::array<SymbolValues, 6> probes(const Program &p, const MicrobatchCaps &caps) {
  const int64_t v = caps.tiles, n = p.roundedTokens(caps.tokens);
  const int32_t part = p.stageList.empty() ? 0 : p.stageList.front().part % caps.parts;
  auto at = [&](int64_t tiles, int64_t tokens) {
    return SymbolValues::of(tiles, tokens, part, caps.parts);
  };
  return {at(0, 0),
          at(v, 0),
          at(0, n),
          at(v, n),
          at(std::min<int64_t>(v, 1), std::min<int64_t>(n, 1)),
          at(v / 2, n / 2)};
}

/// What memory is laid out for.
SymbolValues mostOf(const Program &p, const MicrobatchCaps &caps) {
  return SymbolValues::most(caps.tiles, p.roundedTokens(caps.tokens), caps.parts);
}

Status checkHeader(const Program &p) {
  auto bad = [](const std::string &what) { return broken("p1", "manifest", what); };
  if (p.stages < 1 || p.stages > 65536 || p.stages != static_cast<int64_t>(p.stageList.size()))
    return bad("stages is " + std::to_string(p.stages) + ", but stages.json has " +
               std::to_string(p.stageList.size()));
  for (const TrainMode &mode : p.trainModes) {
    if (p.dataParallel < 1 || p.dataParallel > 65536 || mode.microbatches < 1 ||
        mode.microbatches > 1000000)
      return bad("data_parallel and microbatches must be at least 1");
    // A cap is the number of rows of many buffers: 2^31 keeps every product far from overflow.
    if (mode.tilesCap < 0 || mode.tilesCap > INT32_MAX || mode.tokensCap < 0 ||
        mode.tokensCap > INT32_MAX)
      return bad("tiles_cap and tokens_cap must lie in [0, 2^31)");
  }
  if (p.modelParallel < 1 || p.modelParallel > mostParts)
    return bad("model_parallel is " + std::to_string(p.modelParallel) + "; it must lie in [1, " +
               std::to_string(mostParts) + "]");
  // Each factor is at most 2^16, so the product of three fits.
  if (int64_t{p.stages} * p.dataParallel * p.modelParallel > INT32_MAX)
    return bad("stages x data_parallel x model_parallel are 2^31 ranks or more");
  if (p.compute != "float32" && (p.compute != "bfloat16" || p.target == "host"))
    return bad("compute is \"" + p.compute + "\"; target " + p.target + " has float32" +
               (p.target == "host" ? "" : " and bfloat16"));
  if (p.rowBucket < 1 || p.rowBucket > 65536)
    return bad("row_bucket must lie in [1, 65536]");
  // Products with caps and with each other stay far from overflow, too.
  const ModelInfo &info = p.info;
  if (info.imageTokenId < -1 || info.imageTokenId > INT32_MAX || info.vocabulary < 0 ||
      info.vocabulary > INT32_MAX || info.tokensPerTile < 0 || info.tokensPerTile > INT32_MAX ||
      info.positions < 0 || info.positions > INT32_MAX)
    return bad("image_token_id, vocabulary, positions or tokens_per_tile is out of range");
  if (int64_t bytes = denseBytes(info.tileShape, DType::F32);
      !sane(bytes) || bytes > sizeLimit / std::max<int64_t>(p.caps().tiles, 1))
    return bad("tile_shape is out of range");
  for (size_t s = 0; s < p.stageList.size(); ++s)
    if (p.stageList[s].id != static_cast<int32_t>(s))
      return bad("stage " + std::to_string(s) + " has id " + std::to_string(p.stageList[s].id));
  if (p.zero != 0 && (p.zero != 1 || p.dataParallel < 2))
    return bad("zero is " + std::to_string(p.zero) +
               ", but 1 is expected, with several data-parallel ranks, or no such field");
  // What Muon may do is asked of each of its matrices, as the rest of its parameters are AdamW's.
  if (p.optimizer == OptimizerKind::Adafactor && (p.zero != 0 || p.target != "host"))
    return bad(std::string("optimizer ") + nameOf(p.optimizer) +
               ": only target host has it, and replicas do not divide its state");
  return Status::ok();
}

Status checkView(const Program &p, const MicrobatchCaps &caps, const Function &f, const View &v,
                 const std::string &where) {
  if (v.buffer < 0 || v.buffer >= static_cast<int64_t>(f.buffers.size()))
    return broken("p2", where, "buffer " + std::to_string(v.buffer) + " does not exist");
  if (v.shape.size() != v.strides.size() || v.shape.size() > TensorView::maxRank)
    return broken("p2", where,
                  "the shape has " + std::to_string(v.shape.size()) + " dimensions, the strides " +
                      std::to_string(v.strides.size()) + " (at most " +
                      std::to_string(TensorView::maxRank) + ")");
  if (!sane(p, v.shape) || !sane(p, v.strides) || !sane(p, v.offset))
    return broken("p2", where, "a size is out of range");
  const Buffer &buffer = f.buffers[v.buffer];
  for (const SymbolValues &at : probes(p, caps)) {
    __int128 last = v.offset.evaluate(at), first = last;
    bool empty = false;
    for (size_t d = 0; d < v.shape.size(); ++d) {
      int64_t extent = v.shape[d].evaluate(at);
      int64_t stride = v.strides[d].evaluate(at);
      if (extent < 0)
        return broken("p2", where, "dimension " + std::to_string(d) + " is negative");
      empty |= extent == 0;
      (stride < 0 ? first : last) += static_cast<__int128>(extent - 1) * stride;
    }
    int64_t elements = denseBytes(buffer.shape, buffer.dtype, at) / byteSize(buffer.dtype);
    if (!empty && (first < 0 || last >= elements))
      return broken("p2", where,
                    "the view leaves its buffer \"" + buffer.name + "\" of " +
                        std::to_string(elements) + " elements at V = " + std::to_string(at.tiles) +
                        ", N = " + std::to_string(at.tokens));
  }
  return Status::ok();
}

Status checkFunction(const Program &p, const MicrobatchCaps &caps, const Function &f,
                     const std::string &where) {
  if (f.formals < 0 || f.formals > static_cast<int64_t>(f.buffers.size()))
    return broken("p2", where, "formals is out of range");
  if (!sane(f.workspaceBytes))
    return broken("p2", where, "workspace_bytes is out of range");
  for (size_t b = 0; b < f.buffers.size(); ++b) {
    const Buffer &buffer = f.buffers[b];
    std::string at = where + ", buffer \"" + buffer.name + "\"";
    bool temporary = buffer.role == Role::Temporary;
    if (temporary != (static_cast<int64_t>(b) >= f.formals))
      return broken("p2", at, "formals come first, then temporaries");
    if (!sane(p, buffer.shape))
      return broken("p2", at, "a size is out of range");
    for (const SymbolValues &symbols : probes(p, caps))
      if (!sane(denseBytes(buffer.shape, buffer.dtype, symbols)))
        return broken("p2", at, "its size is out of range");
    const int64_t bytes = denseBytes(buffer.shape, buffer.dtype, mostOf(p, caps));
    if (temporary &&
        (!inside(buffer.offset, bytes, f.workspaceBytes) || buffer.offset % byteSize(buffer.dtype)))
      return broken("p2", at,
                    "it does not lie in the workspace of " + std::to_string(f.workspaceBytes) +
                        " bytes, or not aligned");
  }
  for (size_t c = 0; c < f.calls.size(); ++c) {
    const KernelCall &call = f.calls[c];
    std::string at = where + ", call " + std::to_string(c) + " (" + call.kernel + ")";
    if (call.kernel.empty() || !call.attributes.is_object())
      return broken("p2", at, "a kernel needs a name and an object of attributes");
    std::set<std::string> names;
    for (const auto &[name, view] : call.operands) {
      if (!names.insert(name).second)
        return broken("p2", at, "operand \"" + name + "\" occurs twice");
      OMNIBAL_RETURN_IF_ERROR(checkView(p, caps, f, view, at + ", operand \"" + name + "\""));
    }
  }
  return Status::ok();
}

/// Whether the units that a part holds are some of those that the parameter has.
bool isHeldWell(const Parameter &q) {
  if (!q.held)
    return true;
  const HeldUnits &h = *q.held;
  if (h.dim < 0 || h.dim >= static_cast<int64_t>(q.shape.size()) || h.units < 1 || h.inner < 1 ||
      h.units > sizeLimit || h.inner > sizeLimit || h.begin < 0 || h.end < h.begin ||
      h.end > h.units)
    return false;
  const int64_t size = q.shape[static_cast<size_t>(h.dim)];
  return size >= 0 && size % h.units == 0 && size / h.units % h.inner == 0;
}

Status checkPersistent(const Program &p, const Stage &stage, const std::string &where) {
  if (!sane(stage.arenaBytes) || !sane(stage.reservedBytes) || stage.persistentBytes < 0 ||
      stage.persistentBytes > stage.arenaBytes || stage.reservedBytes > stage.arenaBytes)
    return broken("p3", where, "persistent_bytes and reserved_bytes must lie in [0, arena_bytes]");
  struct Range {
    int64_t begin, end;
    std::string name;
  };
  std::vector<Range> ranges;
  auto add = [&](int64_t offset, int64_t bytes, DType type, const std::string &name) {
    if (!inside(offset, bytes, stage.persistentBytes) || offset % byteSize(type))
      return broken("p3", where + ", " + name,
                    "it does not lie in the persistent part, or not aligned");
    ranges.push_back({offset, offset + bytes, name});
    return Status::ok();
  };
  auto addMoments = [&](int64_t first, int64_t second, const std::vector<int64_t> &bytes,
                        const std::string &name) {
    OMNIBAL_RETURN_IF_ERROR(add(first, bytes.front(), DType::F32, name + " (moment 1)"));
    if (bytes.size() > 1)
      return add(second, bytes.back(), DType::F32, name + " (moment 2)");
    return second == -1 ? Status::ok()
                        : broken("p3", where + ", " + name,
                                 std::string("optimizer ") + nameOf(p.optimizer) +
                                     " has no second moment of it");
  };
  auto addAverage = [&](int64_t offset, bool isThere, int64_t bytes, const std::string &name) {
    if (isThere)
      return add(offset, bytes, DType::F32, name + " (average)");
    return offset == -1 ? Status::ok()
                        : broken("p3", where + ", " + name,
                                 "only where the manifest says ema, and only of what trains, is "
                                 "there an average, of shares where replicas have those");
  };
  std::set<std::string> names;
  for (const Parameter &q : stage.parameters) {
    std::string name = "parameter \"" + q.name + "\"";
    if (q.orthogonalized && !canOrthogonalize(p, q))
      return broken("p3", where + ", " + name,
                    "orthogonalized: only muon does that, on target host, with whole matrices that "
                    "train and whose state replicas do not divide");
    if (q.trainable && needsWholeParameters(p.optimizer) && q.held)
      return broken("p3", where + ", " + name,
                    std::string("optimizer ") + nameOf(p.optimizer) +
                        ": it updates whole parameters only");
    if (isFactored(p.optimizer, q.shape.size()) &&
        std::find(q.shape.begin(), q.shape.end(), 0) != q.shape.end())
      return broken("p3", where + ", " + name,
                    std::string("optimizer ") + nameOf(p.optimizer) +
                        ": a parameter without elements has no rows and columns");
    if (!isHeldWell(q))
      return broken("p3", where + ", " + name, "held: these units do not divide its shape");
    int64_t bytes = denseBytes(q.heldDims(), DType::F32);
    bool inBFloat16 = q.dtype == DType::BF16;
    if (!names.insert(q.name).second)
      return broken("p3", where + ", " + name, "the name occurs twice");
    if (!sane(bytes) || (q.transposed && q.shape.size() != 2))
      return broken("p3", where + ", " + name, "bad shape (transposed needs rank 2)");
    const bool quantized = q.quantization != Quantization::None;
    if (quantized && (q.trainable || q.held || q.shape.size() != 2 || q.dtype != DType::I32))
      return broken("p3", where + ", " + name,
                    "quantized: only a whole matrix that is frozen is, and its dtype is i32");
    if (!quantized && !inBFloat16 && q.dtype != DType::F32)
      return broken("p3", where + ", " + name, "its dtype must be f32 or bf16");
    OMNIBAL_RETURN_IF_ERROR(add(q.dataOffset, q.dataBytes(), q.dtype, name));
    if (inBFloat16 && q.trainable && p.zero == 0)
      OMNIBAL_RETURN_IF_ERROR(add(q.masterOffset, bytes, DType::F32, name + " (float32 values)"));
    else if (q.masterOffset != -1)
      return broken("p3", where + ", " + name,
                    "only a trainable parameter in bf16 has float32 values beside it, and none "
                    "where replicas divide them");
    if (q.trainable && p.zero > 0) {
      OMNIBAL_RETURN_IF_ERROR(add(q.gradOffset, bytes, DType::F32, name + " (gradient)"));
      if (q.moment1Offset != -1 || q.moment2Offset != -1)
        return broken("p18", where + ", " + name, "its moments are those of its bucket's shares");
    } else if (q.trainable) {
      OMNIBAL_RETURN_IF_ERROR(add(q.gradOffset, bytes, DType::F32, name + " (gradient)"));
      OMNIBAL_RETURN_IF_ERROR(
          addMoments(q.moment1Offset, q.moment2Offset, momentBytes(p.optimizer, q), name));
    } else if (q.gradOffset != -1 || q.moment1Offset != -1 || q.moment2Offset != -1) {
      return broken("p3", where + ", " + name, "a frozen parameter has no gradient and no moments");
    }
    OMNIBAL_RETURN_IF_ERROR(
        addAverage(q.averageOffset, p.averages && q.trainable && p.zero == 0, bytes, name));
  }
  for (const Constant &c : stage.constants)
    OMNIBAL_RETURN_IF_ERROR(
        add(c.offset, denseBytes(c.shape, c.dtype), c.dtype, "constant \"" + c.name + "\""));
  OMNIBAL_RETURN_IF_ERROR(verifyBuckets(p, stage, where));
  for (size_t b = 0; b < stage.buckets.size(); ++b) {
    const Bucket &bucket = stage.buckets[b];
    if (!bucket.share)
      continue;
    const std::string name = "bucket " + std::to_string(b);
    const int64_t elements = largestShare(bucket.share->bounds);
    const int64_t bytes = elements * byteSize(DType::F32);
    const bool divided =
        !bucket.parameters.empty() && stage.parameters[bucket.parameters[0]].dtype == DType::BF16;
    OMNIBAL_RETURN_IF_ERROR(addMoments(bucket.share->moment1Offset, bucket.share->moment2Offset,
                                       momentBytes(p.optimizer, {elements}, false), name));
    OMNIBAL_RETURN_IF_ERROR(addAverage(bucket.share->averageOffset, p.averages, bytes, name));
    if (divided)
      OMNIBAL_RETURN_IF_ERROR(
          add(bucket.share->masterOffset, bytes, DType::F32, name + " (float32 values)"));
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range &a, const Range &b) { return a.begin < b.begin; });
  const Range *before = nullptr;
  for (const Range &r : ranges) {
    if (before && r.begin < before->end && r.begin < r.end)
      return broken("p3", where, before->name + " and " + r.name + " overlap");
    if (!before || r.end > before->end)
      before = &r;
  }
  return Status::ok();
}

/// Copies of one parameter have one shape, one group, one counted copy.
Status checkShared(const Program &p) {
  std::map<std::string, std::vector<std::pair<int32_t, const Parameter *>>> copies;
  std::map<int32_t, std::string> groups;
  for (const Stage &stage : p.stageList)
    for (const Parameter &q : stage.parameters) {
      copies[q.name].push_back({stage.id, &q});
      if (q.sharedGroup < -1)
        return broken("p3", "parameter \"" + q.name + "\"", "shared_group is out of range");
      if (q.sharedGroup >= 0 && groups.emplace(q.sharedGroup, q.name).first->second != q.name)
        return broken("p3", "parameter \"" + q.name + "\"",
                      "its shared group holds another parameter too");
    }
  for (const auto &[name, list] : copies) {
    std::string where = "parameter \"" + name + "\"";
    int counted = 0;
    const Parameter &first = *list[0].second;
    for (const auto &[stage, q] : list) {
      counted += q->counted;
      if (q->shape != first.shape || q->trainable != first.trainable || q->decay != first.decay ||
          q->dtype != first.dtype || q->sharedGroup != first.sharedGroup ||
          q->orthogonalized != first.orthogonalized)
        return broken("p3", where, "its copies differ");
      // Gradients of copies are added and copies must stay equal, element by element.
      if (q->transposed != first.transposed)
        return broken("p3", where, "its copies differ in layout");
    }
    if (counted != 1)
      return broken("p3", where, "exactly one copy must be counted");
    if (list.size() > 1 && first.trainable && first.sharedGroup < 0)
      return broken("p3", where, "it is on several stages without a shared group");
  }
  return Status::ok();
}

/// Whether a value at `offset` of a region lies in it. What a step's plan places shrinks with the
/// micro-batch, so that there every load counts.
bool fits(const Program &p, const MicrobatchCaps &caps, const Region &region, const Extent &offset,
          const std::vector<Extent> &shape, DType type) {
  const int64_t width = byteSize(type);
  if (!sane(p, offset) || !sane(p, shape) || offset.constant % width || offset.perTile % width ||
      offset.perToken % width || offset.isOwn())
    return false;
  auto fitsAt = [&](const SymbolValues &at) {
    const int64_t bytes = denseBytes(shape, type, at);
    return sane(bytes) && inside(offset.evaluate(at), bytes, region.bytesAt(at.tiles, at.tokens));
  };
  if (!region.block)
    return offset.isStatic() && fitsAt(mostOf(p, caps));
  const auto all = probes(p, caps);
  return std::all_of(all.begin(), all.end(), fitsAt);
}

Status checkLayerCall(const Program &p, const MicrobatchCaps &caps, const Stage &stage,
                      const Mode &mode, const LayerCall &call, const std::string &where) {
  if (call.function < 0 || call.function >= static_cast<int64_t>(p.functions.size()))
    return broken("p4", where, "function " + std::to_string(call.function) + " does not exist");
  const Function &f = p.functions[call.function];
  if (static_cast<int64_t>(call.bindings.size()) != f.formals)
    return broken("p4", where,
                  "function \"" + f.name + "\" has " + std::to_string(f.formals) +
                      " formals, but " + std::to_string(call.bindings.size()) + " are bound");
  if (f.workspaceBytes > 0 &&
      (call.workspaceRegion < 0 ||
       call.workspaceRegion >= static_cast<int64_t>(mode.regions.size()) ||
       mode.regions[call.workspaceRegion].block ||
       !inside(call.workspaceOffset, f.workspaceBytes, mode.regions[call.workspaceRegion].bytes)))
    return broken("p4", where, "the workspace of \"" + f.name + "\" does not fit its region");
  for (int32_t i = 0; i < f.formals; ++i) {
    const Buffer &formal = f.buffers[i];
    const Location &l = call.bindings[i];
    std::string at = where + ", formal \"" + formal.name + "\"";
    Space expected = formal.role == Role::Parameter       ? Space::Parameter
                     : formal.role == Role::ParameterGrad ? Space::Gradient
                     : formal.role == Role::Constant      ? Space::Constant
                                                          : Space::Region;
    if (l.space != expected)
      return broken("p4", at,
                    std::string("a ") + nameOf(formal.role) + " is bound to a " + nameOf(l.space));
    size_t count = l.space == Space::Region     ? mode.regions.size()
                   : l.space == Space::Constant ? stage.constants.size()
                                                : stage.parameters.size();
    if (l.index < 0 || l.index >= static_cast<int64_t>(count))
      return broken("p4", at,
                    std::string(nameOf(l.space)) + " " + std::to_string(l.index) +
                        " does not exist");
    int64_t size = 0;
    DType stored = formal.dtype;
    if (l.space == Space::Region) {
      size = mode.regions[l.index].bytes;
    } else if (l.space == Space::Constant) {
      size = denseBytes(stage.constants[l.index].shape, stage.constants[l.index].dtype);
      stored = stage.constants[l.index].dtype;
    } else {
      const Parameter &q = stage.parameters[l.index];
      stored = l.space == Space::Parameter ? q.dtype : DType::F32;
      size = l.space == Space::Parameter ? q.dataBytes() : denseBytes(q.heldDims(), stored);
      if (l.space == Space::Gradient && !q.trainable)
        return broken("p4", at, "a frozen parameter has no gradient");
    }
    if (stored != formal.dtype)
      return broken("p4", at, "the type differs from that of what it is bound to");
    const int64_t bytes = denseBytes(formal.shape, formal.dtype, mostOf(p, caps));
    bool fitting = l.space == Space::Region
                       ? fits(p, caps, mode.regions[l.index], l.offset, formal.shape, formal.dtype)
                       : l.offset.isStatic() && inside(l.offset.constant, bytes, size) &&
                             l.offset.constant % byteSize(formal.dtype) == 0;
    if (!fitting)
      return broken("p4", at,
                    std::to_string(bytes) + " bytes at offset " + toString(l.offset) +
                        " do not fit the " + nameOf(l.space) + " of " + std::to_string(size) +
                        " bytes, or are not aligned");
  }
  return Status::ok();
}

Status checkValue(const Program &p, const MicrobatchCaps &caps, const Mode &mode,
                  const BatchValue &v, const std::string &where) {
  // All ranks that run a micro-batch together are given all of it, and hand on all of a result.
  if (isOwn(v.shape) || v.region < 0 || v.region >= static_cast<int64_t>(mode.regions.size()) ||
      !fits(p, caps, mode.regions[v.region], {v.offset, 0, 0}, v.shape, v.dtype))
    return broken("p4", where + ", value \"" + v.name + "\"", "it does not fit its region");
  return Status::ok();
}

Status checkMode(const Program &p, const MicrobatchCaps &caps, const Stage &stage, const Mode &mode,
                 const std::string &where) {
  if (mode.microbatches < 1 || mode.microbatches > 1000000)
    return broken("p4", where, "microbatches must be at least 1");
  for (const Region &r : mode.regions) {
    std::string at = where + ", region \"" + r.name + "\"";
    if (static_cast<int64_t>(r.offsets.size()) != mode.microbatches)
      return broken("p4", at, "it needs one offset a micro-batch");
    for (int64_t offset : r.offsets)
      if (offset < stage.persistentBytes || !inside(offset, r.bytes, stage.arenaBytes) ||
          offset % 8)
        return broken("p4", at,
                      "offset " + std::to_string(offset) + " with " + std::to_string(r.bytes) +
                          " bytes does not lie between the persistent part and the "
                          "arena's end, or is no multiple of 8");
  }
  int64_t batchBytes = 0; // of all micro-batches: a backend may hold them at once
  for (const BatchValue &v : mode.batchValues) {
    OMNIBAL_RETURN_IF_ERROR(checkValue(p, caps, mode, v, where));
    const int64_t bytes = denseBytes(v.shape, v.dtype, mostOf(p, caps));
    if (bytes > (sizeLimit - batchBytes) / mode.microbatches)
      return broken("p4", where, "the values of its micro-batches are out of range");
    batchBytes += bytes * mode.microbatches;
  }
  for (const BatchValue &v : mode.results)
    OMNIBAL_RETURN_IF_ERROR(checkValue(p, caps, mode, v, where));
  for (const Chunk &chunk : mode.chunks)
    for (ActionKind kind : computeKinds)
      for (const LayerCall &call : chunk.calls(kind))
        OMNIBAL_RETURN_IF_ERROR(
            checkLayerCall(p, caps, stage, mode, call,
                           where + ", " + nameOf(kind) + " of layer \"" + call.layer + "\""));
  return verifyStepRegions(p, stage, mode, where);
}

/// Both ends describe a message alike, and it fits their regions.
Status checkTransfers(const Program &p, const std::string &modeName) {
  const MicrobatchCaps caps = p.capsOf(modeName);
  std::map<int32_t, std::pair<const Transfer *, int>> seen;
  for (const Stage &stage : p.stageList) {
    const Mode &mode = stage.modes.at(modeName);
    for (const Transfer &t : mode.transfers) {
      std::string where = "mode " + modeName + ", stage " + std::to_string(stage.id) +
                          ", transfer " + std::to_string(t.id);
      bool sends = t.fromStage == stage.id;
      if (t.fromStage == t.toStage || t.fromStage < 0 || t.toStage < 0 || t.fromStage >= p.stages ||
          t.toStage >= p.stages || (!sends && t.toStage != stage.id))
        return broken("p5", where, "its stages are wrong");
      int32_t region = sends ? t.sendRegion : t.recvRegion;
      if (region < 0 || region >= static_cast<int64_t>(mode.regions.size()))
        return broken("p5", where, "its region does not exist");
      for (const Piece &piece : t.pieces) {
        const Extent &offset = sends ? piece.sendOffset : piece.recvOffset;
        if (!fits(p, caps, mode.regions[region], offset, piece.shape, piece.dtype))
          return broken("p5", where, "piece \"" + piece.name + "\" does not fit its region");
      }
      auto [entry, first] = seen.emplace(t.id, std::make_pair(&t, 1));
      const Transfer &o = *entry->second.first;
      if (first)
        continue;
      bool same = ++entry->second.second == 2 && o.gradient == t.gradient &&
                  o.fromStage == t.fromStage && o.toStage == t.toStage &&
                  o.fromChunk == t.fromChunk && o.toChunk == t.toChunk &&
                  o.pieces.size() == t.pieces.size();
      for (size_t i = 0; same && i < t.pieces.size(); ++i)
        same = o.pieces[i].shape == t.pieces[i].shape && o.pieces[i].name == t.pieces[i].name &&
               o.pieces[i].dtype == t.pieces[i].dtype;
      if (!same)
        return broken("p5", where,
                      "sender and receiver describe it differently, or its number is "
                      "used twice");
    }
  }
  for (const auto &[id, entry] : seen)
    if (entry.second != 2)
      return broken("p5", "mode " + modeName + ", transfer " + std::to_string(id),
                    "only one of its stages knows it");
  return Status::ok();
}

/// For each function the caps of the modes that call it, for which it is laid out; where none does,
/// as it is never run, those of the first train mode, with the smallest shares of any.
std::vector<std::vector<MicrobatchCaps>> capsOfFunctions(const Program &p) {
  std::vector<std::vector<MicrobatchCaps>> result(p.functions.size());
  auto add = [&](int32_t function, const MicrobatchCaps &caps) {
    if (function < 0 || function >= static_cast<int64_t>(result.size()))
      return; // an error of p4
    std::vector<MicrobatchCaps> &list = result[function];
    if (std::find(list.begin(), list.end(), caps) == list.end())
      list.push_back(caps);
  };
  for (const Stage &stage : p.stageList)
    for (const auto &[name, mode] : stage.modes)
      for (const Chunk &chunk : mode.chunks)
        for (ActionKind kind : computeKinds)
          for (const LayerCall &call : chunk.calls(kind))
            add(call.function, p.capsOf(name));
  for (std::vector<MicrobatchCaps> &list : result)
    if (list.empty())
      list.push_back({p.trainModes[0].tilesCap, p.trainModes[0].tokensCap,
                      p.modelParallel * p.largestDegree()});
  return result;
}

} // namespace

Status verifyStructure(const Program &p) {
  OMNIBAL_RETURN_IF_ERROR(checkHeader(p));
  OMNIBAL_RETURN_IF_ERROR(verifyModeList(p));
  OMNIBAL_RETURN_IF_ERROR(verifyPictures(p));
  OMNIBAL_RETURN_IF_ERROR(verifyAdapters(p));
  const std::vector<std::vector<MicrobatchCaps>> capsOf = capsOfFunctions(p);
  for (size_t i = 0; i < p.functions.size(); ++i)
    for (const MicrobatchCaps &caps : capsOf[i])
      OMNIBAL_RETURN_IF_ERROR(
          checkFunction(p, caps, p.functions[i], "function \"" + p.functions[i].name + "\""));
  for (const Stage &stage : p.stageList)
    OMNIBAL_RETURN_IF_ERROR(checkPersistent(p, stage, "stage " + std::to_string(stage.id)));
  OMNIBAL_RETURN_IF_ERROR(checkShared(p));
  const auto &modes = p.stageList[0].modes;
  for (const Stage &stage : p.stageList) {
    if (stage.modes.size() != modes.size())
      return broken("p4", "stage " + std::to_string(stage.id), "it lacks a mode of another stage");
    for (const auto &[name, mode] : stage.modes) {
      std::string where = "stage " + std::to_string(stage.id) + ", mode " + name;
      auto first = modes.find(name);
      if (first == modes.end() || mode.microbatches != first->second.microbatches)
        return broken("p4", where, "the stages have different modes or numbers of micro-batches");
      OMNIBAL_RETURN_IF_ERROR(checkMode(p, p.capsOf(name), stage, mode, where));
    }
  }
  for (const auto &[name, mode] : modes)
    if (auto number = trainModeNumber(name);
        number && *number < p.trainModes.size() &&
        mode.microbatches != p.trainModes[*number].microbatches)
      return broken("p4", "mode " + name, "its micro-batches are not those of the manifest");
  for (const auto &[name, mode] : modes)
    OMNIBAL_RETURN_IF_ERROR(checkTransfers(p, name));
  for (const auto &[name, mode] : modes)
    if (trainModeNumber(name))
      OMNIBAL_RETURN_IF_ERROR(verifyLosses(p, name));
  return verifySharedParts(p);
}

} // namespace omnibal::rt
