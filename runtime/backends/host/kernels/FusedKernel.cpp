//===- FusedKernel.cpp - `fused`: calls of generated code --------------------------------===//
#include "runtime/backends/host/kernels/HostKernel.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

class FusedKernel final : public HostKernel {
public:
  FusedKernel(CallReader &call, const BoundCall &description) : HostKernel(description) {
    for (const std::string &name : description.operands)
      call.operand(name); // any names
    const std::string symbol = call.text("symbol", "");
    rows = call.extent("rows", {});
    grain = call.integer("grain", 64);
    sizes = call.extents("sizes");
    if (symbol.empty() || !call.has("rows"))
      call.fail("attributes 'symbol' and 'rows' are needed");
    if (grain <= 0)
      call.fail("attribute 'grain' must be positive");
    if (description.symbol && !symbol.empty())
      function =
          reinterpret_cast<Function>(description.symbol(description.library, symbol.c_str()));
    if (!function && !symbol.empty())
      call.fail("the program's generated code has no symbol '" + symbol + "'");
  }

  Status run(std::span<const TensorView> views, const SymbolValues &symbols,
             ThreadPool &pool) override {
    void *operands[maxOperands];
    if (views.size() > maxOperands)
      return bad("more than " + std::to_string(maxOperands) + " operands");
    for (size_t i = 0; i < views.size(); ++i)
      operands[i] = views[i].data;
    int64_t values[maxSizes] = {};
    if (sizes.size() > maxSizes)
      return bad("more than " + std::to_string(maxSizes) + " sizes");
    for (size_t i = 0; i < sizes.size(); ++i)
      values[i] = sizes[i].evaluate(symbols);
    const int64_t count = rows.evaluate(symbols);
    pool.parallelFor((count + grain - 1) / grain, [&](int64_t task, int) {
      function(operands, values, task * grain, std::min(count, (task + 1) * grain));
    });
    return Status::ok();
  }

private:
  static constexpr size_t maxOperands = 256, maxSizes = 64;
  using Function = void (*)(void *const *operands, const int64_t *sizes, int64_t begin,
                            int64_t end);
  Function function = nullptr;
  Extent rows;
  int64_t grain;
  std::vector<Extent> sizes;
};

} // namespace

void addFusedKernels(KernelTable &table) { table["fused"] = createKernel<FusedKernel>; }

} // namespace omnibal::rt
