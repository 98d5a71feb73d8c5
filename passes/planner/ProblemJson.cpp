#include "passes/planner/ProblemJson.h"
#include "passes/planner/ClusterJson.h"
#include "passes/planner/JsonText.h"
#include "passes/planner/ProblemSize.h"
#include "passes/planner/ScheduleRules.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace omnibal::planner {
namespace json = llvm::json;

namespace {

/// Stands in `memory_bytes` where there is no limit; doubles hold it exactly.
constexpr int64_t noMemoryLimit = (int64_t{1} << 53) - 1;
llvm::Error bad(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// A JSON object with its place ("p.json: layers[3].remat[0]") for messages.
struct Place {
  const json::Object &object;
  std::string where;

  llvm::Error onlyKeys(std::initializer_list<llvm::StringRef> known) const {
    for (const auto &entry : object)
      if (!llvm::is_contained(known, llvm::StringRef(entry.first)))
        return bad(where + ": unknown key `" + llvm::StringRef(entry.first) + "`");
    return llvm::Error::success();
  }
  llvm::Error integer(llvm::StringRef key, int64_t &out, bool required = true) const {
    const json::Value *value = object.get(key);
    if (!value)
      return required ? bad(where + ": `" + key + "` is missing") : llvm::Error::success();
    std::optional<int64_t> number = value->getAsInteger();
    if (!number || *number < 0)
      return bad(where + ": `" + key + "` must be an integer of at least 0");
    out = *number;
    return llvm::Error::success();
  }
  llvm::Error text(llvm::StringRef key, std::string &out) const {
    std::optional<llvm::StringRef> value = object.getString(key);
    if (!value)
      return bad(where + ": `" + key + "` is missing or not a string");
    out = value->str();
    return llvm::Error::success();
  }
  /// Calls `read` with the place of every element, which must be objects.
  llvm::Error each(llvm::StringRef key, llvm::function_ref<llvm::Error(const Place &)> read) const {
    const json::Array *list = object.getArray(key);
    if (!list)
      return bad(where + ": `" + key + "` is missing or not a list");
    for (auto [i, element] : llvm::enumerate(*list)) {
      std::string place =
          where + (where.back() == ']' ? "." : ": ") + key.str() + "[" + std::to_string(i) + "]";
      const json::Object *entry = element.getAsObject();
      if (!entry)
        return bad(place + " must be an object");
      if (llvm::Error error = read({*entry, place}))
        return error;
    }
    return llvm::Error::success();
  }
};

/// Runs the steps in order until one fails.
template <typename... Steps> llvm::Error inOrder(Steps &&...steps) {
  llvm::Error result = llvm::Error::success();
  auto run = [&](auto &step) {
    if (result)
      return;
    llvm::cantFail(std::move(result));
    result = step();
  };
  (run(steps), ...);
  return result;
}

llvm::Error readOption(const Place &place, Layer &layer) {
  RematOption option;
  if (llvm::Error error = inOrder(
          [&] {
            return place.onlyKeys(
                {"name", "saved_bytes", "recompute_ns", "workspace_bytes", "split_bytes"});
          },
          [&] { return place.text("name", option.name); },
          [&] { return place.integer("saved_bytes", option.savedBytes); },
          [&] { return place.integer("recompute_ns", option.recomputeNs); },
          [&] { return place.integer("workspace_bytes", option.workspaceBytes); },
          [&] { return place.integer("split_bytes", option.splitBytes, false); }))
    return error;
  if (layer.remat.empty() != (option.name == "keep"))
    return bad(place.where + ": the first option, and only that, is called keep");
  if (layer.option(option.name))
    return bad(place.where + ": there are two options " + option.name);
  layer.remat.push_back(std::move(option));
  return llvm::Error::success();
}

llvm::Error readLayer(const Place &place, Problem &problem) {
  Layer layer;
  if (llvm::Error error = inOrder(
          [&] {
            return place.onlyKeys({"name", "kind", "forward_ns", "input_grad_ns", "weight_grad_ns",
                                   "param_bytes", "grad_bytes", "remat"});
          },
          [&] { return place.text("name", layer.name); },
          [&] { return place.text("kind", layer.kind); },
          [&] { return place.integer("forward_ns", layer.forwardNs); },
          [&] { return place.integer("input_grad_ns", layer.inputGradNs); },
          [&] { return place.integer("weight_grad_ns", layer.weightGradNs); },
          [&] { return place.integer("param_bytes", layer.paramBytes); },
          [&] { return place.integer("grad_bytes", layer.gradBytes); },
          [&] {
            return place.each("remat",
                              [&](const Place &option) { return readOption(option, layer); });
          }))
    return error;
  if (layer.remat.empty())
    return bad(place.where + ": `remat` needs at least the option keep");
  problem.layers.push_back(std::move(layer));
  return llvm::Error::success();
}

llvm::Error readEdge(const Place &place, Problem &problem) {
  Edge edge;
  if (llvm::Error error =
          inOrder([&] { return place.onlyKeys({"from", "to", "bytes", "grad_bytes"}); },
                  [&] { return place.integer("from", edge.from); },
                  [&] { return place.integer("to", edge.to); },
                  [&] { return place.integer("bytes", edge.bytes); },
                  [&] { return place.integer("grad_bytes", edge.gradBytes); }))
    return error;
  if (edge.from >= edge.to || edge.to >= static_cast<int64_t>(problem.layers.size()))
    return bad(place.where + ": an edge runs from a layer to a later one of the " +
               llvm::Twine(problem.layers.size()) + " layers");
  problem.edges.push_back(edge);
  return llvm::Error::success();
}

llvm::Error readFactors(const Place &place, Problem &problem) {
  LoadFactors factors;
  for (const auto &entry : place.object) {
    std::optional<Decimal> value = decimalOf(entry.second);
    if (!value)
      return bad(place.where + ": `" + llvm::StringRef(entry.first) +
                 "` must be a number of at least 0 with at most 18 digits");
    factors[entry.first.str()] = *value;
  }
  problem.factors.push_back(std::move(factors));
  return llvm::Error::success();
}

llvm::Error readMicrobatches(const Place &place, Problem &problem) {
  const json::Value *value = place.object.get("microbatches");
  if (value && value->getAsArray()) {
    if (llvm::Error error = place.each(
            "microbatches", [&](const Place &entry) { return readFactors(entry, problem); }))
      return error;
    problem.microbatches = static_cast<int64_t>(problem.factors.size());
  } else if (llvm::Error error = place.integer("microbatches", problem.microbatches)) {
    return error;
  }
  if (problem.microbatches < 1)
    return bad(place.where + ": `microbatches` must be at least 1 (or a list of as many objects)");
  return llvm::Error::success();
}

llvm::Error readSchedule(const Place &place, Problem &problem) {
  if (llvm::Error error = place.text("schedule", problem.schedule))
    return error;
  if (problem.schedule == "auto" || chunksPerRank(problem.schedule))
    return llvm::Error::success();
  return bad(place.where + ": unknown `schedule` " + problem.schedule +
             " (known: " + scheduleNames + ", auto)");
}

llvm::Error readGivenCuts(const json::Array &list, const std::string &where, Problem &problem) {
  int64_t layers = static_cast<int64_t>(problem.layers.size());
  for (const json::Value &element : list) {
    std::optional<int64_t> cut = element.getAsInteger();
    if (!cut || (problem.givenCuts.empty() ? *cut != 0 : *cut <= problem.givenCuts.back()))
      return bad(where + ": `cuts` must ascend from 0");
    problem.givenCuts.push_back(*cut);
  }
  if (problem.givenCuts.size() < 2 || problem.givenCuts.back() != layers)
    return bad(where + ": `cuts` must end with the number of layers, " + llvm::Twine(layers));
  return llvm::Error::success();
}

llvm::Error readGivenRemat(const json::Array &list, const std::string &where, Problem &problem) {
  if (list.size() != problem.layers.size())
    return bad(where + ": `remat` has " + llvm::Twine(list.size()) + " entries for " +
               llvm::Twine(problem.layers.size()) + " layers");
  for (auto [layer, element] : llvm::zip_equal(problem.layers, list)) {
    std::string name = element.getAsString().value_or("").str();
    if (!layer.option(name))
      return bad(where + ": `remat`: layer " + layer.name + " has no such option");
    problem.givenRemat.push_back(name);
  }
  return llvm::Error::success();
}

/// Given cuts make as many chunks as a named schedule has.
llvm::Error checkChunks(const Place &place, const Problem &problem) {
  std::optional<int64_t> perRank = chunksPerRank(problem.schedule);
  auto chunks = static_cast<int64_t>(problem.givenCuts.size()) - 1;
  if (problem.varyCuts || !perRank || chunks == problem.cluster.stages * *perRank)
    return llvm::Error::success();
  return bad(place.where + ": given: `cuts` make " + llvm::Twine(chunks) + " chunks, but " +
             problem.schedule + " on " + llvm::Twine(problem.cluster.stages) + " stages has " +
             llvm::Twine(problem.cluster.stages * *perRank));
}

/// `vary`, and `given` exactly for what may not vary.
llvm::Error readFreedom(const Place &place, Problem &problem) {
  json::Object none;
  for (llvm::StringRef key : {"vary", "given"})
    if (place.object.get(key) && !place.object.getObject(key))
      return bad(place.where + ": `" + key + "` must be an object");
  const json::Object *object = place.object.getObject("vary");
  Place freedom{object ? *object : none, place.where + ": vary"};
  if (llvm::Error error = freedom.onlyKeys({"cuts", "remat"}))
    return error;
  for (auto [key, vary] : {std::pair<llvm::StringRef, bool *>{"cuts", &problem.varyCuts},
                           {"remat", &problem.varyRemat}})
    if (const json::Value *value = freedom.object.get(key)) {
      if (!value->getAsBoolean())
        return bad(freedom.where + ": `" + key + "` must be true or false");
      *vary = *value->getAsBoolean();
    }
  object = place.object.getObject("given");
  Place given{object ? *object : none, place.where + ": given"};
  if (llvm::Error error = given.onlyKeys({"cuts", "remat"}))
    return error;
  for (auto [key, vary, read] :
       {std::tuple{llvm::StringRef("cuts"), problem.varyCuts, &readGivenCuts},
        std::tuple{llvm::StringRef("remat"), problem.varyRemat, &readGivenRemat}}) {
    const json::Array *list = given.object.getArray(key);
    if (vary ? given.object.get(key) != nullptr : list == nullptr)
      return bad(given.where + ": `" + key + "` must be there exactly where `vary." + key +
                 "` is false");
    if (list)
      if (llvm::Error error = read(*list, given.where, problem))
        return error;
  }
  return llvm::Error::success();
}

llvm::Expected<Problem> problemOf(const json::Value &value, llvm::StringRef where) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return bad(where + ": a problem is a JSON object");
  Place place{*object, where.str()};
  Problem problem;
  llvm::Error error = inOrder(
      [&] {
        return place.onlyKeys(
            {"schema", "layers", "edges", "cluster", "microbatches", "schedule", "vary", "given"});
      },
      [&] {
        std::string schema;
        if (llvm::Error missing = place.text("schema", schema))
          return missing;
        return schema == "omnibal.plan-problem/1" ? llvm::Error::success()
                                                  : bad(place.where + ": `schema` is " + schema +
                                                        ", expected omnibal.plan-problem/1");
      },
      [&] {
        return place.each("layers", [&](const Place &layer) { return readLayer(layer, problem); });
      },
      [&] {
        return place.each("edges", [&](const Place &edge) { return readEdge(edge, problem); });
      },
      [&]() -> llvm::Error {
        const json::Object *cluster = object->getObject("cluster");
        if (problem.layers.empty() || !cluster)
          return bad(place.where + ": `" + (cluster ? "layers" : "cluster") +
                     "` is missing, of another type or empty");
        auto read = readCluster(*cluster, (where + ": cluster").str());
        if (!read)
          return read.takeError();
        problem.cluster = *read;
        return llvm::Error::success();
      },
      [&] { return readMicrobatches(place, problem); },
      [&] { return readSchedule(place, problem); }, [&] { return readFreedom(place, problem); },
      [&]() -> llvm::Error {
        std::string why = tooLarge(problem);
        return why.empty() ? llvm::Error::success() : bad(where + ": " + why);
      },
      [&] { return checkChunks(place, problem); });
  if (error)
    return std::move(error);
  return problem;
}

} // namespace

llvm::Expected<Problem> parseProblem(llvm::StringRef text, llvm::StringRef where) {
  llvm::Expected<json::Value> value = parseJson(text, where);
  if (!value)
    return value.takeError();
  return problemOf(*value, where);
}

llvm::Expected<Problem> readProblem(llvm::StringRef path) {
  llvm::Expected<json::Value> value = readJson(path);
  if (!value)
    return value.takeError();
  return problemOf(*value, path);
}

namespace {

void writeLayer(json::OStream &out, const Layer &layer) {
  out.attribute("name", layer.name);
  out.attribute("kind", layer.kind);
  out.attribute("forward_ns", layer.forwardNs);
  out.attribute("input_grad_ns", layer.inputGradNs);
  out.attribute("weight_grad_ns", layer.weightGradNs);
  out.attribute("param_bytes", layer.paramBytes);
  out.attribute("grad_bytes", layer.gradBytes);
  out.attributeArray("remat", [&] {
    for (const RematOption &option : layer.remat)
      out.object([&] {
        out.attribute("name", option.name);
        out.attribute("saved_bytes", option.savedBytes);
        out.attribute("recompute_ns", option.recomputeNs);
        out.attribute("workspace_bytes", option.workspaceBytes);
        if (option.splitBytes >= 0)
          out.attribute("split_bytes", option.splitBytes);
      });
  });
}

void writeCluster(json::OStream &out, const Cluster &cluster) {
  auto link = [&](const Link &value) {
    out.attribute("latency_ns", value.latencyNs);
    out.attribute("bytes_per_s", value.bytesPerSecond);
  };
  out.attribute("stages", cluster.stages);
  out.attributeArray("memory_bytes", [&] {
    if (cluster.memoryBytes.empty())
      out.value(noMemoryLimit);
    for (int64_t bytes : cluster.memoryBytes)
      out.value(bytes);
  });
  out.attributeObject("link", [&] { link(cluster.link); });
  out.attributeObject("data_parallel", [&] {
    out.attribute("size", cluster.dataParallel);
    link(cluster.dataParallelLink);
  });
}

void writeMicrobatches(json::OStream &out, const Problem &problem) {
  if (problem.factors.empty())
    return out.attribute("microbatches", problem.microbatches);
  out.attributeArray("microbatches", [&] {
    for (const LoadFactors &factors : problem.factors)
      out.object([&] {
        for (const auto &[kind, factor] : factors) {
          out.attributeBegin(kind);
          out.rawValue(factor.text());
          out.attributeEnd();
        }
      });
  });
}

} // namespace

std::string writeProblem(const Problem &problem) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  json::OStream out(stream, 1);
  out.object([&] {
    out.attribute("schema", "omnibal.plan-problem/1");
    out.attributeArray("layers", [&] {
      for (const Layer &layer : problem.layers)
        out.object([&] { writeLayer(out, layer); });
    });
    out.attributeArray("edges", [&] {
      for (const Edge &edge : problem.edges)
        out.object([&] {
          out.attribute("from", edge.from);
          out.attribute("to", edge.to);
          out.attribute("bytes", edge.bytes);
          out.attribute("grad_bytes", edge.gradBytes);
        });
    });
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
        out.attribute("cuts", json::Array(problem.givenCuts));
      if (!problem.varyRemat)
        out.attribute("remat", json::Array(problem.givenRemat));
    });
  });
  stream << "\n";
  return text;
}

} // namespace omnibal::planner
