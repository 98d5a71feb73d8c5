//===- Segments.cpp - Cuts of a component, repeated blocks ------------------------------------===//
#include "dialects/omnibal/ir/BatchValues.h"
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
#include "passes/layers/LayerSearch.h"
#include "passes/raise/match/RouterLoss.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace omnibal::layers {
namespace {

/// Writes the structure of a segment: ops in the order of a walk from its result, so that neither
/// names nor the order of independent ops matter. Numbers that differ between equal layers of one
/// model (windows, scales, tables) do not count: alternating kinds of layers are one repetition.
class StructureWriter {
public:
  StructureWriter(ArrayRef<Operation *> segment, const ContentOps &content)
      : inside(segment.begin(), segment.end()), content(content), out(text) {}

  std::string write(Operation *last) {
    visit(last);
    return text;
  }

private:
  void visit(Operation *op) {
    if (numbers.contains(op))
      return;
    for (Value operand : op->getOperands()) {
      Operation *source = operand.getDefiningOp();
      // Copied into the segment, or part of it; other content comes from outside.
      if (source && (inside.contains(source) || !content.contains(source)))
        visit(source);
    }
    numbers[op] = numbers.size();
    out << op->getName().getStringRef() << '(';
    for (Value operand : op->getOperands()) {
      auto it = numbers.find(operand.getDefiningOp());
      if (it == numbers.end())
        out << "in,";
      else
        out << it->second << ',';
    }
    out << ')';
    for (NamedAttribute attribute : op->getAttrs()) {
      static const llvm::StringLiteral ignored[] = {"mask_kind", "window",    "softcap", "scale",
                                                    "epsilon",   "parameter", "value",   "ratio"};
      if (!llvm::is_contained(ignored, attribute.getName().getValue()))
        out << attribute.getName().getValue() << '=' << attribute.getValue().getAsOpaquePointer()
            << ',';
    }
    for (Type type : op->getResultTypes())
      out << type.getAsOpaquePointer() << ';';
  }

  llvm::DenseSet<Operation *> inside;
  const ContentOps &content;
  llvm::DenseMap<Operation *, size_t> numbers;
  std::string text;
  llvm::raw_string_ostream out;
};

bool hasAttention(ArrayRef<Operation *> segment) { return llvm::any_of(segment, attends); }

/// True if the segment adds to the value that enters it; features of pictures may follow.
bool isResidual(ArrayRef<Operation *> segment, Value entry) {
  return isa<AddOp>(segment.back()) && llvm::any_of(segment, [&](Operation *op) {
           return isa<AddOp>(op) && llvm::is_contained(op->getOperands(), entry);
         });
}

/// True if all that the segment does is to add features of pictures to the value that enters it.
bool addsFeatures(ArrayRef<Operation *> segment, Value entry) {
  return isa<AddOp>(segment.back()) && llvm::is_contained(segment.back()->getOperands(), entry) &&
         llvm::any_of(segment, llvm::IsaPred<ImageMergeOp>) &&
         llvm::all_of(segment, llvm::IsaPred<ImageMergeOp, ReshapeOp, AddOp>);
}

/// A component's ops with its trunk first: what some attention reads, what follows the last
/// attention, and last what branches off the trunk. Features of inner blocks that only the end of
/// the component reads (concatenated layers, mergers of inner features) would otherwise stay alive
/// through every later block and hide the blocks' borders.
class Trunk {
public:
  explicit Trunk(ArrayRef<Operation *> component) {
    for (Operation *op : llvm::reverse(component)) {
      bool feedsAttention =
          llvm::any_of(op->getUsers(), [&](Operation *user) { return inner.contains(user); });
      if (attends(op) || feedsAttention)
        inner.insert(op);
      if (attends(op) && !feedsAttention)
        following.insert(op); // a last attention: no other one reads what it gives
    }
    for (Operation *op : component)
      if (!inner.contains(op) && llvm::any_of(op->getOperands(), [&](Value operand) {
            return following.contains(operand.getDefiningOp());
          }))
        following.insert(op);
    order(component);
  }

  ArrayRef<Operation *> ops() const { return ordered.getArrayRef(); }
  /// True if the user reads an inner value without being a part of the trunk itself.
  bool branchesOff(Operation *op, Operation *user) const {
    return inner.contains(op) && !following.contains(op) && !inner.contains(user) &&
           (!following.contains(user) || isa<ConcatOp>(user));
  }

private:
  void order(ArrayRef<Operation *> component) {
    llvm::DenseSet<Operation *> ofComponent(component.begin(), component.end());
    for (Operation *op : component)
      if (inner.contains(op))
        ordered.insert(op);
    for (Operation *op : component)
      if (following.contains(op))
        place(op, ofComponent);
    ordered.insert(component.begin(), component.end());
  }
  /// The op after what it reads.
  void place(Operation *op, const llvm::DenseSet<Operation *> &ofComponent) {
    if (!ofComponent.contains(op) || ordered.contains(op))
      return;
    for (Value operand : op->getOperands())
      if (Operation *source = operand.getDefiningOp())
        place(source, ofComponent);
    ordered.insert(op);
  }

  llvm::DenseSet<Operation *> inner;     ///< some attention reads what it gives, or it is one
  llvm::DenseSet<Operation *> following; ///< the last attention and what depends on it
  llvm::SetVector<Operation *> ordered;
};

struct Run {
  size_t start = 0, period = 0, repeats = 0, weight = 0;
};

/// The repetition that covers most ops; at equal cover the shorter period, then the earlier start.
Run findRun(ArrayRef<size_t> letters, const std::vector<SmallVector<Operation *>> &segments) {
  bool anyAttention = llvm::any_of(segments, [](const auto &s) { return hasAttention(s); });
  Run best;
  size_t count = letters.size();
  for (size_t period = 1; period * 2 <= count; ++period) {
    for (size_t start = 0; start + 2 * period <= count;) {
      size_t end = start;
      while (end + period < count && letters[end] == letters[end + period])
        ++end;
      size_t length = end - start + period; // letters of the run
      if (length < 2 * period) {
        start = end + 1;
        continue;
      }
      // The phase: a block starts with its attention where that is possible.
      size_t first = start, slack = length % period;
      for (size_t shift = 0; shift <= slack && anyAttention; ++shift)
        if (hasAttention(segments[start + shift])) {
          first = start + shift;
          break;
        }
      Run run{first, period, (start + length - first) / period, 0};
      bool attends = false;
      for (size_t i = first; i < first + run.repeats * period; ++i) {
        run.weight += segments[i].size();
        attends |= hasAttention(segments[i]);
      }
      if ((attends || !anyAttention) && run.repeats >= 2 && run.weight > best.weight)
        best = run;
      start = end + 1;
    }
  }
  return best;
}
} // namespace

bool attends(Operation *op) {
  if (isa<AttentionOp, CrossAttentionOp>(op))
    return true;
  auto softmax = dyn_cast<SoftmaxOp>(op);
  if (!softmax || raise::rankOf(softmax.getInput()) < 3)
    return false;
  SymbolicShape shape = raise::shapeOf(softmax.getInput());
  if (shape.back() != shape[shape.size() - 2] ||
      !raise::isLastAxis(softmax.getAxis(), shape.size()))
    return false;
  for (Value weights = softmax.getResult(); weights.hasOneUse();) {
    Operation *user = *weights.user_begin();
    if (auto product = dyn_cast<MatMulOp>(user))
      return product.getLhs() == weights;
    if (!isa<SelectOp, ReshapeOp, CastOp>(user))
      return false;
    weights = user->getResult(0);
  }
  return false;
}

ContentOps::ContentOps(func::FuncOp function) {
  llvm::DenseSet<Operation *> notForLogits = raise::opsBesideLogits(function);
  for (Operation &op : function.getBody().front().without_terminator()) {
    auto batch = dyn_cast<BatchValueOp>(op);
    bool isSource = batch && !isFactOfRows(batch.getName());
    // Token types are read by attention only: they are facts about tokens, not content.
    if (isSource && llvm::all_of(batch->getUsers(), llvm::IsaPred<AttentionOp>))
      isSource = false;
    if (isSource || llvm::any_of(op.getOperands(), [&](Value v) { return contains(v); }))
      (notForLogits.contains(&op) ? beside : ops).insert(&op);
  }
}

llvm::SetVector<Operation *> ContentOps::backwardFrom(ArrayRef<Value> values) const {
  llvm::DenseSet<Operation *> reached;
  SmallVector<Value> worklist(values.begin(), values.end());
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (op && contains(op) && reached.insert(op).second)
      llvm::append_range(worklist, op->getOperands());
  }
  llvm::SetVector<Operation *> ordered;
  for (Operation *op : ops)
    if (reached.contains(op))
      ordered.insert(op);
  return ordered;
}

Segmentation segmentComponent(ArrayRef<Operation *> component, const ContentOps &content) {
  Segmentation result;
  Trunk trunk(component);
  ArrayRef<Operation *> ops = trunk.ops();
  llvm::DenseMap<Operation *, size_t> place;
  for (auto [i, op] : llvm::enumerate(ops))
    place[op] = i;
  // For each op the last place on the trunk that reads one of its results.
  SmallVector<size_t> lastUse(ops.size());
  for (auto [i, op] : llvm::enumerate(ops)) {
    lastUse[i] = i;
    for (Operation *user : op->getUsers()) {
      if (trunk.branchesOff(op, user) || content.besideLogits().contains(user))
        continue;
      auto it = place.find(user);
      lastUse[i] = std::max(lastUse[i], it == place.end() ? ops.size() : it->second);
    }
  }
  SmallVector<int> ends(ops.size() + 1, 0);
  int alive = 0;
  result.segments.emplace_back();
  for (size_t i = 0; i < ops.size(); ++i) {
    result.segments.back().push_back(ops[i]);
    ++alive;
    ++ends[lastUse[i]];
    alive -= ends[i];
    bool selfAlive = lastUse[i] > i;
    if (alive == 1 && selfAlive && i + 1 < ops.size())
      result.segments.emplace_back();
  }

  llvm::StringMap<size_t> known;
  SmallVector<size_t> letters;
  std::vector<SmallVector<Operation *>> joined;
  for (const auto &segment : result.segments) {
    // Features that are added belong to the block before them and make it no other kind of block.
    if (!joined.empty() && addsFeatures(segment, joined.back().back()->getResult(0))) {
      llvm::append_range(joined.back(), segment);
      continue;
    }
    joined.push_back(segment);
    letters.push_back(
        known.try_emplace(StructureWriter(segment, content).write(segment.back()), known.size())
            .first->second);
  }
  result.segments = std::move(joined);
  Run run = findRun(letters, result.segments);
  if (run.repeats >= 2) {
    for (size_t i = 0; i <= run.repeats; ++i)
      result.starts.push_back(run.start + i * run.period);
    return result;
  }
  // Nothing repeats (one layer, or all layers differ): a block is an attention and the residual
  // sums that follow it.
  for (size_t i = 0; i < result.segments.size(); ++i)
    if (hasAttention(result.segments[i]))
      result.starts.push_back(i);
  if (!result.starts.empty()) {
    size_t end = result.starts.back() + 1;
    while (end < result.segments.size() &&
           isResidual(result.segments[end], result.segments[end - 1].back()->getResult(0)))
      ++end;
    result.starts.push_back(end);
  }
  return result;
}

} // namespace omnibal::layers
