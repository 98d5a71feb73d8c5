#include "passes/planner/PlanJson.h"
#include "passes/planner/JsonText.h"
#include "llvm/Support/JSON.h"
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

llvm::Error readFigures(llvm::StringRef path, const json::Value &value, RankFigures &rank) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return bad(path, "`ranks` must hold objects");
  const std::pair<llvm::StringRef, int64_t *> fields[] = {
      {"forward_ns", &rank.forwardNs},     {"backward_ns", &rank.backwardNs},
      {"recompute_ns", &rank.recomputeNs}, {"peak_bytes", &rank.peakBytes},
      {"limit_bytes", &rank.limitBytes},   {"idle_ns", &rank.idleNs}};
  for (const auto &[key, field] : fields) {
    std::optional<int64_t> number = object->getInteger(key);
    if (!number)
      return bad(path, "`ranks`: `" + key + "` is missing or not an integer");
    *field = *number;
  }
  if (object->size() != std::size(fields))
    return bad(path, "`ranks` has a key that is not one of forward_ns, backward_ns, recompute_ns, "
                     "peak_bytes, limit_bytes, idle_ns");
  return llvm::Error::success();
}

llvm::Error readClaims(llvm::StringRef path, const json::Object &object, PlanClaims &claims) {
  for (const auto &[key, field] :
       {std::pair<llvm::StringRef, std::optional<int64_t> *>("step_ns", &claims.stepNs),
        {"lower_bound_ns", &claims.lowerBoundNs}})
    if (const json::Value *value = object.get(key)) {
      *field = value->getAsInteger();
      if (!*field)
        return bad(path, "`" + key + "` must be an integer");
    }
  if (const json::Value *value = object.get("gap")) {
    claims.gap = doubleOf(*value);
    if (!claims.gap)
      return bad(path, "`gap` must be a number");
  }
  const json::Value *value = object.get("ranks");
  if (!value)
    return llvm::Error::success();
  const json::Array *ranks = value->getAsArray();
  if (!ranks)
    return bad(path, "`ranks` must be a list, one object a rank");
  for (const json::Value &element : *ranks)
    if (llvm::Error error = readFigures(path, element, claims.ranks.emplace_back()))
      return error;
  return llvm::Error::success();
}

llvm::Expected<Plan> planOf(const json::Value &value, llvm::StringRef path, PlanClaims *claims) {
  const json::Object *object = value.getAsObject();
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
  if (claims)
    if (llvm::Error error = readClaims(path, *object, *claims))
      return std::move(error);
  return plan;
}

} // namespace

llvm::Expected<Plan> readPlan(llvm::StringRef path, PlanClaims *claims) {
  auto value = readJson(path);
  if (!value)
    return value.takeError();
  return planOf(*value, path, claims);
}

llvm::Expected<Plan> parsePlan(llvm::StringRef text, llvm::StringRef where, PlanClaims *claims) {
  auto value = parseJson(text, where);
  if (!value)
    return value.takeError();
  return planOf(*value, where, claims);
}

std::string writePlan(const Plan &plan, const PlanSearch &search) {
  static const char *kinds[] = {"F", "B", "I", "W"};
  std::string text;
  llvm::raw_string_ostream stream(text);
  json::OStream out(stream);
  out.object([&] {
    out.attribute("schema", "omnibal.plan/1");
    out.attribute("cuts", json::Array(plan.cuts));
    out.attribute("chunk_rank", json::Array(plan.chunkRank));
    out.attribute("remat", json::Array(plan.remat));
    out.attribute("schedule", plan.schedule);
    out.attributeArray("actions", [&] {
      for (const std::vector<Action> &rank : plan.actions)
        out.array([&] {
          for (const Action &a : rank)
            out.value(json::Array{kinds[static_cast<int>(a.kind)], a.microbatch, a.chunk});
        });
    });
    out.attribute("step_ns", plan.stepNs);
    out.attribute("lower_bound_ns", search.lowerBoundNs);
    out.attribute("gap", search.gap);
    out.attributeArray("ranks", [&] {
      for (const RankFigures &rank : plan.ranks)
        out.object([&] {
          out.attribute("forward_ns", rank.forwardNs);
          out.attribute("backward_ns", rank.backwardNs);
          out.attribute("recompute_ns", rank.recomputeNs);
          out.attribute("peak_bytes", rank.peakBytes);
          out.attribute("limit_bytes", rank.limitBytes);
          out.attribute("idle_ns", rank.idleNs);
        });
    });
    out.attributeObject("search", [&] {
      out.attribute("seconds", search.seconds);
      out.attribute("method", search.method);
      out.attribute("proved_optimal", search.provedOptimal);
      if (search.stoppedByTime)
        out.attribute("stopped", "time-limit");
      if (!search.baselines.empty())
        out.attributeObject("baselines", [&] {
          for (const auto &[name, stepNs] : search.baselines)
            out.attribute(name, stepNs ? json::Value(*stepNs) : json::Value(nullptr));
        });
    });
  });
  stream << "\n";
  return text;
}

} // namespace omnibal::planner
