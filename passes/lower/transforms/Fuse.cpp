//===- Fuse.cpp - Groups of elementwise ops and reductions -------------------------------===//
#include "mlir/IR/IRMapping.h"
#include "passes/lower/Passes.h"
#include "passes/lower/TensorBuilder.h"
#include "passes/lower/transforms/IterationSpace.h"
#include "llvm/ADT/SetVector.h"
#include <queue>

namespace omnibal::lower {
#define GEN_PASS_DEF_FUSE
#include "passes/lower/Passes.h.inc"

using namespace mlir;

namespace {

constexpr int64_t maxCols = 8192;     ///< longer rows leave the first-level cache
constexpr int64_t preferredCols = 64; ///< short rows cost more per element
constexpr size_t maxOperands = 40;

struct Group {
  SmallVector<int> members; ///< op numbers, ascending
  SmallVector<IterationSpace> spaces;
};

/// Ops of the block as a graph whose nodes are groups; an op outside any group is its own node.
class Grouping {
public:
  explicit Grouping(Block &block) {
    for (Operation &op : block.without_terminator()) {
      number[&op] = ops.size();
      ops.push_back(&op);
    }
    for (Operation *op : ops) {
      Group group;
      group.members.push_back(number[op]);
      if (isFusible(op))
        group.spaces = candidateSpaces(op);
      groups.push_back(std::move(group));
      groupOf.push_back(groups.size() - 1);
    }
  }

  /// Producers join their readers before readers of one value join each other: the first spares a
  /// way to memory and back, the second a way back.
  void run() {
    for (bool siblings : {false, true})
      while (mergeOnce(siblings)) {
      }
  }

  std::vector<Operation *> ops;
  llvm::DenseMap<Operation *, int> number;
  std::vector<Group> groups; ///< emptied when merged into another
  std::vector<int> groupOf;

private:
  bool mergeOnce(bool siblings) {
    bool changed = false;
    for (int i = 0, e = ops.size(); i < e; ++i) {
      if (!isFusible(ops[i]))
        continue;
      for (Value operand : ops[i]->getOperands()) {
        if (Operation *producer = operand.getDefiningOp(); producer && isFusible(producer))
          changed |= merge(groupOf[number[producer]], groupOf[i]);
        for (Operation *sibling : siblings ? readers(operand) : SmallVector<Operation *>())
          if (sibling != ops[i])
            changed |= merge(groupOf[i], groupOf[number[sibling]]);
      }
    }
    return changed;
  }

  /// Fusible readers of a value that is worth reading once, in program order.
  SmallVector<Operation *> readers(Value value) {
    SmallVector<Operation *> result;
    auto shape = getSymbolicShape(typeOf(value));
    if (!shape || llvm::all_of(*shape, [](const SymbolicDim &d) { return d.isStatic(); }))
      return result;
    for (Operation *user : value.getUsers())
      if (number.contains(user) && isFusible(user) && !isFree(user))
        result.push_back(user);
    llvm::sort(result, [&](Operation *a, Operation *b) { return number[a] < number[b]; });
    return result;
  }

  bool contains(const Group &group, Operation *op) const {
    auto it = number.find(op);
    return it != number.end() && llvm::is_contained(group.members, it->second);
  }

  /// Whether all members can run together in `space`.
  bool works(ArrayRef<int> members, const IterationSpace &space) {
    llvm::SmallDenseSet<Operation *> inside;
    for (int member : members)
      inside.insert(ops[member]);
    SmallVector<SymbolicDim, 4> rowDims;
    for (int member : members) {
      Operation *op = ops[member];
      auto found = fit(op, space);
      if (!found)
        return false;
      // A task writes its rows; what is one number a column belongs to none, and is computed again
      // here if its own kernel writes it for others.
      if (found->result == Extent2D::PerCol && !found->columnReduction &&
          llvm::any_of(op->getResult(0).getUsers(),
                       [&](Operation *user) { return !inside.contains(user); }))
        return false;
      for (auto [operand, use] : llvm::zip(op->getOperands(), found->operands)) {
        Operation *producer = operand.getDefiningOp();
        if (!producer || !inside.contains(producer))
          continue;
        if (use.partial || isColumnReduction(producer, space) ||
            classify(*getSymbolicShape(typeOf(operand)), space) != use.extent)
          return false;
      }
      if (found->rowDims.empty())
        continue;
      if (!rowDims.empty() && rowDims != found->rowDims)
        return false;
      rowDims = found->rowDims;
    }
    return true;
  }
  bool isColumnReduction(Operation *op, const IterationSpace &space) {
    if (!isa<ReduceOp>(op))
      return false;
    auto found = fit(op, space);
    return found && found->columnReduction;
  }

  bool merge(int a, int b) {
    if (a == b || groups[a].spaces.empty() || groups[b].spaces.empty())
      return false;
    SmallVector<int> members(groups[a].members);
    members.append(groups[b].members);
    llvm::sort(members);
    SmallVector<IterationSpace> spaces;
    auto consider = [&](const IterationSpace &space) {
      // More rows or columns than that of neither: both must compute in the same space.
      if (!llvm::is_contained(spaces, space) && works(members, space))
        spaces.push_back(space);
    };
    for (const IterationSpace &space : groups[a].spaces)
      consider(space);
    for (const IterationSpace &space : groups[b].spaces)
      consider(space);
    if (spaces.empty() || operandsOf(members) > maxOperands || pathThroughOthers(a, b) ||
        pathThroughOthers(b, a))
      return false;
    groups[a].members = std::move(members);
    groups[a].spaces = std::move(spaces);
    for (int member : groups[b].members)
      groupOf[member] = a;
    groups[b] = Group();
    return true;
  }

  size_t operandsOf(ArrayRef<int> members) {
    llvm::SmallSetVector<Value, 16> values;
    for (int member : members)
      for (Value operand : ops[member]->getOperands()) {
        auto it = operand.getDefiningOp() ? number.find(operand.getDefiningOp()) : number.end();
        if (it == number.end() || !llvm::is_contained(members, it->second))
          values.insert(operand);
      }
    return values.size();
  }

  /// A path from `from` to `to` with at least one node in between.
  bool pathThroughOthers(int from, int to) {
    std::vector<bool> seen(groups.size(), false);
    std::vector<int> stack;
    auto push = [&](int group, bool first) {
      for (int member : groups[group].members)
        for (Operation *user : ops[member]->getResult(0).getOwner()->getUsers()) {
          auto it = number.find(user);
          if (it == number.end())
            continue;
          int next = groupOf[it->second];
          if (next == group || next == from || seen[next] || (first && next == to))
            continue;
          seen[next] = true;
          stack.push_back(next);
        }
    };
    push(from, true);
    while (!stack.empty()) {
      int group = stack.back();
      stack.pop_back();
      if (group == to)
        return true;
      push(group, false);
    }
    return false;
  }
};

IterationSpace chooseSpace(ArrayRef<IterationSpace> spaces) {
  const IterationSpace *best = &spaces.front();
  auto better = [](int64_t a, int64_t b) { // whether a is the better number of columns
    bool aGood = a >= preferredCols && a <= maxCols, bGood = b >= preferredCols && b <= maxCols;
    if (aGood != bGood)
      return aGood;
    if (aGood)
      return a < b; // more rows: more tasks
    return a <= maxCols && b <= maxCols ? a > b : a < b;
  };
  for (const IterationSpace &space : spaces)
    if (better(space.cols, best->cols))
      best = &space;
  return *best;
}

/// Replaces the members of one group by a fused op, which takes the place of the last of them.
class GroupBuilder {
public:
  GroupBuilder(Block &block, const Grouping &grouping, const Group &group)
      : block(block), space(chooseSpace(group.spaces)) {
    for (int member : group.members)
      inside.insert(grouping.ops[member]);
  }

  void build() {
    collectOutputs();
    if (outputs.empty())
      return eraseMembers();
    SmallVector<Value> roots(outputs.begin(), outputs.end());
    for (Value root : roots)
      include(root.getDefiningOp());
    SmallVector<Value> values;
    for (const Input &input : inputs)
      values.push_back(input.value);
    // Created in place of the last member; the caller orders the block afterwards.
    Operation *last = nullptr;
    for (Operation *op : inside)
      if (!last || last->isBeforeInBlock(op))
        last = op;
    OpBuilder builder(last);
    SmallVector<Type> types;
    SmallVector<Location> locations;
    for (Value root : roots) {
      types.push_back(root.getType());
      locations.push_back(root.getLoc());
    }
    auto fused = FusedOp::create(builder, builder.getFusedLoc(locations), types, values,
                                 builder.getDenseI64ArrayAttr(space.rows.writtenNumbers()),
                                 builder.getI64IntegerAttr(space.cols));
    Block *body = builder.createBlock(&fused.getBody());
    for (Value value : values)
      body->addArgument(value.getType(), value.getLoc());
    IRMapping map;
    for (Operation *op : included) {
      Operation *copy = builder.clone(*op, map);
      for (OpOperand &operand : op->getOpOperands())
        if (auto it = argumentOf.find(&operand); it != argumentOf.end())
          copy->setOperand(operand.getOperandNumber(), body->getArgument(it->second));
    }
    SmallVector<Value> results;
    for (Value root : roots)
      results.push_back(map.lookup(root));
    FusedYieldOp::create(builder, fused.getLoc(), results);
    for (auto [root, result] : llvm::zip(roots, fused.getOutputs()))
      root.replaceUsesWithIf(result, [&](OpOperand &use) {
        return use.getOwner() != fused && !inside.contains(use.getOwner());
      });
    eraseMembers();
  }

private:
  void eraseMembers() {
    SmallVector<Operation *> members(inside.begin(), inside.end());
    llvm::sort(members, [](Operation *a, Operation *b) { return b->isBeforeInBlock(a); });
    for (Operation *op : members)
      op->erase();
  }

  /// Values that leave the group; through reshape and expand the value behind them leaves, and the
  /// view is remade outside.
  void collectOutputs() {
    SmallVector<Operation *> views;
    for (Operation *op : inside) {
      bool leaves = llvm::any_of(op->getResult(0).getUsers(),
                                 [&](Operation *user) { return !inside.contains(user); });
      if (!leaves)
        continue;
      if (isFree(op))
        views.push_back(op);
      else
        outputs.insert(op->getResult(0));
    }
    for (Operation *view : views)
      leaveView(view);
  }

  /// Remakes a view outside the group, reading what leaves the group or entered it.
  void leaveView(Operation *view) {
    SmallVector<Operation *> chain{view};
    Value source = view->getOperand(0);
    while (Operation *producer = source.getDefiningOp()) {
      if (!inside.contains(producer) || !isFree(producer))
        break;
      chain.push_back(producer);
      source = producer->getOperand(0);
    }
    Operation *last = nullptr;
    for (Operation *op : inside)
      if (!last || last->isBeforeInBlock(op))
        last = op;
    OpBuilder builder(last->getBlock(), std::next(Block::iterator(last)));
    IRMapping map;
    Operation *copy = nullptr;
    for (Operation *op : llvm::reverse(chain))
      copy = builder.clone(*op, map);
    Operation *producer = source.getDefiningOp();
    if (producer && inside.contains(producer))
      outputs.insert(source);
    view->getResult(0).replaceUsesWithIf(
        copy->getResult(0), [&](OpOperand &use) { return !inside.contains(use.getOwner()); });
  }

  /// Adds `op` and what it needs: members of the group, constants of one value, and ops on values
  /// of a row that cost less than a kernel of their own.
  void include(Operation *op) {
    if (included.contains(op))
      return;
    auto found = fit(op, space);
    for (OpOperand &operand : op->getOpOperands()) {
      Operation *producer = operand.get().getDefiningOp();
      if (producer && inside.contains(producer)) {
        include(producer);
        continue;
      }
      OperandUse use = found->operands[operand.getOperandNumber()];
      if (producer && isRecomputed(producer, use))
        include(producer);
      else
        argumentOf[&operand] = argumentFor(operand.get(), use);
    }
    included.insert(op);
  }
  /// One argument for each way in which a value is seen: the same numbers may be one a column for
  /// one op and one a group of rows for another.
  size_t argumentFor(Value value, const OperandUse &use) {
    auto it = llvm::find_if(
        inputs, [&](const Input &input) { return input.value == value && input.use == use; });
    if (it == inputs.end())
      it = inputs.insert(it, {value, use});
    return it - inputs.begin();
  }
  /// Whether `op` computes in the space what `use` sees. The number of elements does not tell: C
  /// numbers [1, C, 1] for a result [B, C, L] are as many as the columns of a space with L = C.
  bool isRecomputed(Operation *op, const OperandUse &use) {
    if (auto constant = dyn_cast<ConstantOp>(op))
      return isa<SplatElementsAttr>(constant.getValue());
    if (op->getBlock() != &block || !isFusible(op) || isFree(op) || isa<ReduceOp>(op))
      return false;
    auto found = fit(op, space);
    return found && !space.rows.isOne() && !use.partial && found->result == use.extent &&
           (found->result == Extent2D::PerCol || found->result == Extent2D::Single) &&
           llvm::none_of(found->operands, [](const OperandUse &o) { return o.partial; });
  }

  /// An operand of the kernel and how the body sees it.
  struct Input {
    Value value;
    OperandUse use;
  };

  Block &block;
  IterationSpace space;
  llvm::SmallSetVector<Operation *, 16> inside, included;
  llvm::SmallSetVector<Value, 16> outputs;
  std::vector<Input> inputs;
  llvm::DenseMap<OpOperand *, size_t> argumentOf;
};

/// Stable topological order: the earliest op (by its place now) whose operands exist.
void sortBlock(Block &block) {
  std::vector<Operation *> ops;
  llvm::DenseMap<Operation *, int> number, missing;
  for (Operation &op : block.without_terminator()) {
    number[&op] = ops.size();
    ops.push_back(&op);
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  std::vector<std::vector<int>> users(ops.size());
  for (Operation *op : ops) {
    int count = 0;
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && number.contains(producer)) {
        users[number[producer]].push_back(number[op]);
        ++count;
      }
    missing[op] = count;
    if (count == 0)
      ready.push(number[op]);
  }
  Operation *terminator = block.getTerminator();
  while (!ready.empty()) {
    int next = ready.top();
    ready.pop();
    ops[next]->moveBefore(terminator);
    for (int user : users[next])
      if (--missing[ops[user]] == 0)
        ready.push(user);
  }
}

void eraseDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

struct FusePass : impl::FuseBase<FusePass> {
  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    Block &block = getOperation().getBody().front();
    eraseDead(block);
    Grouping grouping(block);
    grouping.run();
    // Consumers first: a value that every consumer recomputes then needs no kernel.
    SmallVector<const Group *> order;
    for (const Group &group : grouping.groups)
      if (!group.members.empty())
        order.push_back(&group);
    llvm::sort(order, [](const Group *a, const Group *b) {
      return a->members.back() > b->members.back();
    });
    for (const Group *next : order) {
      const Group &group = *next;
      bool computes =
          llvm::any_of(group.members, [&](int member) { return !isFree(grouping.ops[member]); });
      if (group.spaces.empty() || !computes)
        continue;
      GroupBuilder(block, grouping, group).build();
    }
    // Views and readers may stand before what they read now.
    sortBlock(block);
    eraseDead(block);
    for (Operation &op : block)
      if (isa<ElementwiseOpInterface>(op)) {
        op.emitOpError("has no fused form: its shapes are not affine in V and N");
        return signalPassFailure();
      }
  }
};

} // namespace
} // namespace omnibal::lower
