// omnibal-run as users call it, on the tiny program and a tar of text samples.
#include "runtime/batching/io/BatchesFolder.h"
#include "runtime/data/Dataset.h"
#include "runtime/device/BackendInterface.h"
#include "runtime/program/ProgramIO.h"
#include "test/support/Shell.h"
#include "test/unit/runtime/data/TestTar.h"
#include "test/unit/runtime/executor/TinyRun.h"
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

using nlohmann::json;
using test::Outcome;
using test::readFile;
using test::shell;
using test::writeFile;

constexpr int steps = 6;

class RunTool : public testing::Test {
protected:
  void SetUp() override {
    std::vector<std::pair<std::string, std::string>> members;
    std::string lines;
    int number = 0;
    for (int s = 0; s < steps; ++s) {
      json groups = json::array();
      for (const TinyGroup &group : tinyStep(s, 4)) {
        json keys = json::array();
        for (const auto &sample : group) {
          json ids = json::array(), labels = json::array();
          for (auto [id, label] : sample) {
            ids.push_back(id);
            labels.push_back(label);
          }
          std::string key = "sample" + std::to_string(number++);
          members.push_back({key + ".json", json({{"input_ids", ids}, {"labels", labels}}).dump()});
          keys.push_back(key);
        }
        groups.push_back(keys);
      }
      lines += json({{"groups", groups}}).dump() + "\n";
    }
    writeFile(folder / "data-000000.tar", test::makeTar(members));
    writeFile(folder / "steps.jsonl", lines);
    writeFile(folder / "config.json", "{}");
    weights = writeTinyWeights(folder.path);
    for (int stages : {1, 2})
      for (int replicas : {1, 2}) {
        Program p = tinyProgram({stages, 4 / replicas, replicas, false});
        Status status = writeProgram(p, {}, {}, program(stages, replicas));
        ASSERT_TRUE(status) << status.message();
      }
  }

  std::string program(int stages, int replicas) {
    return folder / ("program" + std::to_string(stages) + std::to_string(replicas));
  }
  std::string base(const std::string &program) {
    return std::string("OMNIBAL_GUARD=1 " OMNIBAL_RUN " ") + program + " --weights " + weights +
           " --data " + (folder / "data-000000.tar");
  }
  std::string trainCommand(const std::string &program, const std::string &log) {
    return base(program) + " --steps-file " + (folder / "steps.jsonl") + " --lr 0.05 --clip 0.3" +
           " --weight-decay 0.1 --log " + (folder / log) + " ";
  }
  /// A folder as omnibal-batch writes it, over all samples of the tar.
  void writeBatches(const std::string &name, const BatchOptions &options) {
    auto data = Dataset::open({folder / "data-000000.tar"});
    ASSERT_TRUE(data);
    SampleLengths lengths;
    for (int64_t i = 0; i < (*data)->size(); ++i) {
      lengths.tiles.push_back(0);
      lengths.tokens.push_back(static_cast<int32_t>((*data)->sample(i)->tokens()));
    }
    BatchesRecord record;
    record.options = options;
    record.samples = lengths.size();
    auto batches = balance(lengths, options);
    ASSERT_TRUE(batches) << batches.status().message();
    Status status =
        writeBatchesFolder(folder / name, lengths, *batches, describe(record, *batches));
    ASSERT_TRUE(status) << status.message();
  }
  static BatchOptions batchOptions(int32_t ranks, uint64_t seed = 1) {
    BatchOptions options;
    options.tilesCap = 1;
    options.tokensCap = tinyTokensCap;
    options.ranks = ranks;
    options.seed = seed;
    return options;
  }
  std::string batchesCommand(const std::string &program, const std::string &batches,
                             const std::string &log) {
    return base(program) + " --batches " + (folder / batches) + " --lr 0.05 --log " +
           (folder / log) + " ";
  }
  std::vector<json> log(const std::string &name) {
    std::vector<json> lines;
    std::istringstream text(readFile(folder / name));
    for (std::string line; std::getline(text, line);)
      lines.push_back(json::parse(line));
    return lines;
  }

  test::TemporaryFolder folder;
  std::string weights;
};

TEST_F(RunTool, LogHoldsTheReferencesLosses) {
  for (auto [stages, replicas] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    Outcome o = shell(trainCommand(program(stages, replicas), "run.jsonl"));
    ASSERT_EQ(o.code, 0) << o.output;
    StepOptions options;
    options.update.rates = decayAndNone(0.05, 0.1);
    options.clip = 0.3;
    TinyReference reference(weights, false);
    auto lines = log("run.jsonl");
    ASSERT_EQ(lines.size(), size_t(steps));
    for (int s = 0; s < steps; ++s) {
      auto expected = reference.step(tinyStep(s, 4), options);
      EXPECT_EQ(lines[s]["step"], s);
      EXPECT_NEAR(lines[s]["loss"], expected.loss, 3e-6 * expected.loss);
      EXPECT_NEAR(lines[s]["grad_norm"], expected.gradientNorm, 3e-6 * expected.gradientNorm);
      for (const char *field : {"lr", "label_tokens", "tokens", "tiles", "step_ms", "tokens_per_s",
                                "bubble", "pipeline_ms", "epilogue_ms"})
        EXPECT_TRUE(lines[s][field].is_number()) << field;
    }
  }
}

TEST_F(RunTool, ResumedRunHasTheSameBits) {
  std::string p = program(2, 2), save = " --save ";
  Outcome whole = shell(trainCommand(p, "whole.jsonl") + save + (folder / "whole"));
  ASSERT_EQ(whole.code, 0) << whole.output;
  // Continuing from a checkpoint in the middle of a finished run is what a killed run does.
  const std::string place = folder / "checkpoints\xff"; // a name of bytes, not of text
  std::string checkpoints = " --checkpoint " + place + " --checkpoint-every 2";
  std::string again = trainCommand(p, "part.jsonl") + checkpoints + save + (folder / "part");
  Outcome part = shell(again);
  ASSERT_EQ(part.code, 0) << part.output;
  Outcome resumed = shell(trainCommand(p, "part.jsonl") + " --resume " + place + "/step-00000004" +
                          save + (folder / "resumed"));
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_NE(resumed.output.find("continuing after step 4"), std::string::npos) << resumed.output;
  std::string model = "/model.safetensors";
  EXPECT_EQ(readFile((folder / "whole") + model), readFile((folder / "resumed") + model));
  EXPECT_NE(readFile((folder / "whole") + model), readFile(weights));
  auto a = log("whole.jsonl"), b = log("part.jsonl");
  ASSERT_EQ(b.size(), size_t(steps)); // the steps done twice are logged once
  for (int s = 0; s < steps; ++s)
    EXPECT_EQ(a[s]["loss"], b[s]["loss"]);
  Outcome other = shell(trainCommand(p, "part.jsonl") + " --lr 0.1 --resume " + place);
  EXPECT_EQ(other.code, 0);
  EXPECT_NE(other.output.find("changed since the checkpoint: lr 0.05 -> 0.1"), std::string::npos)
      << other.output;
}

TEST_F(RunTool, EpochsOfBatchesGoOnBitByBit) {
  writeBatches("batches", batchOptions(2));
  writeBatches("others", batchOptions(2, 2));
  std::string p = program(2, 2);
  // One epoch without --steps.
  Outcome one = shell(batchesCommand(p, "batches", "one.jsonl"));
  ASSERT_EQ(one.code, 0) << one.output;
  auto epoch = log("one.jsonl");
  int64_t perEpoch = static_cast<int64_t>(epoch.size());
  ASSERT_GE(perEpoch, 2);
  int64_t labels = 0;
  for (const json &line : epoch)
    labels += int64_t(line["label_tokens"]);

  int64_t total = 2 * perEpoch + 1, middle = perEpoch + 1; // a third epoch begins
  std::string flags = "--steps " + std::to_string(total);
  Outcome whole = shell(batchesCommand(p, "batches", "whole.jsonl") + flags);
  ASSERT_EQ(whole.code, 0) << whole.output;
  EXPECT_EQ(whole.output.find("begins again"), std::string::npos) << whole.output;
  auto a = log("whole.jsonl");
  ASSERT_EQ(int64_t(a.size()), total);
  // Each epoch has every sample once, in new groups.
  int64_t second = 0;
  bool differs = false;
  for (int64_t s = 0; s < perEpoch; ++s) {
    EXPECT_EQ(a[s]["tokens"], epoch[s]["tokens"]);
    second += int64_t(a[perEpoch + s]["label_tokens"]);
    differs |= a[perEpoch + s]["label_tokens"] != a[s]["label_tokens"];
  }
  EXPECT_EQ(second, labels);
  EXPECT_TRUE(differs);

  // A checkpoint in the middle of the second epoch; going on from there is what a killed run does.
  char name[64];
  Outcome halted = shell(batchesCommand(p, "batches", "halted.jsonl") + flags + " --checkpoint " +
                         (folder / "halted") + " --checkpoint-every " + std::to_string(middle) +
                         " --save " + (folder / "saved"));
  ASSERT_EQ(halted.code, 0) << halted.output;
  std::snprintf(name, sizeof name, "halted/step-%08lld", static_cast<long long>(middle));
  std::string from = folder / name;
  json manifest = json::parse(readFile(from + "/manifest.json"));
  EXPECT_EQ(manifest["settings"]["epoch"], 1);
  EXPECT_EQ(manifest["data_position"], middle - perEpoch);
  Outcome resumed = shell(batchesCommand(p, "batches", "halted.jsonl") + flags + " --resume " +
                          from + " --save " + (folder / "resumed"));
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  auto b = log("halted.jsonl");
  ASSERT_EQ(b.size(), a.size());
  for (int64_t s = 0; s < total; ++s)
    EXPECT_EQ(a[s]["loss"], b[s]["loss"]) << s;
  EXPECT_EQ(readFile(folder / "saved/model.safetensors"),
            readFile(folder / "resumed/model.safetensors"));

  Outcome other = shell(batchesCommand(p, "others", "other.jsonl") + flags + " --resume " + from);
  EXPECT_EQ(other.code, 0);
  EXPECT_NE(other.output.find("they are read from their beginning"), std::string::npos)
      << other.output;
}

TEST_F(RunTool, BatchesThatDoNotFitAreRefusedBeforeTraining) {
  auto expect = [&](const std::string &program, const std::string &part) {
    std::filesystem::remove(folder / "run.jsonl");
    Outcome o = shell(batchesCommand(program, "batches", "run.jsonl"));
    EXPECT_EQ(o.code, 1) << o.output;
    EXPECT_NE(o.output.find(part), std::string::npos) << o.output;
    EXPECT_EQ(o.output.find("error:"), o.output.rfind("error:")) << o.output;
    EXPECT_FALSE(std::filesystem::exists(folder / "run.jsonl"));
  };
  writeBatches("batches", batchOptions(2));
  expect(program(1, 1), "balanced over 2 ranks, but the program has 1");
  BatchOptions larger = batchOptions(2);
  larger.tokensCap = tinyTokensCap + 1;
  writeBatches("batches", larger);
  expect(program(1, 2), "tokens; run omnibal-batch or omnibal-compile");
}

TEST_F(RunTool, GroupsOfOtherToolsRepeatAndThatIsSaid) {
  writeBatches("batches", batchOptions(1));
  std::filesystem::remove(folder / "batches/lengths.npy");
  Outcome one = shell(batchesCommand(program(1, 1), "batches", "one.jsonl"));
  ASSERT_EQ(one.code, 0) << one.output;
  EXPECT_EQ(one.output.find("begins again"), std::string::npos) << one.output;
  size_t perEpoch = log("one.jsonl").size();
  Outcome two = shell(batchesCommand(program(1, 1), "batches", "two.jsonl") + "--steps " +
                      std::to_string(2 * perEpoch));
  ASSERT_EQ(two.code, 0) << two.output;
  EXPECT_NE(two.output.find("begins again with the same groups"), std::string::npos) << two.output;
  auto lines = log("two.jsonl");
  for (size_t s = 0; s < perEpoch; ++s)
    EXPECT_EQ(lines[s]["label_tokens"], lines[perEpoch + s]["label_tokens"]);
}

TEST_F(RunTool, GradientsAreOfTheMeanLoss) {
  Outcome o = shell(trainCommand(program(2, 2), "run.jsonl") + "--steps 1 --save-gradients " +
                    (folder / "gradients.safetensors"));
  ASSERT_EQ(o.code, 0) << o.output;
  auto file = SafetensorsFile::open(folder / "gradients.safetensors");
  ASSERT_TRUE(file);
  double squared = 0;
  for (const char *name : {"table", "weight"}) {
    const StoredTensor *t = (*file)->find(name);
    ASSERT_NE(t, nullptr);
    std::vector<double> values(t->elements);
    ASSERT_TRUE(convertTensor(*t, DType::F64, values.data()));
    for (double v : values)
      squared += v * v;
  }
  EXPECT_NEAR(std::sqrt(squared), double(log("run.jsonl")[0]["grad_norm"]), 1e-6);
}

TEST_F(RunTool, TraceIsCompleteAndOrdered) {
  Outcome o =
      shell(trainCommand(program(2, 2), "run.jsonl") + "--trace " + (folder / "trace.json"));
  ASSERT_EQ(o.code, 0) << o.output;
  json trace = json::parse(readFile(folder / "trace.json"));
  std::map<int, int> forward, backward;
  std::set<std::string> names;
  int starts = 0, ends = 0;
  for (const json &e : trace) {
    if (e["ph"] == "X" && e["name"] == "F")
      ++forward[int(e["pid"])];
    if (e["ph"] == "X" && e["name"] == "B")
      ++backward[int(e["pid"])];
    if (e["ph"] == "X")
      EXPECT_GE(double(e["dur"]), 0);
    if (e["ph"] == "M" && e["name"] == "process_name")
      names.insert(e["args"]["name"]);
    starts += e["ph"] == "s";
    ends += e["ph"] == "f";
  }
  EXPECT_EQ(forward, (std::map<int, int>{{0, 2}, {1, 2}, {2, 2}, {3, 2}}));
  EXPECT_EQ(backward, forward);
  EXPECT_EQ(starts, 8); // two directions, two micro-batches, two replicas
  EXPECT_EQ(ends, 8);
  EXPECT_EQ(names, (std::set<std::string>{"stage 0 / rank 0", "stage 1 / rank 1",
                                          "stage 0 / rank 2", "stage 1 / rank 3"}));
}

TEST_F(RunTool, EvaluateCountsEverySampleOnce) {
  std::string first;
  for (auto [stages, replicas] : {std::pair{1, 1}, {2, 2}}) {
    Outcome o = shell(base(program(stages, replicas)) + " --evaluate --log " + (folder / "e.json"));
    ASSERT_EQ(o.code, 0) << o.output;
    json result = json::parse(readFile(folder / "e.json"));
    int samples = 0, labels = 0;
    for (int s = 0; s < steps; ++s)
      for (const TinyGroup &group : tinyStep(s, 4))
        for (const auto &sample : group) {
          ++samples;
          for (size_t t = 1; t < sample.size(); ++t)
            labels += sample[t].second != -100;
        }
    EXPECT_EQ(result["samples"], samples);
    EXPECT_EQ(result["label_tokens"], labels);
    EXPECT_GT(double(result["loss"]), 0);
    if (first.empty())
      first = result["token_accuracy"].dump();
    EXPECT_EQ(result["token_accuracy"].dump(), first);
  }
}

TEST_F(RunTool, ErrorsAreOneLineAndSayWhatToDo) {
  auto expect = [](const Outcome &o, int code, const std::string &part) {
    EXPECT_EQ(o.code, code) << o.output;
    EXPECT_NE(o.output.find(part), std::string::npos) << o.output;
  };
  std::string run = OMNIBAL_RUN " ", p = program(1, 1);
  expect(shell(run + p), 2, "--weights is required");
  expect(shell(run + p + " --what"), 2, "--what");
  expect(shell(run + "--version"), 0, "omnibal-run 0.");
  expect(shell(run + "--help"), 0, "mpirun -n 2 omnibal-run");
  expect(shell(run + "--help"), 0, "--checkpoint-minutes FLOAT=10 ");
  expect(shell(run + "nowhere --print"), 1, "no manifest.json");
  expect(shell(run + "--print " + p), 0, "function @head.backward");
  expect(shell(base(p)), 2, "either --steps-file or --batches");
  expect(shell(base(p) + " --steps-file " + (folder / "none.jsonl")), 1, "none.jsonl");
  expect(shell(run + p + " --evaluate --weights nothing.safetensors --data " +
               (folder / "data-000000.tar")),
         1, "nothing.safetensors");
  writeFile(folder / "bad.jsonl", "{\"groups\": [[\"sample0\"]]}\n");
  expect(shell(base(p) + " --steps-file " + (folder / "bad.jsonl")), 1,
         "bad.jsonl, line 1: 1 groups, but the program needs");
  writeFile(folder / "long.tar",
            test::makeTar({{"long.json", json({{"input_ids", std::vector<int>(25, 1)},
                                               {"labels", std::vector<int>(25, 1)}})
                                             .dump()}}));
  writeFile(folder / "long.jsonl", "{\"groups\": [[\"long\"],[],[],[]]}\n");
  expect(shell(run + program(2, 1) + " --weights " + weights + " --data " + (folder / "long.tar") +
               " --steps-file " + (folder / "long.jsonl")),
         1, "long");
  // One error, not one a rank.
  Outcome nan = shell(trainCommand(program(2, 2), "run.jsonl") + "--lr 1e38 --clip 0");
  expect(nan, 1, "is not a finite number");
  EXPECT_EQ(nan.output.find("error:"), nan.output.rfind("error:")) << nan.output;
  expect(shell(trainCommand(p, "missing-folder/run.jsonl")), 1, "missing-folder/run.jsonl");
}

TEST_F(RunTool, ConfigFileHoldsFlags) {
  writeFile(folder / "run.toml", "lr = 0.05\nclip = 0.3\nsteps = 2\nweight-decay = 0.1\n");
  Outcome o = shell(base(program(1, 1)) + " --steps-file " + (folder / "steps.jsonl") +
                    " --config " + (folder / "run.toml") + " --log " + (folder / "run.jsonl"));
  ASSERT_EQ(o.code, 0) << o.output;
  auto lines = log("run.jsonl");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["lr"], 0.05);
}

TEST_F(RunTool, LearningRateSchedules) {
  auto rates = [&](const std::string &flags) {
    Outcome o = shell(trainCommand(program(1, 1), "run.jsonl") +
                      "--min-lr-ratio 0.5 --warmup-steps 2 " + flags);
    EXPECT_EQ(o.code, 0) << o.output;
    std::vector<double> list;
    for (const json &line : log("run.jsonl"))
      list.push_back(double(line["lr"]) / 0.05);
    return list;
  };
  auto expect = [](const std::vector<double> &got, const std::vector<double> &expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
  };
  expect(rates(""), {0.5, 1, 1, 1, 1, 1});
  expect(rates("--schedule-lr linear"), {0.5, 1, 1, 0.875, 0.75, 0.625});
  double c = std::sqrt(0.5) / 4; // cosine: 0.75 + cos(pi k / 4) / 4
  expect(rates("--schedule-lr cosine"), {0.5, 1, 1, 0.75 + c, 0.75, 0.75 - c});
}

TEST_F(RunTool, ProgramForABackendThatIsNotThere) {
  auto write = [&](const std::string &target) {
    Program p = tinyProgram({1, 4, 1, false});
    p.target = target;
    Status status = writeProgram(p, {}, {}, folder / target);
    ASSERT_TRUE(status) << status.message();
  };
  auto expect = [&](const std::string &target, const std::string &part) {
    Outcome run = shell("OMNIBAL_PLUGINS=" + folder.path.string() + " " +
                        trainCommand(folder / target, "none.jsonl"));
    EXPECT_EQ(run.code, 1);
    EXPECT_NE(run.output.find(part), std::string::npos) << run.output;
    EXPECT_EQ(run.output.find('\n'), run.output.size() - 1) << run.output;
  };
  write("tpu");
  expect("tpu", "there is no target \"tpu\"; this omnibal knows host and cuda");
  write("cuda");
  expect("cuda", "target \"cuda\": the plugin libomnibal_cuda.so is missing (looked for " +
                     (folder / "libomnibal_cuda.so"));
  writeFile(folder / "libomnibal_cuda.so", "no library");
  expect("cuda", "libomnibal_cuda.so cannot be loaded");
  auto install = [&](const char *library) {
    std::filesystem::copy_file(library, folder / "libomnibal_cuda.so",
                               std::filesystem::copy_options::overwrite_existing);
  };
  install(OMNIBAL_NO_PLUGIN);
  expect("cuda", "libomnibal_cuda.so is no plugin of omnibal");
  install(OMNIBAL_OTHER_PLUGIN);
  expect("cuda", "was built for \"omnibal backend of another day\", this program for \"" +
                     std::string(backendInterface) + "\"; build both together");
#ifdef OMNIBAL_PLUGIN_FOLDER
  // The real one: there is no driver, or it lacks kernels of this program; one line in any case.
  Outcome run = shell("OMNIBAL_PLUGINS=" OMNIBAL_PLUGIN_FOLDER " " +
                      trainCommand(folder / "cuda", "none.jsonl"));
  EXPECT_EQ(run.code, 1);
  EXPECT_EQ(run.output.find('\n'), run.output.size() - 1) << run.output;
  EXPECT_EQ(run.output.find("cannot be loaded"), std::string::npos) << run.output;
#endif
}

} // namespace
} // namespace omnibal::rt
