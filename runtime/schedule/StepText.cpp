//===- StepText.cpp ----------------------------------------------------------------------===//
#include "runtime/schedule/StepText.h"
#include "runtime/support/NumberText.h"
#include <algorithm>
#include <utility>

namespace omnibal::rt {
namespace {

constexpr size_t columns = 100;

/// Words that fill indented lines.
class Paragraph {
public:
  explicit Paragraph(size_t indent) : indent(indent, ' ') {}

  void add(const std::string &word) {
    if (line.empty())
      line = indent + word;
    else if (line.size() + 1 + word.size() <= columns)
      line += " " + word;
    else
      text += std::exchange(line, indent + word) + "\n";
  }
  std::string take() { return line.empty() ? text : text + line + "\n"; }

private:
  const std::string indent;
  std::string text, line;
};

std::string ratio(int64_t a, int64_t b) {
  return b > 0 ? fixed(static_cast<double>(a) / static_cast<double>(b), 3) : "1.000";
}

class StepPrinter {
public:
  StepPrinter(const planner::StepProblem &problem, const planner::StepLoads &loads,
              const PlannedStep &planned, const std::vector<Message> &messages)
      : problem(problem), loads(loads), planned(planned), plan(planned.plan), messages(messages),
        model(problem), units(model, loads, plan.borders) {}

  std::string print() {
    std::string text = head();
    for (int64_t stage = 0; stage < problem.stages; ++stage)
      text += headOf(stage) + actionsOf(stage);
    return text;
  }

private:
  bool hasLists() const { return plan.method == planner::StepMethod::Lists; }

  std::string head() const {
    std::string text = "step " + std::to_string(plan.step) + ": " +
                       (hasLists() ? "lists" : "static") + ", predicted " +
                       milliseconds(plan.stepNs) + " ms (" + ratio(plan.stepNs, plan.boundNs) +
                       " of bound), bound " + milliseconds(plan.boundNs) + " ms, static " +
                       milliseconds(plan.staticNs) + " ms (" + ratio(plan.staticNs, plan.stepNs) +
                       " of predicted), " + std::to_string(plan.evaluated) + " lists tried\n";
    Paragraph tiles(2);
    tiles.add("tiles+tokens:");
    for (const planner::MicrobatchLoad &each : loads.microbatches)
      tiles.add(std::to_string(each.load.tiles) + "+" + std::to_string(each.load.tokens));
    return text + tiles.take();
  }

  std::string headOf(int64_t stage) const {
    std::string text =
        "  stage " + std::to_string(stage) + (chunksOf(stage) == 1 ? ", chunk" : ", chunks");
    const char *between = " ";
    for (size_t c = 0; c < problem.chunks.size(); ++c)
      if (problem.chunks[c].stage == stage)
        text += std::exchange(between, ", ") + std::to_string(c);
    int64_t works = 0;
    for (size_t k = 0; k < plan.actions[stage].size(); ++k)
      works += planned.times.ends[stage][k] - planned.times.starts[stage][k];
    const double all = static_cast<double>(std::max<int64_t>(1, plan.stepNs));
    text += ": works " + percent(static_cast<double>(works) / all) + ", memory ";
    if (!hasLists())
      return text + "as the program's own lists\n";
    text += std::to_string(usedBytes(stage));
    if (!problem.memoryBytes.empty())
      text += " of " + std::to_string(problem.memoryOf(stage));
    return text + " bytes\n";
  }

  int64_t variantOf(int32_t chunk, int32_t microbatch, int32_t part) const {
    return plan.variants[chunk][microbatch][part];
  }

  /// The end of the stage's highest block.
  int64_t usedBytes(int64_t stage) const {
    int64_t used = 0;
    for (const planner::BlockPlace &place : plan.places[stage]) {
      const int32_t unit = units.unitOf(place);
      const planner::StepVariant &variant =
          units.variantOf(unit, variantOf(place.chunk, place.microbatch, place.part));
      used = std::max(used, place.offset + units.bytesOf(unit, variant.blocks[place.block]));
    }
    return used;
  }

  std::string actionsOf(int64_t stage) const {
    Paragraph words(4);
    size_t computed = 0;
    if (hasLists()) {
      for (const Action &action : planned.lists[stage])
        words.add(isCompute(action.kind) ? wordOf(stage, computed++) : wordOf(action));
    } else {
      while (computed < plan.actions[stage].size())
        words.add(wordOf(stage, computed++));
    }
    return words.take();
  }

  bool isDivided(int64_t chunk) const {
    return problem.chunks[chunk].component == planner::ChunkComponent::Vision;
  }

  /// "3", or "3[1]" for a part of a micro-batch that is divided.
  std::string unitName(int32_t microbatch, int32_t part, bool ofParts) const {
    const std::string number = std::to_string(microbatch);
    return ofParts && plan.borders[microbatch].size() > 2
               ? number + "[" + std::to_string(part) + "]"
               : number;
  }

  /// "F0.2/full@1.250+0.500" for an action that computes.
  std::string wordOf(int64_t stage, size_t number) const {
    const planner::StepAction &action = plan.actions[stage][number];
    std::string word =
        letterOf(action.kind) + unitName(action.microbatch, action.part, isDivided(action.chunk));
    if (chunksOf(stage) > 1)
      word += "." + std::to_string(action.chunk);
    const std::vector<planner::StepVariant> &variants = problem.chunks[action.chunk].variants;
    if (variants.size() > 1 && action.kind == planner::ActionKind::Forward)
      word += "/" + variants[variantOf(action.chunk, action.microbatch, action.part)].name;
    const int64_t start = planned.times.starts[stage][number];
    return word + "@" + milliseconds(start) + "+" +
           milliseconds(planned.times.ends[stage][number] - start);
  }

  /// "S0:1>2" for one that communicates.
  std::string wordOf(const Action &action) const {
    const Message &message = messages[action.index];
    const char letter = action.kind == ActionKind::Send       ? 'S'
                        : action.kind == ActionKind::PostRecv ? 'R'
                        : action.kind == ActionKind::WaitSend ? 's'
                                                              : 'r';
    const bool ofParts = isDivided(message.fromChunk) || isDivided(message.toChunk);
    return letter + unitName(action.microbatch, action.part, ofParts) + ":" +
           std::to_string(message.fromChunk) + ">" + std::to_string(message.toChunk);
  }

  int64_t chunksOf(int64_t stage) const {
    return std::count_if(problem.chunks.begin(), problem.chunks.end(),
                         [&](const planner::StepChunk &chunk) { return chunk.stage == stage; });
  }

  const planner::StepProblem &problem;
  const planner::StepLoads &loads;
  const PlannedStep &planned;
  const planner::StepPlan &plan;
  const std::vector<Message> &messages;
  const planner::StepModel model;
  const planner::StepUnits units;
};

} // namespace

std::string stepTextKey() {
  return "F0@1.5+0.2: the forward of micro-batch 0 begins after 1.5 ms and takes 0.2 ms\n"
         "B backward, I input gradient, W weight gradient\n"
         "F0.2: of chunk 2, where a stage has several; F0/full: in the variant \"full\"\n"
         "F0[1]: of the second sub-micro-batch of micro-batch 0, where it is divided\n"
         "S0:1>2: a message of micro-batch 0 from chunk 1 to chunk 2 begins (to a lower one: a "
         "gradient)\n"
         "R: its receive begins; r, s: what was received or sent is awaited\n";
}

std::string textOf(const planner::StepProblem &problem, const planner::StepLoads &loads,
                   const PlannedStep &planned, const std::vector<Message> &messages) {
  return StepPrinter(problem, loads, planned, messages).print();
}

} // namespace omnibal::rt
