//===- PartsInterpreter.cpp - Parts in step, and their moves ---------------------------------===//
#include "dialects/omnibal/interpreter/PartsInterpreter.h"
#include "dialects/omnibal/interpreter/BlockRun.h"
#include "dialects/omnibal/interpreter/Evaluation.h"
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "runtime/support/Shares.h"

using namespace mlir;

namespace omnibal {
namespace {

/// Calls body(index of the whole, index of the part) for each element that a part holds.
template <typename Body>
void forEachOwn(ArrayRef<int64_t> shape, LayoutAttr split, const rt::UnitRange &own, Body body) {
  const int64_t row = split.getUnits() * split.getInner();
  int64_t behind = 1;
  for (int64_t size : shape.drop_front(split.getDim() + 1))
    behind *= size;
  const int64_t block = row * behind;
  const int64_t blocks = block == 0 ? 0 : elementCount(shape) / block;
  const int64_t first = own.begin * split.getInner() * behind;
  const int64_t count = own.size() * split.getInner() * behind;
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t i = 0; i < count; ++i)
      body(b * block + first + i, b * count + i);
}

SmallVector<int64_t> ownShape(ArrayRef<int64_t> shape, LayoutAttr split, const rt::UnitRange &own) {
  SmallVector<int64_t> result(shape);
  const int64_t row = split.getUnits() * split.getInner();
  int64_t &dim = result[split.getDim()];
  dim = row == 0 ? 0 : dim / row * own.size() * split.getInner();
  return result;
}

/// What `part` holds of a value, as `dividedAmong`.
HostTensor ofPart(int64_t part, int64_t parts, const HostTensor &value, LayoutAttr layout) {
  if (layout.isPartial())
    return part == 0 ? value : HostTensor(value.elementType, value.shape);
  if (!layout.isSplit())
    return value;
  const rt::UnitRange own = rt::shareOf(layout.getUnits(), part, parts);
  HostTensor result(value.elementType, ownShape(value.shape, layout, own));
  forEachOwn(value.shape, layout, own,
             [&](int64_t whole, int64_t i) { copyElement(result, i, value, whole); });
  return result;
}

/// Where all parts meet.
class Meeting {
public:
  Meeting(MutableArrayRef<BlockRun> runs, const InterpreterOptions &options)
      : runs(runs), options(options) {}

  /// All parts are at a move of the same layouts, or at their ends.
  FailureOr<bool> isAtMove();
  LogicalResult move(MutableArrayRef<int64_t> sent);

private:
  ReshardOp at(int64_t part) { return cast<ReshardOp>(runs[part].nextOp()); }
  LogicalResult collect();
  /// Zeros around what a part holds.
  HostTensor placed(int64_t part);

  MutableArrayRef<BlockRun> runs;
  const InterpreterOptions &options;
  SmallVector<int64_t> shape; ///< of the value that moves
  LayoutAttr from, to;
  std::vector<HostTensor> held;
};

FailureOr<bool> Meeting::isAtMove() {
  auto first = dyn_cast<ReshardOp>(runs.front().nextOp());
  for (auto [part, run] : llvm::enumerate(runs)) {
    Operation &op = run.nextOp();
    auto other = dyn_cast<ReshardOp>(op);
    const bool meets = first ? other && other.getFrom() == first.getFrom() &&
                                   other.getTo() == first.getTo() &&
                                   other.getWhole() == first.getWhole()
                             : run.isAtEnd();
    if (!meets) {
      InFlightDiagnostic error = op.emitOpError()
                                 << "is where part " << part << " is while part 0 is elsewhere";
      error.attachNote(runs.front().nextOp().getLoc()) << "part 0";
      return error;
    }
    if (other && other.getParts() != runs.size())
      return other.emitOpError() << "joins " << other.getParts() << " parts, but " << runs.size()
                                 << " run";
  }
  return bool(first);
}

/// Finds sizes and what parts hold.
LogicalResult Meeting::collect() {
  ReshardOp op = at(0);
  from = op.getFrom().at(options.tiles, options.tokens);
  to = op.getTo().at(options.tiles, options.tokens);
  auto symbolic = getSymbolicShape(cast<RankedTensorType>(op.getWhole()));
  if (!symbolic)
    return op.emitOpError("moves a value whose size is open");
  for (const SymbolicDim &dim : *symbolic)
    shape.push_back(dim.evaluate(options.tiles, options.tokens));
  SmallVector<SymbolicDim> sizes(shape.begin(), shape.end());
  for (LayoutAttr layout : {from, to})
    if (layout.isSplit() && !outerOf(layout, sizes))
      return op.emitOpError() << "cannot split its value as " << layout;
  const auto parts = static_cast<int64_t>(runs.size());
  for (auto [part, run] : llvm::enumerate(runs)) {
    const HostTensor &value = run.operandOfNext(0);
    const rt::UnitRange own = rt::shareOf(from.getUnits(), part, parts);
    if (value.shape != (from.isSplit() ? ownShape(shape, from, own) : shape))
      return at(part).emitOpError()
             << "gets a value of another size than part " << part << " holds under " << from;
    held.push_back(value);
  }
  return success();
}

HostTensor Meeting::placed(int64_t part) {
  HostTensor result(held[part].elementType, shape);
  forEachOwn(shape, from, rt::shareOf(from.getUnits(), part, static_cast<int64_t>(runs.size())),
             [&](int64_t whole, int64_t i) { copyElement(result, whole, held[part], i); });
  return result;
}

LogicalResult Meeting::move(MutableArrayRef<int64_t> sent) {
  if (failed(collect()))
    return failure();
  const auto parts = static_cast<int64_t>(runs.size());
  const Move kind = moveOf(from, to);
  HostTensor value;
  if (sends(kind))
    value = joined(held, shape, from);
  for (int64_t part = 0; part < parts; ++part) {
    HostTensor result = kind == Move::None ? held[part]
                        : kind == Move::Place
                            ? placed(part)
                            : ofPart(part, parts, sends(kind) ? value : held[part], to);
    if (!options.float64)
      roundToFloat32(result);
    sent[part] += sentElements(shape, from, to, parts, part);
    runs[part].give(result);
  }
  return success();
}

} // namespace

std::vector<HostTensor> dividedAmong(int64_t parts, const HostTensor &value, LayoutAttr layout) {
  std::vector<HostTensor> held;
  for (int64_t part = 0; part < parts; ++part)
    held.push_back(ofPart(part, parts, value, layout));
  return held;
}

HostTensor joined(ArrayRef<HostTensor> held, ArrayRef<int64_t> shape, LayoutAttr layout) {
  if (layout.isWhole() || layout.isCopied())
    return held.front();
  HostTensor value(held.front().elementType, shape);
  const auto parts = static_cast<int64_t>(held.size());
  for (auto [part, summand] : llvm::enumerate(held)) {
    if (layout.isPartial())
      for (size_t i = 0; i < value.floats.size(); ++i)
        value.floats[i] += summand.floats[i];
    else
      forEachOwn(shape, layout, rt::shareOf(layout.getUnits(), part, parts),
                 [&](int64_t whole, int64_t i) { copyElement(value, whole, held[part], i); });
  }
  return value;
}

FailureOr<std::vector<SmallVector<HostTensor>>>
PartsInterpreter::run(ArrayRef<Block *> blocks, ArrayRef<SmallVector<HostTensor>> arguments) {
  std::vector<BlockRun> runs;
  for (auto [part, block] : llvm::enumerate(blocks))
    if (failed(runs.emplace_back(interpreters[part], *block).begin(arguments[part])))
      return failure();
  auto isMeeting = [](Operation *op) { return isa<ReshardOp>(op); };
  while (true) {
    for (BlockRun &run : runs)
      if (failed(run.advance(isMeeting)))
        return failure();
    Meeting meeting(runs, options);
    FailureOr<bool> moves = meeting.isAtMove();
    if (failed(moves) || (*moves && failed(meeting.move(sent))))
      return failure();
    if (!*moves)
      break;
  }
  std::vector<SmallVector<HostTensor>> results;
  for (BlockRun &run : runs)
    results.push_back(run.results());
  return results;
}

} // namespace omnibal
