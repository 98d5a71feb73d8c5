// The same program on threads and under mpirun: the same bits, and failures that end the job.
#include "test/unit/executor/TinyRun.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

struct Outcome {
  int code;
  std::vector<std::string> lines; ///< sorted
  std::string all;
  double seconds;
};

Outcome shell(const std::string &command) {
  auto begin = std::chrono::steady_clock::now();
  Outcome outcome{};
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (fgets(buffer, sizeof buffer, pipe)) {
    outcome.all += buffer;
    if (std::string(buffer).rfind("rank ", 0) == 0)
      outcome.lines.push_back(buffer);
  }
  outcome.code = pclose(pipe);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::sort(outcome.lines.begin(), outcome.lines.end());
  return outcome;
}

class Mpi : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("omnibal-mpi" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    weights = writeTinyWeights(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  Outcome threads(const std::string &fault = "") {
    return shell(environment + OMNIBAL_RANK_DRIVER " " + weights + " " + fault);
  }
  Outcome processes(const std::string &fault = "") {
    return shell(environment +
                 OMNIBAL_MPIRUN " --allow-run-as-root --oversubscribe -n 4 " OMNIBAL_RANK_DRIVER
                                " " +
                 weights + " " + fault);
  }

  std::filesystem::path folder;
  std::string weights, environment;
};

TEST_F(Mpi, SameBitsAsThreads) {
  Outcome a = threads(), b = processes();
  ASSERT_EQ(a.code, 0) << a.all;
  ASSERT_EQ(b.code, 0) << b.all;
  ASSERT_EQ(a.lines.size(), 4u) << a.all;
  EXPECT_EQ(a.lines, b.lines);
}

TEST_F(Mpi, AFailedRankEndsTheJob) {
  for (Outcome o : {threads("fail"), processes("fail")}) {
    EXPECT_NE(o.code, 0);
    EXPECT_LT(o.seconds, 10);
    EXPECT_NE(o.all.find("rank 1 was told to fail"), std::string::npos) << o.all;
  }
  // The brackets keep the pattern from matching the shell that runs pgrep.
  EXPECT_NE(system("pgrep -f '[r]ank-driver .*omnibal-mpi' >/dev/null"), 0) << "ranks are left";
}

TEST_F(Mpi, ARankThatNeverComesIsNamed) {
  environment = "OMNIBAL_DEADLINE_SECONDS=1 ";
  for (Outcome o : {threads("hang"), processes("hang")}) {
    EXPECT_NE(o.code, 0);
    EXPECT_LT(o.seconds, 15);
    EXPECT_NE(o.all.find("waited 1.000000 s for rank 1"), std::string::npos) << o.all;
    // Both ways the late rank's own action is told.
    EXPECT_NE(o.all.find("rank 1"), std::string::npos);
    EXPECT_NE(o.all.find("stage 1, micro-batch 0, forward"), std::string::npos) << o.all;
  }
}

} // namespace
} // namespace omnibal::rt
