//===- VocabularyTest.cpp - What token ids say ------------------------------------------------===//
#include "runtime/training/answers/Vocabulary.h"
#include <gtest/gtest.h>

using namespace omnibal::rt;

namespace {

std::string textOf(const std::string &file, const std::vector<int32_t> &ids) {
  Result<Vocabulary> vocabulary = Vocabulary::parse(file, "tokenizer.json");
  EXPECT_TRUE(vocabulary) << vocabulary.status().message();
  return vocabulary ? vocabulary->text(ids) : "";
}

std::string errorOf(const std::string &file) {
  return Vocabulary::parse(file, "tokenizer.json").status().message();
}

// The space is U+0120, the line feed U+010A; e with acute is the bytes C3 A9, as U+00C3 and U+00A9.
TEST(Vocabulary, BytesAsCharacters) {
  const std::string file =
      R"({"model": {"type": "BPE", "vocab": {"Hi": 0, "Ġyou": 1, "Ċ": 2, "Ã©": 3, "Ã": 4}},
          "decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteLevel"}]},
          "added_tokens": [{"id": 7, "content": "<|end|>", "special": true},
                           {"id": 8, "content": "<tool>", "special": false}]})";
  EXPECT_EQ(textOf(file, {0, 1, 2, 3, 7}), "Hi you\n\xc3\xa9");
  EXPECT_EQ(textOf(file, {4}), "\xc3"); // half a character
  EXPECT_EQ(textOf(file, {8, 5, 100, -1}), "<tool><5><100><-1>");
}

TEST(Vocabulary, Pieces) {
  const std::string list =
      R"({"model": {"type": "Unigram", "vocab": [["<pad>", 0], ["▁a▁b", -1.5], ["<0xC3>", -2],
                                                 ["<0xA9>", -2], ["<0xZZ>", -3]]},
          "decoder": null, "added_tokens": [{"id": 0, "content": "<pad>", "special": true}]})";
  EXPECT_EQ(textOf(list, {0, 1, 2, 3, 4}), " a b\xc3\xa9<0xZZ>");
  EXPECT_EQ(textOf(R"({"model": {"vocab": {"▁x": 3}}})", {3}), " x");
}

TEST(Vocabulary, WhatIsNoTokenizer) {
  for (const char *file : {"[]", "{}", R"({"model": 3})", R"({"model": {"vocab": "a"}})"})
    EXPECT_NE(errorOf(file).find("it has no model.vocab"), std::string::npos) << errorOf(file);
  for (const char *file :
       {R"({"model": {"vocab": {"a": -1}}})", R"({"model": {"vocab": {"a": 99999999999}}})"})
    EXPECT_NE(errorOf(file).find("which is not from 0 to"), std::string::npos) << errorOf(file);
  for (const char *file : {R"({"model": {"vocab": {"a": "b"}}})", R"({"model": {"vocab": [3]}})",
                           R"({"model": {"vocab": [[]]}})"})
    EXPECT_NE(errorOf(file).find("which is no token"), std::string::npos) << errorOf(file);
  EXPECT_NE(errorOf(R"({"model": {"vocab": {}}, "added_tokens": [{"id": 1}]})")
                .find("without id and content"),
            std::string::npos);
  EXPECT_NE(errorOf("{"), "");
}

TEST(Vocabulary, EndsOfAnswers) {
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(endsOfAnswers(R"({"eos_token_id": 2})", ""), (Ids{2}));
  EXPECT_EQ(endsOfAnswers(R"({"eos_token_id": [1, 106]})", ""), (Ids{1, 106}));
  EXPECT_EQ(endsOfAnswers(R"({"text_config": {"eos_token_id": 7}})", ""), (Ids{7}));
  for (const char *none : {"{}", "[]", "{", R"({"eos_token_id": "x"})", R"({"eos_token_id": -1})"})
    EXPECT_EQ(endsOfAnswers(none, ""), Ids()) << none;
}

} // namespace
