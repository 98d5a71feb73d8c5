//===- SearchLengthGroups.cpp - omnibal-search-length-groups --------------------------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/PassManager.h"
#include "passes/cost/CostInputs.h"
#include "passes/plan/LengthGroupSearch.h"
#include "passes/plan/Passes.h"
#include "passes/shard/search/Passes.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_SEARCHLENGTHGROUPS
#include "passes/plan/Passes.h.inc"

namespace {

struct SearchLengthGroups : impl::SearchLengthGroupsBase<SearchLengthGroups> {
  using SearchLengthGroupsBase::SearchLengthGroupsBase;
  SearchLengthGroups(const SearchLengthGroupsOptions &options,
                     std::shared_ptr<plan::LengthGroupReport> report,
                     std::shared_ptr<cost::InputFiles> files)
      : SearchLengthGroupsBase(options), files(std::move(files)), report(std::move(report)) {}

  void getDependentDialects(DialectRegistry &registry) const override {
    SearchLengthGroupsBase::getDependentDialects(registry);
    // Layers are lowered on the way.
    registry.insert<OmnibalDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
  }

  /// A wrong option is found before the first pass of the pipeline runs.
  LogicalResult initialize(MLIRContext *context) override {
    if (rt::Status error = readOptions(); !error)
      return emitError(UnknownLoc::get(context), error.message());
    return success();
  }

  void runOnOperation() override {
    plan::LengthGroupRequest request;
    request.lengths = lengths;
    request.output = output;
    request.tokensPerStep = tokensPerStep;
    request.microbatches = microbatches;
    request.schedule = schedule;
    if (!degrees.empty())
      request.degrees = {degrees.begin(), degrees.end()};
    llvm::sort(request.degrees);
    request.degrees.erase(llvm::unique(request.degrees), request.degrees.end());
    request.addLayouts = [&](ModuleOp module) { return addLayouts(module); };
    FailureOr<plan::LengthGroupReport> found =
        plan::searchLengthGroups(getOperation(), costs, request);
    if (failed(found))
      return signalPassFailure();
    if (report)
      *report = *std::move(found);
  }

private:
  static int64_t mostOf(llvm::ArrayRef<int64_t> numbers) {
    return numbers.empty() ? 1 : *llvm::max_element(numbers);
  }

  LogicalResult addLayouts(ModuleOp module) {
    SearchLayoutsOptions options;
    options.target = target;
    options.compute = compute;
    options.device = device;
    options.cluster = cluster;
    PassManager passes(&getContext());
    addLayoutPasses(passes, searchedLayouts, options, files);
    return passes.run(module);
  }

  rt::Status readOptions() {
    const std::string name = "omnibal-search-length-groups";
    if (lengths.empty())
      return rt::invalid(name + ": `lengths` is missing, a table of the samples' lengths");
    if (tokensPerStep < 0 || microbatches < 1)
      return rt::invalid(name + ": tokens-per-step must be >= 0, microbatches >= 1");
    if (schedule != "1f1b" && schedule != "gpipe")
      return rt::invalid(name +
                         ": length groups are predicted for the schedules gpipe and 1f1b, "
                         "not for `" +
                         schedule + "`");
    for (int64_t degree : degrees)
      if (degree < 1 || degree > mostParts || mostOf(degrees) % degree != 0)
        return rt::invalid(name + ": degree " + std::to_string(degree) +
                           ": degrees are from 1 to " + std::to_string(mostParts) +
                           ", and each divides the largest");
    if (calibration.empty() && device.empty())
      return rt::invalid(name + ": length groups are chosen by time, which is not measured here: "
                                "give --calibration, or name a --device whose peaks stand for it");
    cost::CostInputs inputs{name, target, compute, device, cluster, {}};
    inputs.calibration.assign(calibration.begin(), calibration.end());
    OMNIBAL_ASSIGN_OR_RETURN(costs, cost::readCostOptions(inputs, *files));
    return rt::Status::ok();
  }

  cost::CostOptions costs; ///< without the load
  std::shared_ptr<cost::InputFiles> files = std::make_shared<cost::InputFiles>();
  std::shared_ptr<plan::LengthGroupReport> report;
};

} // namespace

std::unique_ptr<Pass> createSearchLengthGroups(const SearchLengthGroupsOptions &options,
                                               std::shared_ptr<plan::LengthGroupReport> report,
                                               std::shared_ptr<cost::InputFiles> files) {
  return std::make_unique<SearchLengthGroups>(options, std::move(report), std::move(files));
}

} // namespace omnibal
