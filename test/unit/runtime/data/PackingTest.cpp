// Packed micro-batches against hand-written rows.
#include "runtime/data/Packing.h"
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

using Ints = std::vector<int32_t>;

PackingRules rules() {
  PackingRules r;
  r.imageTokenId = 9;
  r.tokensPerTile = 2;
  r.vocabulary = 10;
  r.tilesCap = 3;
  r.tokensCap = 12;
  return r;
}

struct Held {
  std::string key;
  Ints ids, labels;
  int64_t tiles = 0;
  SampleView view() const { return {key, ids, labels, {}, tiles}; }
};

std::string errorOf(const std::vector<Held> &samples, const PackingRules &r = rules()) {
  std::vector<SampleView> views;
  for (const Held &h : samples)
    views.push_back(h.view());
  auto packed = pack(views, r);
  return packed ? "" : packed.status().message();
}

TEST(Packing, TwoSamplesWithPictures) {
  Held a{"a", {1, 9, 9, 2}, {-100, -100, -100, 5}, 1},
      b{"b", {9, 9, 9, 9, 3}, {7, 7, 7, -100, 0}, 2};
  std::vector<SampleView> views = {a.view(), b.view()};
  auto packed = pack(views, rules());
  ASSERT_TRUE(packed) << packed.status().message();
  EXPECT_EQ(packed->tiles, 3);
  EXPECT_EQ(packed->tokens, 9);
  EXPECT_EQ(packed->inputIds, (Ints{1, 9, 9, 2, 9, 9, 9, 9, 3}));
  // The label of a sample's first token is never a target: nothing predicts it.
  EXPECT_EQ(packed->targets, (Ints{-1, -1, 5, -1, 7, 7, -1, 0, -1}));
  EXPECT_EQ(packed->labelTokens, 4);
  EXPECT_EQ(packed->positions, (Ints{0, 1, 2, 3, 0, 1, 2, 3, 4}));
  EXPECT_EQ(packed->cuSeqlens, (Ints{0, 4, 9, 9, 9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(packed->imageRows, (Ints{-1, 0, 1, -1, 2, 3, 4, 5, -1}));
  EXPECT_EQ(packed->borders, (std::vector<int64_t>{0, 4, 9}));
}

/// A token sees the pictures of the last run before it, as far as the run goes up to it; one before
/// all pictures sees all of its sample's.
TEST(Packing, PicturesThatTokensSee) {
  PackingRules r = rules();
  r.tokensPerTile = 1;
  r.tilesCap = r.tokensCap = 20;
  r.seesPictures = true;
  Held a{"a", {9, 1, 2}, {}, 1}, b{"b", {1, 2}, {}, 0}, c{"c", {1, 9, 9, 2, 3, 9, 4, 9}, {}, 4};
  std::vector<SampleView> views = {a.view(), b.view(), c.view()};
  auto packed = pack(views, r);
  ASSERT_TRUE(packed) << packed.status().message();
  EXPECT_EQ(packed->tokenInputs["image_begins"], (Ints{0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 3, 3, 4}));
  EXPECT_EQ(packed->tokenInputs["image_ends"], (Ints{1, 1, 1, 1, 1, 5, 2, 3, 3, 3, 4, 4, 5}));
  EXPECT_EQ(packed->tokenInputs["image_seen"], (Ints{1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1}));
}

/// Both answers of a pair see its pictures, which are there once.
TEST(Packing, PairsOfAnswers) {
  PackingRules r = rules();
  r.tokensCap = 20;
  r.tokenInputs = {"types"};
  const Ints types = {0, 0, 0, 1, 1, 2, 2, 2, 3};
  // "9 9 1" with the answer "2 3", and with "4"; and a pair without pictures.
  Held a{"a", {9, 9, 1, 2, 3, 9, 9, 1, 4}, {-100, -100, -100, 2, 3, -100, -100, -100, 4}, 1},
      b{"b", {5, 6, 5, 7}, {5, 6, -100, 7}, 0};
  std::vector<SampleView> views = {b.view(), a.view()};
  views[0].chosenTokens = 2;
  views[0].reference = {-1.5f, -2.5f};
  views[0].tokenInputs["types"] = std::span(types).first(4);
  views[1].chosenTokens = 5;
  views[1].reference = {-3.f, -4.f};
  views[1].tokenInputs["types"] = types;
  auto packed = pack(views, r);
  ASSERT_TRUE(packed) << packed.status().message();
  EXPECT_EQ(packed->tiles, 1);
  EXPECT_EQ(packed->tokens, 13);
  EXPECT_EQ(packed->inputIds, (Ints{5, 6, 5, 7, 9, 9, 1, 2, 3, 9, 9, 1, 4}));
  EXPECT_EQ(packed->targets, (Ints{6, -1, 7, -1, -1, -1, 2, 3, -1, -1, -1, 4, -1}));
  EXPECT_EQ(packed->positions, (Ints{0, 1, 0, 1, 0, 1, 2, 3, 4, 0, 1, 2, 3}));
  EXPECT_EQ(packed->imageRows, (Ints{-1, -1, -1, -1, 0, 1, -1, -1, -1, 0, 1, -1, -1}));
  EXPECT_EQ(packed->borders, (std::vector<int64_t>{0, 2, 4, 9, 13}));
  EXPECT_EQ(packed->tokenInputs["types"], (Ints{0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 2, 2, 3}));
  std::vector<float> references(13);
  references[0] = -1.5f;
  references[2] = -2.5f;
  references[4] = -3.f;
  references[9] = -4.f;
  EXPECT_EQ(packed->references, references);
  EXPECT_EQ(packed->pairs, 2);
  EXPECT_EQ(packed->samples(), 2);
  EXPECT_EQ(packed->labelTokens, 5);
  EXPECT_EQ(packed->losses(), 2);
}

TEST(Packing, TokensThatSeePicturesOfTheirPair) {
  PackingRules r = rules();
  r.tokensPerTile = 1;
  r.tilesCap = r.tokensCap = 20;
  r.seesPictures = true;
  Held a{"a", {9, 1}, {}, 1}, b{"b", {9, 1, 9, 2, 9, 9, 3}, {}, 2};
  std::vector<SampleView> views = {a.view(), b.view()};
  views[1].chosenTokens = 4;
  auto packed = pack(views, r);
  ASSERT_TRUE(packed) << packed.status().message();
  EXPECT_EQ(packed->tokenInputs["image_begins"], (Ints{0, 0, 1, 1, 2, 2, 1, 1, 1}));
  EXPECT_EQ(packed->tokenInputs["image_ends"], (Ints{1, 1, 2, 2, 3, 3, 2, 3, 3}));
}

TEST(Packing, NothingAtAll) {
  auto packed = pack({}, rules());
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->tokens, 0);
  EXPECT_EQ(packed->cuSeqlens, Ints{0});
}

TEST(Packing, FurtherTokenInputs) {
  PackingRules r = rules();
  r.tokenInputs = {"token_type_ids"};
  Held a{"a", {1, 2}, {}, 0}, b{"b", {3}, {}, 0};
  Ints types = {4, 5}, other = {6};
  std::vector<SampleView> views = {a.view(), b.view()};
  EXPECT_NE(
      pack(views, r).status().message().find("sample \"a\": the model reads \"token_type_ids\""),
      std::string::npos);
  views[0].tokenInputs["token_type_ids"] = types;
  views[1].tokenInputs["token_type_ids"] = other;
  EXPECT_EQ(pack(views, r)->tokenInputs.at("token_type_ids"), (Ints{4, 5, 6}));
}

TEST(Packing, ErrorsNameTheSample) {
  auto expect = [](const std::string &message, const std::string &part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(errorOf({{"k1", {1, 10}, {-100, 1}, 0}}), "sample \"k1\": input_ids[1] is 10");
  expect(errorOf({{"k1", {1, -1}, {-100, 1}, 0}}), "sample \"k1\": input_ids[1] is -1");
  expect(errorOf({{"k1", {1, 2}, {-100, 11}, 0}}), "sample \"k1\": labels[1] is 11");
  expect(errorOf({{"k1", {1, 2}, {-100}, 0}}), "labels has 1 entries, input_ids 2");
  expect(errorOf({{"k1", {9, 2}, {-100, 1}, 1}}), "1 times, but its 1 pictures need 2");
  expect(errorOf({{"k1", {1, 2}, {-100, 1}, 4}}), "sample \"k1\": 4 tiles and 2 tokens");
  expect(errorOf({{"k1", Ints(13, 1), Ints(13, 1), 0}}), "13 tokens, but the program was compiled");
  expect(errorOf({{"k1", Ints(7, 1), Ints(7, 1), 0}, {"k2", Ints(6, 1), Ints(6, 1), 0}}),
         "the group of samples k1, k2 has 0 tiles and 13 tokens");
  expect(errorOf({{"k1", {}, {}, 0}}), "input_ids is empty");
}

TEST(Packing, CutInOrder) {
  std::vector<std::pair<int64_t, int64_t>> loads = {{1, 5}, {2, 5}, {1, 1}, {0, 12}, {0, 1}};
  std::vector<std::vector<int64_t>> expected = {{0, 1}, {2}, {3}, {4}};
  EXPECT_EQ(cutInOrder(loads, 3, 12), expected);
}

} // namespace
} // namespace omnibal::rt
