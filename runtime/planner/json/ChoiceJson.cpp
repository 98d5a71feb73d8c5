#include "runtime/planner/json/ChoiceJson.h"
#include "runtime/planner/json/ClusterJson.h"
#include "runtime/planner/json/JsonPlace.h"
#include "runtime/planner/json/ProblemJson.h"
#include "runtime/planner/model/ProblemSize.h"
#include "runtime/support/Formats.h"
#include "runtime/support/JsonWriter.h"
#include <set>
#include <tuple>

namespace omnibal::planner {
using nlohmann::json;
using rt::Status;

namespace {

/// As many as omnibal-compile takes.
constexpr int64_t mostRanks = int64_t{1} << 20, mostGroups = int64_t{1} << 40;

Status readCount(const Place &place, const char *key, std::optional<int64_t> &out, int64_t least,
                 int64_t most) {
  if (!memberOf(place.object, key))
    return Status::ok();
  OMNIBAL_RETURN_IF_ERROR(place.integer(key, out.emplace()));
  if (*out < least || *out > most)
    return place.bad("`" + std::string(key) + "` must be from " + std::to_string(least) + " to " +
                     std::to_string(most));
  return Status::ok();
}

Status readNeeded(const Place &place, const char *key, int64_t &out, int64_t most = mostRanks) {
  std::optional<int64_t> number;
  OMNIBAL_RETURN_IF_ERROR(readCount(place, key, number, 1, most));
  if (!number)
    return place.bad("`" + std::string(key) + "` is missing");
  out = *number;
  return Status::ok();
}

Status readLimits(const Place &place, RankLimits &limits) {
  OMNIBAL_RETURN_IF_ERROR(readNeeded(place, "ranks", limits.ranks));
  OMNIBAL_RETURN_IF_ERROR(readNeeded(place, "groups", limits.groups, mostGroups));
  limits.parts.reset();
  OMNIBAL_RETURN_IF_ERROR(readCount(place, "parts", limits.parts, 1, mostRanks));
  OMNIBAL_RETURN_IF_ERROR(readCount(place, "stages", limits.stages, 1, mostRanks));
  OMNIBAL_RETURN_IF_ERROR(readCount(place, "data_parallel", limits.replicas, 1, mostRanks));
  OMNIBAL_RETURN_IF_ERROR(readCount(place, "zero", limits.zero, 0, 1));
  return memberOf(place.object, "rank_order")
             ? place.rankOrder("rank_order", limits.rankOrder.emplace())
             : Status::ok();
}

Status readRanks(const Place &place, PlanChoice &choice) {
  const json *cluster = objectIn(place.object, "cluster");
  if (!cluster)
    return place.bad("`cluster` is missing or not an object");
  const std::string where = place.where + ": cluster";
  OMNIBAL_RETURN_IF_ERROR(
      (Place{*cluster, where}.onlyKeys({"memory_bytes", "link", "data_parallel", "node"})));
  if (const json *link = objectIn(*cluster, "data_parallel")) // how many there are is a limit
    OMNIBAL_RETURN_IF_ERROR(
        (Place{*link, where + ".data_parallel"}.onlyKeys({"latency_ns", "bytes_per_s"})));
  OMNIBAL_ASSIGN_OR_RETURN(ClusterFile file, clusterFileOf(*cluster, where));
  choice.cluster = file.cluster;
  choice.limits.node = file.node;
  return Status::ok();
}

Status readCosts(const Place &place, PlanChoice &choice) {
  PartsCosts &costs = choice.costs.emplace_back();
  OMNIBAL_RETURN_IF_ERROR(
      place.onlyKeys({"parts", "layout_price", "zero_replicas", "layers", "edges"}));
  OMNIBAL_RETURN_IF_ERROR(readNeeded(place, "parts", costs.parts));
  OMNIBAL_RETURN_IF_ERROR(readCount(place, "zero_replicas", costs.zeroReplicas, 1, mostRanks));
  if (const json *price = memberOf(place.object, "layout_price")) {
    costs.layoutPrice = doubleOf(*price);
    if (!costs.layoutPrice || *costs.layoutPrice < 0)
      return place.bad("`layout_price` must be a number of at least 0");
  }
  OMNIBAL_RETURN_IF_ERROR(readLayers(place.object, place.where, costs.problem));
  const size_t layers = choice.costs.front().problem.layers.size();
  if (costs.problem.layers.size() != layers)
    return place.bad("has " + std::to_string(costs.problem.layers.size()) +
                     " layers, the first costs have " + std::to_string(layers) +
                     "; costs are of one model");
  return Status::ok();
}

/// Numbers that can be added up; those of a step depend on the division.
Status checkSizes(const Place &place, const PlanChoice &choice) {
  for (size_t i = 0; i < choice.costs.size(); ++i) {
    Problem problem = choice.costs[i].problem;
    problem.cluster = choice.cluster;
    if (std::string why = tooLarge(problem); !why.empty())
      return place.bad("costs[" + std::to_string(i) + "]: " + why);
  }
  return Status::ok();
}

Status checkCosts(const Place &place, const PlanChoice &choice) {
  std::set<std::tuple<int64_t, std::optional<double>, std::optional<int64_t>>> known;
  std::set<int64_t> usual;
  for (const PartsCosts &each : choice.costs) {
    if (!known.insert({each.parts, each.layoutPrice, each.zeroReplicas}).second)
      return place.bad("two `costs` are for " + std::to_string(each.parts) +
                       " parts, the same `layout_price` and `zero_replicas`");
    if (!each.layoutPrice)
      usual.insert(each.parts);
  }
  for (const PartsCosts &each : choice.costs)
    if (!usual.contains(each.parts))
      return place.bad("no `costs` for " + std::to_string(each.parts) +
                       " parts are without `layout_price`");
  return Status::ok();
}

rt::Result<PlanChoice> choiceOf(const json &value, const std::string &where) {
  if (!value.is_object())
    return rt::invalid(where + ": a choice is a JSON object");
  const Place place{value, where};
  PlanChoice choice;
  OMNIBAL_RETURN_IF_ERROR(place.schema(rt::formats::planChoice));
  OMNIBAL_RETURN_IF_ERROR(
      place.onlyKeys({"schema", "ranks", "groups", "schedule", "parts", "stages", "data_parallel",
                      "zero", "rank_order", "cluster", "costs"}));
  OMNIBAL_RETURN_IF_ERROR(readLimits(place, choice.limits));
  OMNIBAL_RETURN_IF_ERROR(place.schedule(choice.schedule));
  OMNIBAL_RETURN_IF_ERROR(readRanks(place, choice));
  OMNIBAL_RETURN_IF_ERROR(
      place.each("costs", [&](const Place &each) { return readCosts(each, choice); }));
  if (choice.costs.empty())
    return place.bad("`costs` is empty");
  OMNIBAL_RETURN_IF_ERROR(checkCosts(place, choice));
  OMNIBAL_RETURN_IF_ERROR(checkSizes(place, choice));
  std::set<int64_t> parts;
  for (const PartsCosts &each : choice.costs)
    parts.insert(each.parts);
  choice.limits.anyParts.assign(parts.begin(), parts.end());
  return choice;
}

void writeLimits(rt::JsonWriter &out, const RankLimits &limits) {
  out.attribute("ranks", limits.ranks);
  out.attribute("groups", limits.groups);
  for (const auto &[key, value] :
       {std::pair("parts", limits.parts), std::pair("stages", limits.stages),
        std::pair("data_parallel", limits.replicas), std::pair("zero", limits.zero)})
    if (value)
      out.attribute(key, *value);
  if (limits.rankOrder)
    out.attribute("rank_order", rankOrderName(*limits.rankOrder));
}

} // namespace

rt::Result<PlanChoice> parseChoice(std::string_view text, const std::string &where) {
  OMNIBAL_ASSIGN_OR_RETURN(json value, parseJson(text, where));
  return choiceOf(value, where);
}

rt::Result<ProblemOrChoice> readProblemOrChoice(const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(json value, readJson(path));
  const std::string *schema = textIn(value, "schema");
  if (!schema || *schema != rt::formats::planChoice) {
    OMNIBAL_ASSIGN_OR_RETURN(Problem problem, problemOf(value, path));
    return ProblemOrChoice(std::move(problem));
  }
  OMNIBAL_ASSIGN_OR_RETURN(PlanChoice choice, choiceOf(value, path));
  return ProblemOrChoice(std::move(choice));
}

std::string writeChoice(const PlanChoice &choice) {
  rt::JsonWriter out(1);
  out.object([&] {
    out.attribute("schema", rt::formats::planChoice);
    writeLimits(out, choice.limits);
    out.attribute("schedule", choice.schedule);
    out.attributeObject("cluster",
                        [&] { writeUndivided(out, choice.cluster, choice.limits.node); });
    out.attributeObjects("costs", choice.costs, [&](const PartsCosts &costs) {
      out.attribute("parts", costs.parts);
      if (costs.layoutPrice)
        out.attribute("layout_price", *costs.layoutPrice);
      if (costs.zeroReplicas)
        out.attribute("zero_replicas", *costs.zeroReplicas);
      writeLayers(out, costs.problem);
    });
  });
  return out.take() + "\n";
}

} // namespace omnibal::planner
