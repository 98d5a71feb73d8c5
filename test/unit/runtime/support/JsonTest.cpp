// JSON as it is read from others and written for others.
#include "runtime/support/JsonField.h"
#include "runtime/support/JsonWriter.h"
#include <gtest/gtest.h>

using namespace omnibal::rt;

namespace {

std::string errorOf(const std::string &text, const JsonRules &rules = {}) {
  return parseJson(text, "f.json", rules).status().message();
}

TEST(Json, ReadsWhatTheLibraryReads) {
  std::string text =
      R"({"a": [1, -2, 1.5, true, null, "x\u0041"], "b": {"c": {}, "d": []}, "": 18446744073709551615})";
  auto value = parseJson(text, "f.json");
  ASSERT_TRUE(value.isOk()) << value.status().message();
  EXPECT_EQ(*value, nlohmann::json::parse(text));
}

TEST(Json, DecimalsKeepTheirDigits) {
  JsonRules rules;
  rules.keepDecimals = true;
  auto value = parseJson("[1.10, 25e9, 7, \"1.5\", 0.123456789012345678]", "f.json", rules);
  ASSERT_TRUE(value.isOk());
  EXPECT_EQ(keptDecimal((*value)[0]), "1.10");
  EXPECT_EQ(keptDecimal((*value)[1]), "25e9");
  EXPECT_EQ(keptDecimal((*value)[2]), "");
  EXPECT_EQ(keptDecimal((*value)[3]), "");
  EXPECT_EQ(keptDecimal((*value)[4]), "0.123456789012345678");
}

TEST(Json, ErrorsNameFileAndPlace) {
  EXPECT_EQ(errorOf(R"({"a": 1, "b": {"a": 1}, "a": 2})"), "f.json: the key \"a\" occurs twice");
  EXPECT_EQ(errorOf(R"({"a": 1, "\u0061": 2})"), "f.json: the key \"a\" occurs twice");
  std::string broken = errorOf("{\"a\": 1,\n \"b\": }");
  EXPECT_EQ(broken.rfind("f.json: not valid JSON: ", 0), 0u) << broken;
  EXPECT_NE(broken.find("line 2"), std::string::npos) << broken;
  EXPECT_NE(broken.find("after the key \"b\""), std::string::npos) << broken;
  EXPECT_NE(errorOf("{} x").find("not valid JSON"), std::string::npos);
}

TEST(Json, RulesAreLimits) {
  JsonRules rules{3, 2, 4, "; do less", false};
  EXPECT_EQ(errorOf("[[[]]]", rules), "");
  EXPECT_EQ(errorOf("[[[{", rules), "f.json: nested deeper than 3");
  EXPECT_EQ(errorOf("[{}, {}]", rules), "");
  EXPECT_EQ(errorOf("[{}, {}, {}]", rules),
            "f.json: too large: more than 2 objects or 4 lists; do less");
  EXPECT_EQ(errorOf("[[], [], [], []]", rules),
            "f.json: too large: more than 2 objects or 4 lists; do less");
}

TEST(Json, NothingNestsDeep) {
  EXPECT_EQ(errorOf(std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_EQ(errorOf(std::string(1 << 22, '[')), "f.json: nested deeper than 64");
}

TEST(JsonField, ErrorsNameFieldAndRange) {
  auto errorOf = [](const char *text, auto read) {
    auto value = parseJson(text, "f.json");
    Status error;
    read(JsonField(*value, "f.json", error));
    return error.message();
  };
  auto small = [](JsonField root) { return root["a"].integer(1, 9); };
  EXPECT_EQ(errorOf(R"({"a": 9})", small), "");
  EXPECT_EQ(errorOf(R"({"a": 0.3e1})", small), "");
  EXPECT_EQ(errorOf(R"({"a": 10})", small), "f.json.a: an integer from 1 to 9 is expected, not 10");
  EXPECT_EQ(errorOf(R"({"a": 2.5})", small), "f.json.a: an integer from 1 to 9 is expected");
  EXPECT_EQ(errorOf(R"({})", small), "f.json: the field \"a\" is missing");
  auto share = [](JsonField root) { return root["a"].number(0); };
  EXPECT_EQ(errorOf(R"({"a": -1})", share), "f.json.a: a number of at least 0.0 is expected");
  EXPECT_EQ(errorOf(R"({"b": 1})", [](JsonField root) { root.onlyKeys({"a", "c"}); }),
            "f.json: the field \"b\" is unknown (known: a, c)");
}

TEST(JsonField, ATupleHasItsElementsAfterAnError) {
  for (const char *pair : {"[1, 2]", "[1]", "0"}) {
    auto value = parseJson(R"({"pair": )" + std::string(pair) + "}", "f.json");
    ASSERT_TRUE(value);
    Status error;
    const JsonField root(*value, "f.json", error);
    root["missing"].text();
    ASSERT_TRUE(root.failed());
    const std::vector<JsonField> both = root["pair"].tuple(2);
    ASSERT_EQ(both.size(), 2u) << pair;
    (void)both[1].integer();
  }
}

TEST(JsonWriter, WritesInTheOrderOfTheCalls) {
  for (int indent : {0, 1}) {
    JsonWriter out(indent);
    out.object([&] {
      out.attribute("z", int64_t{-3});
      out.attribute("a", std::vector<std::string>{"x", "\"\n"});
      out.attributeArray("empty", [] {});
      out.attributeObject("o", [&] {
        out.attribute("share", 0.1);
        out.attribute("sure", true);
        out.attribute("none", nullptr);
      });
      out.rawAttribute("raw", "1.250");
      out.attributeArray("l", [&] {
        out.array([&] { out.value(1); });
        out.object([] {});
      });
    });
    std::string oneLine = R"({"z":-3,"a":["x","\"\n"],"empty":[],"o":{"share":0.10000000000000001,)"
                          R"("sure":true,"none":null},"raw":1.250,"l":[[1],{}]})";
    std::string lines = "{\n \"z\": -3,\n \"a\": [\n  \"x\",\n  \"\\\"\\n\"\n ],\n \"empty\": [],\n"
                        " \"o\": {\n  \"share\": 0.10000000000000001,\n  \"sure\": true,\n"
                        "  \"none\": null\n },\n \"raw\": 1.250,\n \"l\": [\n  [\n   1\n  ],\n"
                        "  {}\n ]\n}";
    EXPECT_EQ(out.take(), indent ? lines : oneLine);
  }
}

TEST(JsonWriter, WritesAnObjectForEachItem) {
  JsonWriter out;
  out.object([&] {
    out.attributeObjects("l", std::vector<int64_t>{3, 4},
                         [&](int64_t item) { out.attribute("n", item); });
    out.attributeObjects("none", std::vector<int64_t>{}, [](int64_t) {});
  });
  EXPECT_EQ(out.take(), R"({"l":[{"n":3},{"n":4}],"none":[]})");
}

} // namespace
