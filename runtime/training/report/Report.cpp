#include "runtime/training/report/Report.h"
#include "runtime/comm/Gather.h"
#include "runtime/program/Names.h"
#include "runtime/program/RankGrid.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Json.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <unistd.h>
#include <utility>

namespace omnibal::rt {
namespace {

/// "vision.layers.12" -> ("vision.layers.", 12); no number at the end gives -1.
std::pair<std::string, int64_t> splitNumber(const std::string &name) {
  size_t at = name.find_last_not_of("0123456789") + 1;
  if (at == name.size() || name.size() - at > 9)
    return {name, -1};
  return {name.substr(0, at), std::stoll(name.substr(at))};
}

/// Steps with first-use costs.
constexpr int64_t warmUpSteps = 2;

std::string duration(double seconds) {
  char text[64];
  auto s = std::llround(seconds);
  if (s >= 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld", s / 60, s % 60);
  return text;
}

double tokensPerSecond(const StepResult &r) {
  return r.stepSeconds > 0 ? static_cast<double>(r.tokens) / r.stepSeconds : 0;
}

/// Drops a log's lines from step `first` on: a killed run may have logged steps after its last
/// checkpoint, which are computed again. Returns how many others were dropped as no lines of a log.
Result<int64_t> keepStepsBefore(const std::string &path, int64_t first) {
  std::ifstream in(path);
  if (!in)
    return Status(Code::Unavailable, path + ": cannot be read (--log)");
  OMNIBAL_ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::create(path));
  int64_t damaged = 0;
  for (std::string line; std::getline(in, line);) {
    auto value = parseJson(line, path);
    if (!value || !value->is_object() || !value->contains("step") ||
        !(*value)["step"].is_number_integer()) {
      ++damaged;
    } else if ((*value)["step"].get<int64_t>() < first) {
      line += '\n';
      OMNIBAL_RETURN_IF_ERROR(out.write(line.data(), line.size()));
    }
  }
  OMNIBAL_RETURN_IF_ERROR(out.commit());
  return damaged;
}

/// The numbers of an evaluation; those of its sources below their names.
std::vector<Scalar> scalarsOf(const std::string &prefix, const nlohmann::ordered_json &figures) {
  std::vector<Scalar> scalars;
  for (const auto &[field, value] : figures.items()) {
    if (value.is_number())
      scalars.push_back({prefix + field, value.get<float>()});
    else if (field == "sources")
      for (const auto &[source, own] : value.items())
        for (Scalar &scalar : scalarsOf(prefix + source + "/", own))
          scalars.push_back(std::move(scalar));
  }
  return scalars;
}

std::string bestText(int64_t step, double loss) {
  if (step < 0)
    return "none";
  char text[64];
  std::snprintf(text, sizeof text, "%.4f after step %lld", loss, static_cast<long long>(step));
  return text;
}

double shareOf(int64_t used, int64_t room) {
  return room > 0 ? static_cast<double>(used) / static_cast<double>(room) : 0;
}

void writeStages(const char *field, const std::vector<double> &ofStages,
                 nlohmann::ordered_json &line) {
  for (size_t stage = 0; ofStages.size() > 1 && stage < ofStages.size(); ++stage)
    line[field]["stage " + std::to_string(stage)] = ofStages[stage];
}

} // namespace

std::string summarize(const std::vector<std::string> &layers) {
  std::string text;
  for (size_t i = 0; i < layers.size();) {
    auto [prefix, number] = splitNumber(layers[i]);
    size_t end = i + 1;
    while (number >= 0 && end < layers.size() &&
           splitNumber(layers[end]) ==
               std::make_pair(prefix, number + static_cast<int64_t>(end - i)))
      ++end;
    text += (text.empty() ? "" : ", ") + layers[i];
    if (end > i + 1)
      text += "-" + std::to_string(number + static_cast<int64_t>(end - i) - 1);
    i = end;
  }
  return text;
}

namespace {

std::string stepsOf(const TrainMode &mode) {
  return mode.schedule + ", micro-batches " + std::to_string(mode.microbatches) + ", caps " +
         std::to_string(mode.tilesCap) + " tiles and " + std::to_string(mode.tokensCap) +
         " tokens" +
         (mode.degree > 1 ? ", " + std::to_string(mode.degree) + " replicas to a micro-batch" : "");
}

} // namespace

std::string banner(const Program &p, int threads, const std::vector<std::string> &beside) {
  const bool several = p.hasLengthGroups();
  const RankGrid grid(p);
  std::string text =
      "program for " + p.model + ": " + grid.product() + ", " +
      (several ? std::to_string(p.trainModes.size()) + " train modes" : stepsOf(p.trainModes[0])) +
      ", " + std::to_string(threads) + " threads a rank\n";
  for (size_t m = 0; several && m < p.trainModes.size(); ++m)
    text += "  mode " + p.trainModes[m].name + "  " + stepsOf(p.trainModes[m]) + "\n";
  for (const Stage &stage : p.stageList) {
    int64_t parameters = 0, trainable = 0;
    for (const Parameter &q : stage.parameters) {
      const int64_t n = q.elements();
      parameters += n;
      trainable += q.trainable ? n : 0;
    }
    std::vector<std::string> layers;
    const Mode &mode =
        stage.modes.count("train") ? stage.modes.at("train") : stage.modes.begin()->second;
    for (const Chunk &chunk : mode.chunks)
      layers.insert(layers.end(), chunk.layers.begin(), chunk.layers.end());
    std::string ranks;
    const std::vector<int> all = grid.ranksOf(p, stage);
    for (int rank : all)
      ranks += (ranks.empty() ? "" : ",") + std::to_string(rank);
    const std::string &ofStage = beside.at(all.front());
    text += "  " +
            (p.hasOwnParts() ? grid.placeText(all.front()) : "stage " + std::to_string(stage.id)) +
            "  rank " + ranks + "  " + std::to_string(parameters) + " parameters (" +
            std::to_string(trainable) + " trainable)  memory " + bytesToString(stage.arenaBytes) +
            " (weights and optimizer " + bytesToString(stage.persistentBytes) + ")" +
            (ofStage.empty() ? "" : " + " + ofStage) + "  layers " + summarize(layers) + "\n";
  }
  return text;
}

Reporter::Reporter(const Session &session, int64_t firstStep, int64_t steps)
    : session(session), first(firstStep), total(steps),
      terminal(session.leads() && isatty(STDERR_FILENO)),
      status(session.options.heartbeat, session.options.prometheus, steps),
      ofModes(session.program().trainModes.size()) {}

Reporter::~Reporter() {
  if (lineOpen)
    std::cerr << std::endl;
}

Status Reporter::open() {
  if (!session.leads())
    return Status::ok();
  // Before the log of an earlier run is lost.
  if (const std::string &folder = session.options.tensorboard; !folder.empty()) {
    OMNIBAL_ASSIGN_OR_RETURN(events, EventFile::create(folder, first));
  }
  OMNIBAL_RETURN_IF_ERROR(status.open(first));
  return session.options.log.empty() ? Status::ok() : openLog();
}

Status Reporter::openLog() {
  const std::string &path = session.options.log;
  std::error_code ignored;
  bool append = first > 0;
  if (append && std::filesystem::exists(path, ignored)) {
    OMNIBAL_ASSIGN_OR_RETURN(int64_t damaged, keepStepsBefore(path, first));
    if (damaged > 0)
      note("notice: " + path + ": " + std::to_string(damaged) +
           (damaged == 1 ? " line that is no step was" : " lines that are no steps were") +
           " dropped (a killed run leaves half a line)");
  }
  log.open(path, append ? std::ios::app : std::ios::trunc);
  if (!log)
    return {Code::Unavailable, path + ": cannot be opened for writing (--log)"};
  return Status::ok();
}

void Reporter::note(const std::string &text) {
  if (!session.leads())
    return;
  if (lineOpen)
    std::cerr << "\n";
  lineOpen = false;
  std::cerr << "omnibal-run: " << text << std::endl;
}

void Reporter::writeLog(const nlohmann::ordered_json &line) {
  log << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  if (!log)
    failure = {Code::Unavailable,
               session.options.log + ": writing the log failed; is the disk full?"};
}

void Reporter::skip(int64_t step, const std::string &why) {
  if (log.is_open() && failure)
    writeLog({{"step", step}, {"skipped", why}});
}

void Reporter::writeEvent(int64_t step, const nlohmann::ordered_json &line) {
  std::vector<Scalar> scalars;
  for (const auto &[field, value] : line.items()) {
    if (value.is_number() && field != "step")
      scalars.push_back({"train/" + field, value.get<float>()});
    if (value.is_object())
      for (const auto &[part, number] : value.items())
        if (number.is_number())
          scalars.push_back({"train/" + field + "/" + part, number.get<float>()});
  }
  writeEvent(step, scalars);
}

void Reporter::writeEvent(int64_t step, const std::vector<Scalar> &scalars) {
  if (Status written = events->write(step, scalars); !written && failure)
    failure = std::move(written);
}

void Reporter::Sums::add(const StepResult &r) {
  ++steps;
  seconds += r.stepSeconds;
  tokens += static_cast<double>(r.tokens);
  busy += (1 - r.idle) * r.stepSeconds;
  flops += r.flops;
}

/// Each mode has first-use costs of its own.
void Reporter::noteStep(int64_t step, size_t mode, const StepResult &r) {
  lastTold = step;
  if (ofModes[mode].seen++ >= warmUpSteps)
    ofModes[mode].sums.add(r);
  if (step < first + warmUpSteps)
    return;
  sums.add(r);
  if (r.plan)
    plans.add(*r.plan, r.pipelineSeconds);
}

nlohmann::ordered_json Reporter::lineOf(int64_t step, size_t mode, const StepResult &r,
                                        const LearningRates &rates, const StepPlace &place) {
  nlohmann::ordered_json line = {{"step", step},
                                 {"epoch", place.epoch},
                                 {"loss", r.loss},
                                 {"grad_norm", r.gradientNorm},
                                 {"lr", rates.usual},
                                 {"label_tokens", r.labelTokens},
                                 {"samples", r.samples},
                                 {"tokens", r.tokens},
                                 {"padded_tokens", r.paddedTokens},
                                 {"tiles", r.tiles},
                                 {"samples_seen", place.seen.samples},
                                 {"tokens_seen", place.seen.tokens},
                                 {"token_fill", shareOf(r.tokens, place.roomForTokens)},
                                 {"tile_fill", shareOf(r.tiles, place.roomForTiles)},
                                 {"step_ms", r.stepSeconds * 1e3},
                                 {"tokens_per_s", tokensPerSecond(r)},
                                 {"bubble", r.bubble},
                                 {"idle", r.idle},
                                 {"model_flops", r.flops},
                                 {"pipeline_ms", r.pipelineSeconds * 1e3},
                                 {"epilogue_ms", r.epilogueSeconds * 1e3},
                                 {"messages", r.messages},
                                 {"message_bytes", r.messageBytes}};
  for (const auto &[label, rate] : rates.ofGroups)
    line["lr_of"][label] = rate;
  writeStages("grad_norm_of", r.normOfStage, line);
  for (const auto &[part, norm] : place.normOfPart)
    line["grad_norm_of"][part] = norm;
  writeStages("idle_of", r.idleOfStage, line);
  if (ofModes.size() > 1)
    line["mode"] = session.program().trainModes[mode].name;
  if (session.program().info.routerLossCoefficient != 0) {
    line["token_loss"] = r.tokenLoss;
    line["router_loss"] = r.routerLoss;
  }
  if (r.rewards) {
    line["reward_chosen"] = r.rewards->chosen;
    line["reward_rejected"] = r.rewards->rejected;
    line["reward_margin"] = r.rewards->margin();
    line["reward_accuracy"] = r.rewards->accuracy;
  }
  if (r.plan)
    PlanLog::write(*r.plan, line);
  if (waitedSeconds > 0)
    line["checkpoint_ms"] = std::exchange(waitedSeconds, 0) * 1e3;
  if (!leftOut.empty())
    line["skipped_samples"] = std::exchange(leftOut, {});
  if (session.peakFlops > 0 && r.stepSeconds > 0)
    line["mfu"] = r.flops / (r.stepSeconds * session.peakFlops);
  return line;
}

void Reporter::enter(RunPhase phase) {
  if (session.leads())
    status.enter(phase);
}

void Reporter::step(int64_t step, size_t mode, const StepResult &r, const LearningRates &rates,
                    const StepPlace &place) {
  if (!session.leads())
    return;
  noteStep(step, mode, r);
  const nlohmann::ordered_json line = lineOf(step, mode, r, rates, place);
  if (log.is_open() && failure)
    writeLog(line);
  if (events && failure)
    writeEvent(step, line);
  status.step(line);
  if (Status problem = status.takeProblem(); !problem)
    note("warning: " + problem.message() + "; the run goes on without it");
  double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
  double left =
      elapsed / static_cast<double>(step - first + 1) * static_cast<double>(total - step - 1);
  char text[256], rewards[80] = "";
  if (r.rewards)
    std::snprintf(rewards, sizeof rewards, "margin %.4f  preferred %.0f %%  ", r.rewards->margin(),
                  r.rewards->accuracy * 100);
  std::snprintf(
      text, sizeof text,
      "step %lld/%lld  loss %.4f  %sgnorm %.3f  lr %.2e  %.1f ms  %.0f tok/s  bubble %.1f %%  "
      "ETA %s",
      static_cast<long long>(step + 1), static_cast<long long>(total), r.loss, rewards,
      r.gradientNorm, rates.usual, r.stepSeconds * 1e3, tokensPerSecond(r), r.bubble * 100,
      duration(left).c_str());
  bool last = step + 1 == total;
  if (terminal) {
    std::cerr << "\r\x1b[K" << text << std::flush;
    lineOpen = true;
  } else if (last || step == first || (step + 1) % std::max<int64_t>(1, total / 20) == 0) {
    std::cerr << text << std::endl;
  }
}

void Reporter::evaluation(int64_t completed, const Evaluation &found) {
  if (!session.leads())
    return;
  const nlohmann::ordered_json figures = found.scores.toJson();
  if (log.is_open() && failure)
    writeLog({{"step", completed - 1},
              {"evaluation", figures},
              {"evaluation_ms", found.seconds * 1e3},
              {"best_step", found.bestStep - 1}});
  if (events && failure)
    writeEvent(completed - 1, scalarsOf("evaluation/", figures));
  status.evaluation(figures);
  status.enter(RunPhase::Training);
  char text[256];
  std::snprintf(text, sizeof text, "evaluated after step %lld: loss %.4f  ",
                static_cast<long long>(completed), found.scores.meanLoss());
  std::string line = text + found.scores.textOf(found.scores.whole, "  ");
  std::snprintf(text, sizeof text, "  %.1f s", found.seconds);
  line += text;
  for (const auto &[name, score] : found.scores.sources) {
    std::snprintf(text, sizeof text, " %.4f", score.meanLoss());
    line += "  " + name + text;
  }
  note(line + (found.isBest ? "  (the best so far)"
                            : "  (best: " + bestText(found.bestStep, found.bestLoss) + ")"));
}

namespace {
/// On one line, what is no UTF-8 replaced, and not longer than a person wants to read.
std::string quoted(const std::string &text) {
  constexpr size_t longest = 300;
  const bool isCut = text.size() > longest;
  return nlohmann::json(text.substr(0, longest) + (isCut ? " ..." : ""))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
} // namespace

void Reporter::answers(int64_t completed, const std::vector<Answer> &said, double seconds) {
  if (!session.leads())
    return;
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  for (const Answer &answer : said) {
    nlohmann::ordered_json line = {
        {"sample", answer.sample}, {"ids", answer.ids}, {"tokens_run", answer.tokensRun}};
    if (!answer.text.empty() || !answer.expected.empty()) {
      line["answer"] = answer.text;
      line["expected"] = answer.expected;
      note("answer after step " + std::to_string(completed) + " to \"" + answer.sample +
           "\": " + quoted(answer.text) + " (in the data: " + quoted(answer.expected) + ")");
    }
    lines.push_back(std::move(line));
  }
  if (log.is_open() && failure)
    writeLog({{"step", completed - 1}, {"answers", lines}, {"answers_ms", seconds * 1e3}});
  status.enter(RunPhase::Training);
}

void Reporter::tellEarlyStop(int64_t bestStep, double bestLoss) {
  note("the run ends early: " + std::to_string(session.options.earlyStop) +
       (session.options.earlyStop == 1 ? " evaluation" : " evaluations in a row") +
       " had no lower loss than " + bestText(bestStep, bestLoss) + " (--early-stop)");
}

void Reporter::summarize() {
  if (!session.leads() || sums.steps == 0 || sums.seconds <= 0)
    return;
  char text[400];
  std::snprintf(
      text, sizeof text,
      "steps %lld to %lld: %.1f ms a step, %.0f tokens/s, a rank idle %.1f %% of the time",
      static_cast<long long>(first + warmUpSteps + 1), static_cast<long long>(lastTold + 1),
      sums.seconds / static_cast<double>(sums.steps) * 1e3, sums.perSecond(sums.tokens),
      sums.idle() * 100);
  note(text);
  if (ofModes.size() > 1)
    summarizeModes();
  if (std::string plan = plans.summary(); !plan.empty())
    note(plan);
  note(flopRate(sums) +
       "; counted: 2 M N K a product, 2 (D + Dv) a head and pair of tokens that attention "
       "sees, twice that backward, the loss of labeled tokens; no recomputation, no "
       "padding");
}

std::string Reporter::flopRate(const Sums &of) const {
  char text[200];
  const double rate = of.perSecond(of.flops);
  std::snprintf(text, sizeof text, "model FLOP/s %.3g", rate);
  std::string line = text;
  if (session.peakFlops > 0) {
    std::snprintf(text, sizeof text, ", MFU %.1f %% of %.3g (%s)", rate / session.peakFlops * 100,
                  session.peakFlops, session.device.c_str());
    line += text;
  }
  return line;
}

void Reporter::summarizeModes() {
  for (size_t m = 0; m < ofModes.size(); ++m) {
    const auto &[seen, of] = ofModes[m];
    std::string line = "mode " + session.program().trainModes[m].name + ": " +
                       std::to_string(seen) + (seen == 1 ? " step" : " steps");
    if (of.steps > 0 && of.seconds > 0) {
      char text[160];
      std::snprintf(text, sizeof text,
                    ", after its first two %.1f ms a step, %.0f tokens/s, idle %.1f %%, ",
                    of.seconds / static_cast<double>(of.steps) * 1e3, of.perSecond(of.tokens),
                    of.idle() * 100);
      line += text + flopRate(of);
    }
    note(line);
  }
}

Status writeTrace(Session &s, Trace &trace, const std::string &file, bool isNeeded) {
  OMNIBAL_ASSIGN_OR_RETURN(auto texts, gatherTexts(s.communicator, trace.take()));
  std::string all = "[\n";
  for (size_t r = 0; r < texts.size(); ++r)
    all += (r ? ",\n" : "") + texts[r];
  all += "]\n";
  return s.agree.after([&] {
    Status written = s.leads() ? writeFileAtomically(file, all) : Status::ok();
    if (written || isNeeded)
      return written;
    std::cerr << "omnibal-run: warning: " << written.message() << "; training goes on\n";
    return Status::ok();
  });
}

} // namespace omnibal::rt
