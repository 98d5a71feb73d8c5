#include "runtime/planner/json/PlanJson.h"
#include "runtime/planner/json/JsonText.h"
#include "runtime/support/Formats.h"
#include "runtime/support/JsonWriter.h"
#include <algorithm>
#include <array>

namespace omnibal::planner {
using nlohmann::json;
using rt::Status;

namespace {

/// A plan's text with the name of its file for messages.
class PlanReader {
public:
  PlanReader(const json &object, const std::string &path) : object(object), path(path) {}

  rt::Result<Plan> read(PlanClaims *claims) {
    if (!object.is_object())
      return bad("a plan is a JSON object");
    OMNIBAL_RETURN_IF_ERROR(checkKeys());
    OMNIBAL_RETURN_IF_ERROR(readIntegers("cuts", plan.cuts));
    if (plan.cuts.size() < 2)
      return bad("`cuts` is missing: the first layer of every chunk, then the number of layers");
    OMNIBAL_RETURN_IF_ERROR(readIntegers("chunk_rank", plan.chunkStage));
    OMNIBAL_RETURN_IF_ERROR(readRemat());
    OMNIBAL_RETURN_IF_ERROR(readActions());
    if (const std::string *schedule = textIn(object, "schedule"))
      plan.schedule = *schedule;
    if (claims)
      OMNIBAL_RETURN_IF_ERROR(readClaims(*claims));
    return std::move(plan);
  }

private:
  Status bad(const std::string &message) const { return rt::invalid(path + ": " + message); }

  Status checkKeys() const {
    static constexpr std::array known = {"schema",   "cuts",    "chunk_rank", "remat",
                                         "schedule", "actions", "step_ns",    "lower_bound_ns",
                                         "gap",      "ranks",   "search"};
    for (const auto &[key, ignored] : object.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        return bad("unknown key `" + key + "`");
    const std::string *schema = textIn(object, "schema");
    if (schema && *schema != rt::formats::plan)
      return bad("`schema` is " + *schema + ", expected " + rt::formats::plan);
    return Status::ok();
  }

  Status readIntegers(const char *key, std::vector<int64_t> &out) const {
    const json *list = memberOf(object, key);
    if (!list)
      return Status::ok();
    if (!list->is_array())
      return bad("`" + std::string(key) + "` must be a list of integers");
    for (const json &element : *list) {
      std::optional<int64_t> number = integerOf(element);
      if (!number || *number < 0)
        return bad("`" + std::string(key) + "` must hold non-negative integers");
      out.push_back(*number);
    }
    return Status::ok();
  }

  Status readAction(const json &triple, std::vector<Action> &out) const {
    if (!triple.is_array() || triple.size() != 3)
      return bad("`actions` must hold [kind, micro-batch, chunk] triples");
    const auto *kind = triple[0].get_ptr<const std::string *>();
    std::optional<int64_t> microbatch = integerOf(triple[1]), chunk = integerOf(triple[2]);
    if (!kind || !microbatch || !chunk || kind->size() != 1)
      return bad("`actions` must hold [kind, micro-batch, chunk] triples");
    std::optional<ActionKind> known = actionOf(kind->front());
    if (!known)
      return bad("`actions`: unknown kind " + *kind + " (known: F, B, I, W)");
    out.push_back({*known, *microbatch, *chunk});
    return Status::ok();
  }

  Status readActions() {
    const json *stages = memberOf(object, "actions");
    if (!stages)
      return Status::ok();
    if (!stages->is_array())
      return bad("`actions` must be a list of lists, one a stage");
    for (const json &stage : *stages) {
      if (!stage.is_array())
        return bad("`actions` must be a list of lists, one a stage");
      plan.actions.emplace_back();
      for (const json &action : stage)
        OMNIBAL_RETURN_IF_ERROR(readAction(action, plan.actions.back()));
    }
    return Status::ok();
  }

  Status readRemat() {
    const json *list = memberOf(object, "remat");
    if (!list)
      return Status::ok();
    bool isList = list->is_array();
    for (size_t l = 0; isList && l < list->size(); ++l)
      if (const auto *name = (*list)[l].get_ptr<const std::string *>())
        plan.remat.push_back(*name);
      else
        isList = false;
    return isList ? Status::ok() : bad("`remat` must be a list of option names, one a layer");
  }

  Status readFigures(const json &value, StageFigures &stage) const {
    if (!value.is_object())
      return bad("`ranks` must hold objects");
    const std::pair<const char *, int64_t *> fields[] = {
        {"forward_ns", &stage.forwardNs},     {"backward_ns", &stage.backwardNs},
        {"recompute_ns", &stage.recomputeNs}, {"peak_bytes", &stage.peakBytes},
        {"limit_bytes", &stage.limitBytes},   {"idle_ns", &stage.idleNs}};
    for (const auto &[key, field] : fields) {
      const json *member = memberOf(value, key);
      std::optional<int64_t> number = member ? integerOf(*member) : std::nullopt;
      if (!number)
        return bad("`ranks`: `" + std::string(key) + "` is missing or not an integer");
      *field = *number;
    }
    if (value.size() != std::size(fields))
      return bad("`ranks` has a key that is not one of forward_ns, backward_ns, recompute_ns, "
                 "peak_bytes, limit_bytes, idle_ns");
    return Status::ok();
  }

  Status readClaims(PlanClaims &claims) const {
    for (const auto &[key, field] :
         {std::pair("step_ns", &claims.stepNs), {"lower_bound_ns", &claims.lowerBoundNs}})
      if (const json *value = memberOf(object, key)) {
        *field = integerOf(*value);
        if (!*field)
          return bad("`" + std::string(key) + "` must be an integer");
      }
    if (const json *value = memberOf(object, "gap")) {
      claims.gap = doubleOf(*value);
      if (!claims.gap)
        return bad("`gap` must be a number");
    }
    const json *stages = memberOf(object, "ranks");
    if (!stages)
      return Status::ok();
    if (!stages->is_array())
      return bad("`ranks` must be a list, one object a stage");
    for (const json &stage : *stages)
      OMNIBAL_RETURN_IF_ERROR(readFigures(stage, claims.stages.emplace_back()));
    return Status::ok();
  }

  const json &object;
  const std::string &path;
  Plan plan;
};

} // namespace

rt::Result<Plan> readPlan(const std::string &path, PlanClaims *claims) {
  OMNIBAL_ASSIGN_OR_RETURN(json value, readJson(path));
  return PlanReader(value, path).read(claims);
}

rt::Result<Plan> parsePlan(std::string_view text, const std::string &where, PlanClaims *claims) {
  OMNIBAL_ASSIGN_OR_RETURN(json value, parseJson(text, where));
  return PlanReader(value, where).read(claims);
}

std::string writePlan(const Plan &plan, const PlanSearch &search) {
  rt::JsonWriter out;
  out.object([&] {
    out.attribute("schema", rt::formats::plan);
    out.attribute("cuts", plan.cuts);
    out.attribute("chunk_rank", plan.chunkStage);
    out.attribute("remat", plan.remat);
    out.attribute("schedule", plan.schedule);
    out.attributeArray("actions", [&] {
      for (const std::vector<Action> &stage : plan.actions)
        out.array([&] {
          for (const Action &a : stage)
            out.array([&] {
              out.value(std::string(1, letterOf(a.kind)));
              out.value(a.microbatch);
              out.value(a.chunk);
            });
        });
    });
    out.attribute("step_ns", plan.stepNs);
    out.attribute("lower_bound_ns", search.lowerBoundNs);
    out.attribute("gap", search.gap);
    out.attributeObjects("ranks", plan.stages, [&](const StageFigures &stage) {
      out.attribute("forward_ns", stage.forwardNs);
      out.attribute("backward_ns", stage.backwardNs);
      out.attribute("recompute_ns", stage.recomputeNs);
      out.attribute("peak_bytes", stage.peakBytes);
      out.attribute("limit_bytes", stage.limitBytes);
      out.attribute("idle_ns", stage.idleNs);
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
            if (stepNs)
              out.attribute(name, *stepNs);
            else
              out.attribute(name, nullptr);
        });
    });
  });
  return out.take() + "\n";
}

} // namespace omnibal::planner
