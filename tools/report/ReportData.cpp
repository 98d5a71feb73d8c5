//===- ReportData.cpp --------------------------------------------------------------------===//
#include "tools/report/ReportData.h"
#include "runtime/support/JsonWriter.h"
#include "tools/report/StepView.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace omnibal::planner {
namespace {

constexpr size_t mostStages = 256;
constexpr size_t mostActions = 150'000, mostShares = 300'000, mostShareColumns = 1500;
constexpr size_t mostMemoryPoints = 100'000, mostMemoryPointsOfStage = 600;
constexpr size_t mostSegments = 5'000;
constexpr size_t mostDelays = 200'000;

/// Layers of a chunk that look alike, one after the other.
struct Segment {
  int64_t chunk = 0, count = 0;
  std::string kind, option;
  double ns = 0, recomputeNs = 0; ///< of an average micro-batch, all of them together
};

class Data {
public:
  explicit Data(const ReportInput &input)
      : problem(input.problem), plan(input.plan), timeline(input.timeline), samples(input.samples),
        view(viewOf(problem, plan, timeline)), stages(stagesShown(plan)) {
    chunkNumber.assign(plan.chunkStage.size(), -1);
    for (size_t c = 0; c < plan.chunkStage.size(); ++c)
      if (std::binary_search(stages.begin(), stages.end(),
                             static_cast<size_t>(plan.chunkStage[c]))) {
        chunkNumber[c] = static_cast<int64_t>(chunks.size());
        chunks.push_back(static_cast<int64_t>(c));
      }
    size_t actions = 0;
    for (size_t r : stages)
      actions += plan.actions[r].size();
    asShares = actions > mostActions;
  }

  std::string write() {
    out.object([&] {
      out.attribute("step", timeline.stepNs);
      out.attributeObjects("stages", stages, [&](size_t r) { stage(r); });
      out.attributeArray("types", [&] {
        for (const auto &type : types)
          out.value(type);
      });
      out.attributeArray("chunks", [&] {
        std::map<int64_t, int64_t> seen;
        for (int64_t c : chunks)
          out.object([&] {
            out.attribute("number", seen[plan.chunkStage[c]]++);
            out.attribute("stage", plan.chunkStage[c]);
          });
      });
      transfers();
      segments();
      if (samples)
        writeSamples(out, *samples, stages, chunkNumber);
    });
    return out.take();
  }

private:
  void stage(size_t r) {
    const StageFigures &figures = timeline.stages[r];
    out.attribute("stage", static_cast<int64_t>(r));
    out.attribute("limit", figures.limitBytes);
    out.attribute("peak", figures.peakBytes);
    out.attribute("reduction", view.stages[r].reductionNs);
    out.attributeArray("a", [&] {
      if (!asShares)
        actions(r);
    });
    out.attribute("shares", asShares ? sharesOf(r) : "");
    out.attributeArray("memory", [&] { memory(view.stages[r].memory); });
  }

  /// Gap before the action, its type, its micro-batch.
  void actions(size_t r) {
    int64_t clock = 0;
    for (size_t k = 0; k < plan.actions[r].size(); ++k) {
      const Action &action = plan.actions[r][k];
      const ActionTime &time = timeline.times[r][k];
      std::array<int64_t, 4> type{static_cast<int64_t>(action.kind), chunkNumber[action.chunk],
                                  time.endNs - time.startNs, view.stages[r].recomputeNs[k]};
      auto [it, fresh] = typeNumber.try_emplace(type, static_cast<int64_t>(types.size()));
      if (fresh)
        types.push_back(type);
      for (int64_t value : {time.startNs - clock, it->second, action.microbatch})
        out.value(value);
      clock = time.endNs;
    }
  }

  /// Returns for equal parts of the step a digit (base 36) each for forward, recomputation,
  /// backward and weight gradient.
  std::string sharesOf(size_t r) const {
    size_t columns = std::min(mostShareColumns, mostShares / (4 * stages.size()));
    std::vector<std::array<double, 4>> parts(columns, std::array<double, 4>{});
    double size =
        std::max(1.0, static_cast<double>(timeline.stepNs)) / static_cast<double>(columns);
    auto add = [&](int look, int64_t from, int64_t to) {
      double begin = static_cast<double>(from) / size, end = static_cast<double>(to) / size;
      for (auto c = static_cast<size_t>(begin); c < columns && static_cast<double>(c) < end; ++c)
        parts[c][look] +=
            std::min(end, static_cast<double>(c) + 1) - std::max(begin, static_cast<double>(c));
    };
    for (size_t k = 0; k < plan.actions[r].size(); ++k) {
      const ActionTime &time = timeline.times[r][k];
      ActionKind kind = plan.actions[r][k].kind;
      int64_t recomputed = time.startNs + view.stages[r].recomputeNs[k];
      add(1, time.startNs, recomputed);
      add(kind == ActionKind::Forward      ? 0
          : kind == ActionKind::WeightGrad ? 3
                                           : 2,
          recomputed, time.endNs);
    }
    std::string digits;
    for (const auto &part : parts)
      for (double share : part)
        digits += "0123456789abcdefghijklmnopqrstuvwxyz"[std::lround(std::min(1.0, share) * 35)];
    return digits;
  }

  /// The points, or the highest of as many equal parts of the step as may be shown.
  void memory(const std::vector<MemoryPoint> &points) {
    size_t most =
        std::max<size_t>(8, std::min(mostMemoryPointsOfStage, mostMemoryPoints / stages.size()));
    std::vector<MemoryPoint> kept;
    int64_t part = timeline.stepNs / static_cast<int64_t>(most) + 1;
    for (const MemoryPoint &point : points) {
      if (points.size() <= most || kept.empty() || point.ns / part != kept.back().ns / part)
        kept.push_back(point);
      else
        kept.back().bytes = std::max(kept.back().bytes, point.bytes);
    }
    for (size_t i = 0; i < kept.size(); ++i) {
      out.value(i == 0 ? 0 : kept[i].ns);
      out.value(kept[i].bytes);
    }
  }

  /// How long messages are on the way: chunk pairs, and for every load a time there and back; -1
  /// where nothing is sent.
  void transfers() {
    using Pair = std::pair<int64_t, int64_t>;
    std::map<Pair, size_t> feeds;
    std::map<LoadFactors, size_t> loads;
    std::vector<size_t> loadOf;
    for (int64_t m = 0; m < problem.microbatches; ++m)
      loadOf.push_back(
          loads
              .try_emplace(problem.factors.empty() ? LoadFactors() : problem.factors[m],
                           loads.size())
              .first->second);
    auto endsOf = [&](const TransferTime &t) {
      Pair ends{chunkNumber[t.fromChunk], chunkNumber[t.toChunk]};
      if (t.gradient)
        std::swap(ends.first, ends.second);
      return ends;
    };
    for (const TransferTime &t : view.transfers)
      if (Pair ends = endsOf(t); ends.first >= 0 && ends.second >= 0)
        feeds.try_emplace(ends, 0);
    if (asShares || feeds.size() * loads.size() * 2 > mostDelays)
      feeds.clear();
    size_t number = 0;
    for (auto &feed : feeds)
      feed.second = number++;
    std::vector<std::vector<int64_t>> delays(loads.size(), std::vector<int64_t>(2 * number, -1));
    for (const TransferTime &t : view.transfers)
      if (auto feed = feeds.find(endsOf(t)); feed != feeds.end())
        delays[loadOf[t.microbatch]][2 * feed->second + (t.gradient ? 1 : 0)] = t.endNs - t.startNs;
    out.attributeArray("feeds", [&] {
      for (const auto &feed : feeds)
        out.value(std::array{feed.first.first, feed.first.second});
    });
    out.attributeArray("delays", [&] {
      for (const std::vector<int64_t> &delay : delays)
        out.value(delay);
    });
    out.attributeArray("loadOf", [&] {
      for (size_t i = 0; loads.size() > 1 && i < loadOf.size(); ++i)
        out.value(static_cast<int64_t>(loadOf[i]));
    });
  }

  void segments() {
    std::map<std::string, double> meanFactor;
    for (const Layer &layer : problem.layers)
      if (auto [it, fresh] = meanFactor.try_emplace(layer.kind, 1);
          fresh && !problem.factors.empty()) {
        it->second = 0;
        for (int64_t m = 0; m < problem.microbatches; ++m)
          it->second += static_cast<double>(problem.factor(m, layer.kind).times(1'000'000)) / 1e6 /
                        static_cast<double>(problem.microbatches);
      }
    std::vector<Segment> list = segmentsOf(meanFactor, true);
    if (list.size() > mostSegments)
      list = segmentsOf(meanFactor, false);
    list.resize(std::min(list.size(), mostSegments));
    out.attributeObjects("segments", list, [&](const Segment &s) {
      out.attribute("chunk", s.chunk);
      out.attribute("count", s.count);
      out.attribute("kind", s.kind);
      out.attribute("ns", s.ns);
      out.attribute("option", s.option);
      out.attribute("recompute", s.recomputeNs);
    });
  }

  std::vector<Segment> segmentsOf(const std::map<std::string, double> &factor, bool exactly) const {
    std::vector<Segment> list;
    for (int64_t c : chunks)
      for (int64_t l = plan.cuts[c]; l < plan.cuts[c + 1]; ++l) {
        const Layer &layer = problem.layers[l];
        double load = factor.at(layer.kind);
        double ns =
            load * static_cast<double>(layer.forwardNs + layer.inputGradNs + layer.weightGradNs);
        double again = load * static_cast<double>(layer.option(plan.remat[l])->recomputeNs);
        Segment *last = list.empty() ? nullptr : &list.back();
        bool alike = last && last->chunk == chunkNumber[c] && last->kind == layer.kind;
        if (alike && exactly) {
          auto count = static_cast<double>(last->count);
          alike = last->option == plan.remat[l] && std::abs(last->ns / count - ns) <= 0.02 * ns &&
                  std::abs(last->recomputeNs / count - again) <= 0.02 * again;
        }
        if (!alike) {
          list.push_back({chunkNumber[c], 0, layer.kind, plan.remat[l]});
          last = &list.back();
        }
        ++last->count;
        last->ns += ns;
        last->recomputeNs += again;
      }
    return list;
  }

  const Problem &problem;
  const Plan &plan;
  const Timeline &timeline;
  const std::optional<StepSamples> &samples;
  StepView view;
  std::vector<size_t> stages;
  std::vector<int64_t> chunks, chunkNumber; ///< those of the stages shown; by chunk, -1: not shown
  bool asShares = false;
  std::vector<std::array<int64_t, 4>> types;
  std::map<std::array<int64_t, 4>, int64_t> typeNumber;
  rt::JsonWriter out;
};

} // namespace

std::vector<size_t> stagesShown(const Plan &plan) {
  std::vector<size_t> stages;
  size_t count = plan.actions.size(), shown = std::min(count, mostStages);
  for (size_t i = 0; i < shown; ++i)
    stages.push_back(shown == 1 ? 0 : i * (count - 1) / (shown - 1));
  return stages;
}

std::string reportData(const ReportInput &input) {
  std::string text = Data(input).write(), safe;
  for (char c : text)
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  return safe;
}

} // namespace omnibal::planner
