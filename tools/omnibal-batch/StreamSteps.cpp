#include "tools/omnibal-batch/StreamSteps.h"
#include "runtime/batching/io/CheckBatches.h"
#include "runtime/batching/io/LengthsCsv.h"
#include "runtime/batching/stream/Stream.h"
#include "tools/omnibal-batch/Chart.h"
#include "tools/omnibal-batch/Input.h"
#include <cstdio>
#include <iostream>
#include <memory>

namespace omnibal::rt {
namespace {

Result<StreamSource> openSource(const std::string &input, double weight, const LoadCost &cost) {
  if (isShards(input))
    return invalid("--window: " + input +
                   " is a folder or shard; a stream is a table of lengths "
                   "(prepare.py writes lengths.csv beside the shards)");
  OMNIBAL_ASSIGN_OR_RETURN(LengthsReader opened, LengthsReader::open(tablePath(input)));
  if (cost.tileSquareNs > 0 && !opened.knowsPictures())
    std::cerr << "omnibal-batch: " << unknownPictures(input) << "\n";
  auto reader = std::make_shared<LengthsReader>(std::move(opened));
  return StreamSource{input, weight, [reader](int64_t most, SampleLengths &out) {
                        return reader->read(most, out);
                      }};
}

Result<std::vector<StreamSource>> openSources(const ToolOptions &options, const LoadCost &cost) {
  std::vector<StreamSource> sources;
  if (options.inputs.size() > 1)
    return invalid("--window: one table is expected, or --mix");
  for (const std::string &input : options.inputs) {
    OMNIBAL_ASSIGN_OR_RETURN(StreamSource source, openSource(input, 1, cost));
    sources.push_back(std::move(source));
  }
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<WeightedInput> mix, parseMix(options.mix));
  for (const WeightedInput &input : mix) {
    OMNIBAL_ASSIGN_OR_RETURN(StreamSource source, openSource(input.path, input.weight, cost));
    sources.push_back(std::move(source));
  }
  return sources;
}

/// A row's line.
void appendRow(const StreamWindow &window, int64_t firstGroup, int32_t ranks, bool several,
               std::string &out) {
  const Batches &batches = window.batches;
  out += "{\"groups\": [";
  for (int64_t g = firstGroup; g < firstGroup + ranks; ++g) {
    out += g > firstGroup ? ", [" : "[";
    for (int64_t i = batches.offsets[g]; i < batches.offsets[g + 1]; ++i) {
      const MixedSample &sample = window.samples[batches.samples[i]];
      out += i > batches.offsets[g] ? ", " : "";
      out += several
                 ? "[" + std::to_string(sample.source) + ", " + std::to_string(sample.number) + "]"
                 : std::to_string(sample.number);
    }
    out += "]";
  }
  out += "]}\n";
}

struct Totals {
  int64_t windows = 0, samples = 0, groups = 0, bound = 0, rows = 0, oversize = 0;
  double tiles = 0, tokens = 0;

  void add(const StreamWindow &window, int32_t ranks, const LoadCost &cost) {
    BalanceStatistics s = statistics(window.lengths, window.batches, ranks, cost);
    int64_t count = window.batches.groups() / ranks;
    ++windows;
    samples += window.lengths.size();
    groups += window.batches.groups();
    bound += window.batches.lowerBound;
    oversize += static_cast<int64_t>(window.batches.oversize.size());
    rows += count;
    tiles += s.distRatioVit * static_cast<double>(count);
    tokens += s.distRatioLlm * static_cast<double>(count);
  }
  std::string text() const {
    double all = static_cast<double>(std::max<int64_t>(1, rows));
    char ratios[128];
    std::snprintf(ratios, sizeof ratios, "imbalance of ranks: tiles %.5f, tokens %.5f", tiles / all,
                  tokens / all);
    return withCommas(samples) + " samples in " + withCommas(windows) +
           " windows: " + withCommas(groups) + " groups (at least " + withCommas(bound) +
           " for these windows), " + withCommas(rows) + " steps, " + withCommas(oversize) +
           " samples over a cap; " + ratios;
  }
};

} // namespace

Status streamSteps(const ToolOptions &options, const BatchOptions &batching) {
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<StreamSource> sources, openSources(options, batching.cost));
  bool several = sources.size() > 1;
  OMNIBAL_ASSIGN_OR_RETURN(BalancedStream stream,
                           BalancedStream::create(std::move(sources), {batching, options.window}));
  Totals totals;
  while (true) {
    OMNIBAL_ASSIGN_OR_RETURN(StreamWindow window, stream.next());
    if (window.samples.empty())
      break;
    OMNIBAL_RETURN_IF_ERROR(checkBatches(window.lengths, batching, window.batches));
    std::string lines;
    for (int64_t g = 0; g < window.batches.groups(); g += batching.ranks)
      appendRow(window, g, batching.ranks, several, lines);
    std::cout << lines << std::flush;
    if (!std::cout)
      return {Code::Unavailable, "writing to the standard output failed"};
    totals.add(window, batching.ranks, batching.cost);
  }
  if (totals.samples == 0)
    return invalid("there is no sample in the input");
  std::cerr << "omnibal-batch: " << totals.text() << "\n";
  return Status::ok();
}

} // namespace omnibal::rt
