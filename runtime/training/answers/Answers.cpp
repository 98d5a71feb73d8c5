#include "runtime/training/answers/Answers.h"
#include "runtime/data/DataLoader.h"
#include "runtime/training/evaluation/Scoring.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

using nlohmann::json;

/// The first token of an answer behind all pictures, of a pair that of the chosen one, which is the
/// one to hope for; -1: there is none.
int64_t beginOfAnswer(const Sample &sample, int64_t imageToken) {
  const int64_t end = sequencesOf(sample).front().end;
  int64_t first = 1;
  for (int64_t t = 0; t < end; ++t)
    if (sample.inputIds[t] == imageToken)
      first = t + 1;
  for (int64_t t = first; t < end; ++t)
    if (sample.labels[t] != ignoredLabel)
      return t;
  return -1;
}

/// What a call of attention keeps of so many tokens, in bytes.
int64_t keptBy(const Function &function, const KernelCall &call, int64_t tokens) {
  int64_t bytes = 0;
  bool ofSamples = false;
  for (const auto &[name, view] : call.operands) {
    if (name == "k" || name == "v")
      bytes += view.shape[1].constant * view.shape[2].constant *
               byteSize(function.buffers[view.buffer].dtype);
    ofSamples |= name == "cu_seqlens" &&
                 bordersNamed(function.buffers[view.buffer].name) == Borders::Samples;
  }
  constexpr int64_t besides = 4096; // which rows see what
  return call.kernel == "attention" && ofSamples ? tokens * bytes + besides : 0;
}

} // namespace

/// One run of the mode: an answer in each micro-batch, on the replica whose turn it is.
class Answers::Wave final : public MicrobatchSource {
public:
  Wave(const Answers &all, size_t first, std::vector<Ongoing> &answers)
      : all(all), first(first), answers(answers),
        rules(packingRules(all.s.program(), all.s.program().caps())) {}

  /// The number of the answer in a micro-batch of this replica; none where there is nothing to do.
  std::optional<size_t> answerOf(int32_t microbatch) const {
    const auto ranks = static_cast<size_t>(all.s.program().dataRanks(evaluateMode));
    const size_t number = first + static_cast<size_t>(microbatch) * ranks +
                          static_cast<size_t>(all.s.executor->dataRank(evaluateMode));
    return number < answers.size() && !answers[number].ended ? std::optional(number) : std::nullopt;
  }

  Result<const PackedMicrobatch *> get(int32_t microbatch) override {
    PackedMicrobatch &out = packed[microbatch];
    if (!out.borders.empty())
      return &out;
    const std::optional<size_t> number = answerOf(microbatch);
    if (!number) {
      OMNIBAL_ASSIGN_OR_RETURN(out, pack({}, rules));
      return &out;
    }
    const Prompt &prompt = all.prompts[*number];
    const std::vector<int32_t> &said = answers[*number].ids;
    std::vector<int32_t> ids = prompt.sample.inputIds;
    ids.insert(ids.end(), said.begin(), said.end());
    std::map<std::string, std::vector<int32_t>> inputs = prompt.sample.tokenInputs;
    SampleView view{prompt.sample.key, ids, {}, {}, prompt.sample.tiles, prompt.sample.pictures};
    for (auto &[name, values] : inputs) {
      values.resize(ids.size(), 1); // a token type: the answer is no prefix
      view.tokenInputs[name] = values;
    }
    OMNIBAL_ASSIGN_OR_RETURN(out, pack({&view, 1}, rules));
    if (all.keeps && !said.empty()) {
      OMNIBAL_ASSIGN_OR_RETURN(PackedMicrobatch empty, pack({}, rules));
      out = lastToken(out, std::move(empty));
    } else {
      out.pixels = prompt.pixels;
    }
    out.kept = all.keeps ? &answers[*number].kept : nullptr;
    out.targets.back() = 0; // rows without a target need no prediction
    out.labelTokens = 1;
    return &out;
  }

private:
  const Answers &all;
  size_t first;
  std::vector<Ongoing> &answers;
  PackingRules rules;
  std::map<int32_t, PackedMicrobatch> packed;
};

int64_t Answers::keptBytes(const Session &session, int64_t tokens) {
  const Program &p = session.program();
  if (!p.info.incremental)
    return 0;
  const Mode &mode = session.executor->stageInfo().modes.at(evaluateMode);
  int64_t ofAnswer = 0;
  for (const Chunk &chunk : mode.chunks)
    for (const LayerCall &layer : chunk.calls(ActionKind::Forward))
      for (const KernelCall &call : p.functions[layer.function].calls)
        ofAnswer += keptBy(p.functions[layer.function], call, tokens);
  const int64_t atOnce = std::min<int64_t>(mode.microbatches, session.options.sampleCount);
  return atOnce * ofAnswer;
}

/// Models whose tokens see earlier ones in another way than by their keys and values run over the
/// whole sample again, and so do all ranks where the device of one has no room.
Result<bool> Answers::canKeep() const {
  if (!s.program().info.incremental)
    return false;
  int64_t most = 0;
  for (const Prompt &prompt : prompts)
    most = std::max(most, mostTokens(prompt));
  Backend &backend = s.executor->backend();
  double without = backend.takeKeyRoom(keptBytes(s, most)) ? 0 : 1;
  const Status agreed =
      s.communicator.allReduce(std::span<double>(&without, 1), s.communicator.everyone());
  backend.giveKeyRoom();
  OMNIBAL_RETURN_IF_ERROR(agreed);
  return without == 0;
}

Answers::Answers(Session &session, const DataSource &training)
    : s(session), data(training.evaluation ? training.evaluation.get() : &training) {}

bool Answers::isDue(int64_t completed, int64_t total) const {
  return s.options.sampleEvery > 0 && completed > 0 &&
         (completed % s.options.sampleEvery == 0 || completed == total);
}

Status Answers::open() {
  if (s.options.sampleEvery == 0)
    return Status::ok();
  OMNIBAL_RETURN_IF_ERROR(s.agree(checkEvaluates(s)));
  OMNIBAL_RETURN_IF_ERROR(s.agree.after([&] { return openSamples(); }).context("--sample-every"));
  return openTexts().context("--sample-every");
}

/// Samples that lie evenly in the data; of those without an answer, the next one that has some.
Status Answers::openSamples() {
  const ModelInfo &info = s.program().info;
  for (const std::string &name : info.tokenInputs)
    if (std::ranges::find(info.prefixInputs, name) == info.prefixInputs.end())
      return invalid("the model reads \"" + name +
                     "\" with each token, which tokens of an answer do not have");
  const int64_t size = data->dataset->size(), wanted = std::min(s.options.sampleCount, size);
  int64_t next = 0;
  for (int64_t i = 0; i < wanted; ++i)
    for (next = std::max(next, i * size / wanted); next < size; ++next) {
      OMNIBAL_ASSIGN_OR_RETURN(Prompt prompt, read(next));
      if (prompt.expected.empty())
        continue;
      prompts.push_back(std::move(prompt));
      ++next;
      break;
    }
  return prompts.empty()
             ? invalid("no sample has labels behind its pictures, so there is no answer "
                       "to ask for")
             : Status::ok();
}

Result<Answers::Prompt> Answers::read(int64_t number) const {
  const Program &p = s.program();
  const SampleRules rules = sampleRules(p);
  Prompt prompt;
  const SampleNeeds needs{&rules.tokenInputs, rules.tokensCap};
  OMNIBAL_ASSIGN_OR_RETURN(prompt.sample, data->dataset->sample(number, needs));
  Sample &sample = prompt.sample;
  OMNIBAL_RETURN_IF_ERROR(checkSample(sample, rules).context(data->dataset->describe(number)));
  const int64_t begin = beginOfAnswer(sample, p.info.imageTokenId);
  if (begin < 0)
    return prompt;
  const int64_t end = sequencesOf(sample).front().end;
  for (int64_t t = begin; t < end && sample.labels[t] != ignoredLabel; ++t)
    prompt.expected.push_back(sample.labels[t]);
  sample.chosenTokens = 0;
  sample.inputIds.resize(begin);
  for (auto &[name, values] : sample.tokenInputs)
    values.resize(begin);
  if (readsPixels(s.executor->stageInfo(), evaluateMode)) {
    OMNIBAL_ASSIGN_OR_RETURN(prompt.pixels, pixelsOf(*data->dataset, number, data->preprocess, p));
  }
  return prompt;
}

/// The leader reads what says where answers end and what their ids mean.
Status Answers::openTexts() {
  Status mine;
  if (s.leads())
    mine = readTexts(s.weights.beside());
  OMNIBAL_RETURN_IF_ERROR(s.agree(std::move(mine)));
  std::string shared = json(ends).dump();
  OMNIBAL_RETURN_IF_ERROR(s.communicator.broadcast(shared, 0));
  ends = json::parse(shared).get<std::vector<int32_t>>();
  return Status::ok();
}

Status Answers::readTexts(const FolderFiles &folder) {
  for (const char *name : {"generation_config.json", "config.json"})
    if (const Result<std::string> text = folder.read(name); text && ends.empty())
      ends = endsOfAnswers(*text, folder.pathOf(name));
  const Result<std::string> text = folder.read("tokenizer.json");
  if (!text)
    return text.status().code() == Code::NotFound ? Status::ok() : text.status();
  OMNIBAL_ASSIGN_OR_RETURN(vocabulary, Vocabulary::parse(*text, folder.pathOf("tokenizer.json")));
  return Status::ok();
}

int64_t Answers::mostTokens(const Prompt &prompt) const {
  const Program &p = s.program();
  const int64_t most = std::min(prompt.sample.tokens() + s.options.sampleTokens, p.caps().tokens);
  return p.info.positions > 0 ? std::min(most, p.info.positions) : most;
}

bool Answers::hasRoom(const Prompt &prompt, const Ongoing &answer) const {
  return prompt.sample.tokens() + static_cast<int64_t>(answer.ids.size()) < mostTokens(prompt);
}

/// Gives each answer of a wave that has not ended its next token.
Status Answers::advance(size_t first, std::vector<Ongoing> &answers) {
  Wave wave(*this, first, answers);
  std::vector<double> next(answers.size()); // ids + 1, which float64 sums of one number keep
  OMNIBAL_RETURN_IF_ERROR(s.executor->run(
      evaluateMode, wave,
      [&](int32_t microbatch, const BatchValue &result, const std::byte *bytes,
          const PackedMicrobatch &batch) {
        if (const auto number = wave.answerOf(microbatch); number && result.name == "prediction")
          next[*number] = reinterpret_cast<const int32_t *>(bytes)[batch.tokens - 1] + 1.0;
        return Status::ok();
      }));
  OMNIBAL_RETURN_IF_ERROR(
      s.communicator.allReduce(std::span<double>(next), s.communicator.everyone()));
  for (size_t i = 0; i < answers.size(); ++i) {
    if (next[i] == 0)
      continue;
    const auto said = std::ssize(answers[i].ids);
    answers[i].tokensRun += keeps && said > 0 ? 1 : prompts[i].sample.tokens() + said;
    const auto id = static_cast<int32_t>(next[i] - 1);
    // The token of a picture has none to stand for.
    answers[i].ended =
        std::ranges::find(ends, id) != ends.end() || id == s.program().info.imageTokenId;
    if (!answers[i].ended)
      answers[i].ids.push_back(id);
    answers[i].ended |= !hasRoom(prompts[i], answers[i]);
  }
  return Status::ok();
}

Result<std::vector<Answer>> Answers::run() {
  OMNIBAL_ASSIGN_OR_RETURN(keeps, canKeep());
  std::vector<Ongoing> ongoing(prompts.size());
  const Mode &mode = s.executor->stageInfo().modes.at(evaluateMode);
  const auto together =
      static_cast<size_t>(mode.microbatches * s.program().dataRanks(evaluateMode));
  for (size_t i = 0; i < prompts.size(); ++i) {
    ongoing[i].ended = !hasRoom(prompts[i], ongoing[i]);
    ongoing[i].kept = KeptKeys(mostTokens(prompts[i]));
  }
  for (size_t first = 0; first < prompts.size(); first += together) {
    auto goesOn = [&] {
      const size_t end = std::min(first + together, prompts.size());
      return std::any_of(ongoing.begin() + first, ongoing.begin() + end,
                         [](const Ongoing &answer) { return !answer.ended; });
    };
    while (goesOn())
      OMNIBAL_RETURN_IF_ERROR(advance(first, ongoing));
    for (size_t i = first; i < std::min(first + together, prompts.size()); ++i)
      ongoing[i].kept = KeptKeys();
  }
  s.executor->forgetTraffic();
  std::vector<Answer> said;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Answer &answer = said.emplace_back(Answer{prompts[i].sample.key, ongoing[i].ids,
                                              prompts[i].expected, "", "", ongoing[i].tokensRun});
    if (vocabulary) {
      answer.text = vocabulary->text(answer.ids);
      answer.expected = vocabulary->text(answer.expectedIds);
    }
  }
  return said;
}

} // namespace omnibal::rt
