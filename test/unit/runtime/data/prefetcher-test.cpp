// The loader gives what the data set gives, in order, whatever the number of threads and the
// bounds.
#include "runtime/data/Prefetcher.h"
#include "test/unit/runtime/data/TestTar.h"
#include <gtest/gtest.h>
#include <numeric>

using namespace omnibal::rt;
using namespace omnibal::test;
using namespace std::chrono_literals;

namespace {

const std::string model = OMNIBAL_TEST_DATA "/tiny-internvl/";

TEST(Prefetcher, SameAsReadingOneByOne) {
  auto data = *Dataset::open({model + "data-000000.tar"});
  auto preprocess = *Preprocess::read(model + "preprocessor_config.json");
  std::vector<std::vector<int64_t>> batches = {{0, 1, 2}, {}, {5}, {63, 62, 0}, {2}};
  for (int threads : {1, 3})
    for (int64_t ahead : {1, 1000}) {
      LoaderOptions options;
      options.threads = threads;
      options.tileHeight = options.tileWidth = 28;
      options.tilesAhead = ahead;
      Prefetcher loader(data, preprocess, options);
      for (const auto &batch : batches)
        loader.announce(batch);
      for (const auto &batch : batches) {
        auto loaded = loader.take(60s);
        ASSERT_TRUE(loaded) << loaded.status().message();
        ASSERT_EQ(loaded->samples.size(), batch.size());
        std::vector<float> expected;
        int64_t tokens = 0;
        for (size_t s = 0; s < batch.size(); ++s) {
          Sample sample = *data->sample(batch[s]);
          EXPECT_EQ(loaded->samples[s].inputIds, sample.inputIds);
          tokens += sample.tokens();
          size_t at = expected.size();
          expected.resize(at + size_t(sample.tiles) * 3 * 28 * 28);
          ASSERT_TRUE(data->decodeTiles(batch[s], preprocess, 28, 28, expected.data() + at));
        }
        EXPECT_EQ(loaded->pixels, expected);
        EXPECT_EQ(loaded->tokens, tokens);
      }
      EXPECT_EQ(loader.take(1s).status().code(), Code::Internal); // never announced
    }
}

TEST(Prefetcher, PatchesOfPicturesOfTheirOwnSizes) {
  const std::string fixture = OMNIBAL_TEST_DATA "/tiny-qwen2_5_vl/";
  const PictureGrid grid{4, 2, 2, 16, 0};
  auto data = *Dataset::open({fixture + "data-000000.tar"}, grid);
  auto preprocess = *Preprocess::read(fixture + "preprocessor_config.json");
  LoaderOptions options;
  options.threads = 2;
  Prefetcher loader(data, preprocess, options);
  loader.announce({3, 2, 0});
  loader.announce({2});
  auto loaded = loader.take(60s);
  ASSERT_TRUE(loaded) << loaded.status().message();
  EXPECT_EQ(loaded->tiles, data->tiles(3) + data->tiles(0));
  std::vector<float> expected(size_t(loaded->tiles * grid.valuesPerUnit()));
  ASSERT_TRUE(data->decodePatches(3, preprocess, expected.data()));
  ASSERT_TRUE(
      data->decodePatches(0, preprocess, expected.data() + data->tiles(3) * grid.valuesPerUnit()));
  EXPECT_EQ(loaded->pixels, expected);
  EXPECT_EQ(loader.take(60s)->tiles, 0); // text alone
}

TEST(Prefetcher, WithoutPixelsNothingIsDecoded) {
  auto data = *Dataset::open({model + "data-000000.tar"});
  LoaderOptions options;
  options.pixels = false;
  Prefetcher loader(data, *Preprocess::parse("{}", ""), options);
  loader.announce({1, 3});
  auto loaded = loader.take(60s);
  ASSERT_TRUE(loaded);
  EXPECT_TRUE(loaded->pixels.empty());
  EXPECT_EQ(loaded->tiles, 5);
}

TEST(Prefetcher, TheFirstErrorInOrderIsReportedAndStays) {
  std::string picture = readFile(OMNIBAL_TEST_DATA "/images/rgb.png");
  std::string json = R"({"input_ids":[1],"labels":[1],"images":1})";
  TemporaryFolder folder;
  writeFile(folder / "s.tar", makeTar({{"good.json", json},
                                       {"good.0.png", picture},
                                       {"first.json", json},
                                       {"first.0.png", picture.substr(0, 70)},
                                       {"second.json", "{"},
                                       {"second.0.png", picture}}));
  auto data = *Dataset::open({folder / "s.tar"});
  LoaderOptions options;
  options.threads = 4;
  options.tileHeight = 20;
  options.tileWidth = 28;
  Prefetcher loader(data, *Preprocess::parse("{}", ""), options);
  loader.announce({0});
  loader.announce({0, 1, 2, 0});
  loader.announce({2});
  ASSERT_TRUE(loader.take(60s));
  for (int again = 0; again < 2; ++again) {
    auto failed = loader.take(60s);
    ASSERT_FALSE(failed);
    EXPECT_NE(failed.status().message().find("first"), std::string::npos)
        << failed.status().message();
  }
}

TEST(Prefetcher, RulesAreChecked) {
  auto data = *Dataset::open({model + "data-000000.tar"});
  LoaderOptions options;
  options.pixels = false;
  options.rules.tokensCap = 30;
  Prefetcher loader(data, *Preprocess::parse("{}", ""), options);
  loader.announce({1});
  auto failed = loader.take(60s);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.status().message().find("sample-0001"), std::string::npos);
  EXPECT_NE(failed.status().message().find("data-000000.tar"), std::string::npos);
}

} // namespace
