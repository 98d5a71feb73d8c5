#include "tools/omnibal-batch/Input.h"
#include "runtime/batching/io/LengthsCsv.h"
#include "runtime/batching/io/MixAt.h"
#include "runtime/data/Dataset.h"
#include "runtime/data/pictures/GridFile.h"
#include "runtime/support/Beside.h"
#include "tools/report/Progress.h"
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <thread>

namespace omnibal::rt {
namespace {

/// Counts the tokens of samples until there are none left; several run at the same time.
class Counter {
public:
  explicit Counter(const Dataset &dataset)
      : dataset(dataset),
        progress("counting tokens of " + std::to_string(dataset.size()) + " samples") {
    lengths.tiles.resize(static_cast<size_t>(dataset.size()));
    lengths.tokens.resize(static_cast<size_t>(dataset.size()));
    if (dataset.grid())
      lengths.squaredTiles.resize(static_cast<size_t>(dataset.size()));
  }

  Result<SampleLengths> count() {
    const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
    workBeside(static_cast<int>(cores) - 1, [this] { work(); });
    if (firstBad < dataset.size())
      return error;
    return std::move(lengths);
  }

private:
  void work() {
    for (int64_t sample; (sample = next++) < dataset.size();) {
      if (sample > firstBad)
        return;
      Status status = countOne(sample);
      if (!status)
        fail(sample, std::move(status));
      if (sample % 64 == 0)
        progress.update(sample, dataset.size());
    }
  }

  Status countOne(int64_t index) {
    OMNIBAL_ASSIGN_OR_RETURN(Sample sample, dataset.sample(index));
    if (sample.tokens() > INT32_MAX || sample.tiles > INT32_MAX)
      return invalid(dataset.describe(index) +
                     ": input_ids is too long, or pictures have too many units");
    lengths.tiles[index] = static_cast<int32_t>(sample.tiles);
    lengths.tokens[index] = static_cast<int32_t>(sample.tokens());
    if (dataset.grid())
      lengths.squaredTiles[index] = dataset.squaredTiles(index);
    return Status::ok();
  }

  /// The error of the first bad sample counts, whichever thread is faster.
  void fail(int64_t sample, Status status) {
    std::lock_guard<std::mutex> lock(mutex);
    if (sample < firstBad) {
      firstBad = sample;
      error = std::move(status);
    }
  }

  const Dataset &dataset;
  Progress progress;
  SampleLengths lengths;
  std::atomic<int64_t> next = 0, firstBad = INT64_MAX;
  std::mutex mutex;
  Status error;
};

Result<SampleLengths> readAnyLengths(const std::vector<std::string> &inputs,
                                     const ShardPictures &pictures) {
  if (std::all_of(inputs.begin(), inputs.end(), isShards)) {
    OMNIBAL_ASSIGN_OR_RETURN(auto dataset,
                             Dataset::open(inputs, pictures.grid, pictures.transform));
    return Counter(*dataset).count();
  }
  if (inputs.size() > 1)
    return invalid(inputs[1] + ": several inputs must all be shards (.tar) or folders of shards; "
                               "a table of lengths stands alone");
  Progress progress("reading " + inputs[0]);
  return readLengthsCsv(tablePath(inputs[0]),
                        [&](int64_t read, int64_t total) { progress.update(read, total); });
}

} // namespace

Result<ShardPictures> readShardPictures(const std::string &preprocess) {
  ShardPictures pictures;
  if (preprocess.empty())
    return pictures;
  OMNIBAL_ASSIGN_OR_RETURN(pictures.grid, readPictureGrid(preprocess));
  OMNIBAL_ASSIGN_OR_RETURN(pictures.transform, PictureTransform::read(preprocess));
  if (pictures.transform && pictures.transform->tileSize().has_value() == pictures.grid.has_value())
    return invalid(preprocess +
                   ": omnibal.original_pictures and merge_size do not belong together: pictures "
                   "of kind \"units\" have units, and no others; take the file that prepare.py "
                   "wrote");
  return pictures;
}

std::string tablePath(const std::string &input) { return input == "-" ? "/dev/stdin" : input; }

bool isShards(const std::string &path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) || path.ends_with(".tar");
}

std::string unknownPictures(const std::string &input) {
  const char *why = isShards(input) ? "without --preprocess" : "without a column vit_square_sum";
  return input + ": " + why +
         ", the sizes of pictures are not known; tile_square_ns takes all the units of a sample "
         "for one picture";
}

Result<SampleLengths> readLengths(const std::vector<std::string> &inputs,
                                  const ShardPictures &pictures, const LoadCost &cost) {
  OMNIBAL_ASSIGN_OR_RETURN(SampleLengths lengths, readAnyLengths(inputs, pictures));
  bool any =
      std::any_of(lengths.tiles.begin(), lengths.tiles.end(), [](int32_t n) { return n > 0; });
  if (cost.tileSquareNs > 0 && any && !lengths.knowsPictures())
    std::cerr << "omnibal-batch: " << unknownPictures(inputs[0]) << "\n";
  return lengths;
}

Result<std::vector<WeightedInput>> parseMix(const std::vector<std::string> &mix) {
  std::vector<WeightedInput> inputs;
  for (const std::string &text : mix) {
    size_t equals = text.rfind('=');
    char *end = nullptr;
    double weight = equals == std::string::npos ? -1 : std::strtod(text.c_str() + equals + 1, &end);
    if (equals == 0 || equals + 1 >= text.size() || !end || *end || !(weight >= 0 && weight < 1e18))
      return invalid("--mix: \"" + text + "\" is not FILE=WEIGHT with a weight of 0 or more");
    inputs.push_back({text.substr(0, equals), weight});
  }
  return inputs;
}

Result<std::vector<MixPhase>> parseMixPhases(const std::vector<std::string> &texts) {
  std::vector<MixPhase> phases;
  for (const std::string &text : texts) {
    OMNIBAL_ASSIGN_OR_RETURN(WeightsFrom from, parseMixAt(text, "EPOCH"));
    phases.push_back({from.first, std::move(from.weights)});
  }
  return phases;
}

Result<SampleLengths> readMix(const std::vector<WeightedInput> &inputs,
                              const ShardPictures &pictures, const LoadCost &cost, Mix &mix) {
  MixPhase &first = mix.phases.emplace_back();
  SampleLengths all;
  for (const WeightedInput &input : inputs) {
    OMNIBAL_ASSIGN_OR_RETURN(SampleLengths one, readLengths({input.path}, pictures, cost));
    for (int64_t i = 0; i < one.size(); ++i)
      all.add(one, i);
    mix.sizes.push_back(one.size());
    first.weights.push_back(input.weight);
  }
  mix.samples = all.size();
  return all;
}

} // namespace omnibal::rt
