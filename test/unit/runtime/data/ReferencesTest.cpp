// Pairs of answers, and files with what the reference thinks of them.
#include "runtime/data/References.h"
#include "test/unit/runtime/data/TestTar.h"
#include <gtest/gtest.h>

using namespace omnibal::rt;
using namespace omnibal::test;

namespace {

const char *firstPair =
    R"({"input_ids":[1,2,3,1,4],"labels":[-100,2,3,-100,4],"images":0,"chosen_tokens":3})";
const char *secondPair =
    R"({"input_ids":[5,6,5,7],"labels":[-100,6,-100,7],"images":0,"chosen_tokens":2})";

class ReferencesTest : public ::testing::Test {
protected:
  std::shared_ptr<const Dataset> dataOf(const std::string &first) {
    writeFile(folder / "a.tar", makeTar({{"one.json", first}, {"two.json", secondPair}}));
    auto data = Dataset::open({folder / "a.tar"});
    EXPECT_TRUE(data) << data.status().message();
    return *data;
  }
  std::string errorOf(const std::string &text, const Dataset &data, const std::string &weights) {
    writeFile(folder / "r.jsonl", text);
    auto read = References::read(folder / "r.jsonl", data, weights);
    return read ? "" : read.status().message();
  }

  TemporaryFolder folder;
};

TEST_F(ReferencesTest, WhatIsWrittenIsRead) {
  auto data = dataOf(firstPair);
  std::vector<References::Entry> entries;
  for (int64_t i = 0; i < 2; ++i)
    entries.push_back(
        {{-1.0f / 3 - static_cast<float>(i), -123.456f}, digestOfPair(*data->sample(i))});
  EXPECT_NE(entries[0].digest, entries[1].digest);
  ASSERT_TRUE(References(entries, "here").write(folder / "r.jsonl", *data, "some"));
  auto read = References::read(folder / "r.jsonl", *data, "some");
  ASSERT_TRUE(read) << read.status().message();
  for (int64_t i = 0; i < 2; ++i) {
    auto values = read->of(i, *data->sample(i));
    ASSERT_TRUE(values) << values.status().message();
    EXPECT_EQ(values->chosen, entries[i].values.chosen); // bit by bit
    EXPECT_EQ(values->rejected, entries[i].values.rejected);
  }
  EXPECT_TRUE(References::read(folder / "r.jsonl", *data, "")); // of any weights
}

TEST_F(ReferencesTest, OnesOfSomethingElseAreRefused) {
  auto data = dataOf(firstPair);
  std::vector<References::Entry> entries;
  for (int64_t i = 0; i < 2; ++i)
    entries.push_back({{-1, -2}, digestOfPair(*data->sample(i))});
  const References references(entries, "here.jsonl");
  ASSERT_TRUE(references.write(folder / "whole.jsonl", *data, "some"));
  const std::string text = readFile(folder / "whole.jsonl");
  EXPECT_NE(errorOf(text, *data, "other").find("found by other weights"), std::string::npos);
  EXPECT_NE(errorOf(text.substr(0, text.size() - 40), *data, "").find("line 3: holds no"),
            std::string::npos);
  const size_t second = text.find("\n", text.find("\n") + 1) + 1;
  EXPECT_NE(errorOf(text.substr(0, second), *data, "").find("ends before the last pair"),
            std::string::npos);
  EXPECT_NE(errorOf("{}\n", *data, "").find("line 1: is not the beginning"), std::string::npos);
  // Another label, another border of what is learnt, or another token.
  for (const char *other :
       {R"({"input_ids":[1,2,3,1,4],"labels":[-100,2,9,-100,4],"images":0,"chosen_tokens":3})",
        R"({"input_ids":[1,2,3,1,4],"labels":[-100,2,3,-100,4],"images":0,"chosen_tokens":2})",
        R"({"input_ids":[9,2,3,1,4],"labels":[-100,2,3,-100,4],"images":0,"chosen_tokens":3})"}) {
    auto changed = dataOf(other);
    auto values = references.of(0, *changed->sample(0));
    ASSERT_FALSE(values);
    EXPECT_NE(values.status().message().find("\"one\": here.jsonl has the reference's"),
              std::string::npos);
  }
}

/// The error of a pair that is read and checked for a program that learns from pairs.
std::string errorOfPair(const std::string &json, bool learnsFromPairs = true) {
  TemporaryFolder folder;
  writeFile(folder / "a.tar", makeTar({{"one.json", json}}));
  auto sample = (*Dataset::open({folder / "a.tar"}))->sample(0);
  if (!sample)
    return sample.status().message();
  SampleRules rules;
  rules.pairs = learnsFromPairs;
  rules.imageTokenId = 8;
  rules.tokensPerTile = 1;
  rules.positions = 4;
  rules.prefixInputs = rules.tokenInputs = {"types"};
  return checkSample(*sample, rules).message();
}

TEST(Pairs, EachSideIsChecked) {
  const std::string types = R"(,"images":0,"types":[0,1,0,1,1]})";
  auto pair = [&](const std::string &ids, const std::string &labels, const std::string &chosen) {
    return R"({"input_ids":)" + ids + R"(,"labels":)" + labels + R"(,"chosen_tokens":)" + chosen +
           types;
  };
  const std::string ids = "[1,2,1,3,4]", labels = "[-100,2,-100,3,4]";
  EXPECT_EQ(errorOfPair(pair(ids, labels, "2")), "");
  EXPECT_NE(errorOfPair(pair(ids, labels, "0")).find("the pair has no chosen answer"),
            std::string::npos);
  EXPECT_NE(errorOfPair(pair(ids, labels, "5")).find("the pair has no rejected answer"),
            std::string::npos);
  EXPECT_NE(errorOfPair(pair(ids, labels, "[2]")).find("is not a number of tokens"),
            std::string::npos);
  EXPECT_NE(errorOfPair(pair(ids, "[2,-100,-100,3,4]", "2")).find("has none for the chosen answer"),
            std::string::npos); // nobody predicts a first token
  EXPECT_NE(
      errorOfPair(pair("[1,2,1,8,4]", labels, "2")).find("of the rejected answer holds the image"),
      std::string::npos);
  EXPECT_NE(errorOfPair(pair(ids, labels, "3")).find("[2] is 0 after a 1"), std::string::npos);
  EXPECT_NE(errorOfPair(pair(ids, labels, "2"), false).find("is a pair of answers"),
            std::string::npos);
  EXPECT_NE(errorOfPair(R"({"input_ids":[1,2],"labels":[-100,2],"images":0,"types":[0,1]})")
                .find("is no pair of answers"),
            std::string::npos);
}

TEST(Pairs, PositionsOfEachSideCount) {
  const std::string most =
      R"("images":0,"types":[0,1,1,1,0,1,1,1],"labels":[-100,1,1,1,-100,1,1,1],)";
  EXPECT_EQ(errorOfPair("{" + most + R"("input_ids":[1,1,1,1,1,1,1,1],"chosen_tokens":4})"), "");
  EXPECT_NE(errorOfPair("{" + most + R"("input_ids":[1,1,1,1,1,1,1,1],"chosen_tokens":3})")
                .find("after a 1"),
            std::string::npos);
}

} // namespace
