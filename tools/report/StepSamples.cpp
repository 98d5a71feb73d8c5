//===- StepSamples.cpp -------------------------------------------------------------------===//
#include "tools/report/StepSamples.h"
#include "runtime/planner/step/StepSearch.h"
#include "runtime/planner/step/StepTimes.h"
#include "runtime/support/NumberText.h"
#include "tools/report/HtmlText.h"
#include <algorithm>
#include <numeric>
#include <sstream>
#include <utility>

namespace omnibal::planner {
namespace {

/// Of all samples drawn together; about 1 MB.
constexpr size_t mostSampledActions = 40'000;

DrawnLists timed(const StepUnits &units, const StepLists &lists) {
  DrawnLists result;
  StepTimes times = *timesOf(units, lists); // a plan's lists and the problem's own finish
  result.actions = actionsOf(units, lists);
  result.ends = endsOf(units, lists, times);
  result.starts = std::move(times.starts);
  result.stepNs = times.stepNs;
  return result;
}

double ratio(int64_t a, int64_t b) {
  return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 1;
}

/// How many times as long the program's own lists take.
double gainOf(const SampledStep &step) { return ratio(step.plan.staticNs, step.plan.stepNs); }

size_t actionsOf(const SampledStep &step) {
  size_t count = 0;
  for (const DrawnLists *lists : {&step.planned, &step.own})
    for (const auto &stage : lists->actions)
      count += stage.size();
  return count;
}

void writeLists(rt::JsonWriter &out, const DrawnLists &lists, const std::vector<size_t> &stages,
                const std::vector<int64_t> &chunkNumber) {
  out.attribute("step", lists.stepNs);
  out.attributeArray("stages", [&] {
    for (size_t stage : stages)
      out.array([&] {
        int64_t clock = 0; // gap before the action, its kind, chunk, duration and micro-batch
        for (size_t k = 0; k < lists.actions[stage].size(); ++k) {
          const StepAction &action = lists.actions[stage][k];
          const int64_t start = lists.starts[stage][k], end = lists.ends[stage][k];
          for (int64_t value :
               {start - clock, static_cast<int64_t>(action.kind), chunkNumber[action.chunk],
                end - start, static_cast<int64_t>(action.microbatch)})
            out.value(value);
          clock = end;
        }
      });
  });
}

/// Sums over all samples.
struct SampleSums {
  int64_t stepNs = 0, boundNs = 0, staticNs = 0, own = 0;
};

SampleSums sumsOf(const StepSamples &samples) {
  SampleSums sums;
  for (const SampledStep &step : samples.steps) {
    sums.stepNs += step.plan.stepNs;
    sums.boundNs += step.plan.boundNs;
    sums.staticNs += step.plan.staticNs;
    sums.own += step.plan.method == StepMethod::Static;
  }
  return sums;
}

std::string row(const SampledStep &step) {
  int64_t tiles = 0, tokens = 0;
  for (const MicrobatchLoad &each : step.loads.microbatches) {
    tiles += each.load.tiles;
    tokens += each.load.tokens;
  }
  const StepPlan &plan = step.plan;
  std::string text = "<tr>";
  for (const std::string &cell :
       {std::to_string(plan.step), std::to_string(tiles), std::to_string(tokens),
        rt::milliseconds(plan.stepNs), rt::milliseconds(plan.boundNs),
        rt::milliseconds(plan.staticNs), rt::fixed(gainOf(step), 3)})
    text += "<td>" + cell + "</td>";
  return text + "<td class=\"text\">" + (plan.method == StepMethod::Lists ? "its own" : "program") +
         "</td></tr>\n";
}

} // namespace

StepSamples planSamples(const StepProblem &problem, const std::vector<StepLoads> &loads,
                        std::string source) {
  StepSamples samples{std::move(source), {}};
  const StepModel model(problem);
  const StepPlanner planner(problem, {});
  for (const StepLoads &each : loads) {
    SampledStep &step = samples.steps.emplace_back();
    step.loads = each;
    step.plan = planner.plan(each);
    const StepUnits units(model, each, step.plan.borders);
    step.planned = timed(units, listsOf(units, step.plan));
    const StepUnits whole(model, each, wholeMicrobatches(each));
    step.own = timed(whole, staticLists(whole));
  }
  return samples;
}

std::vector<size_t> samplesDrawn(const StepSamples &samples) {
  std::vector<size_t> order(samples.steps.size()), drawn;
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(gainOf(samples.steps[a]), a) < std::pair(gainOf(samples.steps[b]), b);
  });
  size_t actions = 0;
  if (!order.empty())
    for (size_t place : {(order.size() - 1) / 2, order.size() - 1, size_t{0}}) {
      const size_t sample = order[place], more = actionsOf(samples.steps[sample]);
      if (actions + more > mostSampledActions ||
          std::find(drawn.begin(), drawn.end(), sample) != drawn.end())
        continue;
      actions += more;
      drawn.push_back(sample);
    }
  std::sort(drawn.begin(), drawn.end());
  return drawn;
}

std::string samplesSection(const StepSamples &samples) {
  std::ostringstream out;
  out << "<h2 id=\"steps\">Steps with plans of their own</h2>\n<p class=\"dim\">Every step is "
         "planned "
         "while the program runs. ";
  if (samples.steps.empty()) {
    out << "Without a full step of --batches no step's loads are known: what is drawn above are "
           "the program's "
           "own lists with full micro-batches.</p>\n";
    return out.str();
  }
  const SampleSums sums = sumsOf(samples);
  const auto count = static_cast<int64_t>(samples.steps.size());
  out << count << " steps of " << report::escaped(samples.source)
      << ", evenly chosen, as the first replica plans them, beside the program's own lists with "
         "the same loads. Gradient reduction is not in these times.</p>\n<div class=\"cards\">\n"
      << report::card(rt::milliseconds(sums.stepNs / count) + " ms", "mean of the planned steps")
      << report::card(rt::milliseconds(sums.boundNs / count) + " ms",
                      "mean of what no plan of these chunks undercuts")
      << report::card(rt::percent(ratio(sums.stepNs, sums.boundNs) - 1), "mean over that bound")
      << report::card(rt::fixed(ratio(sums.staticNs, sums.stepNs), 3),
                      "times as long take the program's own lists, on average")
      << report::card(std::to_string(sums.own), "of these steps run the program's own lists")
      << "</div>\n";
  const std::vector<size_t> drawn = samplesDrawn(samples);
  for (size_t i = 0; i < drawn.size(); ++i) {
    const SampledStep &step = samples.steps[drawn[i]];
    out << "<p>Step " << step.plan.step << ": planned " << rt::milliseconds(step.plan.stepNs)
        << " ms, the program's own lists " << rt::milliseconds(step.plan.staticNs)
        << " ms</p>\n<figure id=\"sample" << i << "\"></figure>\n";
  }
  if (drawn.empty())
    out << "<p class=\"dim\">They have too many actions to be drawn here.</p>\n";
  out << "<div class=\"scroll\"><table "
         "id=\"samples\"><tr><th>step</th><th>tiles</th><th>tokens</th>"
         "<th>planned, ms</th><th>bound, ms</th><th>own lists, ms</th><th>times ours</th>"
         "<th class=\"text\">lists</th></tr>\n";
  for (const SampledStep &step : samples.steps)
    out << row(step);
  out << "</table></div>\n";
  return out.str();
}

void writeSamples(rt::JsonWriter &out, const StepSamples &samples,
                  const std::vector<size_t> &stages, const std::vector<int64_t> &chunkNumber) {
  out.attributeObjects("samples", samplesDrawn(samples), [&](size_t number) {
    const SampledStep &step = samples.steps[number];
    out.attributeObject("planned", [&] { writeLists(out, step.planned, stages, chunkNumber); });
    out.attributeObject("own", [&] { writeLists(out, step.own, stages, chunkNumber); });
  });
}

} // namespace omnibal::planner
