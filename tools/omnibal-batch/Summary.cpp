#include "tools/omnibal-batch/Summary.h"
#include "tools/omnibal-batch/Chart.h"
#include <cstdio>
#include <numeric>

namespace omnibal::rt {
namespace {

constexpr size_t namedSamples = 5;

double mean(const std::vector<int32_t> &values) {
  double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

std::string line(const char *label, double before, double after) {
  char text[128];
  std::snprintf(text, sizeof text, "  %-32s %10.5f %10.5f\n", label, before, after);
  return text;
}

std::string number(const char *label, int64_t value, const std::string &note = "") {
  char text[64];
  std::snprintf(text, sizeof text, "  %-20s %14s", label, withCommas(value).c_str());
  return text + (note.empty() ? "" : "   " + note) + "\n";
}

} // namespace

std::string gapText(const Batches &batches) {
  if (batches.lowerBound <= 0)
    return "-";
  char text[32];
  double gap = static_cast<double>(batches.groups() - batches.lowerBound) /
               static_cast<double>(batches.lowerBound);
  std::snprintf(text, sizeof text, "%.3g %%", 100 * gap);
  return text;
}

std::string summary(const SampleLengths &lengths, const Batches &batches,
                    const BatchesRecord &record) {
  const BatchOptions &o = record.options;
  std::string out = withCommas(record.samples) + " samples with " +
                    shortNumber(mean(lengths.tiles)) + " tiles and " +
                    shortNumber(mean(lengths.tokens)) + " tokens on average; groups of at most " +
                    withCommas(o.tilesCap) + " tiles and " + withCommas(o.tokensCap) +
                    " tokens; method " + name(o.method) + ", seed " + std::to_string(o.seed) +
                    ", epoch " + std::to_string(o.epoch) + "\n\n";
  out += number("groups", batches.groups(),
                gapText(batches) + " above the lower bound of " + withCommas(batches.lowerBound) +
                    " (" + batches.boundMethod + ")");
  out +=
      number("steps", batches.groups() / o.ranks,
             "of " + withCommas(o.ranks) + (o.ranks == 1 ? " group" : " groups") + ", one a rank");
  if (!batches.oversize.empty())
    out += number("oversize", static_cast<int64_t>(batches.oversize.size()),
                  o.oversize == Oversize::Skip ? "samples over a cap, left out"
                                               : "samples over a cap, each in a group of its own");
  const BalanceStatistics &b = record.before, &a = record.after;
  out += "\n  before: random micro-batches of as many samples, each padded to its longest\n"
         "                                         before      after\n";
  out += line("padding", b.padRatio, a.padRatio);
  out += line("imbalance of ranks, tiles", b.distRatioVit, a.distRatioVit);
  out += line("imbalance of ranks, tokens", b.distRatioLlm, a.distRatioLlm);
  if (o.cost.isSet())
    out += line("imbalance of ranks, cost", b.distRatioCost, a.distRatioCost);
  out += line("variance of 8 steps' mean", b.stepVariance, a.stepVariance);
  char text[96];
  std::snprintf(text, sizeof text, "\n%.3f s, at most %.0f MB of memory\n", record.seconds,
                static_cast<double>(record.peakRssBytes) / 1e6);
  return out + text;
}

std::string oversizeNotice(const SampleLengths &lengths, const Batches &batches,
                           const BatchOptions &options) {
  const std::vector<int64_t> &list = batches.oversize;
  if (list.empty())
    return "";
  std::string out = withCommas(static_cast<int64_t>(list.size())) + " of " +
                    withCommas(lengths.size()) + " samples are over the caps and " +
                    (options.oversize == Oversize::Skip ? "were left out" : "have a group each") +
                    ": ";
  for (size_t i = 0; i < std::min(list.size(), namedSamples); ++i)
    out += (i ? ", " : "") + std::to_string(list[i]) + " (" +
           std::to_string(lengths.tiles[list[i]]) + " tiles, " +
           std::to_string(lengths.tokens[list[i]]) + " tokens)";
  return out + (list.size() > namedSamples ? ", ...; batches.json lists them all" : "");
}

} // namespace omnibal::rt
