#include "runtime/training/status/StatusFiles.h"
#include "test/support/TemporaryFolder.h"
#include <gtest/gtest.h>
#include <unistd.h>

namespace omnibal::rt {
namespace {

using nlohmann::json;

const nlohmann::ordered_json line = {{"step", 4},
                                     {"loss", 0.1},
                                     {"mode", "a \"b\""},
                                     {"tokens_seen", 70},
                                     {"lr_of", {{"vision", 1e-5}, {"a \"b\"\\\n", 2}}},
                                     {"mfu", nullptr},
                                     {"skipped_samples", json::array({"k"})}};

TEST(Metrics, OneNumberALine) {
  RunMetrics metrics{"first", line, nullptr, 12.5};
  EXPECT_EQ(metricsText(metrics),
            "# HELP omnibal_time_seconds When this was written, in seconds since 1970\n"
            "# TYPE omnibal_time_seconds gauge\n"
            "omnibal_time_seconds{run=\"first\"} 12.5\n"
            "# HELP omnibal_step `step` of the newest line of the log\n"
            "# TYPE omnibal_step gauge\n"
            "omnibal_step{run=\"first\"} 4\n"
            "# HELP omnibal_loss `loss` of the newest line of the log\n"
            "# TYPE omnibal_loss gauge\n"
            "omnibal_loss{run=\"first\"} 0.1\n"
            "# HELP omnibal_tokens_seen_total `tokens_seen` of the newest line of the log\n"
            "# TYPE omnibal_tokens_seen_total counter\n"
            "omnibal_tokens_seen_total{run=\"first\"} 70\n"
            "# HELP omnibal_lr_of `lr_of` of the newest line of the log\n"
            "# TYPE omnibal_lr_of gauge\n"
            "omnibal_lr_of{run=\"first\",name=\"vision\"} 1e-05\n"
            "omnibal_lr_of{run=\"first\",name=\"a \\\"b\\\"\\\\\\n\"} 2\n");
}

TEST(Metrics, NumbersOfSourcesFollowThoseOfAll) {
  RunMetrics metrics{"r", nullptr, nullptr, 0};
  metrics.evaluation = {{"loss", 2},
                        {"sources", {{"a", {{"loss", 1}, {"x", 5}}}, {"b", {{"loss", 3}}}}}};
  const std::string text = metricsText(metrics);
  EXPECT_NE(text.find("# TYPE omnibal_evaluation_loss gauge\n"
                      "omnibal_evaluation_loss{run=\"r\"} 2\n"
                      "omnibal_evaluation_loss{run=\"r\",source=\"a\"} 1\n"
                      "omnibal_evaluation_loss{run=\"r\",source=\"b\"} 3\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("omnibal_evaluation_x{run=\"r\",source=\"a\"} 5\n"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("sources"), std::string::npos) << text;
}

TEST(StatusFiles, TellStepAndPhase) {
  test::TemporaryFolder folder;
  StatusFiles files(folder / "beat", folder / "first.prom", 10);
  ASSERT_TRUE(files.open(0));
  json beat = json::parse(test::readFile(folder / "beat"));
  EXPECT_EQ(beat["step"], nullptr);
  EXPECT_EQ(beat["steps"], 10);
  EXPECT_EQ(beat["phase"], "starting");
  EXPECT_EQ(beat["pid"], ::getpid());
  EXPECT_GT(beat["time"].get<double>(), 1.7e9);
  files.step(line);
  beat = json::parse(test::readFile(folder / "beat"));
  EXPECT_EQ(beat["step"], 4);
  EXPECT_EQ(beat["phase"], "training");
  files.enter(RunPhase::Saving);
  beat = json::parse(test::readFile(folder / "beat"));
  EXPECT_EQ(beat["step"], 4);
  EXPECT_EQ(beat["phase"], "saving");
  EXPECT_NE(test::readFile(folder / "first.prom").find("omnibal_step{run=\"first\"} 4\n"),
            std::string::npos);
  EXPECT_TRUE(files.takeProblem());
}

TEST(StatusFiles, WhatCannotBeWrittenIsToldOnce) {
  test::TemporaryFolder folder;
  StatusFiles none(folder / "none/beat", "", 10);
  const Status status = none.open(0);
  ASSERT_FALSE(status);
  EXPECT_TRUE(status.message().starts_with("--heartbeat: ")) << status.message();
  EXPECT_NE(status.message().find("none/beat"), std::string::npos) << status.message();
  StatusFiles files("", folder / "a/first.prom", 10);
  EXPECT_TRUE(files.open(0).message().starts_with("--prometheus: "));
  std::filesystem::create_directory(folder / "a");
  ASSERT_TRUE(files.open(3));
  std::filesystem::remove_all(folder / "a");
  files.step(line);
  files.step(line);
  EXPECT_FALSE(files.takeProblem());
  EXPECT_TRUE(files.takeProblem());
}

TEST(StatusFiles, NoFileIsLeftBeside) {
  test::TemporaryFolder folder;
  StatusFiles files(folder / "beat", folder / "first.prom", 10);
  ASSERT_TRUE(files.open(0));
  files.step(line);
  int count = 0;
  for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator(folder.path))
    ++count;
  EXPECT_EQ(count, 2);
}

} // namespace
} // namespace omnibal::rt
