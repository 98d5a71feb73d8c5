//===- CheckStepPlan.cpp -----------------------------------------------------------------===//
//
// Written for plainness: units are found by their names in maps, and times by going over the lists
// until nothing changes.
//
//===----------------------------------------------------------------------------------------===//
#include "runtime/planner/step/CheckStepPlan.h"
#include "runtime/planner/step/StepBound.h"
#include <algorithm>
#include <map>
#include <tuple>

namespace omnibal::planner {
namespace {

/// Chunk, micro-batch, part.
using Name = std::tuple<int64_t, int64_t, int64_t>;

Name nameOf(const StepAction &action) { return {action.chunk, action.microbatch, action.part}; }

std::string textOf(const Name &name) {
  auto [chunk, microbatch, part] = name;
  return "chunk " + std::to_string(chunk) + ", micro-batch " + std::to_string(microbatch) +
         ", part " + std::to_string(part);
}

std::string textOf(const StepAction &action) {
  return std::string(1, letterOf(action.kind)) + " of " + textOf(nameOf(action));
}

struct Span {
  int64_t startNs = 0, endNs = 0;
};

/// Where a unit's actions stand in their stage's list; -1: nowhere.
struct Stand {
  int64_t forward = -1, backward = -1, weightGrad = -1;
};

/// One plan's lists, variants and borders: the plan's own, or the static ones.
struct Lists {
  std::vector<std::vector<int64_t>> borders;
  std::map<Name, int64_t> variants;
  std::vector<std::vector<StepAction>> actions;
};

class Checker {
public:
  Checker(const StepProblem &problem, const StepLoads &loads) : problem(problem), loads(loads) {}

  std::vector<StepViolation> run(const StepPlan &plan) {
    checkBorders(plan);
    if (!found.empty())
      return std::move(found);
    Lists lists{plan.borders, {}, plan.actions};
    checkVariants(plan, lists);
    if (found.empty())
      checkUnits(lists);
    if (!found.empty())
      return std::move(found);
    checkWeightOrder(lists);
    std::vector<std::vector<Span>> times;
    int64_t stepNs = run(lists, times);
    if (stepNs < 0)
      return std::move(found);
    if (plan.method == StepMethod::Lists)
      checkPlaces(plan, lists, times);
    else if (std::any_of(plan.places.begin(), plan.places.end(),
                         [](const std::vector<BlockPlace> &stage) { return !stage.empty(); }))
      broken("step_s6", "a static plan has offsets; its places are its program's own");
    checkFigures(plan, lists, stepNs);
    return std::move(found);
  }

private:
  void broken(const char *rule, std::string text, std::optional<int64_t> stage = {}) {
    found.push_back({rule, stage, std::move(text)});
  }

  const StepChunk &chunkOf(const Name &name) const { return problem.chunks[std::get<0>(name)]; }
  bool isVision(int64_t chunk) const {
    return problem.chunks[chunk].component == ChunkComponent::Vision;
  }

  void checkBorders(const StepPlan &plan) {
    if (plan.borders.size() != loads.microbatches.size())
      return broken("step_s1", "there are borders of " + std::to_string(plan.borders.size()) +
                                   " micro-batches, not of " +
                                   std::to_string(loads.microbatches.size()));
    for (size_t m = 0; m < plan.borders.size(); ++m)
      if (std::string why = bordersProblem(plan.borders[m], loads.microbatches[m]); !why.empty())
        broken("step_s1", "micro-batch " + std::to_string(m) + ": " + why);
  }

  std::string bordersProblem(const std::vector<int64_t> &borders,
                             const MicrobatchLoad &microbatch) const {
    int64_t tiles = microbatch.load.tiles;
    if (tiles == 0)
      return borders.empty() ? "" : "it has sub-micro-batches and no tiles";
    if (borders.size() < 2 || borders.front() != 0 || borders.back() != tiles)
      return "sub-micro-batches must begin with 0 and end with " + std::to_string(tiles);
    auto parts = static_cast<int64_t>(borders.size()) - 1;
    if (parts > problem.mostParts)
      return std::to_string(parts) + " sub-micro-batches; the most are " +
             std::to_string(problem.mostParts);
    for (int64_t p = 0; p < parts; ++p) {
      if (borders[p + 1] <= borders[p])
        return "borders do not ascend";
      if (parts > 1 && borders[p + 1] - borders[p] < problem.leastTiles)
        return "a sub-micro-batch has fewer than " + std::to_string(problem.leastTiles) + " tiles";
      const auto &cuts = microbatch.cuts;
      if (p > 0 && cuts && std::find(cuts->begin(), cuts->end(), borders[p]) == cuts->end())
        return "no picture begins at tile " + std::to_string(borders[p]);
    }
    return "";
  }

  int64_t partsOf(const Lists &lists, int64_t chunk, size_t microbatch) const {
    if (!isVision(chunk))
      return 1;
    const std::vector<int64_t> &borders = lists.borders[microbatch];
    return borders.empty() ? 0 : static_cast<int64_t>(borders.size()) - 1;
  }

  void checkVariants(const StepPlan &plan, Lists &lists) {
    if (plan.variants.size() != problem.chunks.size())
      return broken("step_s3", "variants are not a list a chunk");
    for (size_t c = 0; c < plan.variants.size(); ++c) {
      auto chunk = static_cast<int64_t>(c);
      if (plan.variants[c].size() != loads.microbatches.size())
        return broken("step_s3", "chunk " + std::to_string(c) + " has variants for " +
                                     std::to_string(plan.variants[c].size()) + " micro-batches");
      for (size_t m = 0; m < plan.variants[c].size(); ++m) {
        const std::vector<int64_t> &parts = plan.variants[c][m];
        if (static_cast<int64_t>(parts.size()) != partsOf(lists, chunk, m))
          return broken("step_s3", "chunk " + std::to_string(c) + ", micro-batch " +
                                       std::to_string(m) + " has variants for " +
                                       std::to_string(parts.size()) + " parts");
        for (size_t p = 0; p < parts.size(); ++p) {
          Name name{chunk, static_cast<int64_t>(m), static_cast<int64_t>(p)};
          if (parts[p] < 0 || parts[p] >= static_cast<int64_t>(problem.chunks[c].variants.size()))
            return broken("step_s3", textOf(name) + " has no variant " + std::to_string(parts[p]));
          lists.variants[name] = parts[p];
        }
      }
    }
  }

  void checkUnits(const Lists &lists) {
    if (lists.actions.size() != static_cast<size_t>(problem.stages))
      return broken("step_s2", "there are actions of " + std::to_string(lists.actions.size()) +
                                   " ranks, not of " + std::to_string(problem.stages));
    std::map<Name, std::string> done;
    for (size_t s = 0; s < lists.actions.size(); ++s) {
      auto stage = static_cast<int64_t>(s);
      for (const StepAction &action : lists.actions[s]) {
        Name name = nameOf(action);
        if (!lists.variants.contains(name) || chunkOf(name).stage != stage) {
          broken("step_s2",
                 "rank " + std::to_string(s) + " runs " + textOf(action) + ", which is not its own",
                 stage);
          continue;
        }
        done[name] += letterOf(action.kind);
      }
    }
    for (const auto &[name, variant] : lists.variants)
      if (const std::string &kinds = done[name]; kinds != "FB" && kinds != "FIW")
        broken("step_s2",
               textOf(name) + " runs " + (kinds.empty() ? "nothing" : kinds) + ", not FB or FIW",
               chunkOf(name).stage);
  }

  void checkWeightOrder(const Lists &lists) {
    if (!problem.ascendingWeightGradients)
      return;
    std::map<int64_t, Name> last;
    for (size_t s = 0; s < lists.actions.size(); ++s)
      for (const StepAction &action : lists.actions[s]) {
        if (action.kind != ActionKind::Backward && action.kind != ActionKind::WeightGrad)
          continue;
        auto [before, isFirst] = last.try_emplace(action.chunk, nameOf(action));
        if (!isFirst && nameOf(action) < before->second)
          broken("step_s4",
                 "weight gradients of " + textOf(nameOf(action)) + " come after those of " +
                     textOf(before->second),
                 static_cast<int64_t>(s));
        before->second = nameOf(action);
      }
  }

  UnitLoad loadOf(const Lists &lists, const Name &name) const {
    auto [chunk, microbatch, part] = name;
    if (!isVision(chunk))
      return loads.microbatches[microbatch].load;
    const std::vector<int64_t> &borders = lists.borders[microbatch];
    return {borders[part + 1] - borders[part], 0, 0, 0};
  }

  int64_t durationOf(const Lists &lists, const StepAction &action) const {
    Name name = nameOf(action);
    const TimeModel &model =
        chunkOf(name).variants[lists.variants.at(name)].times[static_cast<size_t>(action.kind)];
    UnitLoad load = loadOf(lists, name);
    constexpr int32_t places = 9;
    __int128 sum = 0, one = 1;
    for (int32_t i = 0; i < places; ++i)
      one *= 10;
    for (auto [term, amount] : {std::pair(model.fixed, int64_t{1}),
                                {model.tile, load.tiles},
                                {model.token, load.tokens},
                                {model.square, load.squares},
                                {model.label, load.labels}}) {
      __int128 product = static_cast<__int128>(term.digits) * amount;
      for (int32_t i = term.scale; i < places; ++i)
        product *= 10;
      sum += product;
    }
    return static_cast<int64_t>((sum + one - 1) / one);
  }

  int64_t messageNs(const Lists &lists, const StepEdge &edge, const SizeModel &size,
                    const Name &sender) const {
    if (problem.chunks[edge.from].stage == problem.chunks[edge.to].stage || size.isZero())
      return 0;
    UnitLoad load = loadOf(lists, sender);
    __int128 bytes =
        size.constant + __int128{size.tile} * load.tiles + __int128{size.token} * load.tokens;
    __int128 quotient = bytes * 1'000'000'000 / problem.link.bytesPerSecond;
    bool isExact = quotient * problem.link.bytesPerSecond == bytes * 1'000'000'000;
    return problem.link.latencyNs + static_cast<int64_t>(quotient) + (isExact ? 0 : 1);
  }

  /// Calls f(name of the sender, message time) for each message or value that `action` waits for.
  template <typename F> void eachInput(const Lists &lists, const StepAction &action, F f) const {
    bool forward = action.kind == ActionKind::Forward;
    for (const StepEdge &edge : problem.edges) {
      if ((forward ? edge.to : edge.from) != action.chunk || (!forward && edge.gradBytes.isZero()))
        continue;
      int64_t other = forward ? edge.from : edge.to;
      bool isPartwise = isVision(action.chunk) && isVision(other);
      for (int64_t p = 0; p < partsOf(lists, other, action.microbatch); ++p) {
        if (isPartwise && p != action.part)
          continue;
        Name name{other, action.microbatch, p};
        // A gradient has the size of what was sent forward.
        const Name sender = forward ? name : nameOf(action);
        f(name, messageNs(lists, edge, forward ? edge.bytes : edge.gradBytes, sender));
      }
    }
  }

  /// Simulates lists; returns the step's time, or -1 where they cannot finish.
  int64_t run(const Lists &lists, std::vector<std::vector<Span>> &times) {
    std::map<Name, int64_t> forwardEnd, backwardEnd;
    std::vector<size_t> next(lists.actions.size(), 0);
    times.assign(lists.actions.size(), {});
    auto readyAt = [&](const StepAction &action) -> int64_t {
      const auto &ends = action.kind == ActionKind::Forward ? forwardEnd : backwardEnd;
      if (action.kind == ActionKind::WeightGrad)
        return ends.contains(nameOf(action)) ? ends.at(nameOf(action)) : -1;
      if (action.kind != ActionKind::Forward && !forwardEnd.contains(nameOf(action)))
        return -1;
      int64_t ready = 0;
      eachInput(lists, action, [&](const Name &name, int64_t delay) {
        auto end = ends.find(name);
        ready = ready < 0 || end == ends.end() ? -1 : std::max(ready, end->second + delay);
      });
      return ready;
    };
    for (bool isMoving = true; isMoving;) {
      isMoving = false;
      for (size_t s = 0; s < lists.actions.size(); ++s)
        for (; next[s] < lists.actions[s].size(); ++next[s], isMoving = true) {
          const StepAction &action = lists.actions[s][next[s]];
          int64_t ready = readyAt(action);
          if (ready < 0)
            break;
          int64_t start = std::max(ready, times[s].empty() ? 0 : times[s].back().endNs);
          times[s].push_back({start, start + durationOf(lists, action)});
          if (action.kind != ActionKind::WeightGrad)
            (action.kind == ActionKind::Forward ? forwardEnd : backwardEnd)[nameOf(action)] =
                times[s].back().endNs;
        }
    }
    int64_t stepNs = 0;
    for (size_t s = 0; s < lists.actions.size(); ++s) {
      if (next[s] < lists.actions[s].size()) {
        broken("step_s5",
               "rank " + std::to_string(s) + " waits for ever at its action " +
                   std::to_string(next[s]) + ", " + textOf(lists.actions[s][next[s]]),
               static_cast<int64_t>(s));
        return -1;
      }
      stepNs = std::max(stepNs, times[s].empty() ? 0 : times[s].back().endNs);
    }
    return stepNs;
  }

  /// A block of a unit: when it lives, as places in the stage's list, and its size.
  struct Life {
    int64_t from = 0, to = 0, bytes = 0;
  };

  void checkPlaces(const StepPlan &plan, const Lists &lists,
                   const std::vector<std::vector<Span>> &times) {
    if (plan.places.size() != lists.actions.size())
      return broken("step_s6", "there are offsets of " + std::to_string(plan.places.size()) +
                                   " ranks, not of " + std::to_string(problem.stages));
    std::map<Name, Stand> stands;
    for (const std::vector<StepAction> &list : lists.actions)
      for (size_t i = 0; i < list.size(); ++i) {
        Stand &stand = stands[nameOf(list[i])];
        (list[i].kind == ActionKind::Forward      ? stand.forward
         : list[i].kind == ActionKind::WeightGrad ? stand.weightGrad
                                                  : stand.backward) = static_cast<int64_t>(i);
      }
    std::map<std::pair<Name, int64_t>, Life> lives;
    for (const auto &[name, stand] : stands) {
      const std::vector<Block> &blocks = chunkOf(name).variants[lists.variants.at(name)].blocks;
      for (size_t b = 0; b < blocks.size(); ++b)
        if (stand.weightGrad >= 0 || !blocks[b].isOfSplitOnly())
          lives[{name, static_cast<int64_t>(b)}] = lifeOf(lists, times, stands, name, blocks[b]);
    }
    for (size_t s = 0; s < plan.places.size(); ++s)
      checkStagePlaces(static_cast<int64_t>(s), plan.places[s], lives);
    for (const auto &[key, life] : lives)
      broken("step_s6",
             "block " + std::to_string(key.second) + " of " + textOf(key.first) + " has no offset",
             chunkOf(key.first).stage);
  }

  Life lifeOf(const Lists &lists, const std::vector<std::vector<Span>> &times,
              const std::map<Name, Stand> &stands, const Name &name, const Block &block) const {
    const Stand &stand = stands.at(name);
    UnitLoad load = loadOf(lists, name);
    int64_t rows = (load.tokens + problem.rowBucket - 1) / problem.rowBucket * problem.rowBucket;
    int64_t bytes = block.bytes.at(load.tiles, rows);
    Life life{0, 0, (bytes + problem.alignment - 1) / problem.alignment * problem.alignment};
    bool early = block.begin == BlockBegin::Receive || block.begin == BlockBegin::Forward;
    bool received = block.begin == BlockBegin::Receive || block.begin == BlockBegin::ReceiveGrad;
    life.from = early ? stand.forward : stand.backward;
    int64_t maker = life.from;
    if (received)
      life.from = std::max<int64_t>(life.from - 1, 0);
    if (block.end == BlockEnd::Forward)
      life.to = stand.forward;
    else if (block.end == BlockEnd::InputGrad)
      life.to = stand.backward;
    else if (block.end == BlockEnd::WeightGrad)
      life.to = std::max(stand.backward, stand.weightGrad);
    else
      life.to = sentAt(lists, times, stands, name, early, maker);
    return life;
  }

  /// The last action of the sender that does not start later than all readers.
  int64_t sentAt(const Lists &lists, const std::vector<std::vector<Span>> &times,
                 const std::map<Name, Stand> &stands, const Name &name, bool forward,
                 int64_t maker) const {
    int64_t own = chunkOf(name).stage, last = maker;
    for (const auto &[reader, stand] : stands) {
      int64_t stage = chunkOf(reader).stage, place = forward ? stand.forward : stand.backward;
      StepAction action{forward ? ActionKind::Forward : ActionKind::InputGrad,
                        static_cast<int32_t>(std::get<1>(reader)),
                        static_cast<int32_t>(std::get<2>(reader)),
                        static_cast<int32_t>(std::get<0>(reader))};
      bool reads = false;
      if (std::get<1>(reader) == std::get<1>(name))
        eachInput(lists, action, [&](const Name &input, int64_t) { reads |= input == name; });
      if (!reads)
        continue;
      for (size_t i = 0; i < times[own].size(); ++i)
        if (times[own][i].startNs <= times[stage][place].startNs)
          last = std::max(last, static_cast<int64_t>(i));
    }
    return last;
  }

  /// Places of one stage; takes the blocks that it finds out of `lives`.
  void checkStagePlaces(int64_t stage, const std::vector<BlockPlace> &places,
                        std::map<std::pair<Name, int64_t>, Life> &lives) {
    struct Placed {
      std::string text;
      Life life;
      int64_t offset = 0;
    };
    std::vector<Placed> placed;
    for (const BlockPlace &place : places) {
      Name name{place.chunk, place.microbatch, place.part};
      std::string text = "block " + std::to_string(place.block) + " of " + textOf(name);
      auto life = lives.find({name, place.block});
      if (life == lives.end() || chunkOf(name).stage != stage) {
        broken("step_s6",
               text + " does not exist on rank " + std::to_string(stage) +
                   ", or has a second offset",
               stage);
        continue;
      }
      if (place.offset % problem.alignment != 0)
        broken("step_s6", text + " is not aligned to " + std::to_string(problem.alignment), stage);
      if (place.offset < 0 || place.offset > problem.memoryOf(stage) - life->second.bytes)
        broken("step_s6", text + " lies outside of the rank's memory", stage);
      else if (life->second.bytes > 0)
        placed.push_back({text, life->second, place.offset});
      lives.erase(life);
    }
    std::sort(placed.begin(), placed.end(),
              [](const Placed &a, const Placed &b) { return a.life.from < b.life.from; });
    for (size_t i = 0; i < placed.size(); ++i)
      for (size_t j = i + 1; j < placed.size() && placed[j].life.from <= placed[i].life.to; ++j) {
        const Placed &a = placed[i], &b = placed[j];
        if (a.offset < b.offset + b.life.bytes && b.offset < a.offset + a.life.bytes)
          broken("step_s6", a.text + " and " + b.text + " overlap and live together", stage);
      }
  }

  Lists staticOnes() const {
    Lists lists;
    for (const MicrobatchLoad &microbatch : loads.microbatches) {
      lists.borders.emplace_back();
      if (microbatch.load.tiles > 0)
        lists.borders.back() = {0, microbatch.load.tiles};
    }
    for (size_t c = 0; c < problem.chunks.size(); ++c)
      for (size_t m = 0; m < loads.microbatches.size(); ++m)
        if (partsOf(lists, static_cast<int64_t>(c), m) > 0)
          lists.variants[{static_cast<int64_t>(c), static_cast<int64_t>(m), 0}] =
              problem.fixed.variants[c][m];
    for (const std::vector<StepAction> &stage : problem.fixed.actions) {
      lists.actions.emplace_back();
      for (const StepAction &action : stage)
        if (lists.variants.contains(nameOf(action)))
          lists.actions.back().push_back(action);
    }
    return lists;
  }

  void checkFigures(const StepPlan &plan, const Lists &lists, int64_t stepNs) {
    auto demand = [&](const char *key, int64_t stated, int64_t is) {
      if (stated != is)
        broken("step_s7", std::string("`") + key + "` is " + std::to_string(stated) +
                              "; the simulator finds " + std::to_string(is));
    };
    demand("step_ns", plan.stepNs, stepNs);
    StepModel model(problem);
    demand("bound_ns", plan.boundNs, stepBound(StepUnits(model, loads, plan.borders)));
    Lists fixed = staticOnes();
    std::vector<std::vector<Span>> times;
    int64_t staticNs = run(fixed, times);
    if (staticNs < 0)
      return;
    demand("static_ns", plan.staticNs, staticNs);
    if (stepNs > staticNs)
      broken("step_s8", "the step takes " + std::to_string(stepNs) + " ns, the static plan " +
                            std::to_string(staticNs));
    if (plan.method == StepMethod::Static &&
        (lists.actions != fixed.actions || lists.variants != fixed.variants ||
         lists.borders != fixed.borders))
      broken("step_s8", "the method is static, and the lists or variants are not the static ones");
  }

  const StepProblem &problem;
  const StepLoads &loads;
  std::vector<StepViolation> found;
};

} // namespace

std::vector<StepViolation> checkStepPlan(const StepProblem &problem, const StepLoads &loads,
                                         const StepPlan &plan) {
  return Checker(problem, loads).run(plan);
}

} // namespace omnibal::planner
