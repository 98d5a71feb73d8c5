#include "runtime/program/Workspace.h"
#include "runtime/device/PartMove.h"
#include "runtime/program/Names.h"
#include "runtime/program/Sizes.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

/// Copies may begin at multiples of this.
constexpr int64_t copyGrain = 256;

/// All parameters' updates, the copies that kernels read, the norm's and the zeroed gradients;
/// where replicas have shares also the others' gradients, and where averages are kept these too.
constexpr int64_t updateLists = 4, listsOfShares = 5;

int64_t listBytes(const WorkspaceFacts &facts) {
  return facts.updateTensors > 0
             ? ((facts.hasShares ? listsOfShares : updateLists) + (facts.averages ? 1 : 0)) *
                   cuda::updateListBytes(facts.updateTensors, facts.updateBlocks)
             : 0;
}

void addTrained(const Program &program, const Stage &stage, WorkspaceFacts &facts) {
  facts.averages = program.averages;
  for (const Parameter &q : stage.parameters)
    if (q.trainable) {
      facts.addTrained(q.elements());
      if (q.orthogonalized)
        facts.addOrthogonalized(q.shape[0], q.shape[1]);
    }
  for (const Bucket &bucket : stage.buckets)
    if (bucket.share)
      facts.addShares(static_cast<int64_t>(bucket.share->bounds.size()) - 1);
}

/// Elements that a part sends and gets, packed (NcclTransport): of a sum everywhere the summands of
/// its own share, and their sum.
int64_t elementsOnTheWay(PartMoveKind kind, int64_t src, int64_t dst, int64_t parts) {
  switch (kind) {
  case PartMoveKind::AllReduce:
    return (src + parts - 1) / parts * (parts + 1);
  case PartMoveKind::AllGather:
    return src * (parts - 2) + dst;
  case PartMoveKind::ReduceScatter:
    return src + dst * (parts - 2);
  default:
    return src + dst;
  }
}

/// Of all stages, as kernels are.
void addMoves(const Program &program, WorkspaceFacts &facts) {
  for (const Stage &stage : program.stageList)
    for (const auto &[name, mode] : stage.modes) {
      const int64_t parts = program.partsOf(name);
      if (parts == 1)
        continue;
      const MicrobatchCaps caps = program.capsOf(name);
      const SymbolValues symbols =
          SymbolValues::most(caps.tiles, program.roundedTokens(caps.tokens), parts);
      for (const Chunk &chunk : mode.chunks)
        for (ActionKind kind : computeKinds)
          for (const LayerCall &call : chunk.calls(kind))
            facts.addMoves(program.functions[call.function], symbols, parts);
    }
}

} // namespace

void WorkspaceFacts::addBatchValue(int64_t bytes, int64_t microbatches) {
  batchBytes += (bytes + copyGrain) / copyGrain * copyGrain * microbatches;
}

void WorkspaceFacts::addTrained(int64_t elements) {
  ++updateTensors;
  // Blocks are a bucket's, so that one may begin within the parameter's first block.
  updateBlocks += (elements + cuda::updateBlockElements - 1) / cuda::updateBlockElements + 1;
}

void WorkspaceFacts::addOrthogonalized(int64_t rows, int64_t cols) {
  matrixFloats = std::max(matrixFloats, orthogonalizationFloats(rows, cols));
}

void WorkspaceFacts::addShares(int64_t replicas) {
  hasShares = true;
  updateTensors += replicas - 1;
  updateBlocks += replicas - 1;
}

void WorkspaceFacts::addKernels(const Function &function) {
  for (const KernelCall &call : function.calls) {
    products |= call.kernel == "gemm" || call.kernel == "linear_cross_entropy" ||
                call.kernel == "word_statistics" || call.kernel == "joined_cross_entropy_backward";
    columnSums |= call.kernel == "reduce";
    for (const auto &[operand, view] : call.operands) // sums of a product's operands
      columnSums |= call.kernel == "gemm" && (operand == "sum_a" || operand == "sum_b");
  }
}

void WorkspaceFacts::addMoves(const Function &function, const SymbolValues &symbols,
                              int64_t parts) {
  for (const KernelCall &call : function.calls) {
    const std::optional<PartMoveKind> kind = PartMove::kindOf(call.kernel);
    if (!kind || !PartMove::sends(*kind))
      continue;
    int64_t src = 0, dst = 0, width = 0;
    for (const auto &[operand, view] : call.operands)
      if (operand == "src" || operand == "dst") {
        width = byteSize(function.buffers[view.buffer].dtype);
        (operand == "src" ? src : dst) = elementsAt(view.shape, symbols);
      }
    moveBytes = std::max(moveBytes, elementsOnTheWay(*kind, src, dst, parts) * width);
  }
}

int64_t batchBytesOfStep(const Program &program, const Stage &stage) {
  int64_t most = 0;
  for (const auto &[name, mode] : stage.modes) {
    if (!trainModeNumber(name))
      continue;
    const MicrobatchCaps caps = program.capsOf(name);
    WorkspaceFacts facts;
    for (const BatchValue &value : mode.batchValues)
      facts.addBatchValue(
          bytesAt(value.dtype, value.shape, caps.tiles, program.roundedTokens(caps.tokens)),
          mode.microbatches);
    most = std::max(most, facts.batchBytes);
  }
  return most;
}

int64_t updateListBytes(const Program &program, const Stage &stage) {
  WorkspaceFacts facts;
  addTrained(program, stage, facts);
  return listBytes(facts);
}

int64_t moveBytes(const Program &program) {
  WorkspaceFacts facts;
  addMoves(program, facts);
  return facts.moveBytes;
}

std::vector<WorkspaceUse> workspaceOf(const std::string &target, const WorkspaceFacts &facts) {
  std::vector<WorkspaceUse> uses;
  if (facts.matrixFloats > 0)
    uses.push_back({"updates of matrices", facts.matrixFloats * int64_t{sizeof(float)}});
  if (target != "cuda")
    return uses;
  uses.push_back({"batch values", cuda::batchRingBytes(facts.batchBytes)});
  if (facts.columnSums)
    uses.push_back({"column sums", cuda::columnSumBytes});
  if (facts.moveBytes > 0)
    uses.push_back({"moves among parts", facts.moveBytes});
  if (const int64_t bytes = listBytes(facts); bytes > 0)
    uses.push_back({"optimizer's lists", bytes});
  if (facts.products)
    uses.push_back({"products", cuda::productWorkspaceBytes});
  return uses;
}

std::vector<WorkspaceUse> workspaceOf(const Program &program, const Stage &stage) {
  WorkspaceFacts facts;
  facts.batchBytes = batchBytesOfStep(program, stage);
  addTrained(program, stage, facts);
  for (const Function &function : program.functions)
    facts.addKernels(function);
  addMoves(program, facts);
  return workspaceOf(program.target, facts);
}

std::string describe(const std::vector<WorkspaceUse> &uses) {
  std::string text;
  for (const WorkspaceUse &use : uses)
    text += (text.empty() ? "" : ", ") + bytesToString(use.bytes) + " of " + use.what;
  return text;
}

} // namespace omnibal::rt
