#include "tools/config/ConfigReader.h"
#include "test/support/TemporaryFolder.h"
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>

namespace omnibal::config {
namespace {

using Kind = ConfigValue::Kind;

class Reader : public testing::Test {
protected:
  rt::Result<ConfigFile> read(const std::string &text) {
    std::ofstream(path, std::ios::binary) << text;
    return readConfig(path);
  }

  /// The message without the folder.
  std::string problem(const std::string &text) {
    const auto file = read(text);
    const std::string message = file ? "" : file.status().message();
    return message.substr(std::min(message.find("omnibal.toml"), message.size()));
  }

  test::TemporaryFolder folder;
  std::string path = folder / "omnibal.toml";
};

TEST_F(Reader, EveryTypeAndItsLine) {
  const auto file = read("# a comment\n"
                         "whole = -12\n"
                         "real = 2e-5\n"
                         "truth = true\n"
                         "\n"
                         "text = \"a # is part of it\" # this is none\n"
                         "day = 2024-01-02\n");
  ASSERT_TRUE(file) << file.status().message();
  EXPECT_TRUE(file->tables.empty());
  const std::vector<ConfigEntry> &entries = file->top.entries;
  ASSERT_EQ(entries.size(), 5u);
  auto expect = [&](size_t at, const std::string &key, int64_t line, Kind kind,
                    const std::string &text, const std::string &seen) {
    EXPECT_EQ(entries[at].key, key);
    EXPECT_EQ(entries[at].line, line) << key;
    EXPECT_FALSE(entries[at].isList) << key;
    ASSERT_EQ(entries[at].values.size(), 1u) << key;
    EXPECT_EQ(entries[at].values[0].kind, kind) << key;
    EXPECT_EQ(entries[at].values[0].text, text) << key;
    EXPECT_EQ(entries[at].values[0].seen, seen) << key;
  };
  expect(0, "whole", 2, Kind::Whole, "-12", "-12");
  expect(1, "real", 3, Kind::Real, "2e-05", "2e-05");
  expect(2, "truth", 4, Kind::Truth, "true", "true");
  expect(3, "text", 6, Kind::Text, "a # is part of it", "the text \"a # is part of it\"");
  expect(4, "day", 7, Kind::Other, "", "a date or time");
}

TEST_F(Reader, NumbersAreReadBackAsTheyWere) {
  const std::vector<std::string> numbers = {"0.1", "1e300", "4.9406564584124654e-324",
                                            "-0.30000000000000004", "123456789.123456789"};
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i)
    text += "n" + std::to_string(i) + " = " + numbers[i] + "\n";
  const auto file =
      read(text + "up = inf\nxdown = -inf\nynone = nan\nzwhole = 9223372036854775807\n");
  ASSERT_TRUE(file) << file.status().message();
  for (size_t i = 0; i < numbers.size(); ++i)
    EXPECT_EQ(std::strtod(file->top.entries[i].values[0].text.c_str(), nullptr),
              std::strtod(numbers[i].c_str(), nullptr));
  auto textOf = [&](size_t at) { return file->top.entries[numbers.size() + at].values[0].text; };
  EXPECT_EQ(textOf(0), "inf");
  EXPECT_EQ(textOf(1), "-inf");
  EXPECT_TRUE(std::isnan(std::strtod(textOf(2).c_str(), nullptr)));
  EXPECT_EQ(textOf(3), "9223372036854775807");
}

TEST_F(Reader, ListsOverSeveralLines) {
  const auto file =
      read("data = [\n  \"a, b\", # the comma is part of the name\n  \"c\",\n]\nnone = []\n");
  ASSERT_TRUE(file) << file.status().message();
  ASSERT_EQ(file->top.entries.size(), 2u);
  const ConfigEntry &data = file->top.entries[0];
  EXPECT_TRUE(data.isList);
  EXPECT_EQ(data.line, 1);
  ASSERT_EQ(data.values.size(), 2u);
  EXPECT_EQ(data.values[0].text, "a, b");
  EXPECT_EQ(data.values[1].text, "c");
  EXPECT_TRUE(file->top.entries[1].isList);
  EXPECT_TRUE(file->top.entries[1].values.empty());
}

TEST_F(Reader, TablesAndWhatStandsBeforeThem) {
  const auto file = read("tiles = 4\n\n[run]\nlr = 1\nclip = 2\n\n[batch]\nranks = 3\n");
  ASSERT_TRUE(file) << file.status().message();
  ASSERT_EQ(file->top.entries.size(), 1u);
  ASSERT_EQ(file->tables.size(), 2u);
  EXPECT_EQ(file->tables[0].name, "run"); // as the lines are, not by name
  EXPECT_EQ(file->tables[0].line, 3);
  ASSERT_EQ(file->tables[0].entries.size(), 2u);
  EXPECT_EQ(file->tables[0].entries[0].key, "lr");
  EXPECT_EQ(file->tables[0].entries[1].line, 5);
  EXPECT_EQ(file->tables[1].name, "batch");
  EXPECT_EQ(file->tables[1].line, 7);
}

TEST_F(Reader, EveryProblemHasFileAndLine) {
  EXPECT_TRUE(problem("a = 1\nb = = 2\n").starts_with("omnibal.toml:2: "))
      << problem("a = 1\nb = = 2\n");
  EXPECT_TRUE(problem("a = 1\n\na = 2\n").starts_with("omnibal.toml:3: "))
      << problem("a = 1\n\na = 2\n");
  EXPECT_TRUE(problem("a = \"open\nb = 1\n").starts_with("omnibal.toml:1: "));
  EXPECT_TRUE(problem("[run]\n[run]\n").starts_with("omnibal.toml:2: "));
  EXPECT_TRUE(problem("a = nothing\n").starts_with("omnibal.toml:1: "));
  EXPECT_EQ(problem("\n[[run]]\nlr = 1\n"),
            "omnibal.toml:2: [[run]] is a list of tables; each tool has one table, [run]");
  const auto none = readConfig(folder / "none.toml");
  ASSERT_FALSE(none);
  EXPECT_NE(none.status().message().find("none.toml"), std::string::npos);
}

} // namespace
} // namespace omnibal::config
