#include "runtime/batching/lengths/GroupsFile.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/JsonField.h"
#include <set>

namespace omnibal::rt {
namespace {

using nlohmann::ordered_json;
constexpr const char *schema = "omnibal.length-groups/1";
constexpr int64_t largestTokensPerStep = int64_t(1) << 40;
constexpr int32_t mostReplicas = 1 << 20;
constexpr double highestNs = 1e18;
constexpr size_t mostCandidates = 1000;

ModeCost readCost(JsonField object) {
  object.onlyKeys({"tile_ns", "token_ns", "square_ns", "microbatch_ns", "step_ns"});
  ModeCost cost;
  cost.tileNs = object["tile_ns"].number(0, highestNs);
  cost.tokenNs = object["token_ns"].number(0, highestNs);
  cost.squareNs = object["square_ns"].number(0, highestNs);
  cost.microbatchNs = object["microbatch_ns"].number(0, highestNs);
  cost.stepNs = object["step_ns"].number(0, highestNs);
  if (!object.failed() && !cost.load().isSet())
    object.fail("one of tile_ns, token_ns and square_ns must be above 0");
  return cost;
}

void keep(JsonField object, const char *key, ordered_json &others) {
  if (object.has(key))
    others[key] = object[key].json();
}

/// Fields that other tools read; here only their kinds are checked.
void readOthers(JsonField object, ordered_json &others) {
  if (object.has("schedule"))
    object["schedule"].text();
  if (object.has("remat"))
    object["remat"].each([](JsonField layer) { layer.text(); });
  if (object.has("bytes"))
    object["bytes"].each([](JsonField stage) { stage.integer(0); });
  for (const char *key : {"schedule", "remat", "bytes"})
    keep(object, key, others);
}

LengthGroup readGroup(JsonField object, int32_t replicas) {
  object.onlyKeys({"name",           "tiles_cap",      "tokens_cap",      "degree",
                   "ranks",          "microbatches",   "schedule",        "remat",
                   "bytes",          "cost",           "samples",         "filled",
                   "groups",         "rows",           "steps",           "tokens",
                   "dist_ratio_vit", "dist_ratio_llm", "dist_ratio_cost", "abr"});
  LengthGroup group;
  group.name = object["name"].text();
  group.tilesCap = object["tiles_cap"].integer(1, INT32_MAX);
  group.tokensCap = object["tokens_cap"].integer(1, INT32_MAX);
  group.degree = static_cast<int32_t>(object["degree"].integer(1, mostReplicas));
  group.ranks = static_cast<int32_t>(object["ranks"].integer(1, mostReplicas));
  group.microbatches = object["microbatches"].integer(1, mostMicrobatches);
  if (object.has("steps"))
    group.steps = object["steps"].integer(0);
  group.cost = readCost(object["cost"]);
  readOthers(object, group.others);
  if (!object.failed() && int64_t{group.ranks} * group.degree != replicas)
    object.fail("ranks " + std::to_string(group.ranks) + " x degree " +
                std::to_string(group.degree) + " is not the file's \"replicas\", " +
                std::to_string(replicas) + "; take a degree that divides it");
  return group;
}

/// Ascending by tokens, then degree.
void checkOrder(JsonField list, const std::vector<LengthGroup> &groups) {
  std::set<std::string> names;
  for (size_t i = 0; i < groups.size(); ++i) {
    const LengthGroup &g = groups[i];
    if (!names.insert(g.name).second)
      return list.fail("the name \"" + g.name + "\" is given twice");
    if (i == 0)
      continue;
    const LengthGroup &before = groups[i - 1];
    if (std::pair(before.tokensCap, before.degree) > std::pair(g.tokensCap, g.degree))
      return list.fail("groups must ascend by tokens_cap, then by degree, but \"" + g.name +
                       "\" stands after \"" + before.name + "\"");
  }
}

LengthGroups readRoot(JsonField root) {
  root.onlyKeys({"schema",
                 "replicas",
                 "stages",
                 "tokens_per_step",
                 "model",
                 "cuts",
                 "groups",
                 "epoch_ns",
                 "bound_ns",
                 "bound_all_ns",
                 "gap",
                 "abr",
                 "cr",
                 "ave_tokens",
                 "dist_ratio_vit",
                 "dist_ratio_llm",
                 "dist_ratio_cost",
                 "step_variance_8",
                 "step_variance_32",
                 "step_tokens_variation",
                 "share_deviation",
                 "curriculum"});
  LengthGroups result;
  if (std::string said = root["schema"].text(); !root.failed() && said != schema)
    root["schema"].fail("\"" + std::string(schema) + "\" is expected, not \"" + said + "\"");
  result.replicas = static_cast<int32_t>(root["replicas"].integer(1, mostReplicas));
  result.stages = static_cast<int32_t>(root["stages"].integer(1, mostReplicas));
  result.tokensPerStep = root["tokens_per_step"].integer(1, largestTokensPerStep);
  if (root.has("model"))
    root["model"].text();
  if (root.has("cuts"))
    root["cuts"].each([](JsonField layer) { layer.integer(0); });
  if (root.has("epoch_ns"))
    result.epochNs = root["epoch_ns"].number(0);
  keep(root, "model", result.others);
  keep(root, "cuts", result.others);
  result.groups = root["groups"].list([&](JsonField g) { return readGroup(g, result.replicas); });
  if (!root.failed() && (result.groups.empty() || result.groups.size() > mostCandidates))
    root["groups"].fail("1 to " + std::to_string(mostCandidates) + " groups are expected");
  if (!root.failed())
    checkOrder(root["groups"], result.groups);
  return result;
}

} // namespace

Result<LengthGroups> parseLengthGroups(const std::string &text, const std::string &where) {
  OMNIBAL_ASSIGN_OR_RETURN(nlohmann::json root, parseJson(text, where));
  Status error;
  LengthGroups groups = readRoot(JsonField(root, where, error));
  if (!error)
    return invalid(error.message());
  return groups;
}

Result<LengthGroups> readLengthGroups(const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, readWholeFile(path));
  return parseLengthGroups(text, path);
}

ordered_json describe(const LengthGroups &all) {
  ordered_json list = ordered_json::array();
  for (const LengthGroup &g : all.groups) {
    ordered_json group = {
        {"name", g.name},     {"tiles_cap", g.tilesCap}, {"tokens_cap", g.tokensCap},
        {"degree", g.degree}, {"ranks", g.ranks},        {"microbatches", g.microbatches}};
    group.update(g.others.is_null() ? ordered_json::object() : g.others);
    group["cost"] = {{"tile_ns", g.cost.tileNs},
                     {"token_ns", g.cost.tokenNs},
                     {"square_ns", g.cost.squareNs},
                     {"microbatch_ns", g.cost.microbatchNs},
                     {"step_ns", g.cost.stepNs}};
    list.push_back(std::move(group));
  }
  ordered_json root = {{"schema", schema},
                       {"replicas", all.replicas},
                       {"stages", all.stages},
                       {"tokens_per_step", all.tokensPerStep}};
  root.update(all.others.is_null() ? ordered_json::object() : all.others);
  root["groups"] = std::move(list);
  return root;
}

} // namespace omnibal::rt
