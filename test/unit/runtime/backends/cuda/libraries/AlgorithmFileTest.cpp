#include "runtime/backends/cuda/libraries/AlgorithmFile.h"
#include "test/unit/runtime/backends/cuda/libraries/FakeFolder.h"
#include <thread>

using namespace omnibal::rt;
using namespace omnibal::rt::test;
using cuda::AlgorithmFile, cuda::MeasuredAlgorithm;

namespace {

MeasuredAlgorithm algorithm(uint64_t number) { return {{{number, ~number}}, 0.25}; }

} // namespace

TEST(AlgorithmFile, TextAndBack) {
  const std::map<std::string, MeasuredAlgorithm> entries = {{"a \"name\"", algorithm(0x1234abcd)},
                                                            {"b", algorithm(7)}};
  const std::string text = cuda::printAlgorithms(entries);
  auto parsed = cuda::parseAlgorithms(text, "file");
  ASSERT_TRUE(parsed) << parsed.status().message();
  ASSERT_EQ(parsed->size(), 2u);
  EXPECT_EQ(parsed->at("a \"name\"").algorithm.data[0], 0x1234abcdu);
  EXPECT_EQ(parsed->at("a \"name\"").algorithm.data[1], ~uint64_t{0x1234abcd});
  EXPECT_EQ(cuda::printAlgorithms(*parsed), text);
}

TEST(AlgorithmFile, ReadsNothingElse) {
  const std::string good = cuda::printAlgorithms({{"a", algorithm(1)}});
  auto refused = [](const std::string &text) { return !cuda::parseAlgorithms(text, "file"); };
  EXPECT_FALSE(refused(good));
  auto with = [&](const std::string &from, const std::string &to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_TRUE(refused(good.substr(0, good.size() / 2)));
  EXPECT_TRUE(refused(with("algorithms/1", "algorithms/2")));
  EXPECT_TRUE(refused(with("\"version\"", "\"release\"")));
  EXPECT_TRUE(refused(with("0.25", "-1")));
  EXPECT_TRUE(refused(with("0.25", "\"fast\"")));
  EXPECT_TRUE(refused(with("0000", "000")));
  EXPECT_TRUE(refused(with("0000", "00G0")));
  EXPECT_TRUE(refused(with("\"seconds\"", "\"minutes\"")));
  EXPECT_TRUE(refused("[]"));
  EXPECT_TRUE(refused(""));
}

TEST(AlgorithmFile, ADamagedFileIsMadeAnew) {
  TemporaryFolder folder;
  const std::string path = folder / "algorithms.json";
  writeFile(path, "{\"version\": ");
  ::testing::internal::CaptureStderr();
  AlgorithmFile file(path);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("algorithms are measured anew"), std::string::npos) << said;
  EXPECT_NE(said.find(path), std::string::npos) << said;
  auto got = file.get("a", []() -> Result<MeasuredAlgorithm> { return algorithm(5); });
  ASSERT_TRUE(got);
  EXPECT_EQ(readFile(path), cuda::printAlgorithms({{"a", algorithm(5)}}));
}

TEST(AlgorithmFile, AFolderThatCannotBeMadeIsANotice) {
  TemporaryFolder folder;
  writeFile(folder / "file", "");
  AlgorithmFile file(folder / "file/algorithms.json");
  ::testing::internal::CaptureStderr();
  auto got = file.get("a", []() -> Result<MeasuredAlgorithm> { return algorithm(5); });
  EXPECT_TRUE(got);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("measured algorithms are not kept"),
            std::string::npos);
  EXPECT_TRUE(file.knows("a"));
}

TEST(AlgorithmFile, SeveralAtATimeChooseOnce) {
  TemporaryFolder folder;
  const std::string path = folder / "algorithms.json";
  std::atomic<int> measured = 0;
  std::vector<uint64_t> chosen(8);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      AlgorithmFile mine(path); // as if of another process
      auto got = mine.get("a", [&]() -> Result<MeasuredAlgorithm> {
        ++measured;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return algorithm(i);
      });
      chosen[i] = got ? got->algorithm.data[0] : 99;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(measured, 1);
  EXPECT_EQ(chosen, std::vector<uint64_t>(8, chosen[0]));
}

TEST(AlgorithmFile, AnErrorOfMeasuringIsKeptNowhere) {
  AlgorithmFile file("");
  EXPECT_FALSE(file.get("a", [] { return Result<MeasuredAlgorithm>(invalid("no")); }));
  EXPECT_FALSE(file.knows("a"));
}
