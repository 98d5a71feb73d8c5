//===- StepPlanJson.cpp ------------------------------------------------------------------===//
#include "runtime/planner/step/StepPlanJson.h"
#include "runtime/planner/step/StepJsonText.h"
#include "runtime/support/Formats.h"

namespace omnibal::planner {
using rt::JsonField;

namespace {

constexpr int64_t mostNumber = std::numeric_limits<int64_t>::max();
constexpr std::array<std::string_view, 2> methodWords = {"lists", "static"};

int32_t readNumber(const JsonField &field) {
  return static_cast<int32_t>(stepInteger(field, 0, std::numeric_limits<int32_t>::max()));
}

BlockPlace readPlace(const JsonField &field) {
  std::vector<JsonField> parts = field.tuple(5);
  return {readNumber(parts[0]), readNumber(parts[1]), readNumber(parts[2]), readNumber(parts[3]),
          stepInteger(parts[4], 0, mostNumber)};
}

std::vector<int64_t> readNumbers(const JsonField &field) {
  return field.list([](const JsonField &element) { return stepInteger(element, 0, mostNumber); });
}

} // namespace

int64_t stepInteger(const JsonField &field, int64_t low, int64_t high) {
  std::optional<int64_t> number = integerOf(field.json());
  if (number && *number >= low && *number <= high)
    return *number;
  field.fail("an integer from " + std::to_string(low) + " to " + std::to_string(high) +
             " is expected");
  return low;
}

StepAction readStepAction(const JsonField &field) {
  std::vector<JsonField> parts = field.tuple(4);
  std::string letter = parts[0].text();
  std::optional<ActionKind> kind = letter.size() == 1 ? actionOf(letter[0]) : std::nullopt;
  if (!kind)
    parts[0].fail("F, B, I or W is expected");
  return {kind.value_or(ActionKind::Forward), readNumber(parts[1]), readNumber(parts[2]),
          readNumber(parts[3])};
}

void writeStepActions(rt::JsonWriter &out, const std::vector<std::vector<StepAction>> &actions) {
  out.attributeArray("actions", [&] {
    for (const std::vector<StepAction> &stage : actions)
      out.array([&] {
        for (const StepAction &a : stage)
          out.array([&] {
            out.value(std::string(1, letterOf(a.kind)));
            out.value(a.microbatch);
            out.value(a.part);
            out.value(a.chunk);
          });
      });
  });
}

rt::Result<StepPlan> parseStepPlan(std::string_view line, const std::string &where) {
  OMNIBAL_ASSIGN_OR_RETURN(nlohmann::json value, parseJson(line, where));
  StepPlan plan;
  rt::Status error = rt::Status::ok();
  JsonField top(value, where, error);
  top.onlyKeys({"schema", "step", "sub_microbatches", "variants", "actions", "offsets", "step_ns",
                "bound_ns", "static_ns", "method", "evaluated"});
  if (std::string schema = top["schema"].text(); schema != rt::formats::stepPlan)
    top["schema"].fail("it is \"" + schema + "\", expected " + rt::formats::stepPlan);
  plan.step = stepInteger(top["step"], 0, mostNumber);
  plan.borders = top["sub_microbatches"].list(readNumbers);
  plan.variants =
      top["variants"].list([](const JsonField &chunk) { return chunk.list(readNumbers); });
  plan.actions =
      top["actions"].list([](const JsonField &stage) { return stage.list(readStepAction); });
  plan.places = top["offsets"].list([](const JsonField &stage) { return stage.list(readPlace); });
  plan.stepNs = stepInteger(top["step_ns"], 0, mostNumber);
  plan.boundNs = stepInteger(top["bound_ns"], 0, mostNumber);
  plan.staticNs = stepInteger(top["static_ns"], 0, mostNumber);
  plan.method = wordOf<StepMethod>(top["method"], methodWords);
  plan.evaluated = stepInteger(top["evaluated"], 0, mostNumber);
  OMNIBAL_RETURN_IF_ERROR(error);
  return plan;
}

std::string writeStepPlan(const StepPlan &plan) {
  rt::JsonWriter out;
  out.object([&] {
    out.attribute("schema", rt::formats::stepPlan);
    out.attribute("step", plan.step);
    out.attribute("sub_microbatches", plan.borders);
    out.attribute("variants", plan.variants);
    writeStepActions(out, plan.actions);
    out.attributeArray("offsets", [&] {
      for (const std::vector<BlockPlace> &stage : plan.places)
        out.array([&] {
          for (const BlockPlace &place : stage)
            out.value(std::vector<int64_t>{place.chunk, place.microbatch, place.part, place.block,
                                           place.offset});
        });
    });
    out.attribute("step_ns", plan.stepNs);
    out.attribute("bound_ns", plan.boundNs);
    out.attribute("static_ns", plan.staticNs);
    out.attribute("method", methodWords[static_cast<size_t>(plan.method)]);
    out.attribute("evaluated", plan.evaluated);
  });
  return out.take() + "\n";
}

} // namespace omnibal::planner
