#include "runtime/planner/json/ProblemJson.h"
#include "runtime/planner/json/ClusterJson.h"
#include "runtime/planner/json/JsonPlace.h"
#include "runtime/planner/model/ProblemSize.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/support/Formats.h"
#include "runtime/support/JsonWriter.h"

namespace omnibal::planner {
using nlohmann::json;
using rt::invalid;
using rt::Status;

namespace {

Status readOption(const Place &place, Layer &layer) {
  RematOption option;
  OMNIBAL_RETURN_IF_ERROR(
      place.onlyKeys({"name", "saved_bytes", "recompute_ns", "workspace_bytes", "split_bytes"}));
  OMNIBAL_RETURN_IF_ERROR(place.text("name", option.name));
  OMNIBAL_RETURN_IF_ERROR(place.integer("saved_bytes", option.savedBytes));
  OMNIBAL_RETURN_IF_ERROR(place.integer("recompute_ns", option.recomputeNs));
  OMNIBAL_RETURN_IF_ERROR(place.integer("workspace_bytes", option.workspaceBytes));
  OMNIBAL_RETURN_IF_ERROR(place.integer("split_bytes", option.splitBytes, false));
  if (layer.remat.empty() != (option.name == "keep"))
    return place.bad("the first option, and only that, is called keep");
  if (layer.option(option.name))
    return place.bad("there are two options " + option.name);
  layer.remat.push_back(std::move(option));
  return Status::ok();
}

Status readLayer(const Place &place, Problem &problem) {
  Layer layer;
  OMNIBAL_RETURN_IF_ERROR(
      place.onlyKeys({"name", "kind", "forward_ns", "input_grad_ns", "weight_grad_ns",
                      "param_bytes", "grad_bytes", "state_bytes", "update_bytes", "remat"}));
  OMNIBAL_RETURN_IF_ERROR(place.text("name", layer.name));
  OMNIBAL_RETURN_IF_ERROR(place.text("kind", layer.kind));
  OMNIBAL_RETURN_IF_ERROR(place.integer("forward_ns", layer.forwardNs));
  OMNIBAL_RETURN_IF_ERROR(place.integer("input_grad_ns", layer.inputGradNs));
  OMNIBAL_RETURN_IF_ERROR(place.integer("weight_grad_ns", layer.weightGradNs));
  OMNIBAL_RETURN_IF_ERROR(place.integer("param_bytes", layer.paramBytes));
  OMNIBAL_RETURN_IF_ERROR(place.integer("grad_bytes", layer.gradBytes));
  OMNIBAL_RETURN_IF_ERROR(place.integer("state_bytes", layer.stateBytes, false));
  OMNIBAL_RETURN_IF_ERROR(place.integer("update_bytes", layer.updateBytes, false));
  if (layer.stateBytes > layer.paramBytes)
    return place.bad("`state_bytes` is a part of `param_bytes` and cannot be more");
  OMNIBAL_RETURN_IF_ERROR(
      place.each("remat", [&](const Place &option) { return readOption(option, layer); }));
  if (layer.remat.empty())
    return place.bad("`remat` needs at least the option keep");
  problem.layers.push_back(std::move(layer));
  return Status::ok();
}

Status readEdge(const Place &place, Problem &problem) {
  Edge edge;
  OMNIBAL_RETURN_IF_ERROR(place.onlyKeys({"from", "to", "bytes", "grad_bytes"}));
  OMNIBAL_RETURN_IF_ERROR(place.integer("from", edge.from));
  OMNIBAL_RETURN_IF_ERROR(place.integer("to", edge.to));
  OMNIBAL_RETURN_IF_ERROR(place.integer("bytes", edge.bytes));
  OMNIBAL_RETURN_IF_ERROR(place.integer("grad_bytes", edge.gradBytes));
  if (edge.from >= edge.to || edge.to >= static_cast<int64_t>(problem.layers.size()))
    return place.bad("an edge runs from a layer to a later one of the " +
                     std::to_string(problem.layers.size()) + " layers");
  problem.edges.push_back(edge);
  return Status::ok();
}

Status readFactors(const Place &place, Problem &problem) {
  LoadFactors factors;
  for (const auto &[kind, number] : place.object.items()) {
    std::optional<Decimal> value = decimalOf(number);
    if (!value)
      return place.bad("`" + kind + "` must be a number of at least 0 with at most 18 digits");
    factors[kind] = *value;
  }
  problem.factors.push_back(std::move(factors));
  return Status::ok();
}

Status readMicrobatches(const Place &place, Problem &problem) {
  if (listIn(place.object, "microbatches")) {
    OMNIBAL_RETURN_IF_ERROR(place.each(
        "microbatches", [&](const Place &entry) { return readFactors(entry, problem); }));
    problem.microbatches = static_cast<int64_t>(problem.factors.size());
  } else {
    OMNIBAL_RETURN_IF_ERROR(place.integer("microbatches", problem.microbatches));
  }
  if (problem.microbatches < 1)
    return place.bad("`microbatches` must be at least 1 (or a list of as many objects)");
  return Status::ok();
}

Status readGivenCuts(const json &list, const Place &given, Problem &problem) {
  auto layers = static_cast<int64_t>(problem.layers.size());
  for (const json &element : list) {
    std::optional<int64_t> cut = integerOf(element);
    if (!cut || (problem.givenCuts.empty() ? *cut != 0 : *cut <= problem.givenCuts.back()))
      return given.bad("`cuts` must ascend from 0");
    problem.givenCuts.push_back(*cut);
  }
  if (problem.givenCuts.size() < 2 || problem.givenCuts.back() != layers)
    return given.bad("`cuts` must end with the number of layers, " + std::to_string(layers));
  return Status::ok();
}

Status readGivenRemat(const json &list, const Place &given, Problem &problem) {
  if (list.size() != problem.layers.size())
    return given.bad("`remat` has " + std::to_string(list.size()) + " entries for " +
                     std::to_string(problem.layers.size()) + " layers");
  for (size_t l = 0; l < list.size(); ++l) {
    const auto *name = list[l].get_ptr<const std::string *>();
    if (!name || !problem.layers[l].option(*name))
      return given.bad("`remat`: layer " + problem.layers[l].name + " has no such option");
    problem.givenRemat.push_back(*name);
  }
  return Status::ok();
}

/// Given cuts make as many chunks as a named schedule has.
Status checkChunks(const Place &place, const Problem &problem) {
  std::optional<int64_t> perStage = chunksPerStage(problem.schedule);
  auto chunks = static_cast<int64_t>(problem.givenCuts.size()) - 1;
  if (problem.varyCuts || !perStage || chunks == problem.cluster.stages * *perStage)
    return Status::ok();
  return place.bad("given: `cuts` make " + std::to_string(chunks) + " chunks, but " +
                   problem.schedule + " on " + std::to_string(problem.cluster.stages) +
                   " stages has " + std::to_string(problem.cluster.stages * *perStage));
}

/// The cluster, and how its ranks are numbered, which decides nothing here but counts for those who
/// follow the plan.
Status readRanks(const Place &place, Cluster &cluster) {
  OMNIBAL_ASSIGN_OR_RETURN(
      cluster, readCluster(place.object, place.where, {"model_parallel", "rank_order"}));
  OMNIBAL_RETURN_IF_ERROR(place.integer("model_parallel", cluster.parts, false));
  if (cluster.parts < 1)
    return place.bad("`model_parallel` must be at least 1");
  return memberOf(place.object, "rank_order") ? place.rankOrder("rank_order", cluster.rankOrder)
                                              : Status::ok();
}

/// `vary`, and `given` exactly for what may not vary.
Status readFreedom(const Place &place, Problem &problem) {
  static const json none = json::object();
  for (const char *key : {"vary", "given"})
    if (memberOf(place.object, key) && !objectIn(place.object, key))
      return place.bad("`" + std::string(key) + "` must be an object");
  const json *object = objectIn(place.object, "vary");
  Place freedom{object ? *object : none, place.where + ": vary"};
  OMNIBAL_RETURN_IF_ERROR(freedom.onlyKeys({"cuts", "remat"}));
  for (auto [key, vary] :
       {std::pair("cuts", &problem.varyCuts), std::pair("remat", &problem.varyRemat)})
    if (const json *value = memberOf(freedom.object, key)) {
      if (!value->is_boolean())
        return freedom.bad("`" + std::string(key) + "` must be true or false");
      *vary = value->get<bool>();
    }
  object = objectIn(place.object, "given");
  Place given{object ? *object : none, place.where + ": given"};
  OMNIBAL_RETURN_IF_ERROR(given.onlyKeys({"cuts", "remat"}));
  for (auto [key, vary, read] : {std::tuple("cuts", problem.varyCuts, &readGivenCuts),
                                 std::tuple("remat", problem.varyRemat, &readGivenRemat)}) {
    const json *list = listIn(given.object, key);
    if (vary ? memberOf(given.object, key) != nullptr : list == nullptr)
      return given.bad("`" + std::string(key) + "` must be there exactly where `vary." + key +
                       "` is false");
    if (list)
      OMNIBAL_RETURN_IF_ERROR(read(*list, given, problem));
  }
  return Status::ok();
}

} // namespace

rt::Result<Problem> problemOf(const json &value, const std::string &where) {
  if (!value.is_object())
    return invalid(where + ": a problem is a JSON object");
  Place place{value, where};
  Problem problem;
  OMNIBAL_RETURN_IF_ERROR(place.schema(rt::formats::planProblem));
  OMNIBAL_RETURN_IF_ERROR(place.onlyKeys(
      {"schema", "layers", "edges", "cluster", "microbatches", "schedule", "vary", "given"}));
  OMNIBAL_RETURN_IF_ERROR(readLayers(value, where, problem));
  const json *cluster = objectIn(value, "cluster");
  if (!cluster)
    return place.bad("`cluster` is missing or of another type");
  OMNIBAL_RETURN_IF_ERROR(readRanks({*cluster, where + ": cluster"}, problem.cluster));
  OMNIBAL_RETURN_IF_ERROR(readMicrobatches(place, problem));
  OMNIBAL_RETURN_IF_ERROR(place.schedule(problem.schedule));
  OMNIBAL_RETURN_IF_ERROR(readFreedom(place, problem));
  if (std::string why = tooLarge(problem); !why.empty())
    return place.bad(why);
  OMNIBAL_RETURN_IF_ERROR(checkChunks(place, problem));
  return problem;
}

Status readLayers(const json &object, const std::string &where, Problem &problem) {
  const Place place{object, where};
  OMNIBAL_RETURN_IF_ERROR(
      place.each("layers", [&](const Place &layer) { return readLayer(layer, problem); }));
  if (problem.layers.empty())
    return place.bad("`layers` is missing or empty");
  return place.each("edges", [&](const Place &edge) { return readEdge(edge, problem); });
}

rt::Result<Problem> parseProblem(std::string_view text, const std::string &where) {
  OMNIBAL_ASSIGN_OR_RETURN(json value, parseJson(text, where));
  return problemOf(value, where);
}

rt::Result<Problem> readProblem(const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(json value, readJson(path));
  return problemOf(value, path);
}

namespace {

void writeLayer(rt::JsonWriter &out, const Layer &layer) {
  out.attribute("name", layer.name);
  out.attribute("kind", layer.kind);
  out.attribute("forward_ns", layer.forwardNs);
  out.attribute("input_grad_ns", layer.inputGradNs);
  out.attribute("weight_grad_ns", layer.weightGradNs);
  out.attribute("param_bytes", layer.paramBytes);
  out.attribute("grad_bytes", layer.gradBytes);
  if (layer.stateBytes > 0)
    out.attribute("state_bytes", layer.stateBytes);
  if (layer.updateBytes > 0)
    out.attribute("update_bytes", layer.updateBytes);
  out.attributeObjects("remat", layer.remat, [&](const RematOption &option) {
    out.attribute("name", option.name);
    out.attribute("saved_bytes", option.savedBytes);
    out.attribute("recompute_ns", option.recomputeNs);
    out.attribute("workspace_bytes", option.workspaceBytes);
    if (option.splitBytes >= 0)
      out.attribute("split_bytes", option.splitBytes);
  });
}

void writeMicrobatches(rt::JsonWriter &out, const Problem &problem) {
  if (problem.factors.empty())
    return out.attribute("microbatches", problem.microbatches);
  out.attributeObjects("microbatches", problem.factors, [&](const LoadFactors &factors) {
    for (const auto &[kind, factor] : factors)
      out.rawAttribute(kind, factor.text());
  });
}

} // namespace

void writeLayers(rt::JsonWriter &out, const Problem &problem) {
  out.attributeObjects("layers", problem.layers,
                       [&](const Layer &layer) { writeLayer(out, layer); });
  out.attributeObjects("edges", problem.edges, [&](const Edge &edge) {
    out.attribute("from", edge.from);
    out.attribute("to", edge.to);
    out.attribute("bytes", edge.bytes);
    out.attribute("grad_bytes", edge.gradBytes);
  });
}

std::string writeProblem(const Problem &problem) {
  rt::JsonWriter out(1);
  out.object([&] {
    out.attribute("schema", rt::formats::planProblem);
    writeLayers(out, problem);
    out.attributeObject("cluster", [&] { writeCluster(out, problem.cluster); });
    writeMicrobatches(out, problem);
    out.attribute("schedule", problem.schedule);
    if (problem.varyCuts && problem.varyRemat)
      return;
    out.attributeObject("vary", [&] {
      out.attribute("cuts", problem.varyCuts);
      out.attribute("remat", problem.varyRemat);
    });
    out.attributeObject("given", [&] {
      if (!problem.varyCuts)
        out.attribute("cuts", problem.givenCuts);
      if (!problem.varyRemat)
        out.attribute("remat", problem.givenRemat);
    });
  });
  return out.take() + "\n";
}

} // namespace omnibal::planner
