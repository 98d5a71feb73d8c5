// What launchers' variables say about a process.
#include "runtime/comm/launch/LaunchEnvironment.h"
#include <gtest/gtest.h>
#include <map>

namespace omnibal::rt {
namespace {

using Variables = std::map<std::string, std::string>;

Result<LaunchEnvironment> read(const Variables &variables) {
  return readLaunchEnvironment([&](const char *name) -> const char * {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(LaunchEnvironment, NobodyLaunched) {
  EXPECT_EQ(read({})->launcher, Launcher::None);
  EXPECT_EQ(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}})->launcher, Launcher::None);
  // A batch script is no step: its variables speak of the tasks that srun would start.
  EXPECT_EQ(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "0"}})->launcher,
            Launcher::None);
}

TEST(LaunchEnvironment, Mpirun) {
  auto place = read({{"OMPI_COMM_WORLD_SIZE", "4"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"RANK", "3"}, // left over from somebody else
                     {"WORLD_SIZE", "7"}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, Launcher::Mpi);
  EXPECT_EQ(place->localRank, 1);
  EXPECT_EQ(place->localRanks, 2);
  EXPECT_EQ(read({{"PMIX_RANK", "0"}, {"SLURM_NTASKS", "2"}})->launcher, Launcher::Mpi);
}

TEST(LaunchEnvironment, Torchrun) {
  Variables variables = {{"RANK", "5"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "4"},
                         {"MASTER_ADDR", "node0"},
                         {"MASTER_PORT", "29500"}};
  auto place = read(variables);
  ASSERT_TRUE(place) << place.status().message();
  EXPECT_EQ(place->launcher, Launcher::Variables);
  EXPECT_EQ(place->rank, 5);
  EXPECT_EQ(place->ranks, 8);
  EXPECT_EQ(place->localRank, 1);
  EXPECT_EQ(place->localRanks, 4);
  EXPECT_EQ(place->address, "node0");
  EXPECT_EQ(place->port, 29500);
  // torchrun itself listens on that port.
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(read(variables)->port, 29501);
  variables["OMNIBAL_MASTER_PORT"] = "4000";
  EXPECT_EQ(read(variables)->port, 4000);
}

TEST(LaunchEnvironment, TorchrunMistakes) {
  Variables good = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}};
  auto expect = [&](const char *name, const char *value, const std::string &part) {
    Variables variables = good;
    if (value)
      variables[name] = value;
    else
      variables.erase(name);
    auto place = read(variables);
    ASSERT_FALSE(place) << name;
    EXPECT_NE(place.status().message().find(part), std::string::npos) << place.status().message();
  };
  expect("MASTER_ADDR", nullptr, "no MASTER_ADDR");
  expect("MASTER_PORT", nullptr, "no MASTER_PORT");
  expect("MASTER_PORT", "http", "MASTER_PORT is \"http\"");
  expect("MASTER_PORT", "70000", "from 1 to 65535");
  expect("RANK", "2", "RANK is \"2\", but a number from 0 to 1");
  expect("WORLD_SIZE", "two", "WORLD_SIZE is \"two\"");
}

TEST(LaunchEnvironment, Srun) {
  Variables variables = {{"SLURM_PROCID", "2"},
                         {"SLURM_NTASKS", "9"},
                         {"SLURM_STEP_NUM_TASKS", "3"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_JOB_ID", "77"},
                         {"SLURM_STEP_ID", "1"},
                         {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                         {"SLURM_TASKS_PER_NODE", "2,1"},
                         {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}};
  auto place = read(variables);
  ASSERT_TRUE(place) << place.status().message();
  EXPECT_EQ(place->launcher, Launcher::Slurm);
  EXPECT_EQ(place->rank, 2);
  EXPECT_EQ(place->ranks, 3);
  EXPECT_EQ(place->localRank, 0);
  EXPECT_EQ(place->localRanks, 2);
  EXPECT_EQ(place->address, "gpu07");
  EXPECT_GE(place->port, 20000);
  EXPECT_LT(place->port, 30000);
  EXPECT_EQ(read(variables)->port, place->port); // all ranks compute the same
  std::string run = place->run;
  variables["SLURM_JOB_ID"] = "78";
  EXPECT_NE(read(variables)->run, run);
  variables["MASTER_ADDR"] = "login";
  variables["MASTER_PORT"] = "5000";
  EXPECT_EQ(read(variables)->address, "login");
  EXPECT_EQ(read(variables)->port, 5000);
  variables.erase("MASTER_ADDR");
  variables.erase("SLURM_STEP_NODELIST");
  EXPECT_EQ(read(variables)->address, "10.0.0.1");
  variables["SLURM_STEP_NUM_TASKS"] = "1";
  EXPECT_EQ(read(variables)->launcher, Launcher::None);
}

TEST(LaunchEnvironment, FirstHostOfAList) {
  EXPECT_EQ(firstHost("alone"), "alone");
  EXPECT_EQ(firstHost("a,b"), "a");
  EXPECT_EQ(firstHost("node[001-004,7],other"), "node001");
  EXPECT_EQ(firstHost("node[7,9]"), "node7");
  EXPECT_EQ(firstHost("rack[1-2]-ib,x"), "rack1-ib");
}

} // namespace
} // namespace omnibal::rt
