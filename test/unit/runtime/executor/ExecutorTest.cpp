// Training steps of the tiny program against formulas in double precision, in every layout.
#include "runtime/comm/threads/ThreadCommunicator.h"
#include "runtime/program/RankGrid.h"
#include "runtime/program/Verifier.h"
#include "test/unit/runtime/executor/TinyRun.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <thread>

namespace omnibal::rt {
namespace {

class Training : public testing::Test {
protected:
  void SetUp() override {
    folder =
        std::filesystem::temp_directory_path() / ("omnibal-executor" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    weights = writeTinyWeights(folder);
    ASSERT_NE(weights, "");
    options.update.rates = decayAndNone(0.05, 0.1);
    options.clip = 0.3; // small enough to bite
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::filesystem::path folder;
  std::string weights;
  StepOptions options;
};

void expectClose(double actual, double expected, const std::string &what) {
  EXPECT_NEAR(actual, expected, 3e-6 * std::abs(expected)) << what;
}

TEST_F(Training, MatchesFormulasInEveryLayout) {
  for (bool tied : {false, true})
    for (int stages : {1, 2})
      for (int replicas : {1, 2}) {
        TinyOptions layout{stages, 4 / replicas, replicas, tied};
        std::string name = std::to_string(stages) + " stages, " + std::to_string(replicas) +
                           " replicas, " + (tied ? "tied" : "untied");
        TinyOutcome got =
            trainTinyThreads(loadedTiny(layout), weights, 5, options, {.guarded = true});
        ASSERT_TRUE(got.status) << name << ": " << got.status.message();
        TinyReference reference(weights, tied);
        for (int s = 0; s < 5; ++s) {
          auto expected = reference.step(tinyStep(s, 4), options);
          expectClose(got.steps[s].loss, expected.loss, name + ", loss");
          expectClose(got.steps[s].gradientNorm, expected.gradientNorm, name + ", norm");
        }
        for (int64_t e = 0; e < tinyVocabulary * tinyWidth; ++e)
          ASSERT_NEAR(got.parameters[0][e], reference.table()[e], 2e-5) << name;
      }
}

/// Rounded rows belong to no sample: they change neither loss nor gradients (beyond the order in
/// which products add), nor what is counted.
TEST_F(Training, RowsRoundedUpChangeNothing) {
  for (int stages : {1, 2})
    for (bool split : {false, true}) {
      TinyOutcome exact = trainTinyThreads(loadedTiny({stages, 3, 1, false, split}), weights, 4,
                                           options, {.guarded = true});
      for (int32_t bucket : {5, 64}) {
        TinyOptions layout{stages, 3, 1, false, split, bucket};
        LoadedProgram program = loadedTiny(layout);
        Status valid = verifyProgram(program.program);
        ASSERT_TRUE(valid) << valid.message();
        TinyOutcome rounded = trainTinyThreads(program, weights, 4, options, {.guarded = true});
        ASSERT_TRUE(exact.status && rounded.status) << rounded.status.message();
        for (int s = 0; s < 4; ++s) {
          expectClose(rounded.steps[s].loss, exact.steps[s].loss, "loss");
          expectClose(rounded.steps[s].gradientNorm, exact.steps[s].gradientNorm, "norm");
          EXPECT_EQ(rounded.steps[s].tokens, exact.steps[s].tokens);
          EXPECT_EQ(exact.steps[s].paddedTokens, 0);
          int64_t padding = 0;
          for (const TinyGroup &group : tinyStep(s, 3)) {
            int64_t tokens = packTiny(group).tokens;
            padding += (bucket - tokens % bucket) % bucket;
          }
          EXPECT_EQ(rounded.steps[s].paddedTokens, padding);
        }
        for (size_t p = 0; p < exact.parameters.size(); ++p)
          for (size_t e = 0; e < exact.parameters[p].size(); ++e)
            ASSERT_NEAR(rounded.parameters[p][e], exact.parameters[p][e], 2e-6);
      }
    }
}

/// Activations, their gradients and what kernels read of the parameters lie in bfloat16; products,
/// gradients of parameters and the optimizer stay in float32.
TEST_F(Training, BFloat16StaysNearTheFormulasInEveryLayout) {
  for (bool tied : {false, true}) {
    TinyReference reference(weights, tied);
    std::vector<TinyReference::Step> expected;
    for (int s = 0; s < 5; ++s)
      expected.push_back(reference.step(tinyStep(s, 4), options));
    std::vector<std::vector<float>> first;
    for (TinyOptions layout :
         {TinyOptions{1, 4, 1, tied, false, 1, true}, TinyOptions{1, 4, 1, tied, true, 1, true},
          TinyOptions{2, 4, 1, tied, false, 1, true}, TinyOptions{2, 4, 1, tied, true, 1, true},
          TinyOptions{1, 2, 2, tied, false, 1, true}, TinyOptions{2, 2, 2, tied, true, 1, true}}) {
      TinyOutcome got =
          trainTinyThreads(loadedTiny(layout), weights, 5, options, {.guarded = true});
      ASSERT_TRUE(got.status) << got.status.message();
      for (int s = 0; s < 5; ++s) {
        EXPECT_NEAR(got.steps[s].loss, expected[s].loss, 0.02 * expected[s].loss);
        EXPECT_NE(got.steps[s].loss, expected[s].loss);
      }
      // Rounding happens where values are stored, wherever the cuts are.
      if (layout.dataParallel == 1 && !tied) {
        first = first.empty() ? got.parameters : first;
        EXPECT_EQ(got.parameters, first) << layout.stages;
      }
    }
  }
}

TEST_F(Training, KernelsReadTheRoundedFloat32Values) {
  auto program = loadedTiny({1, 2, 1, false, false, 1, true});
  program.program.stageList[0].parameters[1].trainable = false;
  Parameter &frozen = program.program.stageList[0].parameters[1];
  frozen.gradOffset = frozen.moment1Offset = frozen.moment2Offset = frozen.masterOffset = -1;
  auto communicators = createThreadCommunicators(1);
  auto executor = Executor::prepare(program, *communicators[0], {.guarded = true});
  ASSERT_TRUE(executor) << executor.status().message();
  auto files = TensorFiles::open(weights);
  ASSERT_TRUE((*executor)->initialize(*files));
  const std::vector<Parameter> &list = (*executor)->stageInfo().parameters;
  auto copyOf = [&](const Parameter &q) {
    return reinterpret_cast<BFloat16 *>((*executor)->at(q.dataOffset));
  };
  float source[tinyVocabulary * tinyWidth];
  ASSERT_TRUE(convertTensor(*files->find("weight"), DType::F32, source));
  for (int64_t i = 0; i < list[1].elements(); ++i)
    ASSERT_EQ(copyOf(list[1])[i].bits, BFloat16::fromFloat(source[i]).bits);
  ASSERT_TRUE(convertTensor(*files->find("table"), DType::F32, source));
  float *values = (*executor)->at(list[0].masterOffset);
  EXPECT_EQ(std::memcmp(values, source, sizeof source), 0);
  auto expectRounded = [&] {
    for (int64_t i = 0; i < list[0].elements(); ++i)
      ASSERT_EQ(copyOf(list[0])[i].bits, BFloat16::fromFloat(values[i]).bits) << i;
  };
  expectRounded();
  values[3] = 0.7f; // as a resumed run does
  ASSERT_TRUE((*executor)->refreshCopies());
  expectRounded();
}

TEST_F(Training, HalvesOfABackwardGiveTheBitsOfTheWhole) {
  for (int stages : {1, 2})
    for (bool tied : {false, true}) {
      TinyOutcome whole = trainTinyThreads(loadedTiny({stages, 3, 1, tied}), weights, 4, options);
      TinyOutcome split = trainTinyThreads(loadedTiny({stages, 3, 1, tied, true}), weights, 4,
                                           options, {.guarded = true});
      ASSERT_TRUE(whole.status && split.status) << split.status.message();
      for (int s = 0; s < 4; ++s) {
        EXPECT_EQ(whole.steps[s].loss, split.steps[s].loss);
        EXPECT_EQ(whole.steps[s].gradientNorm, split.steps[s].gradientNorm);
      }
      EXPECT_EQ(whole.parameters, split.parameters);
    }
}

TEST_F(Training, CopiesOfASharedParameterStayBitwiseEqual) {
  TinyOutcome got = trainTinyThreads(loadedTiny({2, 2, 2, true}), weights, 4, options);
  ASSERT_TRUE(got.status) << got.status.message();
  ASSERT_EQ(got.parameters.size(), 4u); // two stages, two replicas, one copy each
  for (const auto &copy : got.parameters)
    EXPECT_EQ(std::memcmp(copy.data(), got.parameters[0].data(), copy.size() * 4), 0);
}

/// Replicas that divide the optimizer's state have the bits of those that do not. The parameters
/// are less than a block, so that the last replica updates all of them.
TEST_F(Training, SharesOfTheOptimizersStateChangeNoBit) {
  for (bool inBFloat16 : {false, true})
    for (bool tied : {false, true})
      for (int stages : {1, 2})
        for (int replicas : {2, 3}) {
          TinyOptions layout{stages, 2, replicas, tied, false, 1, inBFloat16};
          const TinyOutcome whole =
              trainTinyThreads(loadedTiny(layout), weights, 4, options, {.guarded = true});
          layout.zero = true;
          const LoadedProgram program = loadedTiny(layout);
          const Status valid = verifyProgram(program.program);
          ASSERT_TRUE(valid) << valid.message();
          const TinyOutcome shared =
              trainTinyThreads(program, weights, 4, options, {.guarded = true});
          ASSERT_TRUE(whole.status && shared.status) << shared.status.message();
          for (int s = 0; s < 4; ++s) {
            EXPECT_EQ(shared.steps[s].loss, whole.steps[s].loss) << s;
            EXPECT_EQ(shared.steps[s].gradientNorm, whole.steps[s].gradientNorm) << s;
          }
          EXPECT_EQ(shared.read, whole.read) << stages << " x " << replicas;
        }
}

/// Parts of a stage that all do the same have the bits of a stage that one rank runs, and what is
/// counted counts once.
TEST_F(Training, PartsThatDoTheSameChangeNoBit) {
  for (bool zero : {false, true})
    for (bool tied : {false, true})
      for (int stages : {1, 2})
        for (int replicas : {zero ? 3 : 1, 2}) {
          TinyOptions layout{
              .stages = stages, .dataParallel = replicas, .tied = tied, .zero = zero};
          const LoadedProgram alone = loadedTiny(layout);
          const TinyOutcome whole = trainTinyThreads(alone, weights, 4, options, {.guarded = true});
          ASSERT_TRUE(whole.status) << whole.status.message();
          for (int parts : {2, 3}) {
            layout.modelParallel = parts;
            const LoadedProgram program = loadedTiny(layout);
            const Status valid = verifyProgram(program.program);
            ASSERT_TRUE(valid) << valid.message();
            const TinyOutcome copies =
                trainTinyThreads(program, weights, 4, options, {.guarded = true});
            ASSERT_TRUE(copies.status) << copies.status.message();
            for (int s = 0; s < 4; ++s) {
              EXPECT_EQ(copies.steps[s].loss, whole.steps[s].loss) << s;
              EXPECT_EQ(copies.steps[s].gradientNorm, whole.steps[s].gradientNorm) << s;
              EXPECT_EQ(copies.steps[s].labelTokens, whole.steps[s].labelTokens) << s;
              EXPECT_EQ(copies.steps[s].tokens, whole.steps[s].tokens) << s;
              EXPECT_EQ(copies.steps[s].flops, whole.steps[s].flops) << s;
            }
            const size_t ofRank = whole.read.size() / RankGrid(alone.program).ranks();
            std::vector<std::string> expected; // those of each rank, once for each part
            for (auto first = whole.read.begin(); first != whole.read.end(); first += ofRank)
              for (int part = 0; part < parts; ++part)
                expected.insert(expected.end(), first, first + ofRank);
            EXPECT_EQ(copies.read, expected) << stages << " x " << replicas << " x " << parts;
          }
        }
}

TEST_F(Training, SameLayoutSameBitsWithAnyThreads) {
  auto program = loadedTiny({2, 3, 2, false});
  TinyOutcome one = trainTinyThreads(program, weights, 3, options, {.threads = 1});
  TinyOutcome three = trainTinyThreads(program, weights, 3, options, {.threads = 3});
  ASSERT_TRUE(one.status && three.status);
  for (size_t i = 0; i < one.parameters.size(); ++i)
    EXPECT_EQ(std::memcmp(one.parameters[i].data(), three.parameters[i].data(),
                          one.parameters[i].size() * 4),
              0);
  for (int s = 0; s < 3; ++s)
    EXPECT_EQ(one.steps[s].loss, three.steps[s].loss);
}

TEST_F(Training, CountsOfTheStep) {
  TinyOutcome got = trainTinyThreads(loadedTiny({2, 2, 2, false}), weights, 1, options);
  ASSERT_TRUE(got.status);
  int64_t tokens = 0, labels = 0;
  for (const TinyGroup &group : tinyStep(0, 4))
    for (const auto &sample : group)
      for (size_t t = 0; t < sample.size(); ++t) {
        ++tokens;
        labels += t > 0 && sample[t].second != -100;
      }
  EXPECT_EQ(got.steps[0].tokens, tokens);
  EXPECT_EQ(got.steps[0].labelTokens, labels);
  EXPECT_GE(got.steps[0].bubble, 0);
  EXPECT_LE(got.steps[0].bubble, 1);
}

class Empty final : public MicrobatchSource {
public:
  Result<const PackedMicrobatch *> get(int32_t) override { return &batch; }
  PackedMicrobatch batch = packTiny({});
};

TEST_F(Training, NoLabelNoUpdate) {
  auto program = loadedTiny({1, 2, 1, false});
  auto communicators = createThreadCommunicators(1);
  auto executor = Executor::prepare(program, *communicators[0], {.guarded = true});
  ASSERT_TRUE(executor) << executor.status().message();
  ASSERT_TRUE((*executor)->initialize(*TensorFiles::open(weights)));
  const Parameter &q = (*executor)->stageInfo().parameters[0];
  int64_t bytes = tinyVocabulary * tinyWidth * 4;
  std::vector<char> before(bytes);
  std::memcpy(before.data(), (*executor)->at(q.dataOffset), bytes);
  Empty source;
  auto result = (*executor)->trainStep(source, options);
  ASSERT_TRUE(result) << result.status().message();
  EXPECT_EQ(result->loss, 0);
  EXPECT_EQ(result->labelTokens, 0);
  EXPECT_EQ((*executor)->adamStep(), 0);
  EXPECT_EQ(std::memcmp(before.data(), (*executor)->at(q.dataOffset), bytes), 0);
}

TEST_F(Training, NoLabelNoUpdateOfShares) {
  const LoadedProgram program = loadedTiny({.dataParallel = 2, .zero = true});
  auto communicators = createThreadCommunicators(2, std::chrono::seconds(60));
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      auto executor = *Executor::prepare(program, *communicators[r], {.guarded = true});
      ASSERT_TRUE(executor->initialize(*TensorFiles::open(weights)));
      const Parameter &q = executor->stageInfo().parameters[0];
      auto valuesAt = [&](int64_t offset) {
        return std::vector<float>(executor->at(offset), executor->at(offset) + q.elements());
      };
      const std::vector<float> before = valuesAt(q.dataOffset);
      Empty source;
      auto result = executor->trainStep(source, options);
      ASSERT_TRUE(result) << result.status().message();
      EXPECT_EQ(result->labelTokens, 0);
      EXPECT_EQ(executor->adamStep(), 0);
      EXPECT_EQ(valuesAt(q.dataOffset), before);
      EXPECT_EQ(valuesAt(q.gradOffset), std::vector<float>(before.size()));
      (void)communicators[r]->barrier(communicators[r]->everyone());
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(Training, NotANumberStopsWithStepAndRank) {
  for (bool zero : {false, true}) {
    auto program = loadedTiny({.stages = 2, .dataParallel = zero ? 2 : 1, .zero = zero});
    StepOptions infinite = options;
    infinite.update.rates = decayAndNone(INFINITY, 0.1); // the first update ruins the weights
    TinyOutcome got = trainTinyThreads(program, weights, 3, infinite);
    ASSERT_FALSE(got.status);
    EXPECT_NE(
        got.status.message().find("step 2: the loss of rank 1 (stage 1) is not a finite number"),
        std::string::npos)
        << got.status.message();
    EXPECT_EQ(got.steps.size(), 1u);
  }
}

TEST_F(Training, GuardBytesCatchAnOverrun) {
  auto program = loadedTiny({1, 1, 1, false});
  Stage &stage = program.program.stageList[0];
  // Behind the verifier's back: the last region of the arena is cut short.
  stage.arenaBytes -= 2 * 64;
  TinyOutcome got = trainTinyThreads(program, weights, 1, options, {.guarded = true});
  if (got.status) { // the last region may be larger than what this step writes
    stage.arenaBytes = stage.modes["train"].regions[0].offsets[0] + 4;
    got = trainTinyThreads(program, weights, 1, options, {.guarded = true});
  }
  ASSERT_FALSE(got.status);
  EXPECT_NE(got.status.message().find("bytes after the arena were overwritten"), std::string::npos)
      << got.status.message();
}

TEST_F(Training, WeightsThatDoNotFit) {
  auto program = loadedTiny({1, 1, 1, false});
  program.program.stageList[0].parameters[1].name = "other";
  TinyOutcome got = trainTinyThreads(program, weights, 1, options);
  EXPECT_NE(got.status.message().find("parameter \"other\" is missing"), std::string::npos);
  program.program.stageList[0].parameters[1].name = "weight";
  program.program.stageList[0].parameters[1].shape = {6, 11};
  got = trainTinyThreads(program, weights, 1, options);
  EXPECT_NE(got.status.message().find("has shape [11, 6], but the program needs [6, 11]"),
            std::string::npos)
      << got.status.message();
}

/// Where guards are checked, ranks that hold a parameter compare what they have of it.
TEST_F(Training, CopiesThatDifferAreFound) {
  TinyOptions inParts{2, 2, 2, true};
  inParts.modelParallel = 2;
  for (const TinyOptions &layout : {TinyOptions{1, 2, 2, false}, inParts}) {
    const LoadedProgram program = loadedTiny(layout);
    const int ranks = RankGrid(program.program).ranks();
    auto communicators = createThreadCommunicators(ranks, std::chrono::seconds(60));
    std::vector<std::string> said(ranks);
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        auto executor = *Executor::prepare(program, *communicators[r], {.guarded = true});
        ASSERT_TRUE(executor->initialize(*TensorFiles::open(weights)));
        Empty source;
        ASSERT_TRUE(executor->trainStep(source, options));
        if (r == ranks - 1) // one bit
          *executor->at(executor->stageInfo().parameters.back().dataOffset) *= -1;
        auto result = executor->trainStep(source, options);
        said[r] = result ? "" : result.status().message();
        (void)communicators[r]->barrier(communicators[r]->everyone());
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_NE(said[ranks - 1].find("has other bits on rank " + std::to_string(ranks - 1)),
              std::string::npos)
        << said[ranks - 1];
  }
}

/// Other ranks' files are not looked at, and hold other numbers.
TEST_F(Training, OneRankReadsWhatSeveralHold) {
  TensorFiles none;
  TinyOptions inParts{2, 2, 2, true};
  inParts.modelParallel = 3;
  for (TinyOptions layout : {TinyOptions{1, 2, 3, false}, TinyOptions{2, 2, 2, true}, inParts}) {
    LoadedProgram program = loadedTiny(layout);
    const RankGrid grid(program.program);
    const int ranks = grid.ranks();
    auto communicators = createThreadCommunicators(ranks, std::chrono::seconds(60));
    std::vector<std::vector<float>> found(ranks);
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        auto executor = *Executor::prepare(program, *communicators[r], {});
        TensorFiles files = *TensorFiles::open(weights);
        const RankPlace place = grid.placeOf(r);
        const bool isFirst = place.replica == 0 && place.part == 0;
        EXPECT_EQ(executor->readsWeights(), isFirst);
        Status status = executor->initialize(executor->readsWeights() ? files : none);
        ASSERT_TRUE(status) << status.message();
        const Parameter &last = executor->stageInfo().parameters.back();
        // The second stage's copy of a shared parameter comes from the first.
        EXPECT_EQ(executor->reads(last), layout.tied ? r == 0 : isFirst);
        const float *values = executor->at(last.weightOffset());
        found[r].assign(values, values + last.elements());
        ASSERT_TRUE(communicators[r]->barrier(communicators[r]->everyone()));
      });
    for (std::thread &thread : threads)
      thread.join();
    for (int r = 0; r < ranks; ++r)
      EXPECT_EQ(found[r], found[grid.rankOf({0, grid.placeOf(r).stage})]) << r;
    EXPECT_NE(found[0], std::vector<float>(found[0].size(), 0));
  }
}

/// Whatever lies next to each other in one stage's memory and not in another's.
TEST_F(Training, SharedMomentsGoToStagesOfOtherLayouts) {
  LoadedProgram program = loadedTiny({2, 2, 1, true});
  Parameter &second = program.program.stageList[1].parameters[0];
  second.moment2Offset = second.moment1Offset + second.elements() * int64_t{sizeof(float)};
  auto communicators = createThreadCommunicators(2, std::chrono::seconds(60));
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      auto executor = *Executor::prepare(program, *communicators[r], {});
      ASSERT_TRUE(executor->initialize(*TensorFiles::open(weights)));
      const Parameter &q = executor->stageInfo().parameters[0];
      float *moments[] = {executor->at(q.moment1Offset), executor->at(q.moment2Offset)};
      for (int64_t e = 0; r == 0 && e < q.elements(); ++e) {
        moments[0][e] = static_cast<float>(e + 1);
        moments[1][e] = static_cast<float>(-e - 1);
      }
      Status status = executor->shareParameters(true);
      EXPECT_TRUE(status) << status.message();
      for (int64_t e = 0; e < q.elements(); ++e) {
        EXPECT_EQ(moments[0][e], static_cast<float>(e + 1)) << r;
        EXPECT_EQ(moments[1][e], static_cast<float>(-e - 1)) << r;
      }
      if (!status)
        communicators[r]->abort(status);
      (void)communicators[r]->barrier(communicators[r]->everyone());
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(Training, WhatOneRankCannotReadIsEverybodysError) {
  LoadedProgram program = loadedTiny({2, 2, 2, false});
  for (Parameter &q : program.program.stageList[1].parameters)
    q.name = "other";
  auto communicators = createThreadCommunicators(4, std::chrono::seconds(60));
  std::vector<Status> results(4);
  std::vector<std::thread> threads;
  for (int r = 0; r < 4; ++r)
    threads.emplace_back([&, r] {
      auto executor = *Executor::prepare(program, *communicators[r], {});
      results[r] = executor->initialize(*TensorFiles::open(weights));
      (void)communicators[r]->barrier(communicators[r]->everyone());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(results[r].code(), r == 1 ? Code::NotFound : Code::Aborted) << r;
    EXPECT_NE(results[r].message().find("parameter \"other\" is missing"), std::string::npos) << r;
  }
}

TEST_F(Training, EvaluateGivesLossAndPrediction) {
  auto program = loadedTiny({1, 2, 1, true});
  auto communicators = createThreadCommunicators(1);
  auto executor = Executor::prepare(program, *communicators[0], {.guarded = true});
  ASSERT_TRUE(executor) << executor.status().message();
  ASSERT_TRUE((*executor)->initialize(*TensorFiles::open(weights)));
  auto groups = tinyStep(1, 2);
  TinySource source(groups, 1, 0);
  double loss = 0, labels = 0;
  int predictions = 0;
  ASSERT_TRUE((*executor)->run(
      "evaluate", source,
      [&](int32_t, const BatchValue &value, const std::byte *data, const PackedMicrobatch &batch) {
        for (int64_t t = 0; t < batch.tokens; ++t) {
          if (value.name == "loss")
            loss += reinterpret_cast<const float *>(data)[t];
          else
            predictions += reinterpret_cast<const int32_t *>(data)[t] >= 0;
        }
        if (value.name == "loss")
          labels += batch.labelTokens;
        return Status::ok();
      }));
  TinyReference reference(weights, true);
  expectClose(loss / labels, reference.step(groups, options).loss, "loss");
  EXPECT_EQ(predictions, labels);
}

} // namespace
} // namespace omnibal::rt
