// Steps files and folders of omnibal-batch, good and bad.
#include "runtime/batching/Steps.h"
#include "test/unit/data/TestTar.h"
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

using test::TemporaryFolder;
using test::writeFile;

int64_t find(std::string_view key) { return key.size() == 2 && key[0] == 'k' ? key[1] - '0' : -1; }

class Steps : public testing::Test {
protected:
  std::string stepsError(const std::string &text) {
    writeFile(folder / "steps.jsonl", text);
    auto steps = readStepsFile(folder / "steps.jsonl", 2, find);
    return steps ? "" : steps.status().message();
  }
  /// As NumPy writes it.
  void writeNpy(const std::string &name, const std::vector<int64_t> &values,
                const std::string &type = "<i8") {
    std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" +
                         std::to_string(values.size()) + ",), }";
    header.resize(117, ' ');
    header += '\n';
    std::string bytes = std::string("\x93NUMPY\x01\x00", 8) + char(header.size()) + '\0' + header;
    bytes.append(reinterpret_cast<const char *>(values.data()), values.size() * 8);
    writeFile(folder / name, bytes);
  }
  std::string batchesError(int64_t microbatches, int64_t ranks, int64_t samples) {
    auto steps = readBatches(folder.path, microbatches, ranks, samples);
    return steps ? "" : steps.status().message();
  }
  TemporaryFolder folder;
};

void expectPart(const std::string &message, const std::string &part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST_F(Steps, LinesBecomeGroups) {
  writeFile(folder / "steps.jsonl",
            "{\"groups\": [[\"k1\", \"k2\"], []]}\n\n{\"groups\": [[\"k0\"], [\"k3\"]]}");
  auto steps = readStepsFile(folder / "steps.jsonl", 2, find);
  ASSERT_TRUE(steps) << steps.status().message();
  EXPECT_EQ(*steps, (std::vector<StepGroups>{{{1, 2}, {}}, {{0}, {3}}}));
}

TEST_F(Steps, ErrorsNameTheLine) {
  std::string good = "{\"groups\": [[], []]}\n";
  expectPart(stepsError(good + "{\"groups\": [["), "steps.jsonl, line 2: not valid JSON");
  expectPart(stepsError(good + good + "{\"groups\": [[]]}"), "line 3: 1 groups");
  expectPart(stepsError("{\"groups\": [[\"k1\"], [\"lost\"]]}"),
             "line 1: groups[1] names the sample \"lost\"");
  expectPart(stepsError("{\"groups\": [[1], []]}"), "line 1: groups[0] names the sample 1");
  expectPart(stepsError("[]"), "line 1: an object with an array \"groups\"");
  expectPart(stepsError("{\"groups\": [3, []]}"), "groups[0] is not an array");
  expectPart(stepsError("\n"), "there is no step");
  EXPECT_FALSE(readStepsFile(folder / "none.jsonl", 2, find));
}

TEST_F(Steps, BatchesFillTheLastStep) {
  writeNpy("samples.npy", {4, 3, 2, 1, 0});
  writeNpy("groups.npy", {0, 1, 3, 3, 4, 4, 5});
  auto steps = readBatches(folder.path, 2, 2, 5);
  ASSERT_TRUE(steps) << steps.status().message();
  EXPECT_EQ(*steps, (std::vector<StepGroups>{{{4}, {3, 2}, {}, {1}}, {{}, {0}, {}, {}}}));
}

TEST_F(Steps, BadBatches) {
  writeNpy("samples.npy", {4, 3});
  writeNpy("groups.npy", {0, 1, 2, 2});
  expectPart(batchesError(1, 2, 5), "3 groups are no multiple of the program's 2");
  expectPart(batchesError(1, 1, 4), "sample 4 does not exist");
  writeNpy("groups.npy", {0, 9, 2, 2});
  expectPart(batchesError(1, 1, 5), "offset 1 is out of order");
  writeNpy("groups.npy", {0, 1});
  expectPart(batchesError(1, 1, 5), "do not span samples.npy");
  writeNpy("groups.npy", {0, 2}, "<f8");
  expectPart(batchesError(1, 1, 5), "int64 array is expected");
  writeFile(folder / "groups.npy", "something");
  expectPart(batchesError(1, 1, 5), "not a NumPy file");
}

} // namespace
} // namespace omnibal::rt
