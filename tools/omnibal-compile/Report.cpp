//===- Report.cpp ------------------------------------------------------------------------===//
#include "tools/omnibal-compile/Report.h"
#include "tools/omnibal-compile/StageTable.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

namespace omnibal::compile {
namespace {

constexpr double chartWidth = 1100, rowHeight = 34, labelWidth = 70;

std::string escaped(llvm::StringRef text) {
  std::string result;
  for (char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else
      result += c;
  }
  return result;
}

constexpr const char *head = R"html(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>omnibal plan</title><style>
body{font:14px/1.4 sans-serif;margin:2em;color:#222;background:#fff}
pre{background:#f4f4f4;padding:1em;overflow-x:auto}
svg text{font:11px sans-serif}
.F{fill:#4a7fd4}.B{fill:#4fa564}.W{fill:#bfe0c4}.idle{fill:#ddd}.R{fill:url(#hatch)}
table{border-collapse:collapse}td,th{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}
</style></head><body>
)html";

class Timeline {
public:
  Timeline(const partition::PlannedModule &planned, llvm::raw_ostream &out)
      : planned(planned), out(out),
        scale(chartWidth / std::max<int64_t>(1, planned.timeline.stepNs)) {}

  void draw() {
    const auto &lists = planned.plan.actions;
    double height = rowHeight * static_cast<double>(lists.size()) + 24;
    out << llvm::formatv(
        "<svg role=\"img\" aria-label=\"predicted timeline\" width=\"{0}\" height=\"{1}\">"
        "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#4fa564\"/>"
        "<line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" stroke=\"#fff\" "
        "stroke-width=\"3\"/></pattern></defs>\n",
        labelWidth + chartWidth + 10, height);
    for (size_t rank = 0; rank < lists.size(); ++rank) {
      double y = rowHeight * static_cast<double>(rank);
      out << llvm::formatv("<text x=\"0\" y=\"{0:f1}\">stage {1}</text>", y + 20, rank);
      box("idle", 0, planned.timeline.stepNs, y, "");
      for (size_t k = 0; k < lists[rank].size(); ++k)
        drawAction(lists[rank][k], planned.timeline.times[rank][k], y);
    }
    out << llvm::formatv("<text x=\"{0}\" y=\"{1:f1}\">0 ms</text><text x=\"{2}\" y=\"{1:f1}\" "
                         "text-anchor=\"end\">{3:f2} ms</text></svg>\n",
                         labelWidth, height - 6, labelWidth + chartWidth,
                         planned.timeline.stepNs / 1e6);
  }

private:
  void box(llvm::StringRef style, int64_t begin, int64_t end, double y, llvm::StringRef text) {
    double x = labelWidth + static_cast<double>(begin) * scale;
    double width = static_cast<double>(end - begin) * scale;
    out << llvm::formatv(
        "<rect class=\"{0}\" x=\"{1:f2}\" y=\"{2:f1}\" width=\"{3:f2}\" height=\"{4}\"/>", style, x,
        y + 4, width, rowHeight - 8);
    if (width > 14 && !text.empty())
      out << llvm::formatv("<text x=\"{0:f1}\" y=\"{1:f1}\" fill=\"#fff\">{2}</text>", x + 3,
                           y + 21, text);
    out << "\n";
  }

  void drawAction(const planner::Action &action, const planner::ActionTime &time, double y) {
    std::string number = std::to_string(action.microbatch);
    if (action.kind == planner::ActionKind::Forward)
      return box("F", time.startNs, time.endNs, y, number);
    if (action.kind == planner::ActionKind::WeightGrad)
      return box("W", time.startNs, time.endNs, y, number);
    int64_t recompute = 0;
    for (int64_t l = planned.plan.cuts[action.chunk]; l < planned.plan.cuts[action.chunk + 1]; ++l)
      for (const planner::RematOption &option : planned.problem.layers[l].remat)
        if (option.name == planned.plan.remat[l])
          recompute += planned.problem.factor(action.microbatch, planned.problem.layers[l].kind)
                           .times(option.recomputeNs);
    if (recompute > 0)
      box("R", time.startNs, time.startNs + recompute, y, "");
    box("B", time.startNs + recompute, time.endNs, y, number);
  }

  const partition::PlannedModule &planned;
  llvm::raw_ostream &out;
  double scale;
};

} // namespace

std::string htmlReport(const partition::PlannedModule &planned, const std::string &model,
                       const std::string &table) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << head << "<h1>Plan of " << escaped(model) << "</h1>\n<pre>" << escaped(table)
      << "</pre>\n<h2>Predicted step</h2>\n<p>Blue forward, green backward, hatched recomputation, "
         "grey idle; the number is the micro-batch.</p>\n";
  Timeline(planned, out).draw();
  out << "<h2>Layers</h2>\n<table><tr><th>layer</th><th>stage</th><th>forward ms</th>"
         "<th>input gradient ms</th><th>weight gradient ms</th><th>saved "
         "MB</th><th>remat</th></tr>\n";
  size_t stage = 0;
  for (size_t l = 0; l < planned.problem.layers.size(); ++l) {
    while (planned.plan.cuts[stage + 1] <= static_cast<int64_t>(l))
      ++stage;
    const planner::Layer &layer = planned.problem.layers[l];
    int64_t saved = 0;
    for (const planner::RematOption &option : layer.remat)
      if (option.name == planned.plan.remat[l])
        saved = option.savedBytes;
    out << llvm::formatv("<tr><td>{0}</td><td>{1}</td><td>{2:f3}</td><td>{3:f3}</td><td>{4:f3}</td>"
                         "<td>{5:f2}</td><td>{6}</td></tr>\n",
                         escaped(layer.name), stage, layer.forwardNs / 1e6, layer.inputGradNs / 1e6,
                         layer.weightGradNs / 1e6, saved / 1e6, planned.plan.remat[l]);
  }
  out << "</table>\n</body></html>\n";
  return text;
}

} // namespace omnibal::compile
