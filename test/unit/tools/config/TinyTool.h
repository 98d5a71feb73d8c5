//===- TinyTool.h - A tool with an option of every kind
//----------------------------------------===//
#ifndef TEST_UNIT_TOOLS_CONFIG_TINYTOOL_H
#define TEST_UNIT_TOOLS_CONFIG_TINYTOOL_H

#include "test/support/TemporaryFolder.h"
#include "tools/NumberChecks.h"
#include "tools/WordChecks.h"
#include "tools/config/CommandLine.h"
#include "tools/config/ConfigText.h"
#include <fstream>
#include <gtest/gtest.h>
#include <optional>

namespace omnibal::config {

/// What a command line has left behind.
struct Parsed {
  std::string program;
  int64_t steps = 7, tiles = 0, every = 0;
  uint64_t seed = 0;
  int64_t memory = 0;
  double rate = 0.25, minutes = 10;
  std::optional<double> coefficient;
  bool overwrite = false;
  std::string name, level = "low";
  std::vector<std::string> data, parts, rules;
  bool goesOn = false;
  int exitCode = -1;
  std::string said, printed, config; ///< stderr, stdout, configText
};

/// omnibal-run with few options. A file's text, where there is one, becomes that of --config.
class TinyTool : public testing::Test {
protected:
  Parsed parse(std::vector<std::string> words, const std::optional<std::string> &file = {}) {
    Parsed p;
    CLI::App app("a tool", "omnibal-run");
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app.set_version_flag("--version", "omnibal-run 1");
    addConfigOptions(app);
    describe(app, p);
    if (file) {
      std::ofstream(path, std::ios::binary) << *file;
      words.insert(words.end(), {"--config", path});
    }
    std::vector<char *> argv = {const_cast<char *>("omnibal-run")};
    for (std::string &word : words)
      argv.push_back(word.data());
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    p.goesOn = parseCommandLine(app, static_cast<int>(argv.size()), argv.data(), p.exitCode);
    p.printed = testing::internal::GetCapturedStdout();
    p.said = testing::internal::GetCapturedStderr();
    if (p.goesOn)
      p.config = configText(app);
    return p;
  }

  /// What is said about a file, without the folder and the hint about --help.
  std::string problem(const std::string &file, const std::vector<std::string> &words = {}) {
    const Parsed p = parse(words, file);
    EXPECT_FALSE(p.goesOn) << file;
    EXPECT_EQ(p.exitCode, 2) << p.said;
    EXPECT_TRUE(p.said.starts_with("omnibal-run: ")) << p.said;
    const size_t at = p.said.find("omnibal.toml");
    return at == std::string::npos ? p.said : p.said.substr(at, p.said.find('\n') - at);
  }

  omnibal::test::TemporaryFolder folder;
  std::string path = folder / "omnibal.toml";

private:
  static void describe(CLI::App &app, Parsed &p) {
    app.add_option("program", p.program, "a positional");
    app.option_defaults()->group("Numbers");
    app.add_option("--steps", p.steps, "a whole number")
        ->check(rt::wholeNumber(1, 1000))
        ->capture_default_str();
    app.add_option("--tiles", p.tiles, "a shared one");
    app.add_option("--rate", p.rate, "a real number")->check(rt::number(0))->capture_default_str();
    app.add_option("--coefficient", p.coefficient, "perhaps a number");
    auto *every = app.add_option("--every", p.every, "excludes minutes");
    app.add_option("--minutes", p.minutes, "excludes every")
        ->excludes(every)
        ->capture_default_str();
    app.add_option("--seed", p.seed, "one of 64 bits")->check(rt::wholeNumberOf64Bits());
    app.add_option("--memory", p.memory, "bytes")->type_name("BYTES")->transform(rt::byteCount());
    app.option_defaults()->group("Others");
    app.add_flag("--overwrite", p.overwrite, "a flag");
    app.add_option("-n,--name", p.name, "a text");
    app.add_option("--data", p.data, "texts")->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_option("--parts", p.parts, "texts with commas between them")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->delimiter(',')
        ->check(rt::word({"a", "b", "c"}));
    app.add_option_function<std::vector<std::string>>(
           "--rule", [&p](const std::vector<std::string> &texts) { p.rules = texts; }, "several")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
    rt::addChoice(app, "--level", p.level,
                  std::map<std::string, std::string>{{"low", "LOW"}, {"high", "HIGH"}}, "a choice")
        ->default_str("low");
  }
};

} // namespace omnibal::config
#endif // TEST_UNIT_TOOLS_CONFIG_TINYTOOL_H
