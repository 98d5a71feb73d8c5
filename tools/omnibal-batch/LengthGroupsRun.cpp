#include "tools/omnibal-batch/LengthGroupsRun.h"
#include "runtime/batching/io/BatchesFolder.h"
#include "runtime/batching/io/CostFile.h"
#include "runtime/batching/lengths/Candidates.h"
#include "runtime/batching/lengths/EpochPlan.h"
#include "runtime/batching/lengths/GroupsFile.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/NumberText.h"
#include "tools/omnibal-batch/Chart.h"
#include "tools/omnibal-batch/Input.h"
#include "tools/omnibal-batch/LengthGroupsReport.h"
#include <chrono>
#include <filesystem>
#include <iostream>

namespace omnibal::rt {
namespace {

using nlohmann::ordered_json;

/// Candidates of a file, or of the text where there is no such file.
Result<LengthGroups> readCandidates(const ToolOptions &o, const SampleLengths &lengths) {
  std::error_code ignored;
  if (std::filesystem::exists(o.lengthGroups, ignored)) {
    OMNIBAL_ASSIGN_OR_RETURN(LengthGroups groups, readLengthGroups(o.lengthGroups));
    if (o.ranksGiven && o.batching.ranks != groups.replicas)
      return invalid("--ranks " + std::to_string(o.batching.ranks) + ": " + o.lengthGroups +
                     " is for " + std::to_string(groups.replicas) + " replicas");
    if (!o.cost.empty())
      return invalid("--cost: " + o.lengthGroups + " has the costs of its length groups");
    if (o.tokensPerStep > 0)
      setTokensPerStep(groups, o.tokensPerStep);
    return groups;
  }
  if (o.lengthGroups.find_first_not_of("0123456789,:") != std::string::npos)
    return invalid("--length-groups: there is no file " + o.lengthGroups);
  if (o.cost.empty() || o.tokensPerStep == 0)
    return invalid("--length-groups " + o.lengthGroups +
                   " needs --cost and --tokens-per-step (and --ranks)");
  OMNIBAL_ASSIGN_OR_RETURN(CostFile file, readCostFile(o.cost));
  const LoadCost &cost = file.step.cost;
  if (cost.tileSquareNs > 0)
    return invalid(o.cost + ": length groups have no tile_square_ns; leave it out");
  return candidatesFromText(
      {o.lengthGroups,
       o.batching.ranks,
       file.step.stages,
       o.tokensPerStep,
       {cost.tileNs, cost.tokenNs, cost.squareNs, file.step.microbatchNs, file.step.stepNs}},
      lengths);
}

void addRatios(ordered_json &object, const ModeFacts &facts) {
  object["dist_ratio_vit"] = facts.distRatioVit;
  object["dist_ratio_llm"] = facts.distRatioLlm;
  object["dist_ratio_cost"] = facts.distRatioCost;
  object["abr"] = facts.abr;
}

/// The object of groups.json.
ordered_json describeEpoch(const EpochPlan &plan) {
  ordered_json root = describe(plan.groups);
  for (size_t m = 0; m < plan.facts.modes.size(); ++m) {
    const ModeFacts &facts = plan.facts.modes[m];
    ordered_json &group = root["groups"][m];
    group["samples"] = facts.samples;
    group["filled"] = plan.epoch.filled[m];
    group["groups"] = facts.groups;
    group["rows"] = facts.rows;
    group["steps"] = facts.steps;
    group["tokens"] = facts.tokens;
    addRatios(group, facts);
  }
  const EpochFacts &facts = plan.facts;
  root["epoch_ns"] = facts.epochNs;
  root["bound_ns"] = plan.boundNs;
  root["bound_all_ns"] = plan.boundAllNs;
  root["gap"] = plan.gap();
  addRatios(root, facts.all);
  root["cr"] = facts.cr;
  root["ave_tokens"] = facts.aveTokens;
  root["step_variance_8"] = facts.stepVariance8;
  root["step_variance_32"] = facts.stepVariance32;
  root["step_tokens_variation"] = facts.stepTokensVariation;
  root["share_deviation"] = facts.shareDeviation;
  root["curriculum"] = plan.epoch.curriculumSteps;
  return root;
}

/// The object of batches.json.
ordered_json describeBatches(const ToolOptions &o, const EpochPlan &plan,
                             const SampleLengths &lengths) {
  const LengthGroup &largest = plan.groups.groups.back();
  int64_t tiles = 1;
  for (const LengthGroup &g : plan.groups.groups)
    tiles = std::max(tiles, g.tilesCap);
  ordered_json object = {{"method", o.hbp ? "hbp" : name(BatchMethod::Plan)},
                         {"tiles_cap", tiles},
                         {"tokens_cap", largest.tokensCap},
                         {"ranks", plan.groups.replicas},
                         {"seed", o.batching.seed},
                         {"epoch", o.batching.epoch},
                         {"oversize_policy", name(Oversize::Error)},
                         {"length_groups", plan.groups.groups.size()},
                         {"samples", lengths.size()},
                         {"groups", plan.facts.all.groups},
                         {"rows", plan.facts.all.rows},
                         {"steps", plan.facts.all.steps},
                         {"oversize", ordered_json::array()}};
  if (plan.groups.groups.size() == 1) {
    LoadCost cost = largest.cost.load();
    object["cost"] = {
        {"tile_ns", cost.tileNs}, {"token_ns", cost.tokenNs}, {"square_ns", cost.squareNs}};
  }
  return object;
}

std::string table(const EpochPlan &plan) {
  char line[160];
  std::snprintf(line, sizeof line, "  %-12s %7s %7s %12s %9s %9s %9s %14s %9s\n", "length group",
                "tokens", "degree", "samples", "filled", "rows", "steps", "tokens", "imbalance");
  std::string out = line;
  for (size_t m = 0; m < plan.facts.modes.size(); ++m) {
    const LengthGroup &g = plan.groups.groups[m];
    const ModeFacts &f = plan.facts.modes[m];
    std::snprintf(line, sizeof line, "  %-12s %7lld %7d %12s %9s %9s %9s %14s %9.5f\n",
                  g.name.c_str(), static_cast<long long>(g.tokensCap), g.degree,
                  withCommas(f.samples).c_str(), withCommas(plan.epoch.filled[m]).c_str(),
                  withCommas(f.rows).c_str(), withCommas(f.steps).c_str(),
                  withCommas(f.tokens).c_str(), f.distRatioCost);
    out += line;
  }
  const EpochFacts &f = plan.facts;
  return out + "\n  predicted epoch " + fixed(f.epochNs / 1e9, 3) +
         " s; no epoch of these length groups takes less than " + fixed(plan.boundNs / 1e9, 3) +
         " s, nor one of any candidates less than " + fixed(plan.boundAllNs / 1e9, 3) + " s (" +
         percent(plan.gap()) + " above)\n  imbalance of time " + fixed(f.all.distRatioCost, 5) +
         ", of squares " + fixed(f.all.abr, 3) + "; steps with context parallelism " +
         percent(f.cr, 1) + "; variance of 8 and 32 steps' mean " + fixed(f.stepVariance8, 2) +
         ", " + fixed(f.stepVariance32, 2) + "\n";
}

Result<SampleLengths> readSamples(const ToolOptions &o) {
  OMNIBAL_ASSIGN_OR_RETURN(const ShardPictures pictures, readShardPictures(o.preprocess));
  return readLengths(o.inputs, pictures, {});
}

LengthGroupFiles filesOf(const EpochPlan &plan) {
  LengthGroupFiles files{{}, describeEpoch(plan)};
  for (int64_t r = 0; r < plan.epoch.rows(); ++r) {
    files.rows.push_back(plan.epoch.modeOf[r]);
    files.rows.push_back(plan.epoch.stepOf[r]);
  }
  return files;
}

} // namespace

Status runLengthGroups(const ToolOptions &o, int64_t (*peakRssBytes)()) {
  OMNIBAL_ASSIGN_OR_RETURN(SampleLengths lengths, readSamples(o));
  OMNIBAL_ASSIGN_OR_RETURN(LengthGroups candidates, readCandidates(o, lengths));
  auto start = std::chrono::steady_clock::now();
  PlanOptions options{
      {o.maxGroups, o.minGain, 5},
      {o.hbp, o.batching.seed, o.batching.epoch, {o.curriculumSteps, o.curriculumModes}}};
  auto planned = planEpoch(lengths, candidates, options);
  if (!planned)
    return Status(planned.status().code(),
                  o.inputs[0] + ", " + o.lengthGroups + ": " + planned.status().message());
  EpochPlan plan = *std::move(planned);
  ordered_json description = describeBatches(o, plan, lengths);
  description["seconds"] =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  description["peak_rss_bytes"] = peakRssBytes();
  LengthGroupFiles files = filesOf(plan);
  if (!o.report.empty())
    OMNIBAL_RETURN_IF_ERROR(writeFileAtomically(o.report, lengthGroupsReport(lengths, plan)));
  std::string text = table(plan);
  Batches batches;
  batches.samples = std::move(plan.epoch.samples);
  batches.offsets = std::move(plan.epoch.offsets);
  if (!o.output.empty())
    OMNIBAL_RETURN_IF_ERROR(writeBatchesFolder(o.output, lengths, batches, description, &files));
  if (o.json)
    description["epoch_facts"] = files.groups;
  std::cout << (o.json ? description.dump(2) + "\n" : text) << std::flush;
  if (!std::cout)
    return {Code::Unavailable, "writing to the standard output failed"};
  return Status::ok();
}

} // namespace omnibal::rt
