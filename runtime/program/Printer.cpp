#include "runtime/program/Printer.h"
#include "runtime/program/BucketShares.h"
#include "runtime/program/MomentShapes.h"
#include "runtime/program/MovesText.h"
#include "runtime/program/Names.h"
#include "runtime/program/RankGrid.h"
#include "runtime/program/Sizes.h"
#include <algorithm>
#include <sstream>

namespace omnibal::rt {
namespace {

void printMemory(std::ostream &out, const Stage &stage, OptimizerKind kind) {
  int64_t weights = 0, optimizer = 0, averages = 0, constants = 0;
  for (const Parameter &q : stage.parameters) {
    const std::vector<int64_t> dims = q.heldDims();
    weights += q.dataBytes() + (q.masterOffset >= 0 ? denseBytes(dims, DType::F32) : 0);
    optimizer += q.gradOffset >= 0 ? denseBytes(dims, DType::F32) : 0;
    const std::vector<int64_t> ofMoments = momentBytes(kind, q);
    optimizer += q.moment1Offset >= 0 ? ofMoments.front() : 0;
    optimizer += q.moment2Offset >= 0 ? ofMoments.back() : 0;
    averages += q.averageOffset >= 0 ? denseBytes(dims, DType::F32) : 0;
  }
  for (const Bucket &bucket : stage.buckets)
    if (bucket.share) {
      const int64_t elements = largestShare(bucket.share->bounds);
      const int64_t bytes = elements * byteSize(DType::F32);
      weights += bucket.share->masterOffset >= 0 ? bytes : 0;
      optimizer += momentsOf(kind, false) * momentBytes(kind, elements);
      averages += bucket.share->averageOffset >= 0 ? bytes : 0;
    }
  for (const Constant &c : stage.constants)
    constants += denseBytes(c.shape, c.dtype);
  out << "  memory: arena " << stage.arenaBytes << " bytes (" << bytesToString(stage.arenaBytes)
      << ")\n"
      << "    parameters " << weights << ", gradients and moments " << optimizer;
  if (averages > 0)
    out << ", averages " << averages;
  out << ", constants " << constants << ", persistent part " << stage.persistentBytes << "\n"
      << "    micro-batches " << stage.arenaBytes - stage.persistentBytes << ", of it reserved "
      << stage.reservedBytes << "\n";
}

void printParameters(std::ostream &out, const Stage &stage) {
  out << "  parameters:\n";
  for (const Parameter &q : stage.parameters) {
    const bool quantized = q.quantization != Quantization::None;
    out << "    " << q.name << " " << (quantized ? nameOf(q.quantization) : nameOf(q.dtype)) << " "
        << toString(q.shape) << " " << (q.trainable ? "trainable" : "frozen");
    if (q.trainable && !q.decay)
      out << ", no decay";
    if (q.orthogonalized)
      out << ", orthogonalized";
    if (q.transposed)
      out << ", stored transposed";
    if (q.sharedGroup >= 0)
      out << ", shared group " << q.sharedGroup << (q.counted ? "" : " (copy)");
    if (q.held)
      out << ", of it " << toString(q.heldDims()) << ": units " << q.held->begin << " to "
          << q.held->end << " of " << q.held->units << " along dimension " << q.held->dim;
    out << ", at " << q.dataOffset << "\n";
  }
  for (const Bucket &bucket : stage.buckets)
    if (bucket.share) {
      out << "    bucket " << &bucket - stage.buckets.data() << " of parameters";
      for (int32_t number : bucket.parameters)
        out << " " << number;
      out << " in shares up to";
      for (size_t replica = 1; replica < bucket.share->bounds.size(); ++replica)
        out << " " << bucket.share->bounds[replica];
      out << "\n";
    }
  for (const Constant &c : stage.constants)
    out << "    constant " << c.name << " " << nameOf(c.dtype) << " " << toString(c.shape)
        << ", at " << c.offset << "\n";
}

void printCalls(std::ostream &out, const Program &p, const char *what,
                const std::vector<LayerCall> &calls) {
  if (calls.empty())
    return;
  out << "      " << what << ":";
  for (const LayerCall &call : calls)
    out << " " << call.layer << "=@" << p.functions[call.function].name;
  out << "\n";
}

/// "4", or by variant: "4, -, 2".
std::string numbersOf(const StepBlock &block) {
  std::string text;
  for (int32_t number : block.numbers)
    text += (text.empty() ? "" : ", ") + (number < 0 ? "-" : std::to_string(number));
  return text;
}

/// Nothing where it is the first one.
std::string variantOf(const Chunk &chunk) {
  return chunk.variant == 0 ? "" : " variant " + std::to_string(chunk.variant);
}

void printMode(std::ostream &out, const Program &p, const std::string &name, const Mode &mode) {
  out << "  mode " << name << ": " << mode.microbatches << " micro-batches\n    regions:\n";
  for (const Region &r : mode.regions) {
    out << "      " << r.name << " " << r.bytes << " bytes";
    if (r.block)
      out << " (block " << numbersOf(*r.block) << " of chunk " << r.block->chunk << ", "
          << toString(r.block->bytes) << ")";
    out << " at";
    std::vector<int64_t> places;
    for (int64_t o : r.offsets)
      if (std::find(places.begin(), places.end(), o) == places.end())
        places.push_back(o);
    for (int64_t o : places)
      out << " " << o;
    out << "\n";
  }
  if (mode.stepBytes > 0)
    out << "    memory of planned steps: " << mode.stepBytes << " bytes at " << mode.stepOffset
        << "\n";
  auto values = [&](const char *what, const std::vector<BatchValue> &list) {
    for (const BatchValue &v : list)
      out << "    " << what << " " << v.name << " " << nameOf(v.dtype) << " " << toString(v.shape)
          << " in " << mode.regions[v.region].name << "\n";
  };
  values("reads", mode.batchValues);
  values("gives", mode.results);
  for (const Chunk &c : mode.chunks) {
    out << "    chunk " << c.id << variantOf(c) << ":\n";
    printCalls(out, p, "forward", c.forward);
    printCalls(out, p, "backward", c.backward);
    printCalls(out, p, "input_grad", c.inputGrad);
    printCalls(out, p, "weight_grad", c.weightGrad);
  }
  for (const Transfer &t : mode.transfers) {
    out << "    transfer " << t.id << (t.gradient ? " (gradients)" : " (activations)") << ": stage "
        << t.fromStage << " -> stage " << t.toStage << ":";
    for (const Piece &piece : t.pieces)
      out << " " << piece.name << toString(piece.shape)
          << (piece.dtype == DType::F32 ? "" : nameOf(piece.dtype));
    out << "\n";
  }
  out << "    actions:\n";
  for (const Action &a : mode.actions) {
    out << "      " << nameOf(a.kind);
    if (isCompute(a.kind))
      out << " chunk " << mode.chunks[a.index].id << variantOf(mode.chunks[a.index]) << " mb "
          << a.microbatch;
    else if (a.kind <= ActionKind::WaitSend)
      out << " transfer " << mode.transfers[a.index].id << " mb " << a.microbatch;
    else if (a.kind == ActionKind::ReduceShared || a.kind == ActionKind::GatherParameters ||
             reducesBucket(a.kind))
      out << " " << a.index;
    out << "\n";
  }
}

void printCaps(std::ostream &out, const TrainMode &mode) {
  out << "caps V = " << mode.tilesCap << " tiles, N = " << mode.tokensCap << " tokens, ";
}

void printSteps(std::ostream &out, const TrainMode &mode) {
  out << mode.microbatches << " micro-batches, " << mode.schedule;
}

} // namespace

std::string printFunction(const Function &f) {
  std::ostringstream out;
  out << "function @" << f.name << ", workspace " << f.workspaceBytes << " bytes\n";
  for (int32_t i = 0; i < f.formals; ++i)
    out << "    " << nameOf(f.buffers[i].role) << " " << f.buffers[i].name << ": "
        << nameOf(f.buffers[i].dtype) << " " << toString(f.buffers[i].shape) << "\n";
  for (const KernelCall &call : f.calls) {
    out << "  " << call.kernel;
    if (auto symbol = call.attributes.find("symbol"); symbol != call.attributes.end())
      out << " " << symbol->dump();
    for (const auto &[name, view] : call.operands)
      out << " " << name << "=" << f.buffers[view.buffer].name << toString(view.shape);
    nlohmann::json rest = call.attributes;
    rest.erase("symbol");
    if (!rest.empty())
      out << " " << rest.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (!call.label.empty())
      out << "   // " << call.label;
    out << "\n";
  }
  return out.str();
}

std::string printStage(const Program &p, const Stage &stage) {
  std::ostringstream out;
  out << "stage " << stage.id;
  if (p.entries() > 1)
    out << ", part " << stage.part;
  out << ", ranks";
  for (int rank : RankGrid(p).ranksOf(p, stage))
    out << " " << rank;
  out << "\n";
  printMemory(out, stage, p.optimizer);
  printParameters(out, stage);
  for (const auto &[name, mode] : stage.modes)
    printMode(out, p, name, mode);
  return out.str();
}

std::string describe(const Adapters &adapters) {
  std::ostringstream out;
  out << adapters.linears.size() << " linear layers of rank " << adapters.rank << ", alpha "
      << adapters.alpha << ", scale " << adapters.scale()
      << (adapters.dora ? ", with magnitudes (DoRA)" : "");
  if (!adapters.saved.empty())
    out << "; " << adapters.saved.size() << " parameters train as they are";
  return out.str();
}

std::string printProgram(const Program &p) {
  std::ostringstream out;
  out << "program for " << p.model << ", target " << p.target << " (" << p.cpu << ", " << p.compute
      << "), ";
  const bool several = p.hasLengthGroups();
  if (!several)
    printCaps(out, p.trainModes[0]);
  out << p.stages << " stages x " << p.dataParallel << " replicas"
      << (p.zero > 0 ? " (ZeRO-1)" : "");
  if (p.modelParallel > 1)
    out << " x " << p.modelParallel << " parts";
  if (p.rankOrder != RankOrder::Stage)
    out << " (neighbors: the replicas of a stage)";
  if (!several)
    printSteps(out << ", ", p.trainModes[0]);
  out << "\n";
  if (p.optimizer != OptimizerKind::AdamW)
    out << "optimizer " << nameOf(p.optimizer) << "\n";
  if (p.averages)
    out << "a moving average of what trains\n";
  if (!p.adapters.empty())
    out << "adapters: " << describe(p.adapters) << "\n";
  for (size_t i = 0; several && i < p.trainModes.size(); ++i) {
    out << "mode " << trainModeName(i) << ", length group \"" << p.trainModes[i].name << "\": ";
    printCaps(out, p.trainModes[i]);
    printSteps(out, p.trainModes[i]);
    if (p.trainModes[i].degree > 1)
      out << ", " << p.trainModes[i].degree << " replicas to a micro-batch";
    out << "\n";
  }
  if (const auto &grid = p.info.grid) {
    out << "pictures of their own sizes: patches of " << grid->patch << " pixels, a tile is a unit "
        << "of " << grid->merge << " x " << grid->merge << " patches";
    if (grid->window > 0)
      out << ", windows of " << grid->window << " pixels";
    if (grid->gridSide > 0)
      out << ", table of " << grid->gridSide << " x " << grid->gridSide << " positions, "
          << nameOf(grid->interpolation) << (grid->alignCorners ? " on corners" : "");
    out << "\n";
  }
  if (p.info.routerLossCoefficient != 0)
    out << "the routers' balancing loss counts " << p.info.routerLossCoefficient << " times\n";
  if (p.info.learnsFromPairs())
    out << "samples are pairs of answers, whose rewards count " << p.info.preferenceBeta
        << " times\n";
  out << "\n";
  for (size_t i = 0; i < p.trainModes.size(); ++i)
    out << movesText(p, trainModeName(i));
  for (const Function &f : p.functions)
    out << printFunction(f) << "\n";
  for (const Stage &stage : p.stageList)
    out << printStage(p, stage) << "\n";
  return out.str();
}

} // namespace omnibal::rt
