#include "test/unit/tools/config/TinyTool.h"

namespace omnibal::config {
namespace {

using Strings = std::vector<std::string>;

class ApplyConfig : public TinyTool {};

TEST_F(ApplyConfig, EveryLongFlagIsAKey) {
  const Parsed p = parse({}, "program = \"p\"\nsteps = 12\nrate = 2e-5\ncoefficient = 1\n"
                             "overwrite = true\nname = \"a # b\"\ndata = [\"x\", \"y z\"]\n"
                             "parts = [\"a\", \"c\"]\nrule = [\"q=1\"]\nlevel = \"high\"\n");
  ASSERT_TRUE(p.goesOn) << p.said;
  EXPECT_EQ(p.program, "p");
  EXPECT_EQ(p.steps, 12);
  EXPECT_EQ(p.rate, 2e-5);
  EXPECT_EQ(p.coefficient, 1.0);
  EXPECT_TRUE(p.overwrite);
  EXPECT_EQ(p.name, "a # b");
  EXPECT_EQ(p.data, (Strings{"x", "y z"}));
  EXPECT_EQ(p.parts, (Strings{"a", "c"}));
  EXPECT_EQ(p.rules, Strings{"q=1"});
  EXPECT_EQ(p.level, "HIGH");
}

TEST_F(ApplyConfig, AOneLetterFlagIsAKeyToo) {
  for (const char *file : {"n = \"x\"\n", "[run]\nn = \"x\"\n"}) {
    const Parsed p = parse({}, file);
    ASSERT_TRUE(p.goesOn) << p.said;
    EXPECT_EQ(p.name, "x");
  }
  EXPECT_EQ(problem("n = \"x\"\nname = \"y\"\n"),
            "omnibal.toml:2: \"name\" and \"n\" are one option; leave one of them out");
}

TEST_F(ApplyConfig, ANumberMayBeAText) {
  for (const char *table : {"", "[run]\n"}) {
    const Parsed p = parse({}, table + std::string("steps = \"12\"\nrate = \"2e-5\"\n"
                                                   "coefficient = \"1\"\ntiles = \"9\"\n"
                                                   "seed = \"18446744073709551615\"\n"));
    ASSERT_TRUE(p.goesOn) << p.said;
    EXPECT_EQ(p.steps, 12);
    EXPECT_EQ(p.rate, 2e-5);
    EXPECT_EQ(p.coefficient, 1.0);
    EXPECT_EQ(p.tiles, 9);
    EXPECT_EQ(p.seed, UINT64_MAX);
  }
}

TEST_F(ApplyConfig, BytesMayHaveAnExponent) {
  for (const char *value : {"8e10", "80000000000", "80_000_000_000", "8.0e10", "\"8e10\""}) {
    const Parsed p = parse({}, std::string("memory = ") + value + "\n");
    ASSERT_TRUE(p.goesOn) << p.said;
    EXPECT_EQ(p.memory, 80000000000);
    EXPECT_NE(p.config.find("\nmemory = 80000000000\n"), std::string::npos) << p.config;
  }
  EXPECT_EQ(problem("memory = 1.5\n"), "omnibal.toml:1: \"memory\": 1.5 is not a whole number of "
                                       "bytes from 1 to 9223372036854775807");
  EXPECT_EQ(problem("memory = true\n"), "omnibal.toml:1: \"memory\" is a number, not true");
}

TEST_F(ApplyConfig, ATextMayBeANumber) {
  const Parsed p = parse({}, "program = 17\nname = 0.5\ndata = [\"x\", 3]\nrule = 100\n");
  ASSERT_TRUE(p.goesOn) << p.said;
  EXPECT_EQ(p.program, "17");
  EXPECT_EQ(p.name, "0.5");
  EXPECT_EQ(p.data, (Strings{"x", "3"}));
  EXPECT_EQ(p.rules, Strings{"100"});
}

TEST_F(ApplyConfig, AFlagTakesTheWordsOfACommandLine) {
  for (const char *word : {"true", "1", "\"true\"", "\"yes\"", "\"on\"", "\"1\""}) {
    const Parsed p = parse({}, std::string("overwrite = ") + word + "\n");
    ASSERT_TRUE(p.goesOn) << p.said;
    EXPECT_TRUE(p.overwrite) << word;
    EXPECT_NE(p.config.find("\noverwrite = true\n"), std::string::npos) << p.config;
  }
  for (const char *word : {"false", "0", "\"false\"", "\"no\"", "\"off\"", "\"0\""}) {
    const Parsed p = parse({}, std::string("overwrite = ") + word + "\n");
    ASSERT_TRUE(p.goesOn) << p.said;
    EXPECT_FALSE(p.overwrite) << word;
  }
}

TEST_F(ApplyConfig, WhatIsNotThereKeepsItsDefault) {
  const Parsed p = parse({}, "overwrite = false\ndata = []\n");
  ASSERT_TRUE(p.goesOn) << p.said;
  EXPECT_EQ(p.steps, 7);
  EXPECT_EQ(p.rate, 0.25);
  EXPECT_FALSE(p.coefficient);
  EXPECT_FALSE(p.overwrite);
  EXPECT_TRUE(p.data.empty());
}

TEST_F(ApplyConfig, TheCommandLineGoesBeforeTheFile) {
  const std::string file = "steps = 12\nname = \"file\"\ndata = [\"x\", \"y\"]\noverwrite = true\n";
  const Parsed p = parse({"--steps", "3", "-n", "line", "--data", "z", "--overwrite=false"}, file);
  ASSERT_TRUE(p.goesOn) << p.said;
  EXPECT_EQ(p.steps, 3);
  EXPECT_EQ(p.name, "line");
  EXPECT_EQ(p.data, Strings{"z"});
  EXPECT_FALSE(p.overwrite);
}

TEST_F(ApplyConfig, AFlagGoesBeforeWhatItExcludesInTheFile) {
  const Parsed p = parse({"--every", "5"}, "minutes = 3\n");
  ASSERT_TRUE(p.goesOn) << p.said;
  EXPECT_EQ(p.every, 5);
  EXPECT_EQ(p.minutes, 10);
  EXPECT_EQ(parse({}, "minutes = 3\nevery = 5\n").exitCode, 2);
}

TEST_F(ApplyConfig, EachToolTakesItsTable) {
  const Parsed p =
      parse({}, "tiles = 4\nseed = 3\n[batch]\nranks = 2\n[run]\nsteps = 5\n[compile]\nx = 1\n");
  ASSERT_TRUE(p.goesOn) << p.said;
  EXPECT_EQ(p.tiles, 4); // seed, which this tool does not have, is for others
  EXPECT_EQ(p.steps, 5);
  const Parsed both = parse({}, "tiles = 4\n[run]\ntiles = 6\n");
  ASSERT_TRUE(both.goesOn) << both.said;
  EXPECT_EQ(both.tiles, 6);
  const Parsed none = parse({}, "tiles = 4\n[batch]\nranks = 2\n");
  ASSERT_TRUE(none.goesOn) << none.said;
  EXPECT_EQ(none.tiles, 4);
}

TEST_F(ApplyConfig, UnknownNamesAreRefused) {
  EXPECT_EQ(problem("steps = 1\nstep = 2\n"),
            "omnibal.toml:2: omnibal-run has no option \"step\"; the nearest is \"steps\"");
  EXPECT_EQ(
      problem("[run]\n\nOver_write = true\n"),
      "omnibal.toml:3: omnibal-run has no option \"Over_write\"; the nearest is \"overwrite\"");
  EXPECT_EQ(problem("tiles = 1\n[bacth]\nx = 1\n"),
            "omnibal.toml:2: no tool has a table [bacth]; the nearest is [batch]");
  const std::string where = " stands before the tables, where only allow-links-within, batches, "
                            "preprocess, seed, tiles, tokens, weights may stand; ";
  EXPECT_EQ(problem("\nsteps = 1\n[run]\n"),
            "omnibal.toml:2: \"steps\"" + where + "move it to [run]");
  EXPECT_EQ(problem("tokns = 1\n[run]\n"),
            "omnibal.toml:1: \"tokns\"" + where + "the nearest is \"tokens\"");
  // What is for the command line alone.
  EXPECT_TRUE(problem("config = \"x\"\n").starts_with("omnibal.toml:1: omnibal-run has no option"));
  EXPECT_TRUE(problem("help = true\n").starts_with("omnibal.toml:1: omnibal-run has no option"));
  // Also where the command line would go before it.
  EXPECT_TRUE(problem("step = 2\n", {"--steps", "3"}).starts_with("omnibal.toml:1: "));
}

TEST_F(ApplyConfig, WrongTypesAreRefused) {
  auto expect = [&](const std::string &line, const std::string &says) {
    EXPECT_EQ(problem("\n" + line + "\n"), "omnibal.toml:2: " + says);
  };
  expect("steps = 1.0", "\"steps\" is a whole number, not 1.0");
  expect("steps = true", "\"steps\" is a whole number, not true");
  expect("steps = [1]", "\"steps\" has one value, not a list");
  expect("rate = 2024-01-02", "\"rate\" is a number, not a date or time");
  expect("coefficient = false", "\"coefficient\" is a number, not false");
  expect("overwrite = 1.0", "\"overwrite\" is true or false, not 1.0");
  expect("overwrite = \"sure\"", "\"overwrite\" is true or false, not the text \"sure\"");
  expect("overwrite = \"\"", "\"overwrite\" is true or false, not the text \"\"");
  expect("name = true", "\"name\" is a text in quotation marks, not true");
  expect("data = [\"x\", false]", "\"data\" is a text in quotation marks, not false");
  expect("data = [[\"x\"]]", "\"data\" is a text in quotation marks, not a list");
  expect("name = {a = 1}", "no tool has a table [name]; the nearest is [batch]");
  EXPECT_EQ(problem("[run]\nname = {a = 1}\n"),
            "omnibal.toml:2: \"name\" is a text in quotation marks, not a table");
}

TEST_F(ApplyConfig, WrongValuesAreRefused) {
  EXPECT_EQ(problem("rate = 1\nsteps = 0\n"),
            "omnibal.toml:2: \"steps\": 0 is not a whole number from 1 to 1000");
  EXPECT_EQ(problem("steps = \"many\"\n"),
            "omnibal.toml:1: \"steps\": many is not a whole number from 1 to 1000");
  EXPECT_EQ(problem("steps = \"1001\"\n"),
            "omnibal.toml:1: \"steps\": 1001 is not a whole number from 1 to 1000");
  EXPECT_EQ(problem("steps = \"010\"\n"), // which would be eight
            "omnibal.toml:1: \"steps\": 010 is not a whole number from 1 to 1000");
  for (const char *seed : {"-1", "\"-1\"", "\"010\"", "\"18446744073709551616\"", "\"1x\"", "\"\""})
    EXPECT_NE(problem(std::string("seed = ") + seed + "\n")
                  .find(" is not a whole number from 0 to 18446744073709551615"),
              std::string::npos)
        << seed;
  EXPECT_EQ(problem("rate = inf\n"),
            "omnibal.toml:1: \"rate\": inf is not a finite number of at least 0");
  EXPECT_EQ(problem("rate = nan\n"),
            "omnibal.toml:1: \"rate\": nan is not a finite number of at least 0");
  EXPECT_EQ(problem("level = \"hgih\"\n"), "omnibal.toml:1: \"level\": hgih is none of high, low");
  EXPECT_EQ(problem("parts = [\n\"a\",\n\"d\"]\n"),
            "omnibal.toml:1: \"parts\": d is none of a, b, c");
  EXPECT_EQ(problem("rate = = 1\n").substr(0, 16), "omnibal.toml:1: ");
}

TEST_F(ApplyConfig, HelpAndVersionDoNotMindTheFile) {
  for (const char *flag : {"--help", "--version"}) {
    const Parsed p = parse({flag}, "nonsense\n");
    EXPECT_EQ(p.exitCode, 0) << p.said;
    EXPECT_NE(p.printed, "");
  }
  const Parsed help = parse({"--help"});
  EXPECT_NE(help.printed.find("--level TEXT:{high,low}=low"), std::string::npos) << help.printed;
  EXPECT_NE(help.printed.find("a table [run]"), std::string::npos) << help.printed;
}

TEST_F(ApplyConfig, AFileThatIsNotThere) {
  const Parsed p = parse({"--config", folder / "none.toml"});
  EXPECT_EQ(p.exitCode, 2);
  EXPECT_NE(p.said.find("none.toml"), std::string::npos) << p.said;
}

} // namespace
} // namespace omnibal::config
