// Weights of data sets that change with the steps of a run.
#include "runtime/batching/steps/MixCourse.h"
#include "runtime/batching/steps/Steps.h"
#include "test/support/TemporaryFolder.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <random>

namespace omnibal::rt {
namespace {

using Samples = std::vector<int64_t>;

/// The same groups, the last one first.
Batches turned(const Batches &batches) {
  Batches result = batches;
  result.samples.clear();
  result.offsets = {0};
  for (int64_t g = batches.groups() - 1; g >= 0; --g) {
    result.samples.insert(result.samples.end(), batches.samples.begin() + batches.offsets[g],
                          batches.samples.begin() + batches.offsets[g + 1]);
    result.offsets.push_back(static_cast<int64_t>(result.samples.size()));
  }
  return result;
}

/// A folder of omnibal-batch with a mix, and runs that read it. Its own groups stand in another
/// order than compose() gives, as when another build has made them.
struct MixFolder {
  test::TemporaryFolder folder;
  Composition composition;
  StepSource::Layout layout;

  MixFolder(Composition made, StepSource::Layout layout)
      : composition(std::move(made)), layout(layout) {
    composition.options.ranks = static_cast<int32_t>(layout.replicas);
    BatchesRecord record;
    record.options = composition.options;
    record.mix = composition.mix;
    record.samples = composition.mix.samples;
    auto batches = compose(composition, 0);
    EXPECT_TRUE(batches) << batches.status().message();
    EXPECT_TRUE(writeBatchesFolder(folder.path, composition.lengths, turned(*batches),
                                   describe(record, *batches)));
  }

  std::shared_ptr<StepSource> open(int64_t microbatches = 0) const {
    BatchesUse use;
    use.layout = {microbatches > 0 ? microbatches : layout.microbatches, layout.replicas};
    use.tilesCap = composition.options.tilesCap;
    use.tokensCap = composition.options.tokensCap;
    use.samples = composition.lengths.size();
    auto source = openBatches(folder.path, use);
    EXPECT_TRUE(source) << source.status().message();
    return *source;
  }

  /// A data set's number.
  size_t sourceOf(int64_t sample) const {
    size_t source = 0;
    for (int64_t end = 0; (end += composition.mix.sizes[source]) <= sample;)
      ++source;
    return source;
  }
};

/// A run, or a part of one; what a checkpoint before each step knows, and behind the last one.
struct Trained {
  std::vector<std::vector<Samples>> groups; ///< by step
  std::vector<DataPosition> epochs;         ///< that hold the steps
  std::vector<DataPosition> positions;
  std::vector<std::vector<MixStretch>> met;

  Samples samplesOf(size_t begin, size_t end) const {
    Samples all;
    for (size_t step = begin; step < end; ++step)
      for (const Samples &group : groups[step])
        all.insert(all.end(), group.begin(), group.end());
    return all;
  }
  std::vector<std::vector<Samples>> groupsFrom(size_t step) const {
    return {groups.begin() + static_cast<ptrdiff_t>(step), groups.end()};
  }
};

/// Reads the steps from `first` to `end`, one replica after the other.
Trained train(StepSource &source, StepSource::Layout layout, const std::vector<MixStretch> &met,
              const std::vector<WeightsFrom> &coming, DataPosition start, int64_t first,
              int64_t end) {
  Trained run;
  run.groups.resize(end - first, std::vector<Samples>(layout.microbatches * layout.replicas));
  std::vector<uint64_t> checksums;
  for (int64_t replica = 0; replica < layout.replicas; ++replica) {
    source.mix()->begin(met, coming, start, source.firstGroups());
    auto reader = source.reader(replica, start, end);
    for (int64_t step = first; step <= end; ++step) {
      const DataPosition before = reader->position(step);
      if (replica == 0) {
        run.positions.push_back(before);
        run.met.push_back(source.mix()->metUntil(before.epoch));
      }
      if (step == end)
        break;
      for (int64_t m = 0; m < layout.microbatches; ++m) {
        auto samples = reader->samples(step, m);
        EXPECT_TRUE(samples) << samples.status().message();
        run.groups[step - first][m * layout.replicas + replica] = *samples;
      }
      if (replica == 0) {
        run.epochs.push_back(reader->position(step));
        checksums.push_back(*reader->checksum(step));
      }
      EXPECT_EQ(*reader->checksum(step), checksums[step - first]);
    }
  }
  run.epochs.push_back(run.positions.back());
  return run;
}

Trained train(const MixFolder &folder, const std::vector<WeightsFrom> &coming, int64_t end) {
  return train(*folder.open(), folder.layout, {}, coming, {}, 0, end);
}

/// Sixteen and eight samples, four of which fill a group: epochs of 24 samples are 6 steps.
MixFolder countable(std::vector<MixPhase> phases, int64_t epoch = 0) {
  Composition made;
  made.lengths = {std::vector<int32_t>(24, 0), std::vector<int32_t>(24, 10)};
  made.options = {.tilesCap = 1, .tokensCap = 40, .epoch = epoch, .cost = {}};
  made.mix = {{16, 8}, std::move(phases), 24};
  return {std::move(made), {1, 1}};
}

int64_t ofFirst(const Samples &samples) {
  return std::count_if(samples.begin(), samples.end(), [](int64_t sample) { return sample < 16; });
}

std::map<int64_t, int> usesIn(const Samples &samples) {
  std::map<int64_t, int> uses;
  for (int64_t sample : samples)
    ++uses[sample];
  return uses;
}

std::vector<int64_t> firstSteps(const Trained &run) {
  std::vector<int64_t> begins;
  for (const DataPosition &position : run.epochs)
    if (begins.empty() || position.firstStep != begins.back())
      begins.push_back(position.firstStep);
  return begins;
}

TEST(MixCourse, SharesBeforeAndAfterByHand) {
  const MixFolder folder = countable({{0, {1, 1}}});
  const Trained plain = train(folder, {}, 24);
  EXPECT_EQ(firstSteps(plain), (std::vector<int64_t>{0, 6, 12, 18, 24}));
  const Trained run = train(folder, {{9, {1, 3}}, {15, {1, 0}}}, 27);
  // Epochs 1 and 2 end with steps 8 and 14, the second as it would have anyway.
  EXPECT_EQ(firstSteps(run), (std::vector<int64_t>{0, 6, 9, 15, 21, 27}));
  EXPECT_EQ(run.epochs[9].epoch, 2);
  EXPECT_EQ(run.epochs[26].epoch, 4);
  for (size_t step = 0; step < 9; ++step)
    EXPECT_EQ(run.groups[step], plain.groups[step]) << step;
  EXPECT_EQ(ofFirst(run.samplesOf(0, 6)), 12);
  EXPECT_EQ(ofFirst(run.samplesOf(9, 15)), 6); // a quarter
  EXPECT_EQ(ofFirst(run.samplesOf(15, 21)), 24);
  // The half of epoch 1 that step 9 cut off comes first, as far as the shares go.
  Samples cut = plain.samplesOf(9, 12);
  const auto cutUses = usesIn(cut), nextUses = usesIn(run.samplesOf(9, 15));
  const int64_t cutOfFirst = ofFirst(cut);
  int64_t found = 0;
  for (auto [sample, count] : cutUses) {
    const int again = nextUses.contains(sample) ? nextUses.at(sample) : 0;
    if (sample >= 16)
      EXPECT_GE(again, count) << sample; // 12 - x of 18
    else
      found += std::min(again, count);
  }
  EXPECT_EQ(found, std::min<int64_t>(6, cutOfFirst));
  // In all: 27 steps of 4 samples, each of the 8 as often as its fellows.
  for (size_t end : {6u, 15u, 21u, 27u}) {
    const auto uses = usesIn(run.samplesOf(0, end));
    for (int64_t sample = 17; sample < 24; ++sample)
      EXPECT_NEAR(uses.at(sample), uses.at(16), 1) << "sample " << sample << " after " << end;
  }
  EXPECT_EQ(run.samplesOf(0, 27).size(), 108u);
}

TEST(MixCourse, FromTheFirstStepAndBackToTheFolder) {
  for (int64_t base : {0, 3}) { // the folder may hold a later epoch
    const MixFolder folder = countable({{0, {1, 1}}, {base + 3, {0, 1}}}, base);
    const Trained run = train(folder, {{0, {5, 1}}, {6, {}}, {13, {1, 0}}}, 19);
    EXPECT_EQ(firstSteps(run), (std::vector<int64_t>{0, 6, 12, 13, 19}));
    EXPECT_EQ(ofFirst(run.samplesOf(0, 6)), 20);
    EXPECT_EQ(ofFirst(run.samplesOf(6, 12)), 12);
    EXPECT_EQ(ofFirst(run.samplesOf(13, 18)), 20);
    const Trained later = train(folder, {{0, {5, 1}}, {6, {}}}, 24);
    EXPECT_EQ(ofFirst(later.samplesOf(12, 18)), 12);
    EXPECT_EQ(ofFirst(later.samplesOf(18, 24)), 0); // the folder's weights from its epoch 3 on
  }
}

TEST(MixCourse, AnotherNumberOfMicrobatchesGoesOn) {
  const MixFolder folder = countable({{0, {1, 1}}});
  const Trained run = train(folder, {{4, {1, 3}}}, 16);
  // The second epoch has begun with step 4; two micro-batches a step make it three steps.
  auto source = folder.open(2);
  const Trained resumed = train(*source, {2, 1}, run.met[4], {}, run.positions[4], 4, 7);
  EXPECT_EQ(resumed.samplesOf(0, 3), run.samplesOf(4, 10));
}

/// Data sets of all sizes with all lengths, and changes at any steps.
struct Drawn {
  MixFolder folder;
  std::vector<WeightsFrom> coming;

  static Drawn make(std::mt19937 &random, BatchMethod method = BatchMethod::Random) {
    auto upTo = [&](int n) { return static_cast<int64_t>(random() % n); };
    Composition made;
    made.options = {.tilesCap = 6, .tokensCap = 90, .seed = random(), .cost = {}};
    made.options.method = method;
    const int64_t sources = 2 + upTo(3);
    for (int64_t i = 0; i < sources; ++i) {
      made.mix.sizes.push_back(1 + upTo(60));
      for (int64_t n = 0; n < made.mix.sizes.back(); ++n) {
        made.lengths.tiles.push_back(static_cast<int32_t>(upTo(4)));
        made.lengths.tokens.push_back(static_cast<int32_t>(5 + upTo(40)));
      }
    }
    auto weights = [&] {
      std::vector<double> drawn;
      for (int64_t i = 0; i < sources; ++i)
        drawn.push_back(static_cast<double>(upTo(5)));
      drawn[upTo(static_cast<int>(sources))] += 1;
      return drawn;
    };
    made.mix.phases = {{0, weights()}, {2, weights()}};
    made.mix.samples = 20 + upTo(120);
    std::vector<WeightsFrom> coming;
    for (int64_t step = upTo(12); coming.size() < 4; step += 1 + upTo(12))
      coming.push_back({step, weights()});
    return {{std::move(made), {1 + upTo(3), 1 + upTo(3)}}, std::move(coming)};
  }
};

constexpr int64_t drawnSteps = 90;

/// No sample is used again while another one of its data set has been used two times less, at the
/// ends of all epochs that change nothing.
void expectEqualUse(const MixFolder &folder, const Trained &run) {
  const Mix &mix = folder.composition.mix;
  std::vector<int64_t> uses(folder.composition.lengths.size());
  for (size_t begin = 0; begin < run.groups.size();) {
    size_t end = begin;
    while (end < run.groups.size() && run.epochs[end].epoch == run.epochs[begin].epoch)
      ++end;
    const Samples samples = run.samplesOf(begin, end);
    for (int64_t sample : samples)
      ++uses[sample];
    const bool whole = static_cast<int64_t>(samples.size()) == mix.samples;
    for (int64_t sample : whole ? samples : Samples()) {
      const size_t source = folder.sourceOf(sample);
      const int64_t first =
          std::accumulate(mix.sizes.begin(), mix.sizes.begin() + source, int64_t(0));
      const int64_t least =
          *std::min_element(uses.begin() + first, uses.begin() + first + mix.sizes[source]);
      EXPECT_LE(uses[sample], least + 1) << "sample " << sample << " after step " << end;
    }
    begin = end;
  }
}

TEST(MixCourse, AnyChangesKeepUsesEqual) {
  std::mt19937 random(7);
  int cuts = 0;
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(trial);
    Drawn drawn = Drawn::make(random, trial % 10 == 0 ? BatchMethod::Plan : BatchMethod::Random);
    const Trained run = train(drawn.folder, drawn.coming, drawnSteps);
    expectEqualUse(drawn.folder, run);
    for (size_t c = 0; c < drawn.coming.size(); ++c) {
      // A change begins an epoch, and does not reach back.
      const int64_t step = drawn.coming[c].first;
      EXPECT_EQ(run.epochs[step].firstStep, step);
      const std::vector<WeightsFrom> before(drawn.coming.begin(), drawn.coming.begin() + c);
      const Trained without = train(drawn.folder, before, step + 1);
      for (int64_t s = 0; s < step; ++s)
        EXPECT_EQ(run.groups[s], without.groups[s]) << s;
      cuts += without.epochs[step].firstStep != step;
    }
  }
  EXPECT_GT(cuts, 100); // most changes are in the middle of an epoch
}

TEST(MixCourse, AnEpochAfterAChangeHasItsSharesAndWhatWasLeft) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(trial);
    Drawn drawn = Drawn::make(random);
    drawn.coming.resize(1);
    const int64_t step = drawn.coming[0].first;
    const Trained without = train(drawn.folder, {}, drawnSteps);
    const Trained run = train(drawn.folder, drawn.coming, drawnSteps);
    const Mix &mix = drawn.folder.composition.mix;
    int64_t begin = run.epochs[step].firstStep, end = begin;
    while (run.epochs[end].firstStep == begin)
      ++end;
    const Samples after = run.samplesOf(begin, end);
    ASSERT_EQ(static_cast<int64_t>(after.size()), mix.samples);
    int64_t past = step; // of the epoch that was cut
    while (past < drawnSteps && without.epochs[past].firstStep < step)
      ++past;
    const auto left = usesIn(without.samplesOf(step, past)), taken = usesIn(after);
    const std::vector<double> &weights = drawn.coming[0].weights;
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<int64_t> count(mix.sizes.size()), leftOf(count), leftTaken(count);
    for (auto [sample, times] : taken)
      count[drawn.folder.sourceOf(sample)] += times;
    for (auto [sample, times] : left) {
      const size_t source = drawn.folder.sourceOf(sample);
      leftOf[source] += times;
      leftTaken[source] += std::min(times, taken.contains(sample) ? taken.at(sample) : 0);
    }
    for (size_t i = 0; i < count.size(); ++i) {
      EXPECT_NEAR(count[i], weights[i] / sum * mix.samples, 1);
      EXPECT_EQ(leftTaken[i], std::min(leftOf[i], count[i])) << "data set " << i;
    }
  }
}

TEST(MixCourse, ARunGoesOnFromAnyStep) {
  std::mt19937 random(13);
  for (int trial = 0; trial < 12; ++trial) {
    SCOPED_TRACE(trial);
    Drawn drawn = Drawn::make(random);
    const Trained run = train(drawn.folder, drawn.coming, drawnSteps);
    for (int64_t step = 0; step < drawnSteps; step += 1 + trial % 3) {
      std::vector<WeightsFrom> coming;
      for (const WeightsFrom &change : drawn.coming)
        if (change.first > step)
          coming.push_back(change);
      if (step == 0 && drawn.coming[0].first == 0)
        coming.insert(coming.begin(), drawn.coming[0]);
      auto source = drawn.folder.open();
      const Trained resumed =
          train(*source, drawn.folder.layout, step == 0 ? std::vector<MixStretch>() : run.met[step],
                coming, run.positions[step], step, drawnSteps);
      ASSERT_EQ(resumed.groups, run.groupsFrom(step)) << "from step " << step;
      for (size_t s = 0; s < resumed.met.size(); ++s)
        EXPECT_EQ(resumed.met[s], run.met[step + s]);
    }
  }
}

TEST(MixCourse, ARunGoesOnWithOtherWeights) {
  std::mt19937 random(17);
  for (int trial = 0; trial < 40; ++trial) {
    SCOPED_TRACE(trial);
    Drawn drawn = Drawn::make(random);
    Trained run = train(drawn.folder, drawn.coming, drawnSteps);
    // At any step it takes other weights, and what was trained until then counts.
    const auto step = static_cast<int64_t>(random() % drawnSteps);
    std::vector<double> weights(drawn.coming[0].weights.size(), 1.0);
    auto source = drawn.folder.open();
    const Trained resumed = train(*source, drawn.folder.layout, run.met[step], {{step, weights}},
                                  run.positions[step], step, drawnSteps);
    EXPECT_EQ(resumed.epochs[0].firstStep, step);
    run.groups.resize(step);
    run.groups.insert(run.groups.end(), resumed.groups.begin(), resumed.groups.end());
    run.epochs.resize(step);
    run.epochs.insert(run.epochs.end(), resumed.epochs.begin(), resumed.epochs.end());
    expectEqualUse(drawn.folder, run);
  }
}

TEST(MixCourse, FoldersWithoutAMixHaveNone) {
  Composition made;
  made.lengths = {std::vector<int32_t>(24, 0), std::vector<int32_t>(24, 10)};
  made.options = {.tilesCap = 1, .tokensCap = 40, .cost = {}};
  test::TemporaryFolder folder;
  BatchesRecord record;
  record.options = made.options;
  record.samples = 24;
  auto batches = compose(made, 0);
  ASSERT_TRUE(batches);
  ASSERT_TRUE(writeBatchesFolder(folder.path, made.lengths, *batches, describe(record, *batches)));
  BatchesUse use;
  use.tilesCap = 1;
  use.tokensCap = 40;
  use.samples = 24;
  auto source = openBatches(folder.path, use);
  ASSERT_TRUE(source) << source.status().message();
  EXPECT_EQ((*source)->mix(), nullptr);
}

} // namespace
} // namespace omnibal::rt
