#include "test/unit/runtime/executor/TinyRun.h"
#include "runtime/comm/threads/ThreadCommunicator.h"
#include "runtime/program/RankGrid.h"
#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

namespace omnibal::rt {
namespace {
constexpr int64_t W = tinyVocabulary, C = tinyWidth;
}

std::vector<TinyGroup> tinyStep(uint32_t seed, int groups) {
  std::mt19937 random(seed);
  std::vector<TinyGroup> step(groups);
  for (int g = 0; g < groups; ++g) {
    int samples = (g + seed) % 5 == 3 ? 0 : 1 + random() % 3; // now and then nothing at all
    for (int s = 0; s < samples; ++s) {
      auto &sample = step[g].emplace_back();
      int length = 1 + random() % 7;
      for (int t = 0; t < length; ++t) {
        int32_t id = random() % W, label = random() % 3 == 0 ? -100 : int32_t(random() % W);
        sample.push_back({id, label});
      }
    }
  }
  return step;
}

std::vector<TinyGroup> tinyStepOf(uint32_t seed, const Program &program, size_t mode) {
  const TrainMode &train = program.trainModes[mode];
  std::vector<TinyGroup> groups = tinyStep(seed, train.microbatches * program.dataParallel);
  if (train.tokensCap < tinyTokensCap)
    for (TinyGroup &group : groups)
      group.resize(std::min<size_t>(group.size(), 1));
  return groups;
}

PackedMicrobatch packTiny(const TinyGroup &group) {
  std::vector<std::vector<int32_t>> ids, labels;
  for (const auto &sample : group) {
    auto &i = ids.emplace_back();
    auto &l = labels.emplace_back();
    for (auto [id, label] : sample) {
      i.push_back(id);
      l.push_back(label);
    }
  }
  std::vector<SampleView> views;
  for (size_t s = 0; s < ids.size(); ++s)
    views.push_back({"tiny", ids[s], labels[s], {}, 0});
  PackingRules rules;
  rules.vocabulary = W;
  rules.tokensCap = tinyTokensCap;
  return *pack(views, rules);
}

std::string writeTinyWeights(const std::string &folder) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.5f);
  std::string path = folder + "/tiny.safetensors";
  auto writer = SafetensorsWriter::create(
      path, {{"table", StoredType::F32, {W, C}}, {"weight", StoredType::F32, {W, C}}});
  std::vector<float> values(2 * W * C);
  for (float &v : values)
    v = normal(random);
  if (!writer || !writer->append(values.data(), values.size() * 4) || !writer->finish())
    return "";
  return path;
}

TinyReference::TinyReference(const std::string &weights, bool tied) : tied(tied) {
  auto files = TensorFiles::open(weights);
  const char *names[] = {"table", "weight"};
  for (int i = 0; i < 2; ++i) {
    parameters[i].resize(W * C);
    moments1[i].assign(W * C, 0);
    moments2[i].assign(W * C, 0);
    if (!convertTensor(*files->find(names[i]), DType::F64, parameters[i].data()))
      parameters[i].clear();
  }
}

TinyReference::Step TinyReference::step(const std::vector<TinyGroup> &groups,
                                        const StepOptions &options,
                                        const std::vector<double> &weights) {
  std::vector<double> gradients[2] = {std::vector<double>(W * C), std::vector<double>(W * C)};
  int head = tied ? 0 : 1;
  double loss = 0, count = 0;
  for (size_t g = 0; g < groups.size(); ++g)
    for (const auto &sample : groups[g])
      for (size_t t = 0; t + 1 < sample.size(); ++t) {
        int target = sample[t + 1].second;
        if (target == -100)
          continue;
        const double *h = &parameters[0][sample[t].first * C];
        double logits[W], sum = 0;
        for (int v = 0; v < W; ++v) {
          logits[v] = 0;
          for (int k = 0; k < C; ++k)
            logits[v] += h[k] * parameters[head][v * C + k];
          sum += std::exp(logits[v]);
        }
        loss += std::log(sum) - logits[target];
        count += 1;
        for (int v = 0; v < W; ++v) {
          double d =
              (weights.empty() ? 1 : weights[g]) * (std::exp(logits[v]) / sum - (v == target));
          for (int k = 0; k < C; ++k) {
            gradients[head][v * C + k] += d * h[k];
            gradients[0][sample[t].first * C + k] += d * parameters[head][v * C + k];
          }
        }
      }
  if (count == 0)
    return {0, 0};
  double squared = 0;
  for (int i = 0; i <= head; ++i)
    for (double &g : gradients[i]) {
      g /= weights.empty() ? count : 1;
      squared += g * g;
    }
  double norm = std::sqrt(squared), factor = std::min(1.0, options.clip / (norm + 1e-6));
  const UpdateOptions &a = options.update;
  ++updates;
  for (int i = 0; i <= head; ++i)
    for (int64_t e = 0; e < W * C; ++e) {
      const UpdateRate &rate = a.rates[rateOf[i]];
      double g = gradients[i][e] * factor, &p = parameters[i][e];
      double &m = moments1[i][e], &v = moments2[i][e];
      p -= rate.learningRate * rate.weightDecay * p;
      m = a.beta1 * m + (1 - a.beta1) * g;
      v = a.beta2 * v + (1 - a.beta2) * g * g;
      double mHat = m / (1 - std::pow(a.beta1, updates)),
             vHat = v / (1 - std::pow(a.beta2, updates));
      p -= rate.learningRate * mHat / (std::sqrt(vHat) + a.epsilon);
    }
  return {loss / count, norm};
}

LoadedProgram loadedTiny(const TinyOptions &options) {
  LoadedProgram loaded;
  loaded.program = tinyProgram(options);
  return loaded;
}

TinyOutcome trainTiny(const LoadedProgram &loaded, const std::string &weights,
                      Communicator &communicator, int steps, const StepOptions &options,
                      const ExecutorOptions &executorOptions) {
  TinyOutcome outcome;
  outcome.status = [&]() -> Status {
    OMNIBAL_ASSIGN_OR_RETURN(TensorFiles files, TensorFiles::open(weights));
    OMNIBAL_ASSIGN_OR_RETURN(auto executor,
                             Executor::prepare(loaded, communicator, executorOptions));
    OMNIBAL_RETURN_IF_ERROR(executor->initialize(files));
    const Program &p = loaded.program;
    for (int s = 0; s < steps; ++s) {
      const int count = p.trainModes[0].microbatches * p.dataParallel;
      TinySource source(tinyStep(s, count), p.dataParallel, executor->replica(),
                        s + 1 < steps ? tinyStep(s + 1, count) : std::vector<TinyGroup>());
      StepOptions step = options;
      step.step = s;
      auto result = executor->trainStep(source, step);
      if (!result) {
        communicator.abort(result.status()); // before the arena goes
        return result.status();
      }
      outcome.steps.push_back(*result);
    }
    for (const Parameter &q : executor->stageInfo().parameters) {
      auto keep = [&](const std::byte *bytes) {
        auto *data = reinterpret_cast<const float *>(bytes);
        outcome.parameters.emplace_back(data, data + W * C);
        return Status::ok();
      };
      OMNIBAL_RETURN_IF_ERROR(
          executor->backend().read(executor->at(q.weightOffset()), W * C * 4, keep));
      const int64_t bytes = W * C * byteSize(q.dtype);
      auto keepBytes = [&](const std::byte *data) {
        outcome.read.emplace_back(reinterpret_cast<const char *>(data), bytes);
        return Status::ok();
      };
      OMNIBAL_RETURN_IF_ERROR(
          executor->backend().read(executor->at(q.dataOffset), bytes, keepBytes));
    }
    return Status::ok();
  }();
  if (!outcome.status)
    communicator.abort(outcome.status);
  return outcome;
}

TinyOutcome trainTinyThreads(const LoadedProgram &loaded, const std::string &weights, int steps,
                             const StepOptions &options, const ExecutorOptions &executorOptions) {
  const int ranks = RankGrid(loaded.program).ranks();
  auto communicators = createThreadCommunicators(ranks, std::chrono::seconds(60));
  std::vector<TinyOutcome> outcomes(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      outcomes[r] = trainTiny(loaded, weights, *communicators[r], steps, options, executorOptions);
    });
  for (std::thread &thread : threads)
    thread.join();
  TinyOutcome all = outcomes[0];
  for (int r = 1; r < ranks; ++r) {
    for (auto &parameter : outcomes[r].parameters)
      all.parameters.push_back(parameter);
    for (const std::string &bytes : outcomes[r].read)
      all.read.push_back(bytes);
    if (all.status.isOk() || all.status.code() == Code::Aborted)
      if (!outcomes[r].status)
        all.status = outcomes[r].status;
  }
  return all;
}

} // namespace omnibal::rt
