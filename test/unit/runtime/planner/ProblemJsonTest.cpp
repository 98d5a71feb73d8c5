// Problems from files, and what is wrong with them.
#include "runtime/planner/json/ProblemJson.h"
#include <gtest/gtest.h>
#include <limits>

using namespace omnibal::planner;

namespace {

/// A valid problem of two layers with `from` replaced by `to`.
std::string problemText(const std::string &from = "", const std::string &to = "") {
  std::string text = R"({
    "schema": "omnibal.plan-problem/1",
    "layers": [
      {"name": "a", "kind": "vision", "forward_ns": 1, "input_grad_ns": 2, "weight_grad_ns": 3, "param_bytes": 4,
       "grad_bytes": 5, "remat": [
         {"name": "keep", "saved_bytes": 6, "recompute_ns": 0, "workspace_bytes": 7},
         {"name": "full", "saved_bytes": 1, "recompute_ns": 1, "workspace_bytes": 9, "split_bytes": 8}]},
      {"name": "b", "kind": "language", "forward_ns": 1, "input_grad_ns": 2, "weight_grad_ns": 3, "param_bytes": 4,
       "grad_bytes": 5, "remat": [{"name": "keep", "saved_bytes": 6, "recompute_ns": 0, "workspace_bytes": 7}]}],
    "edges": [{"from": 0, "to": 1, "bytes": 8, "grad_bytes": 0}],
    "cluster": {"stages": 2, "memory_bytes": [100], "link": {"latency_ns": 5, "bytes_per_s": 25e9},
                "data_parallel": {"size": 1, "latency_ns": 0, "bytes_per_s": 1}},
    "microbatches": [{"vision": 1.10, "language": 0.7}, {}, {"vision": 0}],
    "schedule": "1f1b"})";
  if (!from.empty()) {
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string errorOf(const std::string &from, const std::string &to) {
  auto problem = parseProblem(problemText(from, to), "p.json");
  return problem ? "" : problem.status().message();
}

TEST(ProblemJson, EverythingIsRead) {
  auto problem = parseProblem(problemText(), "p.json");
  ASSERT_TRUE(static_cast<bool>(problem)) << problem.status().message();
  EXPECT_EQ(problem->layers[0].weightGradNs, 3);
  EXPECT_EQ(problem->layers[0].option("full")->heldWhileSplit(), 8);
  EXPECT_EQ(problem->layers[0].option("keep")->heldWhileSplit(), 6);
  EXPECT_EQ(problem->edges[0].bytes, 8);
  EXPECT_EQ(problem->cluster.link.bytesPerSecond, 25000000000);
  EXPECT_EQ(problem->microbatches, 3);
  EXPECT_EQ(problem->factor(0, "vision").times(100), 110);
  EXPECT_EQ(problem->factor(0, "projector").times(100), 100);
  EXPECT_EQ(problem->factor(1, "vision").times(100), 100);
  EXPECT_EQ(problem->factor(2, "vision").times(100), 0);
  EXPECT_TRUE(problem->varyCuts && problem->varyRemat);
}

TEST(ProblemJson, WrittenProblemsAreReadBack) {
  for (const auto &[from, to] :
       {std::pair<std::string, std::string>{"", ""},
        {"\"1f1b\"", R"("1f1b", "vary": {"cuts": false}, "given": {"cuts": [0, 1, 2]})"},
        {"\"1f1b\"", R"("gpipe", "vary": {"remat": false}, "given": {"remat": ["full", "keep"]})"},
        {R"([{"vision": 1.10, "language": 0.7}, {}, {"vision": 0}])", "4"}}) {
    auto problem = parseProblem(problemText(from, to), "p.json");
    ASSERT_TRUE(static_cast<bool>(problem)) << problem.status().message();
    std::string text = writeProblem(*problem);
    auto again = parseProblem(text, "q.json");
    ASSERT_TRUE(static_cast<bool>(again)) << again.status().message();
    EXPECT_EQ(writeProblem(*again), text);
    EXPECT_EQ(again->microbatches, problem->microbatches);
    EXPECT_EQ(again->factors, problem->factors);
    EXPECT_EQ(again->givenCuts, problem->givenCuts);
    EXPECT_EQ(again->givenRemat, problem->givenRemat);
  }
}

TEST(ProblemJson, SharesOfReplicasComeBack) {
  auto problem = parseProblem(problemText(), "p.json");
  ASSERT_TRUE(static_cast<bool>(problem));
  EXPECT_EQ(writeProblem(*problem).find("zero"), std::string::npos);
  problem->cluster.zero = 1;
  problem->layers[0].stateBytes = 3;
  problem->layers[0].updateBytes = 2;
  auto again = parseProblem(writeProblem(*problem), "q.json");
  ASSERT_TRUE(static_cast<bool>(again)) << again.status().message();
  EXPECT_EQ(again->cluster.zero, 1);
  EXPECT_EQ(again->layers[0].stateBytes, 3);
  EXPECT_EQ(again->layers[0].updateBytes, 2);
  EXPECT_EQ(again->layers[1].stateBytes, 0);
}

TEST(ProblemJson, NoMemoryLimitIsAVeryLargeOne) {
  auto problem = parseProblem(problemText(), "p.json");
  ASSERT_TRUE(static_cast<bool>(problem));
  problem->cluster.memoryBytes.clear();
  auto again = parseProblem(writeProblem(*problem), "q.json");
  ASSERT_TRUE(static_cast<bool>(again)) << again.status().message();
  ASSERT_EQ(again->cluster.memoryBytes.size(), 1u);
  EXPECT_GT(again->cluster.memoryBytes[0], int64_t{1} << 52);
}

TEST(ProblemJson, ErrorsNameFileAndKey) {
  auto expect = [](const std::string &from, const std::string &to, const std::string &part) {
    std::string message = errorOf(from, to);
    EXPECT_NE(message.find(part), std::string::npos) << from << " -> " << to << ": " << message;
    EXPECT_EQ(message.rfind("p.json", 0), 0u) << message;
  };
  expect("plan-problem/1", "plan-problem/2", "`schema`");
  expect("\"kind\": \"vision\"", "\"kind\": 3", "layers[0]: `kind`");
  expect("\"forward_ns\": 1", "\"forward_ns\": 1.5", "layers[0]: `forward_ns`");
  expect("\"forward_ns\": 1", "\"forward_ns\": -1", "layers[0]: `forward_ns`");
  expect("\"forward_ns\": 1", "\"forward_ns\": 9000000000000000000", "2^59");
  expect("\"grad_bytes\": 5", "\"grad_byte\": 5", "layers[0]: unknown key `grad_byte`");
  expect("\"grad_bytes\": 5", "\"grad_bytes\": 5, \"state_bytes\": 1000000",
         "layers[0]: `state_bytes` is a part of `param_bytes`");
  expect("\"size\": 1", "\"size\": 1, \"zero\": 2", "cluster.data_parallel: `zero` must be 0 or 1");
  expect("\"keep\"", "\"hold\"", "layers[0].remat[0]: the first option");
  expect("\"full\"", "\"keep\"", "layers[0].remat[1]: the first option");
  expect("\"split_bytes\"", "\"splits\"", "layers[0].remat[1]: unknown key `splits`");
  expect("\"from\": 0", "\"from\": 1", "edges[0]: an edge runs");
  expect("\"to\": 1", "\"to\": 2", "edges[0]: an edge runs");
  expect("\"stages\": 2", "\"stages\": 0", "cluster: `stages`");
  expect("\"latency_ns\": 5", "\"size\": 5", "cluster.link: unknown key `size`");
  expect("0.7", "-0.7", "microbatches[0]: `language`");
  expect("0.7", "\"0.7\"", "microbatches[0]: `language`");
  expect("0.7", "0.1234567890123456789", "microbatches[0]: `language`");
  expect("1f1b", "2f2b", "unknown `schedule` 2f2b");
  expect("\"1f1b\"", "\"interleaved:0\"", "unknown `schedule` interleaved:0");
  expect("\"1f1b\"", R"("1f1b", "given": {"cuts": [0, 1, 2]})", "given: `cuts`");
  expect("\"1f1b\"", R"("1f1b", "vary": {"cuts": false})", "given: `cuts`");
  expect("\"1f1b\"", R"("1f1b", "vary": {"cuts": 0})", "vary: `cuts`");
  expect("\"1f1b\"", R"("1f1b", "vary": {"cuts": false}, "given": {"cuts": [0, 0, 2]})", "ascend");
  expect("\"1f1b\"", R"("1f1b", "vary": {"remat": false}, "given": {"remat": ["keep", "full"]})",
         "layer b has no such option");
  expect("\"1f1b\"", "\"1f1b\", \"note\": 1", "unknown key `note`");
  expect("\"schema\"", "schema", "not valid JSON");
}

} // namespace
