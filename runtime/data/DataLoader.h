//===- DataLoader.h - The micro-batches of one replica, read and decoded ahead ---------------===//
#ifndef RUNTIME_DATA_DATALOADER_H
#define RUNTIME_DATA_DATALOADER_H

#include "runtime/batching/steps/StepSource.h"
#include "runtime/data/MicrobatchSource.h"
#include "runtime/data/Prefetcher.h"
#include "runtime/program/Program.h"
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace omnibal::rt {

/// What a step of a mode takes.
struct StepShape {
  int32_t microbatches = 1;
  MicrobatchCaps caps; ///< of each of them
};
/// Of the program's train modes, by number.
std::vector<StepShape> trainShapes(const Program &program);

struct DataLoaderOptions {
  std::vector<StepShape> shapes; ///< by number of the steps' mode
  int32_t replica = 0;           ///< as StepSource::reader() takes it
  bool pixels = true;            ///< whether this stage reads pixel_values
  int threads = 1;               ///< that read and decode
  std::chrono::milliseconds deadline{600'000};
  /// Steps behind the one at work that are read, with all of their pictures; none: two, with as
  /// many pictures as tilesAhead() says.
  std::optional<int64_t> stepsAhead = std::nullopt;
  int64_t firstStep = 0;
  int64_t lastStep = 0;      ///< one past
  DataPosition position;     ///< the epoch that holds firstStep
  std::set<int64_t> leftOut; ///< samples that no micro-batch gets
  /// Losses by sample, where labelsPerStep() is asked for.
  std::shared_ptr<const std::vector<int32_t>> labels = nullptr;
  /// Of pairs of answers; none: zeros.
  std::shared_ptr<const References> references = nullptr;
  /// Whether a sample that cannot be read is told by bad(), instead of being get()'s error.
  bool standIns = false;
  /// Of random numbers; none: nothing is random, as in evaluation.
  std::optional<uint64_t> seed = std::nullopt;
};

/// Every rank has its own loader: all of them read the samples' tokens, and only those with
/// `pixels` decode pictures. Only the replica's samples are read. While a step runs, the next ones
/// are read and decoded.
class DataLoader final : public MicrobatchSource {
public:
  DataLoader(std::shared_ptr<const Dataset> dataset, const Preprocess &preprocess,
             const Program &program, const std::shared_ptr<StepSource> &steps,
             const DataLoaderOptions &options);

  /// The number of the train mode of the step that get() belongs to.
  Result<size_t> mode();
  /// The mean label tokens of a step of that epoch, left out samples included.
  Result<double> labelsPerStep();
  /// Forgets the last step's micro-batches; the next get() belongs to the next step.
  void nextStep();
  Result<const PackedMicrobatch *> get(int32_t microbatch) override;

  /// Known once all samples of the next step have been read.
  std::vector<MicrobatchWeight> next() const override;

  bool isDamaged() const override { return !badSamples.empty(); }
  /// What could not be read of the step at hand so far.
  const std::vector<BadSample> &bad() const { return badSamples; }

  /// The epoch that holds the step that get() belongs to.
  DataPosition position() const { return reader->position(currentStep); }
  /// Returns the checksum of the groups of that epoch.
  Result<uint64_t> checksum() { return reader->checksum(currentStep); }
  LoaderCounters counters() const { return loader.counters(); }

private:
  /// What is known about a step when it is announced.
  struct Announced {
    size_t mode = 0;
    double labelsPerStep = 0; ///< of its epoch
  };
  Status announce(int64_t step);
  Result<Announced> current();
  void announceAhead();

  std::shared_ptr<const Dataset> dataset;
  std::unique_ptr<StepReader> reader;
  DataLoaderOptions options;
  std::vector<PackingRules> rules; ///< by mode
  Prefetcher loader;
  int64_t announcedSteps = 0; ///< number of the first step that is not announced
  int64_t currentStep = 0;
  std::deque<Announced> announced; ///< steps, from the current one on
  int64_t countedEpoch = -1;
  double labelsOfEpoch = 0; ///< a step, in that epoch
  std::vector<std::unique_ptr<PackedMicrobatch>> taken;
  std::vector<BadSample> badSamples;
};

/// Decodes all pictures of a sample to what the program reads of them, [tiles, tile's shape].
Result<std::vector<float>> pixelsOf(const Dataset &dataset, int64_t index,
                                    const Preprocess &preprocess, const Program &program);
/// Whether training has dropout or noise.
bool drawsNumbers(const Program &program);
/// True if any chunk of the stage reads pixel_values in this mode.
bool readsPixels(const Stage &stage, const std::string &mode);
/// Returns how many decoded tiles a data loader's prefetcher holds at most, in addition to those of
/// one micro-batch.
int64_t tilesAhead(const Program &program);
/// Steps that are read or at work at a time.
int64_t stepsHeld(std::optional<int64_t> stepsAhead);
PackingRules packingRules(const Program &program, const MicrobatchCaps &caps);
SampleRules sampleRules(const Program &program);

} // namespace omnibal::rt
#endif // RUNTIME_DATA_DATALOADER_H
