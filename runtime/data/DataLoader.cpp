#include "runtime/data/DataLoader.h"
#include "runtime/data/pictures/SeenPictures.h"
#include <algorithm>
#include <iterator>
#include <limits>

namespace omnibal::rt {
namespace {

/// Steps announced beyond the current one. Micro-batches without pictures are small; the loader
/// itself bounds the decoded tiles.
constexpr int64_t usualStepsAhead = 2;

/// The most bytes of decoded pictures of their own sizes: units are much smaller than tiles.
constexpr int64_t pictureBytesAhead = int64_t{256} << 20;

LoaderOptions loaderOptions(const Program &program, const DataLoaderOptions &options) {
  LoaderOptions result;
  result.threads = options.threads;
  result.pixels = options.pixels;
  const auto &tile = program.info.tileShape;
  if (tile.size() == 3) {
    result.tileHeight = tile[1];
    result.tileWidth = tile[2];
  }
  result.tilesAhead = tilesAhead(program);
  if (options.stepsAhead) // which bound both by themselves
    result.tilesAhead = result.batchesAhead = std::numeric_limits<int64_t>::max();
  result.rules = sampleRules(program);
  result.references = options.references;
  result.standIns = options.standIns;
  return result;
}

/// Whether any stage reads such a value.
template <typename Predicate> bool reads(const Program &program, Predicate isWanted) {
  for (const Stage &stage : program.stageList)
    for (const auto &[name, mode] : stage.modes)
      for (const BatchValue &value : mode.batchValues)
        if (isWanted(value.name))
          return true;
  return false;
}

/// Which pictures a token sees.
bool readsSeenPictures(const Program &program) {
  return reads(program, [](const std::string &name) { return isOfSeenPictures(name); });
}

} // namespace

Result<std::vector<float>> pixelsOf(const Dataset &dataset, int64_t index,
                                    const Preprocess &preprocess, const Program &program) {
  const std::vector<int64_t> &tile = program.info.tileShape;
  int64_t count = dataset.tiles(index);
  for (int64_t extent : tile)
    count *= extent;
  std::vector<float> pixels(static_cast<size_t>(count));
  OMNIBAL_RETURN_IF_ERROR(dataset.grid() ? dataset.decodePatches(index, preprocess, pixels.data())
                                         : dataset.decodeTiles(index, preprocess, tile.at(1),
                                                               tile.at(2), pixels.data()));
  return pixels;
}

bool drawsNumbers(const Program &program) {
  return reads(program, [](const std::string &name) {
    return name == randomKeysValue || name.starts_with(imageRandomKeysPrefix);
  });
}

bool readsPixels(const Stage &stage, const std::string &mode) {
  auto found = stage.modes.find(mode);
  if (found == stage.modes.end())
    return false;
  const auto &values = found->second.batchValues;
  return std::any_of(values.begin(), values.end(),
                     [](const BatchValue &v) { return v.name == "pixel_values"; });
}

int64_t tilesAhead(const Program &program) {
  const auto &grid = program.info.grid;
  return grid ? pictureBytesAhead / int64_t{sizeof(float)} / grid->valuesPerUnit()
              : LoaderOptions().tilesAhead;
}

int64_t stepsHeld(std::optional<int64_t> stepsAhead) {
  return stepsAhead.value_or(usualStepsAhead) + 1;
}

std::vector<StepShape> trainShapes(const Program &program) {
  std::vector<StepShape> shapes;
  for (const TrainMode &mode : program.trainModes)
    shapes.push_back({mode.microbatches, mode.caps()});
  return shapes;
}

PackingRules packingRules(const Program &p, const MicrobatchCaps &caps) {
  return {p.info.imageTokenId, p.info.tokensPerTile, p.info.vocabulary, caps.tiles,
          caps.tokens,         p.info.tokenInputs,   p.info.grid,       readsSeenPictures(p)};
}

SampleRules sampleRules(const Program &p) {
  SampleRules rules;
  rules.pairs = p.info.learnsFromPairs();
  rules.vocabulary = p.info.vocabulary;
  rules.positions = p.info.positions;
  rules.imageTokenId = p.info.imageTokenId;
  rules.tokensPerTile = p.info.tokensPerTile;
  rules.tilesCap = p.caps().tiles;
  rules.tokensCap = p.caps().tokens;
  rules.tokenInputs = p.info.tokenInputs;
  rules.prefixInputs = p.info.prefixInputs;
  return rules;
}

DataLoader::DataLoader(std::shared_ptr<const Dataset> data, const Preprocess &preprocess,
                       const Program &program, const std::shared_ptr<StepSource> &steps,
                       const DataLoaderOptions &settings)
    : dataset(std::move(data)),
      reader(steps->reader(settings.replica, settings.position, settings.lastStep)),
      options(settings), loader(dataset, preprocess, loaderOptions(program, settings)),
      announcedSteps(settings.firstStep), currentStep(settings.firstStep) {
  for (const StepShape &shape : options.shapes)
    rules.push_back(packingRules(program, shape.caps));
  announceAhead();
}

Status DataLoader::announce(int64_t step) {
  Announced own;
  OMNIBAL_ASSIGN_OR_RETURN(own.mode, reader->mode(step));
  if (const int64_t epoch = reader->position(step).epoch; options.labels && epoch != countedEpoch) {
    OMNIBAL_ASSIGN_OR_RETURN(labelsOfEpoch, reader->meanOfEpoch(step, *options.labels));
    countedEpoch = epoch;
  }
  own.labelsPerStep = labelsOfEpoch;
  for (int32_t m = 0; m < options.shapes.at(own.mode).microbatches; ++m) {
    OMNIBAL_ASSIGN_OR_RETURN(std::vector<int64_t> samples, reader->samples(step, m));
    std::erase_if(samples, [&](int64_t sample) { return options.leftOut.count(sample) > 0; });
    loader.announce(std::move(samples));
  }
  announcedSteps = step + 1;
  announced.push_back(own);
  return Status::ok();
}

/// An epoch that is still being composed is no reason to wait; its steps are announced later. An
/// error comes up again when get() needs the step.
void DataLoader::announceAhead() {
  int64_t end = std::min(options.lastStep, currentStep + stepsHeld(options.stepsAhead));
  while (announcedSteps < end && reader->ready(announcedSteps))
    if (!announce(announcedSteps))
      return;
}

void DataLoader::nextStep() {
  taken.clear();
  badSamples.clear();
  ++currentStep;
  if (!announced.empty())
    announced.pop_front();
  announceAhead();
}

Result<DataLoader::Announced> DataLoader::current() {
  if (announcedSteps <= currentStep)
    OMNIBAL_RETURN_IF_ERROR(announce(currentStep));
  return announced.front();
}

Result<size_t> DataLoader::mode() {
  OMNIBAL_ASSIGN_OR_RETURN(const Announced step, current());
  return step.mode;
}

Result<double> DataLoader::labelsPerStep() {
  OMNIBAL_ASSIGN_OR_RETURN(const Announced step, current());
  return step.labelsPerStep;
}

Result<const PackedMicrobatch *> DataLoader::get(int32_t microbatch) {
  OMNIBAL_ASSIGN_OR_RETURN(const size_t ofStep, mode());
  while (static_cast<int32_t>(taken.size()) <= microbatch) {
    OMNIBAL_ASSIGN_OR_RETURN(LoadedBatch batch, loader.take(options.deadline));
    std::move(batch.bad.begin(), batch.bad.end(), std::back_inserter(badSamples));
    std::vector<SampleView> views;
    for (const Sample &s : batch.samples) {
      SampleView view{s.key,   s.inputIds, s.labels,       {},
                      s.tiles, s.pictures, s.chosenTokens, s.reference};
      for (const auto &[name, values] : s.tokenInputs)
        view.tokenInputs[name] = values;
      views.push_back(std::move(view));
    }
    OMNIBAL_ASSIGN_OR_RETURN(PackedMicrobatch packed, pack(views, rules[ofStep]));
    packed.pixels = std::move(batch.pixels);
    if (options.seed)
      for (const Sample &s : batch.samples)
        packed.random.append(*options.seed, currentStep, s.key, s.tokens(), s.tiles);
    taken.push_back(std::make_unique<PackedMicrobatch>(std::move(packed)));
  }
  return taken[microbatch].get();
}

std::vector<MicrobatchWeight> DataLoader::next() const {
  std::vector<MicrobatchWeight> weights;
  if (announced.size() < 2)
    return weights;
  const size_t left =
      options.shapes.at(announced[0].mode).microbatches - taken.size(); // of this step
  for (int32_t m = 0; m < options.shapes.at(announced[1].mode).microbatches; ++m) {
    const std::optional<BatchLengths> lengths = loader.lengths(left + m);
    if (!lengths)
      return {};
    MicrobatchWeight &weight = weights.emplace_back();
    weight.tiles = lengths->tiles;
    for (int64_t length : lengths->tokens)
      weight.addSample(length);
  }
  return weights;
}

MicrobatchWeight weightOf(const PackedMicrobatch &batch) {
  MicrobatchWeight weight{batch.tiles};
  for (size_t s = 0; s + 1 < batch.borders.size(); ++s)
    weight.addSample(batch.borders[s + 1] - batch.borders[s]);
  return weight;
}

} // namespace omnibal::rt
