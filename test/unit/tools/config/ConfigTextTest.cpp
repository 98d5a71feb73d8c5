#include "test/unit/tools/config/TinyTool.h"

namespace omnibal::config {
namespace {

using Strings = std::vector<std::string>;

class ConfigText : public TinyTool {};

TEST_F(ConfigText, DefaultsAreComments) {
  const Parsed p = parse({});
  ASSERT_TRUE(p.goesOn) << p.said;
  EXPECT_EQ(p.config,
            "# Options of omnibal-run, as a file for its --config. What is a comment has its "
            "default.\n[run]\n\n# Numbers\n# steps = 7\n# rate = 0.25\n# minutes = 10\n\n# Others\n"
            "# overwrite = false\n# level = \"low\"\n");
}

TEST_F(ConfigText, IsReadBackAsItWas) {
  const Strings words = {"p q",         "--steps", "+12",
                         "--rate",      "2E-5",    "--coefficient",
                         "0.1",         "--name",  "a\"\\\t# \x7f\n\xc3\xa4",
                         "--parts",     "a,c",     "--data",
                         "x",           "[y",      "--rule",
                         "v=1",         "--rule",  "w=2",
                         "--overwrite", "--level", "high"};
  const Parsed first = parse(words);
  ASSERT_TRUE(first.goesOn) << first.said;
  EXPECT_NE(first.config.find("\nsteps = 12\n"), std::string::npos) << first.config;
  EXPECT_NE(first.config.find("\nrate = 2e-05\n"), std::string::npos) << first.config;
  EXPECT_NE(first.config.find("\nname = \"a\\\"\\\\\\u0009# \\u007F\\u000A\xc3\xa4\"\n"),
            std::string::npos)
      << first.config;
  const Parsed again = parse({}, first.config);
  ASSERT_TRUE(again.goesOn) << again.said;
  EXPECT_EQ(again.config, first.config);
  EXPECT_EQ(again.program, "p q");
  EXPECT_EQ(again.steps, first.steps);
  EXPECT_EQ(again.rate, 2e-5);
  EXPECT_EQ(again.coefficient, 0.1);
  EXPECT_EQ(again.name, "a\"\\\t# \x7f\n\xc3\xa4");
  EXPECT_EQ(again.data, (Strings{"x", "[y"}));
  EXPECT_EQ(again.parts, (Strings{"a", "c"}));
  EXPECT_EQ(again.rules, (Strings{"v=1", "w=2"}));
  EXPECT_TRUE(again.overwrite);
  EXPECT_EQ(again.level, "HIGH");
}

TEST_F(ConfigText, IsWhatPrintConfigPrints) {
  const Parsed set = parse({"--steps", "3"}, "tiles = 4\n[run]\nrate = 0.5\n");
  ASSERT_TRUE(set.goesOn) << set.said;
  const Parsed p = parse({"--steps", "3", "--print-config"}, "tiles = 4\n[run]\nrate = 0.5\n");
  EXPECT_FALSE(p.goesOn);
  EXPECT_EQ(p.exitCode, 0);
  EXPECT_EQ(p.printed, set.config);
  EXPECT_EQ(parse({}, p.printed).config, p.printed);
}

TEST_F(ConfigText, NumbersBeyondThoseOfTomlAreTexts) {
  for (const char *seed : {"9223372036854775807", "9223372036854775808", "18446744073709551615"}) {
    const Parsed first = parse({"--seed", seed});
    ASSERT_TRUE(first.goesOn) << first.said;
    EXPECT_EQ(std::to_string(first.seed), seed);
    const Parsed again = parse({}, first.config);
    ASSERT_TRUE(again.goesOn) << again.said;
    EXPECT_EQ(again.seed, first.seed);
    EXPECT_EQ(again.config, first.config);
  }
  EXPECT_NE(parse({"--seed", "5"}).config.find("\nseed = 5\n"), std::string::npos);
}

TEST_F(ConfigText, OfTwoValuesTheLastCounts) {
  EXPECT_NE(parse({"--name", "a", "--name", "b"}).config.find("\nname = \"b\"\n"),
            std::string::npos);
}

TEST_F(ConfigText, AnotherEncodingIsNotWritten) {
  const Parsed p = parse({"--name", "\xff", "--data", "x"});
  EXPECT_EQ(p.config.find("\nname"), std::string::npos);
  EXPECT_NE(p.config.find("\n# name = ... (not in UTF-8"), std::string::npos) << p.config;
  EXPECT_EQ(parse({}, p.config).data, Strings{"x"});
}

} // namespace
} // namespace omnibal::config
