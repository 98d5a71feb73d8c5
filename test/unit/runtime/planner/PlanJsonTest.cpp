//===- PlanJsonTest.cpp - Plans and clusters from files, and what is wrong with them -----===//
#include "runtime/planner/json/PlanJson.h"
#include "runtime/planner/json/ClusterJson.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace omnibal::planner;

namespace {

class PlanFile {
public:
  explicit PlanFile(const std::string &text) {
    path = std::filesystem::temp_directory_path() /
           ("omnibal-plan-" + std::to_string(std::rand()) + ".json");
    std::ofstream(path) << text;
  }
  ~PlanFile() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

std::string errorOf(const std::string &text) {
  PlanFile file(text);
  auto plan = readPlan(file.path.string());
  return plan ? "" : plan.status().message();
}

TEST(PlanJson, CutsAloneAreEnough) {
  PlanFile file(R"({"cuts": [0, 3, 6]})");
  auto plan = readPlan(file.path.string());
  ASSERT_TRUE(static_cast<bool>(plan));
  EXPECT_EQ(plan->cuts, (std::vector<int64_t>{0, 3, 6}));
  EXPECT_TRUE(plan->remat.empty());
  EXPECT_TRUE(plan->schedule.empty());
}

TEST(PlanJson, ActionsAndRematAreRead) {
  PlanFile file(R"({"schema": "omnibal.plan/1", "cuts": [0, 1], "remat": ["full"],
                    "schedule": "1f1b", "actions": [[["F", 0, 0], ["B", 0, 0]]]})");
  auto plan = readPlan(file.path.string());
  ASSERT_TRUE(static_cast<bool>(plan));
  EXPECT_EQ(plan->remat, std::vector<std::string>{"full"});
  ASSERT_EQ(plan->actions.size(), 1u);
  EXPECT_EQ(plan->actions[0][1].kind, ActionKind::Backward);
}

TEST(PlanJson, ErrorsNameTheKey) {
  EXPECT_NE(errorOf("{").find("not valid JSON"), std::string::npos);
  EXPECT_NE(errorOf("[]").find("object"), std::string::npos);
  EXPECT_NE(errorOf(R"({"remat": []})").find("`cuts`"), std::string::npos);
  EXPECT_NE(errorOf(R"({"cuts": [0, -1]})").find("`cuts`"), std::string::npos);
  EXPECT_NE(errorOf(R"({"cuts": [0, 1], "cutz": 1})").find("`cutz`"), std::string::npos);
  EXPECT_NE(errorOf(R"({"cuts": [0, 1], "remat": [1]})").find("`remat`"), std::string::npos);
  EXPECT_NE(errorOf(R"({"cuts": [0, 1], "actions": [[["X", 0, 0]]]})").find("X"),
            std::string::npos);
  EXPECT_NE(errorOf(R"({"schema": "other/2", "cuts": [0, 1]})").find("`schema`"),
            std::string::npos);
}

std::string clusterError(const std::string &text) {
  auto cluster = parseClusterFile(text, "c.json");
  return cluster ? "" : cluster.status().message();
}

TEST(ClusterJson, ReadsMemoryAsNumberOrList) {
  auto file = parseClusterFile(
      R"({"stages": 2, "memory_bytes": [5, 6], "link": {"latency_ns": 1, "bytes_per_s": 2},
          "data_parallel": {"size": 3, "bytes_per_s": 4}, "device": "cpu"})",
      "c.json");
  ASSERT_TRUE(static_cast<bool>(file)) << file.status().message();
  EXPECT_TRUE(file->givesLink && file->givesDataParallelLink);
  EXPECT_EQ(file->deviceName, "cpu");
  const Cluster *cluster = &file->cluster;
  EXPECT_EQ(cluster->memoryBytes, (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(cluster->dataParallel, 3);
  EXPECT_EQ(cluster->dataParallelLink.bytesPerSecond, 4);
  EXPECT_EQ(cluster->link.latencyNs, 1);
}

TEST(ClusterJson, AssumesALinkWhereNoneIsGiven) {
  auto file = parseClusterFile(
      R"({"stages": 2, "memory_bytes": 5, "device": {"bytes_per_s": 1e9, "share": 0.45}})",
      "c.json");
  ASSERT_TRUE(static_cast<bool>(file)) << file.status().message();
  EXPECT_FALSE(file->givesLink || file->givesDataParallelLink);
  ASSERT_TRUE(file->deviceObject);
  EXPECT_EQ(file->deviceObject->dump(), R"({"bytes_per_s":1000000000.0,"share":0.45})");
  const Cluster *cluster = &file->cluster;
  EXPECT_EQ(cluster->link.bytesPerSecond, defaultLink.bytesPerSecond);
  EXPECT_EQ(cluster->dataParallelLink.latencyNs, defaultLink.latencyNs);
}

TEST(ClusterJson, ReadsANode) {
  auto file = parseClusterFile(
      R"({"node": {"ranks": 8, "latency_ns": 3, "bytes_per_s": 4}, "link": {"latency_ns": 9}})",
      "c.json");
  ASSERT_TRUE(static_cast<bool>(file)) << file.status().message();
  EXPECT_FALSE(file->givesStages);
  ASSERT_TRUE(file->node);
  EXPECT_EQ(file->node->ranks, 8);
  EXPECT_EQ(file->node->link.latencyNs, 3);
  EXPECT_EQ(file->node->link.bytesPerSecond, 4);
  EXPECT_EQ(file->cluster.link.latencyNs, 9) << "who is in a node is not known here";
  for (const char *wrong : {R"({"node": 8})", R"({"node": {"ranks": 8, "latency_ns": 3}})",
                            R"({"node": {"ranks": 0, "latency_ns": 3, "bytes_per_s": 4}})",
                            R"({"node": {"ranks": 8, "latency_ns": 3, "bytes_per_s": 4, "x": 5}})"})
    EXPECT_NE(clusterError(wrong).find("node"), std::string::npos) << wrong;
}

TEST(ClusterJson, ErrorsNameFileAndKey) {
  EXPECT_NE(clusterError(R"({"stages": 0})").find("`stages`"), std::string::npos);
  EXPECT_NE(clusterError(R"({"stages": 2, "memory_bytes": [1, 2, 3]})").find("`memory_bytes`"),
            std::string::npos);
  EXPECT_NE(clusterError(R"({"stages": 2, "links": {}})").find("`links`"), std::string::npos);
  EXPECT_NE(clusterError(R"({"stages": 2, "link": {"bytes_per_s": 0}})").find("c.json.link"),
            std::string::npos);
}

} // namespace
