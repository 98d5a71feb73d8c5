//===- VerifyActions.cpp - Rules p6-p8: action lists, messages, deadlock -----------------===//
#include "runtime/program/Verifier.h"
#include "runtime/program/verify/VerifierInternal.h"
#include "runtime/program/verify/VerifyLists.h"
#include <algorithm>
#include <set>
#include <unordered_map>

namespace omnibal::rt {
namespace {

std::string describe(const Action &a) {
  return std::string(nameOf(a.kind)) + "(micro-batch " + std::to_string(a.microbatch) + ", index " +
         std::to_string(a.index) + ")";
}

/// An index and a micro-batch.
struct Key {
  int32_t index, microbatch;
  bool operator==(const Key &) const = default;
};
struct KeyHash {
  size_t operator()(const Key &key) const {
    return std::hash<uint64_t>()(uint64_t(uint32_t(key.index)) << 32 | uint32_t(key.microbatch));
  }
};

/// Position of each action of one kind; an error if one occurs twice.
struct Positions {
  std::unordered_map<Key, int64_t, KeyHash> byKind[14];
  int64_t of(ActionKind kind, int32_t index, int32_t microbatch) const {
    const auto &map = byKind[static_cast<size_t>(kind)];
    auto found = map.find({index, microbatch});
    return found == map.end() ? -1 : found->second;
  }
  size_t count(ActionKind kind) const { return byKind[static_cast<size_t>(kind)].size(); }
};

Status checkIndices(const Stage &stage, const Mode &mode, bool train, const std::string &where,
                    Positions &positions) {
  std::set<int32_t> groups;
  for (const Parameter &q : stage.parameters)
    if (q.trainable && q.sharedGroup >= 0)
      groups.insert(q.sharedGroup);
  for (size_t i = 0; i < mode.actions.size(); ++i) {
    Action a = mode.actions[i];
    auto wrong = [&](const char *rule, const char *what) {
      return broken(rule, where + ", action " + std::to_string(i) + " " + describe(a), what);
    };
    bool perMicrobatch = a.kind <= ActionKind::WaitSend;
    int64_t limit = 1;
    if (isCompute(a.kind))
      limit = mode.chunks.size();
    else if (perMicrobatch)
      limit = mode.transfers.size();
    else if (reducesBucket(a.kind) || a.kind == ActionKind::GatherParameters)
      limit = stage.buckets.size();
    bool indexOk = a.kind == ActionKind::ReduceShared ? groups.count(a.index) == 1
                                                      : a.index >= 0 && a.index < limit;
    if (!indexOk)
      return wrong("p6", "the index is out of range");
    if (a.microbatch < 0 || a.microbatch >= (perMicrobatch ? mode.microbatches : 1))
      return wrong("p6", "the micro-batch is out of range");
    if (!train && (!perMicrobatch || (isCompute(a.kind) && a.kind != ActionKind::Forward)))
      return wrong("p6", "only mode train has such actions");
    if (!isCompute(a.kind) && perMicrobatch) {
      bool sends = a.kind == ActionKind::Send || a.kind == ActionKind::WaitSend;
      if (sends != (mode.transfers[a.index].fromStage == stage.id))
        return wrong("p7", "the transfer goes the other way");
    }
    auto &map = positions.byKind[static_cast<size_t>(a.kind)];
    if (!map.emplace(Key{a.index, a.microbatch}, i).second)
      return wrong("p6", "it occurs twice");
  }
  return Status::ok();
}

/// Every chunk computes every micro-batch once and in one of its variants, forward before backward.
Status checkCompute(const Mode &mode, bool train, const std::string &where, const Positions &at) {
  std::unordered_map<Key, int32_t, KeyHash> runs; // by chunk and micro-batch: in how many variants
  for (size_t c = 0; c < mode.chunks.size(); ++c)
    for (int32_t m = 0; m < mode.microbatches; ++m) {
      int32_t &inVariants = runs[{mode.chunks[c].id, m}];
      for (ActionKind kind : computeKinds)
        if (at.of(kind, c, m) >= 0) {
          ++inVariants;
          break;
        }
    }
  for (size_t c = 0; c < mode.chunks.size(); ++c)
    for (int32_t m = 0; m < mode.microbatches; ++m) {
      auto position = [&](ActionKind kind) { return at.of(kind, c, m); };
      auto wrong = [&](const char *what) {
        return broken("p6",
                      where + ", chunk " + std::to_string(c) + ", micro-batch " + std::to_string(m),
                      what);
      };
      int64_t f = position(ActionKind::Forward), b = position(ActionKind::Backward),
              i = position(ActionKind::InputGrad), w = position(ActionKind::WeightGrad);
      const int32_t inVariants = runs.at({mode.chunks[c].id, m});
      if (inVariants > 1)
        return wrong("it runs in more than one variant");
      if (inVariants == 1 && std::max({f, b, i, w}) < 0)
        continue; // in another variant
      if (f < 0)
        return wrong("forward is missing");
      if (!train)
        continue;
      const Chunk &chunk = mode.chunks[c];
      bool halves = !chunk.inputGrad.empty() || !chunk.weightGrad.empty();
      bool needed = halves || !chunk.backward.empty();
      bool split = i >= 0 || w >= 0;
      if (split && (b >= 0 || (i >= 0 && w >= 0 && w < i)))
        return wrong("backward, input_grad and weight_grad do not go together");
      if (needed && b < 0 && (i < 0 || w < 0))
        return wrong("backward is missing");
      if (needed && (split ? !halves : chunk.backward.empty()))
        return wrong("the chunk has no list for this kind of backward");
      for (int64_t later : {b, i, w})
        if (later >= 0 && later < f)
          return wrong("backward comes before forward");
    }
  return Status::ok();
}

/// Where replicas divide the optimizer's state, each bucket is gathered once behind the update.
Status checkEnd(const Program &p, const Stage &stage, const Mode &mode, const std::string &where,
                const Positions &at) {
  const int64_t scalars = at.of(ActionKind::ReduceScalars, 0, 0),
                update = at.of(ActionKind::Update, 0, 0);
  const int64_t gathers = p.zero > 0 ? static_cast<int64_t>(stage.buckets.size()) : 0;
  if (scalars < 0 || update < 0 || scalars > update)
    return broken("p6", where, "a step ends with reduce_scalars and update");
  for (int64_t bucket = 0; bucket < gathers; ++bucket)
    if (at.of(ActionKind::GatherParameters, static_cast<int32_t>(bucket), 0) < update)
      return broken("p6", where + ", bucket " + std::to_string(bucket),
                    "its gather_parameters is missing behind the update");
  if (static_cast<int64_t>(at.count(ActionKind::GatherParameters)) != gathers)
    return broken("p6", where, "only replicas that divide the optimizer's state gather parameters");
  if (update + gathers + 1 != static_cast<int64_t>(mode.actions.size()))
    return broken("p6", where, "a step ends with reduce_scalars and, last of all, update");
  const ActionKind other = p.zero > 0 ? ActionKind::ReduceGradients : ActionKind::ScatterGradients;
  return at.count(other) == 0 ? Status::ok()
                              : broken("p6", where,
                                       std::string(nameOf(other)) + " does not go with zero " +
                                           std::to_string(p.zero));
}

/// The order per parameter: last gradient, shared reduction, bucket, scalars, update.
Status checkEpilogue(const Program &p, const Stage &stage, const Mode &mode,
                     const std::string &where, const Positions &at) {
  OMNIBAL_RETURN_IF_ERROR(checkEnd(p, stage, mode, where, at));
  const int64_t scalars = at.of(ActionKind::ReduceScalars, 0, 0);
  const ActionKind sums = p.zero > 0 ? ActionKind::ScatterGradients : ActionKind::ReduceGradients;
  std::vector<int64_t> lastGradient(stage.parameters.size(), -1);
  for (size_t i = 0; i < mode.actions.size(); ++i) {
    const Action &a = mode.actions[i];
    if (!isCompute(a.kind))
      continue;
    for (const LayerCall &call : mode.chunks[a.index].calls(a.kind))
      for (const Location &l : call.bindings)
        if (l.space == Space::Gradient)
          lastGradient[l.index] = i;
  }
  std::vector<int64_t> bucketAt(stage.parameters.size(), -1);
  for (size_t b = 0; b < stage.buckets.size(); ++b)
    for (int32_t q : stage.buckets[b].parameters)
      bucketAt[q] = at.of(sums, b, 0);
  std::map<int32_t, std::set<int32_t>> holders;
  for (const Stage &s : p.stageList)
    for (const Parameter &q : s.parameters)
      if (q.trainable && q.sharedGroup >= 0)
        holders[q.sharedGroup].insert(s.id);
  for (size_t i = 0; i < stage.parameters.size(); ++i) {
    const Parameter &q = stage.parameters[i];
    if (!q.trainable)
      continue;
    std::string which = where + ", parameter \"" + q.name + "\"";
    int64_t time = lastGradient[i];
    auto next = [&](int64_t position, bool required, const char *what) {
      if (position < 0)
        return required ? broken("p6", which, std::string(what) + " is missing") : Status::ok();
      if (position < time)
        return broken("p6", which, std::string(what) + " comes too early");
      time = position;
      return Status::ok();
    };
    bool shared = q.sharedGroup >= 0 && holders[q.sharedGroup].size() > 1;
    int64_t reduce = q.sharedGroup < 0 ? -1 : at.of(ActionKind::ReduceShared, q.sharedGroup, 0);
    OMNIBAL_RETURN_IF_ERROR(next(reduce, shared, "its reduce_shared"));
    OMNIBAL_RETURN_IF_ERROR(next(bucketAt[i], p.dataParallel > 1,
                                 p.zero > 0 ? "its scatter_gradients" : "its reduce_gradients"));
    OMNIBAL_RETURN_IF_ERROR(next(scalars, true, "reduce_scalars"));
  }
  return Status::ok();
}

/// Each message: posted and awaited once on either side, in that order.
Status checkMessages(const Mode &mode, int32_t stage, const std::string &where,
                     const Positions &at) {
  for (size_t t = 0; t < mode.transfers.size(); ++t)
    for (int32_t m = 0; m < mode.microbatches; ++m) {
      bool sends = mode.transfers[t].fromStage == stage;
      int64_t start = at.of(sends ? ActionKind::Send : ActionKind::PostRecv, t, m);
      int64_t wait = at.of(sends ? ActionKind::WaitSend : ActionKind::WaitRecv, t, m);
      auto wrong = [&](const char *what) {
        return broken("p7",
                      where + ", transfer " + std::to_string(mode.transfers[t].id) +
                          ", micro-batch " + std::to_string(m),
                      what);
      };
      if (start < 0)
        return wrong(sends ? "its send is missing" : "its post_recv is missing");
      if (wait < 0)
        return wrong("nothing waits for it");
      if (wait < start)
        return wrong("the wait comes before its post");
    }
  return Status::ok();
}

/// Runs all stages of a replica with zero-buffer messages until all are done or none can move.
class Rendezvous {
public:
  Rendezvous(const std::vector<StageActions> &stages, const std::string &where)
      : where(where), stages(stages), at(stages.size()) {
    for (size_t s = 0; s < stages.size(); ++s)
      for (int32_t group : stages[s].sharedGroups)
        members[group].insert(s);
  }

  Status run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < stages.size(); ++s)
        while (at[s] < stages[s].actions.size() && step(s, stages[s].actions[at[s]])) {
          ++at[s];
          moved = true;
        }
    }
    std::string stuck;
    for (size_t s = 0; s < stages.size(); ++s)
      if (at[s] < stages[s].actions.size())
        stuck += (stuck.empty() ? "stage " : "; stage ") + std::to_string(s) + " at action " +
                 std::to_string(at[s]) + " " + describe(stages[s].actions[at[s]]);
    return stuck.empty() ? Status::ok()
                         : broken("p8", where, "the stages wait for each other: " + stuck);
  }

private:
  using Message = std::pair<int32_t, Unit>; ///< Transfer::id

  bool step(size_t stage, const Action &a) {
    Message message;
    if (a.kind >= ActionKind::PostRecv && a.kind <= ActionKind::WaitSend)
      message = {stages[stage].transfers[a.index].id, a.unit()};
    switch (a.kind) {
    case ActionKind::PostRecv:
      posted.insert(message);
      return true;
    case ActionKind::Send:
      sent.insert(message);
      return true;
    case ActionKind::WaitRecv:
      return sent.count(message);
    case ActionKind::WaitSend:
      return posted.count(message);
    case ActionKind::ReduceShared:
      arrived[a.index].insert(stage);
      return arrived[a.index].size() == members[a.index].size();
    case ActionKind::ReduceScalars:
      arrived[-1].insert(stage);
      return arrived[-1].size() == stages.size();
    default:
      return true;
    }
  }

  const std::string &where;
  const std::vector<StageActions> &stages;
  std::vector<size_t> at;
  std::set<Message> posted, sent;
  std::map<int32_t, std::set<size_t>> members;
  std::map<int32_t, std::set<size_t>> arrived; ///< shared group, or -1 for the scalars
};

/// What all stages do in a mode.
std::vector<StageActions> stageActions(const Program &p, const std::string &modeName) {
  std::vector<StageActions> stages;
  for (const Stage &stage : p.stageList) {
    const Mode &mode = stage.modes.at(modeName);
    StageActions &actions = stages.emplace_back();
    actions.actions = mode.actions;
    for (const Transfer &t : mode.transfers)
      actions.transfers.push_back({t.id, t.fromStage, t.toStage});
    for (const Parameter &q : stage.parameters)
      if (q.trainable && q.sharedGroup >= 0)
        actions.sharedGroups.insert(q.sharedGroup);
  }
  return stages;
}

} // namespace

Status verifyRendezvous(const std::vector<StageActions> &stages, const std::string &where) {
  return Rendezvous(stages, where).run();
}

Status verifyActions(const Program &p) {
  for (const Stage &stage : p.stageList)
    for (const auto &[name, mode] : stage.modes) {
      std::string where = "stage " + std::to_string(stage.id) + ", mode " + name;
      const bool train = trainModeNumber(name).has_value();
      Positions positions;
      OMNIBAL_RETURN_IF_ERROR(checkIndices(stage, mode, train, where, positions));
      OMNIBAL_RETURN_IF_ERROR(checkCompute(mode, train, where, positions));
      OMNIBAL_RETURN_IF_ERROR(checkMessages(mode, stage.id, where, positions));
      if (train)
        OMNIBAL_RETURN_IF_ERROR(checkEpilogue(p, stage, mode, where, positions));
    }
  for (const auto &[name, mode] : p.stageList[0].modes)
    OMNIBAL_RETURN_IF_ERROR(verifyRendezvous(stageActions(p, name), "mode " + name));
  for (const auto &[name, mode] : p.stageList[0].modes)
    OMNIBAL_RETURN_IF_ERROR(verifyOneQueue(stageActions(p, name), "mode " + name));
  return Status::ok();
}

} // namespace omnibal::rt
