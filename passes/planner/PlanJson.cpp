//===- PlanJson.cpp
//---------------------------------------------------------------------------------------===//
#include "passes/planner/PlanJson.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

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

} // namespace omnibal::planner
