//===- StageTable.cpp --------------------------------------------------------------------===//
#include "tools/omnibal-compile/StageTable.h"
#include "runtime/program/Names.h"
#include "runtime/program/Workspace.h"
#include "runtime/support/NumberText.h"
#include "tools/report/TextTable.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

namespace omnibal::compile {
namespace {

std::string milliseconds(int64_t ns) { return rt::milliseconds(ns, 2); }

std::string countText(int64_t count) {
  if (count >= 1000000000)
    return llvm::formatv("{0:f2}G", count / 1e9).str();
  if (count >= 1000000)
    return llvm::formatv("{0:f2}M", count / 1e6).str();
  return llvm::formatv("{0:f1}k", count / 1e3).str();
}

/// Splits "vision.layers.12" into its stem and number; number -1 where there is none.
std::pair<llvm::StringRef, int64_t> splitName(llvm::StringRef name) {
  auto [stem, last] = name.rsplit('.');
  int64_t number = -1;
  if (last.empty() || last.getAsInteger(10, number))
    return {name, -1};
  return {stem, number};
}

} // namespace

std::string layerRange(const planner::Problem &problem, int64_t begin, int64_t end) {
  std::string text;
  for (int64_t i = begin; i < end;) {
    auto [stem, first] = splitName(problem.layers[i].name);
    int64_t last = first, next = i + 1;
    while (first >= 0 && next < end && splitName(problem.layers[next].name).first == stem &&
           splitName(problem.layers[next].name).second == last + 1) {
      ++last;
      ++next;
    }
    text += (text.empty() ? "" : ", ") + problem.layers[i].name;
    if (last > first)
      text += "-" + std::to_string(last);
    i = next;
  }
  return text;
}

std::string stageTable(const plan::StagePlan &planned, const TableFacts &facts) {
  std::string text;
  llvm::raw_string_ostream out(text);
  const planner::Plan &plan = planned.plan;
  const planner::Problem &problem = planned.problem;
  out << (facts.mode.empty() ? std::string() : "length group " + facts.mode + ": ");
  out << llvm::formatv(
      "plan: {0} stages x {1} replicas{8}, {2} micro-batches{9}, schedule {3}; caps {4} "
      "tiles, {5} tokens; predicted for {6}, {7}\n",
      problem.cluster.stages, problem.cluster.dataParallel, problem.microbatches,
      facts.stepPlanned ? "per-step" : plan.schedule, facts.caps.tiles, facts.caps.tokens,
      facts.device, facts.assumption, problem.cluster.zero > 0 ? " (ZeRO-1)" : "",
      facts.degree > 1 ? " of " + std::to_string(facts.degree) + " replicas each" : "");
  std::vector<std::vector<std::string>> rows = {{"stage", "parameters", "forward ms", "backward ms",
                                                 "recomputed", "memory", "reserved", "limit",
                                                 "bubble", "layers"}};
  for (int64_t s = 0; s < problem.cluster.stages; ++s) {
    int64_t recomputed = 0, layers = 0;
    std::string ranges; // of the stage's chunks
    for (size_t c = 0; c < plan.chunkStage.size(); ++c) {
      if (plan.chunkStage[c] != s)
        continue;
      layers += plan.cuts[c + 1] - plan.cuts[c];
      for (int64_t l = plan.cuts[c]; l < plan.cuts[c + 1]; ++l)
        recomputed += plan.remat[l] != "keep";
      ranges += (ranges.empty() ? "" : " | ") + layerRange(problem, plan.cuts[c], plan.cuts[c + 1]);
    }
    const planner::StageFigures &stage = planned.timeline.stages[s];
    int64_t microbatches = std::max<int64_t>(1, problem.microbatches);
    rows.push_back({std::to_string(s), countText(planned.parameterElements[s]),
                    milliseconds(stage.forwardNs / microbatches),
                    milliseconds(stage.backwardNs / microbatches),
                    llvm::formatv("{0} of {1}", recomputed, layers).str(),
                    rt::bytesToString(facts.memoryBytes[s]),
                    rt::bytesToString(planned.reservedBytes(s)),
                    facts.limitBytes.empty() ? "none" : rt::bytesToString(facts.limitBytes[s]),
                    llvm::formatv("{0:f1}%", planned.timeline.stepNs
                                                 ? 100.0 * stage.idleNs / planned.timeline.stepNs
                                                 : 0.0)
                        .str(),
                    ranges});
  }
  out << report::textTable(rows, report::Align::Right);
  for (size_t s = 0; s < facts.beside.size(); ++s)
    if (!facts.beside[s].empty())
      out << "stage " << s << ": the backend takes "
          << rt::bytesToString(rt::totalOf(facts.beside[s])) << " beside its memory ("
          << rt::describe(facts.beside[s]) << ")"
          << (facts.limitBytes.empty() ? "" : ", within the limit") << "\n";
  out << llvm::formatv("predicted step: {0} ms\n", milliseconds(planned.timeline.stepNs));
  if (planned.search) {
    double least = static_cast<double>(std::max<int64_t>(1, planned.search->lowerBoundNs));
    double gap = 100 * (static_cast<double>(planned.timeline.stepNs) / least - 1);
    out << llvm::formatv("no plan of this schedule{0} takes less than {1} ms (gap {2:f2}%)\n",
                         facts.mode.empty() ? "" : ", whatever its cuts,",
                         milliseconds(planned.search->lowerBoundNs), std::max(0.0, gap));
  }
  if (problem.cluster.memoryBytes.empty() && facts.mode.empty())
    out << "no memory limit was given (--memory-limit-bytes or --cluster)\n";
  return text;
}

} // namespace omnibal::compile
