// The same program on threads and in processes, however these were launched: the same bits, and
// failures that end all of them.
#include "runtime/comm/tcp/Socket.h"
#include "test/unit/runtime/executor/TinyRun.h"
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

/// How processes are started: "mpirun", "srun" or "variables".
class Processes : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("omnibal-ranks" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    weights = writeTinyWeights(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  Outcome threads(const std::string &fault = "") {
    return shell(environment + OMNIBAL_RANK_DRIVER " " + weights + " " + fault);
  }
  Outcome processes(const std::string &fault = "") {
    std::string driver = OMNIBAL_RANK_DRIVER " " + weights + " " + fault;
#ifdef OMNIBAL_MPIRUN
    if (GetParam() == std::string("mpirun"))
      return shell(environment + OMNIBAL_MPIRUN " --allow-run-as-root --oversubscribe -n 4 " +
                   driver);
#endif
    // As the launchers do: every rank gets variables; the first that fails gives the code.
    int port = 0;
    EXPECT_TRUE(Socket::listen(0, port));
    std::string command;
    for (int r = 3; r >= 0; --r) // rank 0, whom all look for, comes last
      command += variables(r, port) + environment + driver + " & p" + std::to_string(r) + "=$!; ";
    command += "code=0; for p in $p0 $p1 $p2 $p3; do wait $p || code=1; done; exit $code";
    return shell("sh -c '" + command + "'");
  }
  /// Threads too, once for all launchers.
  std::vector<Outcome> both(const std::string &fault) {
    std::vector<Outcome> list = {processes(fault)};
    if (GetParam() == std::string("variables"))
      list.push_back(threads(fault));
    return list;
  }
  std::string variables(int rank, int port) {
    std::string r = std::to_string(rank), p = std::to_string(port);
    return GetParam() == std::string("srun")
               ? "SLURM_STEP_ID=0 SLURM_JOB_ID=" + p + " SLURM_NTASKS=4 SLURM_LOCALID=" + r +
                     " SLURM_STEP_NODELIST=localhost SLURM_PROCID=" + r + " "
               : "RANK=" + r + " LOCAL_RANK=" + r +
                     " WORLD_SIZE=4 MASTER_ADDR=localhost MASTER_PORT=" + p + " ";
  }

  std::filesystem::path folder;
  std::string weights, environment;
};

TEST_P(Processes, SameBitsAsThreads) {
  Outcome a = threads(), b = processes();
  ASSERT_EQ(a.code, 0) << a.all;
  ASSERT_EQ(b.code, 0) << b.all;
  ASSERT_EQ(a.lines.size(), 4u) << a.all;
  EXPECT_EQ(a.lines, b.lines);
}

TEST_P(Processes, AFailedRankEndsTheJob) {
  for (const Outcome &o : both("fail")) {
    EXPECT_NE(o.code, 0);
    EXPECT_LT(o.seconds, 10);
    EXPECT_NE(o.all.find("rank 1 was told to fail"), std::string::npos) << o.all;
  }
  // The brackets keep the pattern from matching the shell that runs pgrep.
  EXPECT_NE(system("pgrep -f '[r]ank-driver .*omnibal-ranks' >/dev/null"), 0) << "ranks are left";
}

TEST_P(Processes, ARankThatNeverComesIsNamed) {
  environment = "OMNIBAL_DEADLINE_SECONDS=1 ";
  for (const Outcome &o : both("hang")) {
    EXPECT_NE(o.code, 0);
    EXPECT_LT(o.seconds, 15);
    EXPECT_NE(o.all.find("waited 1.000000 s for rank 1"), std::string::npos) << o.all;
    // Both ways the late rank's own action is told.
    EXPECT_NE(o.all.find("rank 1"), std::string::npos);
    EXPECT_NE(o.all.find("stage 1, micro-batch 0, forward"), std::string::npos) << o.all;
  }
}

TEST_P(Processes, ARankThatIsKilledEndsTheOthers) {
  Outcome o = processes("die");
  EXPECT_NE(o.code, 0);
  EXPECT_LT(o.seconds, 10);
  if (GetParam() != std::string("mpirun")) { // which says so itself
    EXPECT_NE(o.all.find("lost rank 1 at "), std::string::npos) << o.all;
    EXPECT_NE(o.all.find("(step 2, stage 1, micro-batch 0, forward)"), std::string::npos) << o.all;
  }
  EXPECT_NE(system("pgrep -f '[r]ank-driver .*omnibal-ranks' >/dev/null"), 0) << "ranks are left";
}

INSTANTIATE_TEST_SUITE_P(LaunchedBy, Processes,
                         testing::Values(
#ifdef OMNIBAL_MPIRUN
                             "mpirun",
#endif
                             "srun", "variables"),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace omnibal::rt
