#include "test/unit/runtime/program/TinyProgram.h"
#include "runtime/program/BucketShares.h"

namespace omnibal::rt {
namespace {

constexpr int64_t W = tinyVocabulary, C = tinyWidth;
const Extent N{0, 0, 1}, c{C, 0, 0}, w{W, 0, 0}, one{1, 0, 0}, zero{};

/// Rows that buffers hold.
int64_t capOf(const TinyOptions &o) {
  return (o.tokensCap + o.rowBucket - 1) / o.rowBucket * o.rowBucket;
}

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

View whole(int32_t buffer, std::vector<Extent> shape) {
  View v{buffer, zero, shape, std::vector<Extent>(shape.size(), one)};
  for (size_t d = shape.size(); d-- > 1;)
    v.strides[d - 1] = d + 1 == shape.size() ? shape[d] : v.strides[d];
  return v;
}
View transposed(int32_t buffer, Extent rows, Extent columns) {
  return {buffer, zero, {columns, rows}, {one, columns}};
}

Buffer formal(const char *name, Role role, DType type, std::vector<Extent> shape) {
  return {name, role, type, std::move(shape), 0};
}
Buffer logits() { return {"logits", Role::Temporary, DType::F32, {N, w}, 0}; }

/// Indices of the functions, in order.
enum {
  EmbedForward,
  EmbedBackward,
  HeadForward,
  HeadBackward,
  HeadEvaluate,
  HeadInputGrad,
  HeadWeightGrad
};

std::vector<Function> functions(int64_t cap) {
  DType f = DType::F32, i = DType::I32;
  int64_t workspace = cap * W * 4;
  return {{"embed.forward",
           {formal("table", Role::Parameter, f, {w, c}), formal("ids", Role::Batch, i, {N}),
            formal("out", Role::Output, f, {N, c})},
           3,
           0,
           {{"embedding",
             {{"table", whole(0, {w, c})}, {"ids", whole(1, {N})}, {"out", whole(2, {N, c})}},
             nlohmann::json::object(),
             "lookup"}},
           ""},
          {"embed.backward",
           {formal("dout", Role::GradOutput, f, {N, c}), formal("ids", Role::Batch, i, {N}),
            formal("dtable", Role::ParameterGrad, f, {w, c})},
           3,
           0,
           {{"embedding_backward",
             {{"dout", whole(0, {N, c})}, {"ids", whole(1, {N})}, {"dtable", whole(2, {w, c})}},
             nlohmann::json::object(),
             "lookup"}},
           ""},
          {"head.forward",
           {formal("h", Role::Input, f, {N, c}), formal("kept", Role::Saved, f, {N, c})},
           2,
           0,
           {{"copy",
             {{"src", whole(0, {N, c})}, {"dst", whole(1, {N, c})}},
             nlohmann::json::object(),
             "keep"}},
           ""},
          {"head.backward",
           {formal("kept", Role::Saved, f, {N, c}), formal("weight", Role::Parameter, f, {w, c}),
            formal("targets", Role::Batch, i, {N}), formal("dh", Role::GradInput, f, {N, c}),
            formal("dweight", Role::ParameterGrad, f, {w, c}), formal("loss", Role::Result, f, {N}),
            logits()},
           6,
           workspace,
           {{"gemm",
             {{"a", whole(0, {N, c})}, {"b", transposed(1, w, c)}, {"c", whole(6, {N, w})}},
             nlohmann::json::object(),
             "logits"},
            {"cross_entropy",
             {{"logits", whole(6, {N, w})},
              {"targets", whole(2, {N})},
              {"loss", whole(5, {N})},
              {"dlogits", whole(6, {N, w})}},
             nlohmann::json::object(),
             "loss"},
            {"gemm",
             {{"a", whole(6, {N, w})}, {"b", whole(1, {w, c})}, {"c", whole(3, {N, c})}},
             nlohmann::json::object(),
             "dh"},
            {"gemm",
             {{"a", transposed(6, N, w)}, {"b", whole(0, {N, c})}, {"c", whole(4, {w, c})}},
             {{"accumulate", true}},
             "dweight"}},
           ""},
          {"head.evaluate",
           {formal("h", Role::Input, f, {N, c}), formal("weight", Role::Parameter, f, {w, c}),
            formal("targets", Role::Batch, i, {N}), formal("loss", Role::Result, f, {N}),
            formal("prediction", Role::Result, i, {N}), logits()},
           5,
           workspace,
           {{"gemm",
             {{"a", whole(0, {N, c})}, {"b", transposed(1, w, c)}, {"c", whole(5, {N, w})}},
             nlohmann::json::object(),
             "logits"},
            {"cross_entropy",
             {{"logits", whole(5, {N, w})},
              {"targets", whole(2, {N})},
              {"loss", whole(3, {N})},
              {"prediction", whole(4, {N})}},
             nlohmann::json::object(),
             "loss"}},
           ""},
          {"head.input_grad",
           {formal("kept", Role::Saved, f, {N, c}), formal("weight", Role::Parameter, f, {w, c}),
            formal("targets", Role::Batch, i, {N}), formal("dh", Role::GradInput, f, {N, c}),
            formal("loss", Role::Result, f, {N}), formal("dlogits", Role::Held, f, {N, w})},
           6,
           0,
           {{"gemm",
             {{"a", whole(0, {N, c})}, {"b", transposed(1, w, c)}, {"c", whole(5, {N, w})}},
             nlohmann::json::object(),
             "logits"},
            {"cross_entropy",
             {{"logits", whole(5, {N, w})},
              {"targets", whole(2, {N})},
              {"loss", whole(4, {N})},
              {"dlogits", whole(5, {N, w})}},
             nlohmann::json::object(),
             "loss"},
            {"gemm",
             {{"a", whole(5, {N, w})}, {"b", whole(1, {w, c})}, {"c", whole(3, {N, c})}},
             nlohmann::json::object(),
             "dh"}},
           ""},
          {"head.weight_grad",
           {formal("kept", Role::Saved, f, {N, c}), formal("dlogits", Role::Held, f, {N, w}),
            formal("dweight", Role::ParameterGrad, f, {w, c})},
           3,
           0,
           {{"gemm",
             {{"a", transposed(1, N, w)}, {"b", whole(0, {N, c})}, {"c", whole(2, {w, c})}},
             {{"accumulate", true}},
             "dweight"}},
           ""}};
}

/// The function on bfloat16 activations and parameters: its calls work on float32 temporaries, to
/// which and from which formals are copied.
Function narrowed(Function f, int64_t cap) {
  auto isBFloat16 = [](const Buffer &b) {
    return b.role == Role::Parameter || b.role == Role::Input || b.role == Role::Output ||
           b.role == Role::Saved || b.role == Role::GradOutput || b.role == Role::GradInput;
  };
  auto isWritten = [&](const Buffer &b) {
    bool forward = f.name.find("forward") != std::string::npos;
    return b.role == Role::Output || b.role == Role::GradInput ||
           (b.role == Role::Saved && forward);
  };
  std::vector<KernelCall> before, after;
  for (int32_t i = 0; i < f.formals; ++i) {
    if (!isBFloat16(f.buffers[i]))
      continue;
    auto wide = static_cast<int32_t>(f.buffers.size());
    bool written = isWritten(f.buffers[i]);
    for (KernelCall &call : f.calls)
      for (auto &[name, view] : call.operands)
        view.buffer = view.buffer == i ? wide : view.buffer;
    KernelCall copy{"copy", {}, nlohmann::json::object(), "width"};
    std::vector<Extent> shape = f.buffers[i].shape;
    copy.operands = {{"src", whole(written ? wide : i, shape)},
                     {"dst", whole(written ? i : wide, shape)}};
    (written ? after : before).push_back(copy);
    f.buffers.push_back(
        {f.buffers[i].name + "_wide", Role::Temporary, DType::F32, shape, f.workspaceBytes});
    f.buffers[i].dtype = DType::BF16;
    f.workspaceBytes += aligned(cap * W * 4);
  }
  f.calls.insert(f.calls.begin(), before.begin(), before.end());
  f.calls.insert(f.calls.end(), after.begin(), after.end());
  return f;
}

Parameter parameter(const char *name, const TinyOptions &o, int64_t &at) {
  Parameter q;
  q.name = name;
  q.shape = {W, C};
  if (o.inBFloat16)
    q.dtype = DType::BF16;
  std::vector<int64_t *> offsets = {&q.dataOffset, &q.gradOffset};
  if (!o.zero)
    offsets.insert(offsets.end(), {&q.moment1Offset, &q.moment2Offset});
  if (o.inBFloat16 && !o.zero)
    offsets.insert(offsets.begin(), &q.masterOffset);
  for (int64_t *offset : offsets) {
    *offset = at;
    at += aligned(W * C * 4);
  }
  return q;
}

BucketShare shares(const Stage &stage, const Bucket &bucket, const TinyOptions &o, int64_t &at) {
  BucketShare share;
  share.bounds = cutIntoShares(elementsOf(stage, bucket, 1), o.dataParallel);
  std::vector<int64_t *> offsets = {&share.moment1Offset, &share.moment2Offset};
  if (o.inBFloat16)
    offsets.push_back(&share.masterOffset);
  for (int64_t *offset : offsets) {
    *offset = at;
    at += aligned(largestShare(share.bounds) * 4);
  }
  return share;
}

/// Builds one mode of one stage; every micro-batch has its own place for everything.
class ModeBuilder {
public:
  ModeBuilder(const TinyOptions &o, int64_t &at) : at(at), cap(capOf(o)) {
    mode.microbatches = o.microbatches;
  }

  Location region(const char *name, int64_t bytes) {
    Region r{name, bytes, {}, {}};
    for (int32_t m = 0; m < mode.microbatches; ++m) {
      r.offsets.push_back(at);
      at += aligned(bytes);
    }
    mode.regions.push_back(r);
    return {Space::Region, static_cast<int32_t>(mode.regions.size()) - 1, {}};
  }
  Location batch(const char *name) {
    Location l = region(name, cap * 4);
    mode.batchValues.push_back({name, DType::I32, {N}, l.index, 0});
    return l;
  }
  Location result(const char *name, DType type) {
    Location l = region(name, cap * 4);
    mode.results.push_back({name, type, {N}, l.index, 0});
    return l;
  }
  void act(ActionKind kind, int32_t microbatch, int32_t index = 0) {
    mode.actions.push_back({kind, microbatch, index});
  }

  Mode mode;
  int64_t &at;
  int64_t cap;
};

Transfer message(int32_t id, int32_t from, int32_t to, int32_t sendRegion, int32_t recvRegion) {
  return {id, id == 1, from, to, 0, 0, sendRegion, recvRegion, {{"h", DType::F32, {N, c}, {}, {}}}};
}

/// Which layers a stage holds.
struct Part {
  bool first, last;
  int32_t index, stages;
};

Mode trainMode(const Part &part, const TinyOptions &o, int32_t headParameter, int64_t &at) {
  ModeBuilder b(o, at);
  const int64_t cap = capOf(o);
  int64_t rows = cap * C * 4;
  Location h = b.region("h", rows), dh = b.region("dh", rows);
  Chunk chunk;
  chunk.id = part.index;
  if (part.first) {
    Location ids = b.batch("input_ids");
    chunk.layers.push_back("embedding");
    chunk.forward.push_back({"embedding", EmbedForward, {{Space::Parameter, 0, {}}, ids, h}, 0, 0});
  }
  if (part.last) {
    Location kept = b.region("kept", rows), targets = b.batch("targets"),
             loss = b.result("loss", DType::F32), workspace = b.region("workspace", cap * W * 4);
    chunk.layers.push_back("head");
    chunk.forward.push_back({"head", HeadForward, {h, kept}, 0, 0});
    Location weight{Space::Parameter, headParameter, {}},
        dweight{Space::Gradient, headParameter, {}};
    if (o.split) {
      Location dlogits = b.region("dlogits", cap * W * 4);
      chunk.inputGrad.push_back(
          {"head", HeadInputGrad, {kept, weight, targets, dh, loss, dlogits}, 0, 0});
      chunk.weightGrad.push_back({"head", HeadWeightGrad, {kept, dlogits, dweight}, 0, 0});
    } else {
      chunk.backward.push_back(
          {"head", HeadBackward, {kept, weight, targets, dh, dweight, loss}, workspace.index, 0});
    }
  }
  if (part.first) {
    Location ids{Space::Region, b.mode.batchValues[0].region, {}};
    // Nothing comes before the table, so all of its backward can wait.
    (o.split ? chunk.weightGrad : chunk.backward)
        .push_back({"embedding", EmbedBackward, {dh, ids, {Space::Gradient, 0, {}}}, 0, 0});
  }
  b.mode.chunks = {chunk};

  int32_t M = o.microbatches;
  bool pipelined = part.stages > 1;
  if (pipelined)
    b.mode.transfers = {message(0, 0, 1, h.index, h.index), message(1, 1, 0, dh.index, dh.index)};
  auto forward = [&](int32_t m) {
    if (pipelined && part.last) {
      b.act(ActionKind::PostRecv, m, 0);
      b.act(ActionKind::WaitRecv, m, 0);
    }
    b.act(ActionKind::Forward, m);
    if (pipelined && part.first)
      b.act(ActionKind::Send, m, 0);
  };
  auto backward = [&](int32_t m) {
    if (pipelined && part.first) {
      b.act(ActionKind::PostRecv, m, 1);
      b.act(ActionKind::WaitRecv, m, 1);
    }
    b.act(o.split ? ActionKind::InputGrad : ActionKind::Backward, m);
    if (pipelined && part.last)
      b.act(ActionKind::Send, m, 1);
    if (o.split && m > 0)
      b.act(ActionKind::WeightGrad, m - 1);
    if (o.split && m + 1 == M)
      b.act(ActionKind::WeightGrad, m);
  };
  int32_t ahead = std::min(M, part.stages - part.index);
  for (int32_t m = 0; m < ahead; ++m)
    forward(m);
  for (int32_t m = 0; m < M; ++m) {
    backward(m);
    if (m + ahead < M)
      forward(m + ahead);
  }
  for (int32_t m = 0; pipelined && m < M; ++m)
    b.act(ActionKind::WaitSend, m, part.first ? 0 : 1);
  if (o.tied && pipelined)
    b.act(ActionKind::ReduceShared, 0, 0);
  b.act(o.zero ? ActionKind::ScatterGradients : ActionKind::ReduceGradients, 0, 0);
  b.act(ActionKind::ReduceScalars, 0);
  b.act(ActionKind::Update, 0);
  if (o.zero)
    b.act(ActionKind::GatherParameters, 0, 0);
  return b.mode;
}

Mode evaluateMode(const Part &part, const TinyOptions &o, int32_t headParameter, int64_t &at) {
  ModeBuilder b(o, at);
  const int64_t cap = capOf(o);
  Location h = b.region("h", cap * C * 4);
  Chunk chunk;
  chunk.id = part.index;
  if (part.first) {
    Location ids = b.batch("input_ids");
    chunk.forward.push_back({"embedding", EmbedForward, {{Space::Parameter, 0, {}}, ids, h}, 0, 0});
  }
  if (part.last) {
    Location targets = b.batch("targets"), loss = b.result("loss", DType::F32),
             prediction = b.result("prediction", DType::I32),
             workspace = b.region("workspace", cap * W * 4);
    chunk.forward.push_back({"head",
                             HeadEvaluate,
                             {h, {Space::Parameter, headParameter, {}}, targets, loss, prediction},
                             workspace.index,
                             0});
  }
  b.mode.chunks = {chunk};
  bool pipelined = part.stages > 1;
  if (pipelined)
    b.mode.transfers = {message(0, 0, 1, h.index, h.index)};
  for (int32_t m = 0; m < o.microbatches; ++m) {
    if (pipelined && part.last) {
      b.act(ActionKind::PostRecv, m, 0);
      b.act(ActionKind::WaitRecv, m, 0);
    }
    b.act(ActionKind::Forward, m);
    if (pipelined && part.first) {
      b.act(ActionKind::Send, m, 0);
      b.act(ActionKind::WaitSend, m, 0);
    }
  }
  return b.mode;
}

/// Every function may use a workspace then: one region for all of them.
void makeNarrow(Program &p, int64_t cap) {
  for (Function &f : p.functions)
    f = narrowed(f, cap);
  for (Stage &stage : p.stageList)
    for (auto &[name, mode] : stage.modes) {
      mode.regions.push_back({"shared workspace", 8 * aligned(cap * W * 4), {}, {}});
      mode.regions.back().offsets.assign(mode.microbatches, stage.arenaBytes);
      stage.arenaBytes += mode.regions.back().bytes;
      for (Chunk &chunk : mode.chunks)
        for (auto *list : {&chunk.forward, &chunk.backward, &chunk.inputGrad, &chunk.weightGrad})
          for (LayerCall &call : *list)
            call.workspaceRegion = static_cast<int32_t>(mode.regions.size()) - 1;
      for (Transfer &t : mode.transfers)
        for (Piece &piece : t.pieces)
          piece.dtype = DType::BF16;
    }
}

} // namespace

Program tinyProgram(const TinyOptions &o) {
  Program p;
  p.cpu = "x86-64-v3";
  p.model = "tiny";
  p.trainModes[0].tokensCap = o.tokensCap;
  p.rowBucket = o.rowBucket;
  p.stages = o.stages;
  p.dataParallel = o.dataParallel;
  p.modelParallel = o.modelParallel;
  p.zero = o.zero;
  p.trainModes[0].microbatches = o.microbatches;
  p.trainModes[0].schedule = "1f1b";
  p.info.vocabulary = W;
  p.functions = functions(capOf(o));
  for (int32_t s = 0; s < o.stages; ++s) {
    Part part{s == 0, s + 1 == o.stages, s, o.stages};
    Stage stage;
    stage.id = s;
    int64_t at = 0;
    if (part.first)
      stage.parameters.push_back(parameter("table", o, at));
    if (part.last && (!o.tied || !part.first))
      stage.parameters.push_back(parameter(o.tied ? "table" : "weight", o, at));
    if (o.tied && o.stages > 1) {
      stage.parameters[0].sharedGroup = 0;
      stage.parameters[0].counted = part.first;
    }
    Bucket all;
    for (size_t i = 0; i < stage.parameters.size(); ++i)
      all.parameters.push_back(i);
    if (o.zero)
      all.share = shares(stage, all, o, at);
    stage.buckets = {all};
    stage.persistentBytes = at;
    int32_t headParameter = static_cast<int32_t>(stage.parameters.size()) - 1;
    stage.modes["train"] = trainMode(part, o, headParameter, at);
    stage.modes["evaluate"] = evaluateMode(part, o, headParameter, at);
    stage.arenaBytes = at;
    p.stageList.push_back(stage);
  }
  if (o.inBFloat16)
    makeNarrow(p, capOf(o));
  return p;
}

} // namespace omnibal::rt
