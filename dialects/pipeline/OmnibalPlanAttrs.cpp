//===- OmnibalPlanAttrs.cpp - Costs and plans, and where they may stand ------------------===//
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include <map>

using namespace mlir;
using namespace omnibal;

#include "dialects/pipeline/LayoutEnums.cpp.inc"
#include "dialects/pipeline/OmnibalPlanDialect.cpp.inc"
#include "dialects/pipeline/OmnibalPlanEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/pipeline/OmnibalPlanAttrs.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/pipeline/OmnibalPlanAttrs.cpp.inc"
      >();
}

bool omnibal::isRematName(StringRef name) {
  if (name == "keep" || name == "full")
    return true;
  int64_t number = 0;
  return name.consume_front("selective-") && !name.starts_with("0") && !name.starts_with("+") &&
         !name.getAsInteger(10, number) && number >= 1;
}

LogicalResult RematOptionAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef name,
                                      int64_t saved, int64_t recompute, int64_t workspace,
                                      IntegerAttr split) {
  if (name.empty() || std::min({saved, recompute, workspace}) < 0 || (split && split.getInt() < 0))
    return emitError() << "option_c1: an option has a name; nanoseconds and bytes are >= 0";
  return success();
}

LogicalResult CostAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t forward,
                               int64_t inputGrad, int64_t weightGrad, DenseI64ArrayAttr outputs,
                               DenseI64ArrayAttr gradients, ArrayAttr options) {
  int64_t least = std::min({forward, inputGrad, weightGrad});
  for (DenseI64ArrayAttr list : {outputs, gradients})
    for (int64_t bytes : list.asArrayRef())
      least = std::min(least, bytes);
  if (least < 0)
    return emitError() << "cost_c1: nanoseconds and bytes of a cost must be >= 0";
  llvm::SmallVector<StringRef> names;
  for (Attribute each : options) {
    auto option = dyn_cast<RematOptionAttr>(each);
    if (!option)
      return emitError() << "cost_c3: options are #plan.option, not " << each;
    if (names.empty() != (option.getName() == "keep") ||
        llvm::is_contained(names, option.getName()))
      return emitError() << "cost_c3: \"keep\" comes first, and every name once";
    names.push_back(option.getName());
  }
  if (names.empty())
    return emitError() << "cost_c3: a layer has at least the option \"keep\"";
  return success();
}

RematOptionAttr CostAttr::findOption(StringRef name) const {
  for (Attribute each : getOptions())
    if (auto option = cast<RematOptionAttr>(each); option.getName() == name)
      return option;
  return {};
}

LogicalResult FormalAttr::verify(function_ref<InFlightDiagnostic()> emitError, FormalRole role,
                                 int64_t index, StringRef name, int64_t bytes) {
  if (bytes < 0)
    return emitError() << "formal_c1: bytes of a formal must be >= 0";
  return success();
}

LogicalResult FunctionBuffersAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                          int64_t workspace, ArrayAttr formals, UnitAttr products,
                                          UnitAttr columnSums, int64_t moveBytes) {
  if (std::min(workspace, moveBytes) < 0 || !llvm::all_of(formals, llvm::IsaPred<FormalAttr>))
    return emitError() << "function_buffers_c1: bytes are >= 0, and formals are #plan.formal";
  return success();
}

LogicalResult BuffersAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  DenseI64ArrayAttr outputs, FunctionBuffersAttr evaluate,
                                  FunctionBuffersAttr inference, DictionaryAttr options) {
  if (llvm::any_of(outputs.asArrayRef(), [](int64_t bytes) { return bytes < 0; }) ||
      !llvm::all_of(options,
                    [](NamedAttribute each) { return isa<OptionBuffersAttr>(each.getValue()); }))
    return emitError() << "buffers_c1: bytes of outputs are >= 0, and options are #plan.functions";
  return success();
}

LogicalResult ParameterCostAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                        int64_t resident, int64_t reduced, int64_t state) {
  if (std::min({resident, reduced, state}) < 0)
    return emitError() << "parameter_cost_c1: bytes of a parameter must be >= 0";
  if (reduced > resident || state > resident - reduced || (reduced == 0 && state != 0))
    return emitError() << "parameter_cost_c2: gradient and state are part of what is resident, and "
                          "what has no gradient has no state";
  return success();
}

LogicalResult ClusterAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t stages,
                                  DenseI64ArrayAttr memory, int64_t latency, int64_t bytesPerS,
                                  int64_t dataParallel, int64_t replicaLatency,
                                  int64_t replicaBytesPerS, int64_t zero, int64_t parts,
                                  RankOrder) {
  if (std::min({stages, dataParallel, bytesPerS, replicaBytesPerS}) < 1 ||
      std::min(latency, replicaLatency) < 0)
    return emitError() << "cluster_c1: stages, data_parallel and bytes/s must be >= 1, latencies "
                          ">= 0";
  ArrayRef<int64_t> limits = memory ? memory.asArrayRef() : ArrayRef<int64_t>();
  if ((limits.size() > 1 && static_cast<int64_t>(limits.size()) != stages) ||
      llvm::any_of(limits, [](int64_t bytes) { return bytes < 0; }))
    return emitError() << "cluster_c2: memory is one number >= 0, or one a stage (" << stages
                       << "), not " << limits.size();
  if (zero != 0 && (zero != 1 || dataParallel < 2))
    return emitError() << "cluster_c3: zero is " << zero
                       << "; it must be 0 or, with data_parallel of at least 2, 1";
  if (parts < 1 || parts > mostParts)
    return emitError() << "cluster_c4: parts are " << parts << "; they must be from 1 to "
                       << mostParts;
  return success();
}

LogicalResult TrainModeAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t number,
                                    StringRef name, int64_t tiles, int64_t tokens,
                                    int64_t microbatches, int64_t steps, StringRef schedule,
                                    StringRef remat, ArrayAttr options, int64_t degree,
                                    UnitAttr last) {
  if (std::min({number, tiles, steps}) < 0 || std::min({tokens, microbatches, degree}) < 1)
    return emitError() << "train_mode_c1: number, tiles and steps must be >= 0, tokens, "
                          "microbatches and degree >= 1";
  if (options && !llvm::all_of(options, llvm::IsaPred<StringAttr>))
    return emitError() << "train_mode_c2: options are strings, one a layer";
  return success();
}

llvm::hash_code omnibal::hash_value(const PlannedAction &action) {
  return llvm::hash_combine(action.kind, action.microbatch, action.chunk);
}

std::string omnibal::toString(const PlannedAction &action) {
  return (stringifyRunKind(action.kind) + "(" + llvm::Twine(action.microbatch) + ", " +
          llvm::Twine(action.chunk) + ")")
      .str();
}

Attribute ActionsAttr::parse(AsmParser &parser, Type) {
  llvm::SmallVector<PlannedAction> list;
  auto parseAction = [&]() -> ParseResult {
    PlannedAction &action = list.emplace_back();
    FailureOr<RunKind> kind = FieldParser<RunKind>::parse(parser);
    if (failed(kind) || parser.parseLParen() || parser.parseInteger(action.microbatch) ||
        parser.parseComma() || parser.parseInteger(action.chunk) || parser.parseRParen())
      return failure();
    action.kind = *kind;
    return success();
  };
  SMLoc where = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseAction))
    return {};
  return ActionsAttr::getChecked([&] { return parser.emitError(where); }, parser.getContext(),
                                 list);
}

void ActionsAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getList(), printer,
                        [&](const PlannedAction &action) { printer << toString(action); });
  printer << ">";
}

LogicalResult ActionsAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  ArrayRef<PlannedAction> list) {
  constexpr int64_t largest = std::numeric_limits<int32_t>::max();
  for (const PlannedAction &action : list)
    if (std::min(action.microbatch, action.chunk) < 0 ||
        std::max(action.microbatch, action.chunk) > largest)
      return emitError() << "actions_c1: " << toString(action)
                         << " has a micro-batch or a chunk outside 0 to " << largest;
  return success();
}

Attribute LoadAttr::parse(AsmParser &parser, Type) {
  Builder builder(parser.getContext());
  NamedAttrList factors;
  auto parseFactor = [&]() -> ParseResult {
    std::string kind;
    int64_t factor = 0;
    SMLoc where = parser.getCurrentLocation();
    if (parser.parseKeywordOrString(&kind) || parser.parseEqual() || parser.parseInteger(factor))
      return failure();
    if (factors.get(kind))
      return parser.emitError(where) << "the factor of " << kind << " comes twice";
    factors.append(kind, builder.getI64IntegerAttr(factor));
    return success();
  };
  SMLoc where = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseFactor))
    return {};
  return LoadAttr::getChecked([&] { return parser.emitError(where); }, parser.getContext(),
                              factors.getDictionary(parser.getContext()));
}

void LoadAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getFactors(), printer, [&](NamedAttribute factor) {
    printer.printKeywordOrString(factor.getName());
    printer << " = " << cast<IntegerAttr>(factor.getValue()).getInt();
  });
  printer << ">";
}

LogicalResult LoadAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               DictionaryAttr factors) {
  for (NamedAttribute each : factors) {
    auto factor = dyn_cast<IntegerAttr>(each.getValue());
    if (!factor || !factor.getType().isSignlessInteger(64) || factor.getInt() < 0)
      return emitError() << "load_c1: the factor of " << each.getName().getValue()
                         << " must be a number >= 0 of ten-thousandths";
  }
  return success();
}

namespace {
/// Checks pipeline_c3 and pipeline_c4.
class ActionsChecker {
public:
  ActionsChecker(function_ref<InFlightDiagnostic()> emitError, int64_t microbatches,
                 ArrayRef<int64_t> chunkStages)
      : emitError(emitError), microbatches(microbatches), chunkStages(chunkStages) {}

  LogicalResult run(int64_t stages, ArrayRef<ActionsAttr> lists) {
    if (static_cast<int64_t>(lists.size()) != stages)
      return emitError() << "pipeline_c3: actions has " << lists.size() << " lists for " << stages
                         << " stages";
    for (auto [stage, list] : llvm::enumerate(lists))
      for (const PlannedAction &action : list.getList())
        if (failed(check(static_cast<int64_t>(stage), action)))
          return failure();
    return checkComplete();
  }

private:
  LogicalResult check(int64_t stage, const PlannedAction &action) {
    auto fail = [&](StringRef why) {
      return emitError() << "pipeline_c4: " << toString(action) << " of stage " << stage << " "
                         << why;
    };
    if (action.chunk >= static_cast<int64_t>(chunkStages.size()) ||
        chunkStages[action.chunk] != stage)
      return fail("is of a chunk that is not on this stage");
    if (action.microbatch >= microbatches)
      return fail("is of a micro-batch that does not exist");
    std::vector<RunKind> &done = parts[{action.chunk, action.microbatch}];
    const std::vector<RunKind> forward = {RunKind::Forward};
    const bool fits = action.kind == RunKind::Forward ? done.empty()
                      : action.kind == RunKind::WeightGrad
                          ? done == std::vector{RunKind::Forward, RunKind::InputGrad}
                          : done == forward;
    if (!fits)
      return fail("runs a second time or too early");
    done.push_back(action.kind);
    return success();
  }

  LogicalResult checkComplete() {
    int64_t complete = 0;
    for (const auto &[key, done] : parts) {
      if (done.back() != RunKind::Backward && done.back() != RunKind::WeightGrad)
        return emitError() << "pipeline_c4: chunk " << key.first << " ends with the "
                           << stringifyRunKind(done.back()) << " of micro-batch " << key.second
                           << ", not with its backward or weight_grad";
      ++complete;
    }
    int64_t chunks = static_cast<int64_t>(chunkStages.size());
    if (complete / chunks == microbatches && complete % chunks == 0)
      return success();
    return emitError() << "pipeline_c4: actions run " << complete << " of " << chunks
                       << " chunks x " << microbatches << " micro-batches";
  }

  function_ref<InFlightDiagnostic()> emitError;
  int64_t microbatches;
  ArrayRef<int64_t> chunkStages;
  /// Chunk, micro-batch: what has run.
  std::map<std::pair<int64_t, int64_t>, std::vector<RunKind>> parts;
};
} // namespace

LogicalResult PlanAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef schedule,
                               int64_t stages, int64_t microbatches, int64_t dataParallel,
                               int64_t zero, int64_t parts, ArrayRef<int64_t> chunkStages,
                               ArrayRef<ActionsAttr> actions) {
  if (std::min({stages, microbatches, dataParallel}) < 1)
    return emitError() << "pipeline_c1: stages, microbatches and data_parallel must be >= 1";
  if (zero != 0 && (zero != 1 || dataParallel < 2))
    return emitError() << "pipeline_c5: zero is " << zero
                       << "; it must be 0 or, with data_parallel of at least 2, 1";
  if (parts < 1 || parts > mostParts)
    return emitError() << "pipeline_c6: parts are " << parts << "; they must be from 1 to "
                       << mostParts;
  for (auto [chunk, stage] : llvm::enumerate(chunkStages))
    if (stage < 0 || stage >= stages)
      return emitError() << "pipeline_c2: chunk " << chunk << " is on stage " << stage
                         << ", but there "
                         << "are " << stages << " stages";
  // Checked by counting, not by building a table: `stages` is input and may be any number.
  llvm::SmallVector<int64_t> used(chunkStages);
  llvm::sort(used);
  used.erase(llvm::unique(used), used.end());
  if (static_cast<int64_t>(used.size()) != stages)
    return emitError() << "pipeline_c2: " << used.size() << " of " << stages
                       << " stages have a chunk";
  return actions.empty()
             ? success()
             : ActionsChecker(emitError, microbatches, chunkStages).run(stages, actions);
}
