#include "tools/omnibal-batch/LengthGroupsReport.h"
#include "runtime/support/NumberText.h"
#include "tools/omnibal-batch/Chart.h"
#include "tools/omnibal-batch/PageStyle.h"
#include "tools/report/HtmlText.h"
#include <algorithm>
#include <array>

namespace omnibal::rt {
namespace {

using report::card;
using report::escaped;

constexpr std::array colors = {"#3b6fd4", "#c2703d", "#2f9e63", "#8250df",
                               "#b8892b", "#3a9bb0", "#c4456b", "#6b7785"};
constexpr size_t slices = 550;
constexpr double bandWidth = 1100;

std::string colorOf(size_t mode) { return colors[mode % colors.size()]; }

std::string rect(double x, double y, double w, double h, const std::string &color,
                 const std::string &title) {
  return "<rect x=\"" + fixed(x, 2) + "\" y=\"" + fixed(y, 2) + "\" width=\"" + fixed(w, 2) +
         "\" height=\"" + fixed(h, 2) + "\" fill=\"" + color + "\"><title>" + escaped(title) +
         "</title></rect>\n";
}

/// Each slice of the epoch's steps, divided by the time of its modes.
std::string band(const EpochPlan &plan) {
  const EpochFacts &facts = plan.facts;
  size_t steps = facts.stepNs.size(), count = std::min(slices, steps);
  std::string out = "<svg class=\"band\" role=\"img\" aria-label=\"Modes of the epoch\" "
                    "viewBox=\"0 0 1100 120\">\n";
  for (size_t i = 0; i < count; ++i) {
    size_t begin = i * steps / count, end = (i + 1) * steps / count;
    std::vector<double> ns(plan.groups.groups.size());
    double all = 0, y = 0;
    for (size_t s = begin; s < end; ++s) {
      ns[facts.stepModes[s]] += facts.stepNs[s];
      all += facts.stepNs[s];
    }
    double each = bandWidth / static_cast<double>(count);
    for (size_t m = 0; m < ns.size(); ++m) {
      if (ns[m] <= 0)
        continue;
      double height = 120 * ns[m] / all;
      out += rect(static_cast<double>(i) * each, y, each, height, colorOf(m),
                  plan.groups.groups[m].name + ", steps " + std::to_string(begin) + " to " +
                      std::to_string(end - 1));
      y += height;
    }
  }
  return out + "</svg>\n";
}

/// A bar of each time, from 0 on.
std::string times(const EpochPlan &plan) {
  std::pair<const char *, double> bars[] = {{"this epoch", plan.facts.epochNs},
                                            {"bound of the chosen length groups", plan.boundNs},
                                            {"bound of all candidates", plan.boundAllNs}};
  std::string out = "<svg class=\"times\" role=\"img\" aria-label=\"Time and bounds\" viewBox=\"0 "
                    "0 1100 132\">\n";
  double y = 0;
  for (auto [what, ns] : bars) {
    out += "<text class=\"label\" x=\"0\" y=\"" + fixed(y + 13, 0) + "\">" + what + ": " +
           fixed(ns / 1e9, 3) + " s</text>\n";
    out += rect(0, y + 18, bandWidth * ns / plan.facts.epochNs, 18, colorOf(y > 0 ? 7 : 0), what);
    y += 44;
  }
  return out + "</svg>\n";
}

std::string groupsTable(const EpochPlan &plan) {
  std::string out = "<table><tr><th>length "
                    "group</th><th>tokens</th><th>tiles</th><th>degree</th><th>micro-batches</th>"
                    "<th>samples</th><th>filled</th><th>rows</th><th>steps</th><th>fill of "
                    "tokens</th><th>share of time</th>"
                    "<th>imbalance of time</th></tr>\n";
  for (size_t m = 0; m < plan.groups.groups.size(); ++m) {
    const LengthGroup &g = plan.groups.groups[m];
    const ModeFacts &f = plan.facts.modes[m];
    double room = static_cast<double>(f.groups) * static_cast<double>(g.tokensCap);
    out += "<tr><td><span class=\"key\" style=\"background:" + colorOf(m) + "\"></span>" +
           escaped(g.name) + "</td>";
    for (const std::string &cell :
         {withCommas(g.tokensCap), withCommas(g.tilesCap), std::to_string(g.degree),
          withCommas(g.microbatches), withCommas(f.samples), withCommas(plan.epoch.filled[m]),
          withCommas(f.rows), withCommas(f.steps), percent(static_cast<double>(f.tokens) / room),
          percent(f.ns / plan.facts.epochNs), percent(f.distRatioCost, 3)})
      out += "<td>" + cell + "</td>";
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

std::string cards(const EpochPlan &plan) {
  const EpochFacts &f = plan.facts;
  return "<div class=\"cards\">\n" +
         card(fixed(f.epochNs / 1e9, 1) + " s", "predicted time of the epoch") +
         card(percent(plan.gap()), "above the bound of all candidates") +
         card(percent(f.all.distRatioCost, 3), "imbalance of time between ranks") +
         card(percent(f.cr, 1), "steps with context parallelism") +
         card(withCommas(f.all.steps), "steps") +
         card(fixed(f.stepVariance32, 2),
              "variance of 32 steps' mean, against independent samples") +
         "</div>\n";
}

} // namespace

std::string lengthGroupsReport(const SampleLengths &lengths, const EpochPlan &plan) {
  return report::beginPage("length groups", pageStyle, "Length groups") + "<p class=\"dim\">" +
         withCommas(lengths.size()) + " samples, " + withCommas(plan.groups.replicas) +
         " replicas, " + withCommas(plan.groups.stages) + " stages.</p>\n" + cards(plan) +
         "<h2>Length groups</h2>\n" + groupsTable(plan) +
         "<h2>The epoch</h2>\n<p class=\"dim\">From the first step on the left to the last; each "
         "column shows how its "
         "steps' time divides among the modes.</p>\n<figure>" +
         band(plan) + "</figure>\n<h2>Time against the bounds</h2>\n<figure>" + times(plan) +
         "</figure>\n" + report::endPage();
}

} // namespace omnibal::rt
