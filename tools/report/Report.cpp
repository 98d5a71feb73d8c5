//===- Report.cpp ------------------------------------------------------------------------===//
#include "tools/report/Report.h"
#include "runtime/support/NumberText.h"
#include "tools/report/HtmlText.h"
#include "tools/report/ReportData.h"
#include <algorithm>
#include <map>
#include <sstream>

#include "tools/report/Page.inc"

namespace omnibal::planner {
namespace {

constexpr int64_t mostChunkRows = 1024;

using report::escaped;
using rt::fixed;
using rt::gigabytes;
using rt::milliseconds;
using rt::percent;

class Page {
public:
  explicit Page(const ReportInput &input)
      : input(input), problem(input.problem), plan(input.plan), timeline(input.timeline) {}

  std::string write() {
    const std::string title = "plan of " + input.title;
    out << report::beginPage(title,
                             std::string("<style id=\"svg-style\">") + pictureStyle +
                                 "</style><style>" + pageStyle + "</style>",
                             "P" + title.substr(1))
        << "<p class=\"dim\">" << problem.layers.size() << " layers on " << plan.actions.size()
        << " stages";
    if (problem.cluster.dataParallel > 1)
      out << " (times " << problem.cluster.dataParallel << " replicas)";
    out << ", " << problem.microbatches << " micro-batches, schedule " << escaped(plan.schedule)
        << "</p>\n";
    cards();
    pictures();
    chunkTable();
    if (input.samples)
      out << samplesSection(*input.samples);
    baselineTable();
    if (!input.table.empty())
      out << "<h2>As a table</h2>\n<pre>" << escaped(input.table) << "</pre>\n";
    out << "<script>\nconst plan = " << reportData(input) << ";\n"
        << pageScript << "</script>\n"
        << report::endPage();
    return std::move(out).str();
  }

private:
  void card(const std::string &value, const std::string &what) { out << report::card(value, what); }

  void cards() {
    double idle = 0, fullest = 0;
    for (const StageFigures &stage : timeline.stages) {
      idle += static_cast<double>(stage.idleNs);
      if (!problem.cluster.memoryBytes.empty() && stage.limitBytes > 0)
        fullest = std::max(fullest, static_cast<double>(stage.peakBytes) /
                                        static_cast<double>(stage.limitBytes));
    }
    double all = static_cast<double>(std::max<int64_t>(1, timeline.stepNs)) *
                 static_cast<double>(std::max<size_t>(1, timeline.stages.size()));
    out << "<div class=\"cards\">\n";
    card(milliseconds(timeline.stepNs) + " ms", "predicted step");
    if (input.search) {
      const PlanSearch &search = *input.search;
      double bound = static_cast<double>(std::max<int64_t>(1, search.lowerBoundNs));
      double gap =
          std::max(0.0, static_cast<double>(timeline.stepNs - search.lowerBoundNs) / bound);
      card(milliseconds(search.lowerBoundNs) + " ms", "no plan of this problem takes less");
      card(percent(gap), search.provedOptimal   ? "gap: proved optimal"
                         : search.stoppedByTime ? "gap; the time limit stopped the search"
                                                : "gap to that bound");
    }
    card(percent(idle / all), "bubbles: stages wait, on average");
    if (!problem.cluster.memoryBytes.empty())
      card(percent(fullest), "of its memory the fullest stage uses");
    out << "</div>\n";
  }

  void key(std::initializer_list<std::pair<const char *, const char *>> entries) {
    out << "<div class=\"key\">";
    for (const auto &[color, what] : entries)
      out << "<span><i style=\"background:var(--" << color << ")\"></i>" << what << "</span>";
    out << "</div>\n";
  }

  void pictures() {
    out << "<h2>The step</h2>\n<p class=\"dim\">Numbers are micro-batches";
    if (plan.chunkStage.size() > plan.actions.size())
      out << ", letters and shades the chunks of a stage";
    out << "; below the bars: messages on their way to the stage. Drag over a part to enlarge it, "
           "double-click for all.</p>\n";
    key({{"forward", "forward"},
         {"backward", "backward"},
         {"recompute", "recomputation"},
         {"weight", "weight gradient (split backward)"},
         {"activation", "activations on their way"},
         {"gradient", "gradients on their way"},
         {"reduction", "gradient reduction"},
         {"bubble", "bubble"}});
    out << "<figure id=\"overview\"></figure>\n<div class=\"key\">";
    for (const auto &[id, what] : {std::pair("closer", "closer"),
                                   {"further", "further away"},
                                   {"earlier", "earlier"},
                                   {"later", "later"},
                                   {"end", "end"},
                                   {"all", "whole step"},
                                   {"save", "save as SVG"}})
      out << "<button id=\"" << id << "\">" << what << "</button>";
    out << "<span id=\"told\"></span></div>\n<figure id=\"detail\"></figure>\n";
    if (stagesShown(plan).size() < plan.actions.size())
      out << "<p class=\"dim\">" << stagesShown(plan).size() << " of " << plan.actions.size()
          << " stages are drawn.</p>\n";
    out << "<h2>Memory</h2>\n<p class=\"dim\">Parameters with all that belongs to them, what is "
           "saved for backward, and the largest workspace; the line is the limit.</p>\n"
           "<figure id=\"memory\"></figure>\n<h2>Stages</h2>\n<p class=\"dim\">Forward and "
           "backward of one micro-batch: the longest bar sets the pace.</p>\n";
    key({{"vision", "vision"},
         {"projector", "projector"},
         {"language", "language"},
         {"head", "head"},
         {"other", "other"},
         {"recompute", "recomputation"}});
    out << "<figure id=\"stages\"></figure>\n<noscript><p>The pictures are drawn by the page's "
           "script, which is not allowed here.</p></noscript>\n";
  }

  /// "45 vision, 1 projector"
  std::string counted(int64_t begin, int64_t end, bool options) const {
    std::map<std::string, int64_t> counts;
    std::vector<std::string> order;
    for (int64_t l = begin; l < end; ++l) {
      const std::string &name = options ? plan.remat[l] : problem.layers[l].kind;
      if (counts[name]++ == 0)
        order.push_back(name);
    }
    std::string list;
    for (const std::string &name : order)
      list += (list.empty() ? "" : ", ") + std::to_string(counts[name]) + " " + name;
    return list;
  }

  void chunkTable() {
    auto chunks = static_cast<int64_t>(plan.chunkStage.size());
    out << "<div class=\"scroll\"><table><tr><th>chunk</th><th>stage</th><th class=\"text\">"
           "layers</th><th class=\"text\">kinds</th><th class=\"text\">recomputation</th>"
           "<th>parameter bytes, GB</th></tr>\n";
    for (int64_t c = 0; c < std::min(chunks, mostChunkRows); ++c) {
      int64_t begin = plan.cuts[c], end = plan.cuts[c + 1], params = 0;
      for (int64_t l = begin; l < end; ++l)
        params += residentBytes(problem.cluster, problem.layers[l]);
      std::string layers = problem.layers[begin].name;
      if (end - begin > 1)
        layers += " .. " + problem.layers[end - 1].name;
      out << "<tr><td>" << c << "</td><td>" << plan.chunkStage[c] << "</td><td class=\"text\">"
          << escaped(layers) << "</td><td class=\"text\">" << escaped(counted(begin, end, false))
          << "</td><td class=\"text\">" << escaped(counted(begin, end, true)) << "</td><td>"
          << gigabytes(params) << "</td></tr>\n";
    }
    out << "</table></div>\n";
    if (chunks > mostChunkRows)
      out << "<p class=\"dim\">and " << chunks - mostChunkRows << " more chunks</p>\n";
  }

  void baselineRow(const std::string &name, std::optional<int64_t> stepNs, double longest,
                   const std::string &how) {
    out << "<tr><td class=\"text\">" << escaped(name) << "</td>";
    if (stepNs) {
      auto ns = static_cast<double>(*stepNs);
      auto ours = static_cast<double>(std::max<int64_t>(1, timeline.stepNs));
      out << "<td>" << milliseconds(*stepNs) << "</td><td>" << fixed(ns / ours, 3)
          << "</td><td class=\"text\"><span class=\"bar" << (name == "this plan" ? " ours" : "")
          << "\" style=\"width:" << fixed(260 * ns / longest, 1) << "px\"></span></td>";
    } else {
      out << "<td>none</td><td></td><td></td>";
    }
    out << "<td class=\"text\">" << escaped(how) << "</td></tr>\n";
  }

  void baselineTable() {
    if (input.baselines.empty())
      return;
    auto longest = static_cast<double>(std::max<int64_t>(1, timeline.stepNs));
    for (const Baseline &b : input.baselines)
      if (b.plan)
        longest = std::max(longest, static_cast<double>(b.plan->stepNs));
    out << "<h2>Against other ways to plan</h2>\n<p class=\"dim\">All timed by the same "
           "simulator.</p>\n<div class=\"scroll\"><table id=\"baselines\"><tr><th "
           "class=\"text\"></th><th>step, ms</th><th>times ours</th><th></th><th "
           "class=\"text\">how</th></tr>\n";
    baselineRow("this plan", timeline.stepNs, longest, "");
    for (const Baseline &b : input.baselines)
      baselineRow(b.name, b.plan ? std::optional(b.plan->stepNs) : std::nullopt, longest,
                  b.plan ? b.method : b.method + "; no plan: " + b.problem);
    out << "</table></div>\n";
  }

  const ReportInput &input;
  const Problem &problem;
  const Plan &plan;
  const Timeline &timeline;
  std::ostringstream out;
};

} // namespace

std::string htmlReport(const ReportInput &input) { return Page(input).write(); }

} // namespace omnibal::planner
