#include "runtime/backends/cuda/libraries/FusedAttention.h"
#include "runtime/backends/cuda/driver/Log.h"
#include "runtime/backends/cuda/kernels/attention/Ragged.h"
#include <algorithm>
#include <bit>
#include <cstdlib>

namespace omnibal::rt::cuda {
namespace {

constexpr int64_t leastSize = 64, mostSize = 256; // smaller heads are quicker on our own kernels
/// Of gradients: with 256 features cuDNN 9.19 computes wrong ones on an H100 (causal, 527 rows).
constexpr int64_t mostGradientSize = 128;
constexpr int64_t packBytes = 16; // that the library's kernels move at once

struct Operand {
  AttentionTensor tensor;
  void *data;
  const HeadStrides *strides;
};

std::vector<Operand> operandsOf(const AttentionShape &s, const AttentionData &d, bool backward) {
  auto variable = [](const void *data) { return const_cast<void *>(data); };
  std::vector<Operand> list = {{TensorQ, variable(d.q), &s.q},
                               {TensorK, variable(d.k), &s.k},
                               {TensorV, variable(d.v), &s.v},
                               {TensorOut, d.out, &s.out}};
  if (backward)
    for (const Operand &each : {Operand{TensorDout, variable(d.dout), &s.dout},
                                {TensorDq, d.dq, &s.dq},
                                {TensorDk, d.dk, &s.dk},
                                {TensorDv, d.dv, &s.dv}})
      list.push_back(each);
  return list;
}

bool aligned(const void *data) { return reinterpret_cast<uintptr_t>(data) % packBytes == 0; }

/// Whether the library may be asked at all.
bool suits(const AttentionShape &s, const AttentionData &d, const std::vector<Operand> &operands,
           bool backward) {
  constexpr int64_t pack = packBytes / 2, most = 0x7fffffff;
  auto sizeFits = [&](int64_t size) {
    return size >= leastSize && size <= (backward ? mostGradientSize : mostSize) && size % 8 == 0;
  };
  if (s.type != Element::BF16 || !sizeFits(s.size) || !sizeFits(s.valueSize) || s.tokens == 0 ||
      s.softcap != 0 || d.sinks ||
      (s.mask != AttentionMask::Full && s.mask != AttentionMask::Causal))
    return false;
  for (const Operand &o : operands) {
    const HeadStrides &h = *o.strides;
    if (h.feature != 1 || h.token % pack != 0 || h.head % pack != 0 || h.token <= 0 ||
        h.head <= 0 || s.tokens * h.token > most || !aligned(o.data))
      return false;
  }
  return aligned(d.lse) && s.lseToken > 0 && s.lseHead > 0 && s.tokens * s.lseToken <= most;
}

int64_t roundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

AttentionForm formOf(const AttentionShape &s, const std::vector<Operand> &operands,
                     const Load *load, bool ordered, bool backward) {
  AttentionForm form;
  if (s.segmentRows > 0) {
    form.samples = sampleBucket(s.tokens / s.segmentRows);
    form.longest = s.segmentRows;
  } else {
    form.samples = load && load->samples >= 0 ? load->samples : sampleBucket(s.borderCount - 1);
    form.longest = load && load->longest >= 0 ? load->longest : lengthBucket(s.tokens);
    // Forward takes no memory by this bound, so plans, each of which takes a moment, are few.
    if (!backward)
      form.longest = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(form.longest)));
  }
  form.heads = s.heads;
  form.keyHeads = s.keyHeads;
  form.size = s.size;
  form.valueSize = s.valueSize;
  for (const Operand &o : operands)
    form.strides[o.tensor] = {o.strides->token, o.strides->head};
  form.strides[TensorLse] = {s.lseToken, s.lseHead};
  form.scale = s.scale;
  form.causal = s.mask == AttentionMask::Causal;
  form.backward = backward;
  form.ordered = ordered || !backward;
  return form;
}

/// The lines of offsets, and what the library does not write.
RaggedShape raggedOf(const AttentionShape &s, const AttentionData &d, const AttentionForm &piece,
                     int64_t pieces) {
  RaggedShape r;
  r.tokens = s.tokens;
  r.segmentRows = s.segmentRows;
  r.borderCount = s.borderCount;
  r.pieces = pieces;
  r.samples = piece.samples;
  r.tensors = piece.tensors();
  for (int t = 0; t < r.tensors; ++t)
    r.token[t] = piece.strides[t].token;
  auto clear = [&](void *data, int64_t heads, int64_t size, const HeadStrides &strides, bool lse) {
    r.cleared[r.clearedCount++] = {data, heads, size, strides, lse};
  };
  if (!piece.backward) {
    clear(d.out, s.heads, s.valueSize, s.out, false);
    clear(d.lse, s.heads, 1, {s.lseToken, s.lseHead, 1}, true);
  } else {
    clear(d.dq, s.heads, s.size, s.dq, false);
    clear(d.dk, s.keyHeads, s.size, s.dk, false);
    clear(d.dv, s.keyHeads, s.valueSize, s.dv, false);
  }
  return r;
}

} // namespace

int64_t FusedAttention::expectedWorkspace(const AttentionForm &f) {
  if (!f.backward)
    return 0;
  const int64_t lines = f.samples * f.heads, rows = lines * f.longest;
  const int64_t scores = 2 * lines * roundUp(f.longest, 64) * roundUp(f.longest, 128);
  return (f.ordered ? scores : 4 * rows * f.size) + 4 * rows +
         (f.keyHeads < f.heads ? 2 * rows * (f.size + f.valueSize) : 0);
}

AttentionWish attentionWish() {
  const char *text = std::getenv("OMNIBAL_CUDA_ATTENTION");
  const std::string wish = text && *text ? text : "cudnn";
  if (wish == "own")
    return AttentionWish::Own;
  if (wish == "cudnn-forward")
    return AttentionWish::LibraryForward;
  if (wish == "cudnn-unordered")
    return AttentionWish::LibraryUnordered;
  if (wish != "cudnn")
    logOnce("OMNIBAL_CUDA_ATTENTION is '" + wish +
            "', not cudnn, cudnn-forward, cudnn-unordered or own; taken as cudnn");
  return AttentionWish::Library;
}

/// The fewest parts of the heads, then the fewest pieces of the samples, that fit.
bool FusedAttention::divide(const AttentionForm &form, Prepared &prepared) {
  for (int64_t parts = 1; parts <= mostPieces && form.keyHeads % parts == 0; parts *= 2)
    for (int64_t pieces = 1; pieces <= mostPieces && parts * pieces <= mostLaunches; ++pieces) {
      AttentionForm &part = prepared.form = form;
      part.samples = (form.samples + pieces - 1) / pieces;
      part.heads = form.heads / parts;
      part.keyHeads = form.keyHeads / parts;
      prepared.pieces = pieces;
      prepared.headParts = parts;
      const bool aligned =
          parts == 1 || part.heads * form.strides[TensorLse].head * 4 % packBytes == 0;
      if (aligned && expectedWorkspace(part) <= mostWorkspace)
        return true;
    }
  return false;
}

FusedAttention::Prepared &FusedAttention::prepare(const AttentionForm &form) {
  auto [found, fresh] = prepared.try_emplace(form);
  Prepared &made = found->second;
  if (!fresh)
    return made;
  if (!divide(form, made))
    return made;
  auto plan = library->plan(made.form);
  if (!plan)
    logOnce("attention with heads of " + std::to_string(form.size) +
            " features runs on our own kernels: " + plan.status().message());
  else if ((*plan)->workspaceBytes() <= mostWorkspace)
    made.plan = *std::move(plan);
  return made;
}

Result<std::byte *> FusedAttention::workspace(int64_t bytes) {
  if (bytes > largest) {
    int64_t size = int64_t{1} << 20;
    while (size < bytes)
      size *= 2;
    size = std::max(bytes, std::min(size, mostWorkspace));
    OMNIBAL_ASSIGN_OR_RETURN(auto buffer, DeviceBuffer::allocate(size, stream));
    buffers.push_back(std::move(buffer));
    largest = size;
    if (own)
      own->took("attention", size);
  }
  return buffers.back()->data();
}

Result<bool> FusedAttention::run(const AttentionShape &shape, const AttentionData &data,
                                 const Load *load, bool backward) {
  const std::vector<Operand> operands = operandsOf(shape, data, backward);
  if ((backward && wish == AttentionWish::LibraryForward) ||
      !suits(shape, data, operands, backward))
    return false;
  const bool ordered = wish != AttentionWish::LibraryUnordered;
  Prepared &chosen = prepare(formOf(shape, operands, load, ordered, backward));
  if (!chosen.plan)
    return false;
  const RaggedShape ragged = raggedOf(shape, data, chosen.form, chosen.pieces);
  auto memory = workspace(ragged.bytes() + chosen.plan->workspaceBytes());
  if (!memory) {
    logOnce("attention runs on our own kernels: " + memory.status().message());
    chosen.plan = nullptr;
    return false;
  }
  auto *lines = reinterpret_cast<int32_t *>(*memory);
  OMNIBAL_RETURN_IF_ERROR(
      check(launchRagged(ragged, data.borders, lines, stream), "places of samples"));
  // Equal segments are counted: those who record know V.
  const int64_t pieces =
      shape.segmentRows > 0
          ? roundUp(shape.tokens / shape.segmentRows, ragged.samples) / ragged.samples
          : chosen.pieces;
  AttentionCall call;
  call.workspace = *memory + ragged.bytes();
  for (int64_t part = 0; part < chosen.headParts; ++part) {
    for (const Operand &o : operands) {
      const int64_t head = part * (isOfKeys(o.tensor) ? chosen.form.keyHeads : chosen.form.heads);
      call.data[o.tensor] = static_cast<std::byte *>(o.data) + 2 * head * o.strides->head;
    }
    call.data[TensorLse] = data.lse + part * chosen.form.heads * shape.lseHead;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      call.lengths = lines + piece * (ragged.tensors + 1) * ragged.line();
      for (int t = 0; t < ragged.tensors; ++t)
        call.offsets[t] = call.lengths + (t + 1) * ragged.line();
      OMNIBAL_RETURN_IF_ERROR(chosen.plan->run(call).context(library->description()));
    }
  }
  return true;
}

} // namespace omnibal::rt::cuda
