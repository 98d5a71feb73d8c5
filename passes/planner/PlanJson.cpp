//===- PlanJson.cpp
//---------------------------------------------------------------------------------------===//
#include "passes/planner/PlanJson.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

namespace omnibal::planner {
namespace json = llvm::json;

namespace {

llvm::Error bad(llvm::StringRef path, const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), path + ": " + message);
}

llvm::Error readIntegers(llvm::StringRef path, const json::Object &object, llvm::StringRef key,
                         std::vector<int64_t> &out) {
  const json::Value *value = object.get(key);
  if (!value)
    return llvm::Error::success();
  const json::Array *array = value->getAsArray();
  if (!array)
    return bad(path, "`" + key + "` must be a list of integers");
  for (const json::Value &element : *array) {
    std::optional<int64_t> number = element.getAsInteger();
    if (!number || *number < 0)
      return bad(path, "`" + key + "` must hold non-negative integers");
    out.push_back(*number);
  }
  return llvm::Error::success();
}

llvm::Expected<Action> readAction(llvm::StringRef path, const json::Value &value) {
  const json::Array *triple = value.getAsArray();
  if (!triple || triple->size() != 3)
    return bad(path, "`actions` must hold [kind, micro-batch, chunk] triples");
  auto kind = (*triple)[0].getAsString();
  auto microbatch = (*triple)[1].getAsInteger(), chunk = (*triple)[2].getAsInteger();
  if (!kind || !microbatch || !chunk || kind->size() != 1)
    return bad(path, "`actions` must hold [kind, micro-batch, chunk] triples");
  switch ((*kind)[0]) {
  case 'F':
    return Action{ActionKind::Forward, *microbatch, *chunk};
  case 'B':
    return Action{ActionKind::Backward, *microbatch, *chunk};
  case 'I':
    return Action{ActionKind::InputGrad, *microbatch, *chunk};
  case 'W':
    return Action{ActionKind::WeightGrad, *microbatch, *chunk};
  default:
    return bad(path, "`actions`: unknown kind " + *kind + " (known: F, B, I, W)");
  }
}

llvm::Error readActions(llvm::StringRef path, const json::Object &object, Plan &plan) {
  const json::Value *value = object.get("actions");
  if (!value)
    return llvm::Error::success();
  const json::Array *ranks = value->getAsArray();
  if (!ranks)
    return bad(path, "`actions` must be a list of lists, one a rank");
  for (const json::Value &rank : *ranks) {
    const json::Array *list = rank.getAsArray();
    if (!list)
      return bad(path, "`actions` must be a list of lists, one a rank");
    plan.actions.emplace_back();
    for (const json::Value &element : *list) {
      auto action = readAction(path, element);
      if (!action)
        return action.takeError();
      plan.actions.back().push_back(*action);
    }
  }
  return llvm::Error::success();
}

llvm::Error readRemat(llvm::StringRef path, const json::Object &object, Plan &plan) {
  const json::Value *value = object.get("remat");
  if (!value)
    return llvm::Error::success();
  const json::Array *array = value->getAsArray();
  if (!array)
    return bad(path, "`remat` must be a list of option names, one a layer");
  for (const json::Value &element : *array) {
    auto name = element.getAsString();
    if (!name)
      return bad(path, "`remat` must be a list of option names, one a layer");
    plan.remat.push_back(name->str());
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<Plan> readPlan(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return bad(path, "cannot be read: " + buffer.getError().message());
  auto value = json::parse((*buffer)->getBuffer());
  if (!value)
    return bad(path, "not JSON: " + llvm::toString(value.takeError()));
  const json::Object *object = value->getAsObject();
  if (!object)
    return bad(path, "a plan is a JSON object");
  static constexpr llvm::StringLiteral known[] = {
      "schema",  "cuts",           "chunk_rank", "remat", "schedule", "actions",
      "step_ns", "lower_bound_ns", "gap",        "ranks", "search"};
  for (const auto &entry : *object)
    if (!llvm::is_contained(known, llvm::StringRef(entry.first)))
      return bad(path, "unknown key `" + llvm::StringRef(entry.first) + "`");
  if (auto schema = object->getString("schema"); schema && *schema != "omnibal.plan/1")
    return bad(path, "`schema` is " + *schema + ", expected omnibal.plan/1");
  Plan plan;
  if (llvm::Error error = readIntegers(path, *object, "cuts", plan.cuts))
    return std::move(error);
  if (plan.cuts.size() < 2)
    return bad(path,
               "`cuts` is missing: the first layer of every chunk, then the number of layers");
  if (llvm::Error error = readIntegers(path, *object, "chunk_rank", plan.chunkRank))
    return std::move(error);
  if (llvm::Error error = readRemat(path, *object, plan))
    return std::move(error);
  if (llvm::Error error = readActions(path, *object, plan))
    return std::move(error);
  if (auto schedule = object->getString("schedule"))
    plan.schedule = schedule->str();
  return plan;
}

std::string writeProblem(const Problem &problem) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  json::OStream out(stream, 1);
  auto link = [&](const Link &value) {
    out.attribute("latency_ns", value.latencyNs);
    out.attribute("bytes_per_s", value.bytesPerSecond);
  };
  out.object([&] {
    out.attribute("schema", "omnibal.plan-problem/1");
    out.attributeArray("layers", [&] {
      for (const Layer &layer : problem.layers)
        out.object([&] {
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
              });
          });
        });
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
    out.attributeObject("cluster", [&] {
      out.attribute("stages", problem.cluster.stages);
      out.attributeArray("memory_bytes", [&] {
        for (int64_t bytes : problem.cluster.memoryBytes)
          out.value(bytes);
      });
      out.attributeObject("link", [&] { link(problem.cluster.link); });
      out.attributeObject("data_parallel", [&] {
        out.attribute("size", problem.cluster.dataParallel);
        link(problem.cluster.dataParallelLink);
      });
    });
    out.attribute("microbatches", problem.microbatches);
    out.attribute("schedule", problem.schedule);
  });
  stream << "\n";
  return text;
}

} // namespace omnibal::planner
