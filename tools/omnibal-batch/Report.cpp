#include "tools/omnibal-batch/Report.h"
#include "runtime/support/NumberText.h"
#include "tools/omnibal-batch/Chart.h"
#include "tools/omnibal-batch/PageStyle.h"
#include "tools/omnibal-batch/Summary.h"
#include "tools/report/HtmlText.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

constexpr const char *beforeLabel = "without balancing: random micro-batches";
constexpr const char *afterLabel = "balanced";

using report::card;
using rt::percent;

/// What every group carries; a padded micro-batch computes its longest sample's length for each.
struct GroupValues {
  Loads tiles, tokens, cost;
};

GroupValues groupValues(const SampleLengths &lengths, const Batches &batches,
                        const BatchOptions &options, const char *label, bool padded) {
  GroupValues values{
      {label, {}, options.ranks}, {label, {}, options.ranks}, {label, {}, options.ranks}};
  for (int64_t g = 0; g < batches.groups(); ++g) {
    LoadSums sums;
    double longest = 0;
    for (int64_t i = batches.offsets[g]; i < batches.offsets[g + 1]; ++i) {
      sums.add(lengths, batches.samples[i]);
      longest = std::max<double>(longest, lengths.tokens[batches.samples[i]]);
    }
    if (padded) {
      sums.tokens = longest * static_cast<double>(batches.offsets[g + 1] - batches.offsets[g]);
      sums.squaredTokens = longest * sums.tokens;
    }
    values.tiles.values.push_back(sums.tiles);
    values.tokens.values.push_back(sums.tokens);
    if (options.cost.isSet())
      values.cost.values.push_back(options.cost.of(sums) / 1e6);
  }
  return values;
}

std::string cards(const Batches &batches, const BatchesRecord &r) {
  std::string out = "<div class=\"cards\">\n";
  out += card(withCommas(batches.groups()),
              "groups; at least " + withCommas(batches.lowerBound) + " are needed");
  out += card(percent(r.before.distRatioVit) + " → " + percent(r.after.distRatioVit),
              "imbalance of tiles between ranks");
  out += card(percent(r.before.distRatioLlm) + " → " + percent(r.after.distRatioLlm),
              "imbalance of tokens between ranks");
  if (r.options.cost.isSet())
    out += card(percent(r.before.distRatioCost) + " → " + percent(r.after.distRatioCost),
                "imbalance of cost between ranks");
  out += card(percent(r.before.padRatio) + " → " + percent(r.after.padRatio), "padding");
  return out + "</div>\n";
}

std::string row(const char *label, double before, double after) {
  return std::string("<tr><td>") + label + "</td><td>" + fixed(before, 5) + "</td><td>" +
         fixed(after, 5) + "</td></tr>\n";
}

std::string numbers(const BatchesRecord &r) {
  std::string out = "<h2>Numbers</h2>\n<table><tr><th></th><th>before</th><th>after</th></tr>\n";
  out += row("padding: share of computed tokens", r.before.padRatio, r.after.padRatio);
  out += row("tiles: 1 − mean / largest rank, mean of steps", r.before.distRatioVit,
             r.after.distRatioVit);
  out += row("tokens: the same", r.before.distRatioLlm, r.after.distRatioLlm);
  if (r.options.cost.isSet())
    out += row("cost: the same", r.before.distRatioCost, r.after.distRatioCost);
  out += row("variance of the mean tokens a sample over 8 steps, against independent samples",
             r.before.stepVariance, r.after.stepVariance);
  return out + "</table>\n";
}

/// The groups as a bar, the bound marked on it.
std::string groupsBar(const Batches &batches) {
  double groups = static_cast<double>(batches.groups());
  double bound = static_cast<double>(batches.lowerBound);
  double most = std::max({groups, bound, 1.0}), scale = 1100 / most;
  std::string out =
      "<svg role=\"img\" aria-label=\"Groups and the lower bound\" viewBox=\"0 0 1110 "
      "64\">\n<rect class=\"rest\" x=\"0\" y=\"8\" width=\"1100\" height=\"18\" "
      "rx=\"3\"/>";
  out += "<rect class=\"s1\" x=\"0\" y=\"8\" width=\"" + fixed(groups * scale, 2) +
         "\" height=\"18\" rx=\"3\"/>\n<line class=\"cap\" x1=\"" + fixed(bound * scale, 2) +
         "\" y1=\"2\" x2=\"" + fixed(bound * scale, 2) + "\" y2=\"34\"/>\n";
  bool leftward = bound * scale > 400;
  out += "<text x=\"" + fixed(bound * scale + (leftward ? -4 : 4), 2) + "\" y=\"46\"" +
         (leftward ? " text-anchor=\"end\"" : "") + ">lower bound " +
         withCommas(batches.lowerBound) + "</text>\n";
  return out + "</svg>\n";
}

std::string section(const std::string &title, const std::string &text, const Loads &before,
                    const Loads &after, const Quantity &quantity) {
  return "<h2>" + title + "</h2>\n<p class=\"dim\">" + text +
         "</p>\n<div class=\"pair\">\n<figure>" + histogram(before, after, quantity) +
         "<figcaption>All groups: share that carries this much.</figcaption></figure>\n<figure>" +
         rowRanges(before, after, quantity) +
         "<figcaption>The first steps: a short bar means ranks that wait for nobody.</figcaption>"
         "</figure>\n</div>\n";
}

} // namespace

std::string htmlReport(const SampleLengths &lengths, const Batches &batches,
                       const BatchesRecord &record) {
  const BatchOptions &o = record.options;
  GroupValues after = groupValues(lengths, batches, o, afterLabel, false);
  GroupValues before =
      groupValues(lengths, unbalanced(lengths, batches, o.seed), o, beforeLabel, true);
  std::string out = report::beginPage("balanced batches", pageStyle, "Balanced batches");
  out += "<p class=\"dim\">" + withCommas(record.samples) + " samples, groups of at most " +
         withCommas(o.tilesCap) + " tiles and " + withCommas(o.tokensCap) + " tokens, " +
         withCommas(o.ranks) + " ranks, " + withCommas(batches.groups() / o.ranks) +
         " steps; method " + name(o.method) + ", seed " + std::to_string(o.seed) + ", epoch " +
         std::to_string(o.epoch) + "</p>\n";
  out += cards(batches, record);
  out += "<h2>Groups</h2>\n<p class=\"dim\">" + withCommas(batches.groups()) + " groups, " +
         gapText(batches) + " above the number that no packing can be below (" +
         batches.boundMethod + ").";
  if (!batches.oversize.empty())
    out += " " + withCommas(static_cast<int64_t>(batches.oversize.size())) +
           " samples are over a cap and " +
           (o.oversize == Oversize::Skip ? "were left out." : "have a group each.");
  out += "</p>\n<figure>" + groupsBar(batches) + "</figure>\n";
  out += section("Tiles", "What the vision encoder of each rank computes in a step.", before.tiles,
                 after.tiles, {"tiles", true, static_cast<double>(o.tilesCap)});
  out += section("Tokens",
                 "What the language model of each rank computes in a step; without packing, every "
                 "sample of a micro-batch is padded to the longest.",
                 before.tokens, after.tokens, {"tokens", true, static_cast<double>(o.tokensCap)});
  if (o.cost.isSet())
    out += section("Cost",
                   "Predicted time of a group: tiles, tokens and squared sample lengths by the "
                   "given coefficients.",
                   before.cost, after.cost, {"ms", false, 0});
  out += numbers(record);
  return out + report::endPage();
}

} // namespace omnibal::rt
