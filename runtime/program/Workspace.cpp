#include "runtime/program/Workspace.h"
#include "runtime/program/Names.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

/// Copies may begin at multiples of this.
constexpr int64_t copyGrain = 256;

/// All parameters' updates, the copies that kernels read, the norm's and the zeroed gradients.
constexpr int64_t updateLists = 4;

bool calls(const Program &program, std::initializer_list<std::string_view> kernels) {
  return std::any_of(program.functions.begin(), program.functions.end(), [&](const Function &f) {
    return std::any_of(f.calls.begin(), f.calls.end(), [&](const KernelCall &call) {
      return std::find(kernels.begin(), kernels.end(), call.kernel) != kernels.end();
    });
  });
}

/// Whether products add sums of their operands to something.
bool addsSums(const Program &program) {
  for (const Function &f : program.functions)
    for (const KernelCall &call : f.calls)
      for (const auto &[operand, view] : call.operands)
        if (call.kernel == "gemm" && (operand == "sum_a" || operand == "sum_b"))
          return true;
  return false;
}

} // namespace

int64_t batchBytesOfStep(const Program &program, const Stage &stage) {
  auto found = stage.modes.find("train");
  int64_t sum = 0;
  if (found != stage.modes.end())
    for (const BatchValue &value : found->second.batchValues) {
      int64_t bytes = byteSize(value.dtype);
      for (const Extent &e : value.shape)
        bytes *= e.evaluate(program.tilesCap, program.roundedTokens(program.tokensCap));
      sum += (bytes + copyGrain) / copyGrain * copyGrain * found->second.microbatches;
    }
  return sum;
}

int64_t updateListBytes(const Stage &stage) {
  int64_t tensors = 0, blocks = 0;
  for (const Parameter &q : stage.parameters)
    if (q.trainable) {
      ++tensors;
      blocks += (q.elements() + cuda::updateBlockElements - 1) / cuda::updateBlockElements;
    }
  return tensors > 0 ? updateLists * cuda::updateListBytes(tensors, blocks) : 0;
}

std::vector<WorkspaceUse> workspaceOf(const Program &program, const Stage &stage) {
  std::vector<WorkspaceUse> uses;
  if (program.target != "cuda")
    return uses;
  uses.push_back({"batch values", cuda::batchRingBytes(batchBytesOfStep(program, stage))});
  if (calls(program, {"reduce"}) || addsSums(program))
    uses.push_back({"column sums", cuda::columnSumBytes});
  if (const int64_t bytes = updateListBytes(stage); bytes > 0)
    uses.push_back({"optimizer's lists", bytes});
  if (calls(program, {"gemm", "linear_cross_entropy"}))
    uses.push_back({"products", cuda::productWorkspaceBytes});
  return uses;
}

std::string describe(const std::vector<WorkspaceUse> &uses) {
  std::string text;
  for (const WorkspaceUse &use : uses)
    text += (text.empty() ? "" : ", ") + bytesToString(use.bytes) + " of " + use.what;
  return text;
}

} // namespace omnibal::rt
