// omnibal-run on a program with several train modes: log, summary, going on, refusals.
#include "runtime/data/Dataset.h"
#include "runtime/program/ProgramIO.h"
#include "test/support/Shell.h"
#include "test/unit/runtime/batching/GroupedFolders.h"
#include "test/unit/runtime/data/TestTar.h"
#include "test/unit/runtime/executor/TinyRun.h"
#include "test/unit/runtime/program/TinyModes.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <random>
#include <set>

namespace omnibal::rt {
namespace {

using nlohmann::json;
using test::Outcome;
using test::readFile;
using test::shell;
using test::writeFile;

constexpr int64_t samples = 80;

class RunModes : public testing::Test {
protected:
  void SetUp() override {
    std::mt19937 random(3);
    std::vector<std::pair<std::string, std::string>> members;
    for (int64_t i = 0; i < samples; ++i) {
      const int length = i % 7 == 2 ? 12 + static_cast<int>(random() % 8) : 2 + random() % 5;
      json ids = json::array(), labels = json::array();
      for (int t = 0; t < length; ++t) {
        ids.push_back(random() % tinyVocabulary);
        labels.push_back(random() % 3 == 0 ? -100 : static_cast<int>(random() % tinyVocabulary));
      }
      members.push_back({"s" + std::to_string(i) + ".json",
                         json({{"input_ids", ids}, {"labels", labels}}).dump()});
      lengths.tiles.push_back(0);
      lengths.tokens.push_back(length);
    }
    writeFile(folder / "data-000000.tar", test::makeTar(members));
    writeFile(folder / "config.json", "{}");
    weights = writeTinyWeights(folder.path);
  }

  /// A program with the modes of `groups`.
  std::string program(const std::string &name, int32_t stages, const LengthGroups &groups) {
    std::vector<TinyOptions> modes;
    for (const LengthGroup &g : groups.groups)
      modes.push_back({.stages = stages,
                       .microbatches = static_cast<int32_t>(g.microbatches),
                       .dataParallel = groups.replicas,
                       .split = modes.empty(),
                       .tokensCap = g.tokensCap});
    const Program p = modes.size() > 1 ? tinyModes(modes) : tinyProgram(modes[0]);
    const Status status = writeProgram(p, {}, {}, folder / name);
    EXPECT_TRUE(status) << status.message();
    return folder / name;
  }
  std::string command(const std::string &program) {
    return std::string("OMNIBAL_GUARD=1 " OMNIBAL_RUN " ") + program + " --weights " + weights +
           " --data " + (folder / "data-000000.tar") + " --lr 0.05 --clip 0.3 ";
  }
  std::string onBatches(const std::string &program, const std::string &log) {
    return command(program) + "--batches " + (folder / "batches") + " --log " + (folder / log) +
           " ";
  }
  std::vector<json> log(const std::string &name) {
    std::vector<json> lines;
    std::istringstream text(readFile(folder / name));
    for (std::string line; std::getline(text, line);)
      lines.push_back(json::parse(line));
    return lines;
  }
  GroupedEpoch writeBatches(const LengthGroups &groups, const EpochOptions &options) {
    auto epoch = writeGroupedFolder(folder / "batches", lengths, groups, options);
    EXPECT_TRUE(epoch) << epoch.status().message();
    return *epoch;
  }

  test::TemporaryFolder folder;
  std::string weights;
  SampleLengths lengths;
};

TEST_F(RunModes, EveryStepGoesOnWithTheSameBits) {
  const LengthGroups groups = textGroups(2, {{8, 2}, {24, 1}});
  const GroupedEpoch epoch = writeBatches(groups, {.seed = 4, .curriculum = {2, 1}});
  const int64_t perEpoch = epoch.stepOf.back() + 1;
  std::vector<std::string> names;
  for (int64_t row = 0; row < epoch.rows(); ++row)
    if (row == 0 || epoch.stepOf[row] != epoch.stepOf[row - 1])
      names.push_back("G" + std::to_string(epoch.modeOf[row]));
  ASSERT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 2u);
  ASSERT_EQ(names[0] + names[1], "G0G0");
  for (int32_t stages : {1, 2}) {
    const std::string p = program("p" + std::to_string(stages), stages, groups);
    const int64_t total = perEpoch + 2; // a second epoch begins
    const std::string flags = "--steps " + std::to_string(total) + " --save ";
    const std::string kept = folder / ("kept" + std::to_string(stages));
    Outcome whole = shell(onBatches(p, "whole.jsonl") + flags + (folder / "whole") +
                          " --checkpoint " + kept + " --checkpoint-every 1 --keep 1000");
    ASSERT_EQ(whole.code, 0) << whole.output;
    const std::vector<json> lines = log("whole.jsonl");
    ASSERT_EQ(static_cast<int64_t>(lines.size()), total);
    for (int64_t s = 0; s < perEpoch; ++s)
      EXPECT_EQ(lines[s]["mode"], names[s]) << s;
    EXPECT_NE(whole.output.find("2 train modes"), std::string::npos) << whole.output;
    for (const char *mode : {"mode G0  1f1b, micro-batches 2, caps 0 tiles and 8 tokens",
                             "mode G1  1f1b, micro-batches 1, caps 0 tiles and 24 tokens"})
      EXPECT_NE(whole.output.find(mode), std::string::npos) << whole.output;
    for (const char *name : {"G0", "G1"}) {
      const auto steps = std::count_if(lines.begin(), lines.end(),
                                       [&](const json &line) { return line["mode"] == name; });
      const std::string summary = "mode " + std::string(name) + ": " + std::to_string(steps) +
                                  " steps, after its first two";
      EXPECT_NE(whole.output.find(summary), std::string::npos) << summary << "\n" << whole.output;
    }
    const std::string model = "/model.safetensors", bits = readFile((folder / "whole") + model);
    for (int64_t step = 1; step < total; ++step) {
      char name[32];
      std::snprintf(name, sizeof name, "/step-%08lld", static_cast<long long>(step));
      Outcome resumed = shell(onBatches(p, "again.jsonl") + flags + (folder / "again") +
                              " --resume " + kept + name);
      ASSERT_EQ(resumed.code, 0) << resumed.output;
      EXPECT_EQ(resumed.output.find("changed since"), std::string::npos) << resumed.output;
      EXPECT_EQ(readFile((folder / "again") + model), bits) << "after step " << step;
      const std::vector<json> rest = log("again.jsonl");
      ASSERT_EQ(rest.back()["step"], total - 1);
      EXPECT_EQ(rest.back()["mode"], lines.back()["mode"]);
      EXPECT_EQ(rest.back()["loss"], lines.back()["loss"]);
      std::filesystem::remove(folder / "again.jsonl");
      std::filesystem::remove_all(folder / "again");
    }
  }
}

/// Alternating steps of two modes that differ in nothing are steps of one mode.
TEST_F(RunModes, EqualModesAreOneMode) {
  const LengthGroups one = textGroups(2, {{24, 2}});
  LengthGroups two = textGroups(2, {{24, 2}, {24, 2}});
  const TinyOptions options{.stages = 2, .microbatches = 2, .dataParallel = 2};
  const TinyOptions twice[] = {options, options};
  ASSERT_TRUE(writeProgram(tinyProgram(options), {}, {}, folder / "one"));
  ASSERT_TRUE(writeProgram(tinyModes(twice), {}, {}, folder / "two"));
  std::string plain, alternating;
  for (int64_t s = 0; s < 8; ++s) {
    json groups = json::array();
    for (int64_t g = 0; g < 4; ++g)
      groups.push_back(json::array({"s" + std::to_string((4 * s + g) % samples)}));
    plain += json({{"groups", groups}}).dump() + "\n";
    json line = {{"groups", groups}, {"mode", 0}};
    if (s % 2 == 1)
      line["mode"] = "G1";
    alternating += line.dump() + "\n";
  }
  writeFile(folder / "plain.jsonl", plain);
  writeFile(folder / "alternating.jsonl", alternating);
  auto run = [&](const std::string &program, const std::string &steps) {
    return shell(command(folder / program) + "--steps-file " + (folder / steps) + " --log " +
                 (folder / (program + ".jsonl")) + " --save " + (folder / (program + "-saved")));
  };
  Outcome first = run("one", "plain.jsonl"), second = run("two", "alternating.jsonl");
  ASSERT_EQ(first.code, 0) << first.output;
  ASSERT_EQ(second.code, 0) << second.output;
  EXPECT_EQ(readFile(folder / "one-saved/model.safetensors"),
            readFile(folder / "two-saved/model.safetensors"));
  const std::vector<json> a = log("one.jsonl"), b = log("two.jsonl");
  ASSERT_EQ(a.size(), b.size());
  for (size_t s = 0; s < a.size(); ++s) {
    EXPECT_EQ(a[s]["loss"], b[s]["loss"]) << s;
    EXPECT_EQ(a[s]["grad_norm"], b[s]["grad_norm"]) << s;
    EXPECT_FALSE(a[s].contains("mode"));
    EXPECT_EQ(b[s]["mode"], s % 2 == 0 ? "G0" : "G1");
  }
  Outcome missing = run("two", "plain.jsonl");
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.output.find("plain.jsonl, line 1: the step has no \"mode\"; give its name or "
                                "its number, from 0 on: G0, G1"),
            std::string::npos)
      << missing.output;
}

TEST_F(RunModes, TraceEvaluationAndCalibrationKnowTheModes) {
  const LengthGroups groups = textGroups(1, {{8, 3}, {24, 1}});
  writeBatches(groups, {});
  const std::string p = program("p", 2, groups);
  Outcome traced = shell(onBatches(p, "run.jsonl") + "--steps 8 --trace-steps 5 --trace " +
                         (folder / "trace.json"));
  ASSERT_EQ(traced.code, 0) << traced.output;
  std::map<std::string, std::set<int>> seen; // micro-batches by mode
  for (const json &e : json::parse(readFile(folder / "trace.json")))
    if (e["ph"] == "X" && e["name"] == "F")
      seen[e["args"]["mode"]].insert(e["args"]["mb"].get<int>());
  EXPECT_EQ(seen, (std::map<std::string, std::set<int>>{{"G0", {0, 1, 2}}, {"G1", {0}}}));

  Outcome evaluated = shell(command(p) + "--evaluate --log " + (folder / "several.json"));
  ASSERT_EQ(evaluated.code, 0) << evaluated.output;
  const LengthGroups last = textGroups(1, {{24, 1}});
  evaluated =
      shell(command(program("single", 2, last)) + "--evaluate --log " + (folder / "single.json"));
  ASSERT_EQ(evaluated.code, 0) << evaluated.output;
  json several = json::parse(readFile(folder / "several.json")),
       single = json::parse(readFile(folder / "single.json"));
  for (const char *field : {"loss", "token_accuracy", "samples", "label_tokens"})
    EXPECT_EQ(several[field], single[field]) << field;

  Outcome calibrated = shell(OMNIBAL_RUN " " + p + " --calibrate " + (folder / "table.json"));
  ASSERT_EQ(calibrated.code, 0) << calibrated.output;
  EXPECT_NE(calibrated.output.find("measuring round 1 of 4 of mode G1"), std::string::npos)
      << calibrated.output;
  EXPECT_NE(calibrated.output.find("measuring round 4 of 4 of mode G0"), std::string::npos);
}

TEST_F(RunModes, LossesAreDividedByTheEpochs) {
  const LengthGroups groups = textGroups(2, {{8, 3}, {24, 1}});
  const GroupedEpoch epoch = writeBatches(groups, {});
  const int64_t perEpoch = epoch.stepOf.back() + 1;
  const std::string p = program("p", 1, groups), steps = "--steps " + std::to_string(perEpoch + 2);
  auto run = [&](const std::string &name, const std::string &flags) {
    Outcome o = shell(onBatches(p, name + ".jsonl") + steps + " --clip 0 " + flags);
    EXPECT_EQ(o.code, 0) << o.output;
    return o.output;
  };
  run("step", "");
  double labels = 0; // of the epoch
  std::vector<json> byStep = log("step.jsonl");
  for (int64_t s = 0; s < perEpoch; ++s)
    labels += byStep[s]["label_tokens"].get<double>();
  const double divisor = labels / static_cast<double>(perEpoch);
  char told[80];
  std::snprintf(told, sizeof told, "losses of epoch 0 are divided by its label tokens a step, %.1f",
                divisor);
  const std::string output =
      run("epoch", "--loss-normalizer epoch --checkpoint " + (folder / "kept") +
                       " --checkpoint-every 3 --keep 1000");
  EXPECT_NE(output.find(told), std::string::npos) << told << "\n" << output;
  EXPECT_NE(output.find("losses of epoch 1 are"), std::string::npos) << output;
  // The first step has the same parameters.
  json first = log("epoch.jsonl")[0];
  EXPECT_EQ(first["loss"], byStep[0]["loss"]);
  const double expected =
      byStep[0]["grad_norm"].get<double>() * byStep[0]["label_tokens"].get<double>() / divisor;
  EXPECT_NEAR(first["grad_norm"].get<double>(), expected, 1e-9 * expected);
  EXPECT_NE(first["grad_norm"], byStep[0]["grad_norm"]);
  // Going on in the middle of an epoch divides by the same.
  const std::vector<json> whole = log("epoch.jsonl");
  const std::string from = " --resume " + (folder / "kept/step-00000003");
  EXPECT_EQ(run("resumed", "--loss-normalizer epoch" + from).find("changed since"),
            std::string::npos);
  EXPECT_EQ(log("resumed.jsonl").back()["loss"], whole.back()["loss"]);
  EXPECT_EQ(log("resumed.jsonl").back()["grad_norm"], whole.back()["grad_norm"]);
  EXPECT_NE(run("changed", "--loss-normalizer samples" + from)
                .find("changed since the checkpoint: loss_normalizer \"epoch\" -> \"samples\""),
            std::string::npos);
}

TEST_F(RunModes, FoldersThatDoNotFitAreRefused) {
  const LengthGroups groups = textGroups(2, {{8, 3}, {24, 1}});
  writeBatches(groups, {});
  auto expect = [&](const std::string &program, const std::string &part) {
    Outcome o = shell(onBatches(program, "none.jsonl"));
    EXPECT_EQ(o.code, 1) << o.output;
    EXPECT_NE(o.output.find(part), std::string::npos) << o.output;
    EXPECT_EQ(o.output.find("error:"), o.output.rfind("error:")) << o.output;
    EXPECT_FALSE(std::filesystem::exists(folder / "none.jsonl"));
  };
  expect(program("single", 1, textGroups(2, {{24, 1}})),
         "batches.json: the folder has 2 length groups, but the program has one train mode");
  expect(program("other", 1, textGroups(2, {{8, 2}, {24, 1}})),
         "groups.json: length group \"G0\" has microbatches 3, but the program's train mode 2");
  expect(program("more", 1, textGroups(2, {{8, 3}, {16, 1}, {24, 1}})),
         "the folder has 2 length groups, but the program has 3 train modes (G0, G1, G2)");
}

} // namespace
} // namespace omnibal::rt
