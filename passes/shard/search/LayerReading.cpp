//===- LayerReading.cpp ----------------------------------------------------------------------===//
#include "passes/shard/search/LayerReading.h"
#include "dialects/omnibal/ir/Layouts.h"
#include "passes/shard/LayerLayouts.h"
#include "passes/shard/search/WayPrice.h"
#include <cmath>

using namespace mlir;

namespace omnibal::shard {
namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
bool isFloat(Value value) { return isa<FloatType>(typeOf(value).getElementType()); }

/// An order of layouts that depends on nothing else.
bool comesBefore(LayoutAttr a, LayoutAttr b) {
  auto key = [](LayoutAttr each) {
    return std::tuple(each.getKind(), each.getDim(), each.getUnitsOf(), each.getUnits(),
                      each.getInner());
  };
  return key(a) < key(b);
}

bool isWhole(const Way &way) {
  auto isWhole = [](LayoutAttr each) { return each.isWhole(); };
  return llvm::all_of(way.reads, isWhole) && llvm::all_of(way.layouts, isWhole);
}

} // namespace

bool LayerLayouts::isDivided() const {
  auto isAll = [](LayoutAttr each) { return each.isWhole() || each.isCopied(); };
  return !llvm::all_of(held, isAll) || !llvm::all_of(borders, isAll) ||
         !llvm::all_of(ways, isWhole);
}

void writeLayouts(LayerOp layer, const LayerLayouts &layouts) {
  for (auto [op, way] :
       llvm::zip_equal(layer.getBody().front().without_terminator(), layouts.ways)) {
    writeLayouts(&op, readsAttrName, way.reads);
    writeLayouts(&op, layoutsAttrName, way.layouts);
  }
  writeLayouts(layer, bordersAttrName, layouts.borders);
}

unsigned LayerReading::add(Value value, SearchValue::Kind kind) {
  const auto number = static_cast<unsigned>(values.size());
  numbers[value] = number;
  values.push_back(value);
  layouts.emplace_back();
  bytes.emplace_back();
  problem.values.emplace_back().kind = kind;
  return number;
}

void LayerReading::numberValues() {
  Block &body = layer.getBody().front();
  for (BlockArgument argument : body.getArguments()) {
    const bool isInput = argument.getArgNumber() < layer.getInputs().size();
    if (!argument.use_empty())
      add(argument, isInput ? SearchValue::Kind::Input : SearchValue::Kind::Parameter);
  }
  for (Operation &op : body.without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value each) { return numbers.count(each); }))
      for (Value result : op.getResults())
        add(result, SearchValue::Kind::Made);
}

/// Whether the parts can run the op so: gradients begin at losses that are whole or split along
/// tokens, and types can say what a part has.
bool LayerReading::isOffered(Operation &op, const Way &way) const {
  const bool isCopied = llvm::all_of(way.reads, [](LayoutAttr each) { return each.isCopied(); }) &&
                        llvm::all_of(way.layouts, [](LayoutAttr each) { return each.isCopied(); });
  // Without gradients copied is whole, which parameters are read as, however they are held.
  if (isCopied &&
      llvm::none_of(op.getOperands(), [&](Value each) { return backward.active.contains(each); }))
    return false;
  for (auto [value, layout] : llvm::zip_equal(op.getOperands(), way.reads))
    if (!partType(typeOf(value), layout, rates.parts, rates.parts - 1))
      return false;
  for (auto [value, layout] : llvm::zip_equal(op.getResults(), way.layouts)) {
    if (!partType(typeOf(value), layout, rates.parts, rates.parts - 1))
      return false;
    if (!layout.isWhole() && !layout.isSplitAlongTokens() && leavesAsResult(layer, value))
      return false;
  }
  return true;
}

void LayerReading::readOp(Operation &op, const OpWays &possible) {
  SearchOp found;
  std::vector<Way> &offered = ways.emplace_back();
  for (Way &way : possible.list(&op))
    if (isOffered(op, way))
      offered.push_back(std::move(way));
  for (Value operand : op.getOperands())
    if (numbers.count(operand))
      found.operands.push_back(numbers[operand]);
  for (Value result : op.getResults())
    found.results.push_back(numbers[result]);
  ops.push_back(&op);
  problem.ops.push_back(std::move(found));
}

/// What leaves the layer leaves it as its border says.
void LayerReading::readYield() {
  Operation *yield = layer.getBody().front().getTerminator();
  SearchOp last;
  std::vector<Way> &way = ways.emplace_back(1);
  for (auto [output, border] : llvm::zip_equal(
           yield->getOperands(), ArrayRef(borders).drop_front(layer.getInputs().size()))) {
    way[0].reads.push_back(border);
    if (numbers.count(output))
      last.operands.push_back(numbers[output]);
  }
  ops.push_back(yield);
  problem.ops.push_back(std::move(last));
}

/// Tables of a value whose layouts are known.
void LayerReading::describe(unsigned number) {
  SearchValue &value = problem.values[number];
  Value of = values[number];
  RankedTensorType type = typeOf(of);
  ArrayRef<LayoutAttr> all = layouts[number];
  const bool isParameter = value.kind == SearchValue::Kind::Parameter;
  const bool hasGradient = backward.withGradient.contains(of);
  const bool isIdle = backward.idle.contains(of.getDefiningOp());
  const size_t count = all.size();
  value.layouts = static_cast<unsigned>(count);
  value.moves.assign(count * count, 0);
  value.sources.assign(count * count, 0);
  for (size_t from = 0; from < count; ++from)
    for (size_t to = 0; to < count; ++to) {
      Cost &move = value.moves[from * count + to];
      if (isParameter)
        move = readsFree(all[from], all[to]) ? 0 : impossible;
      else if (!isIdle && !areAlike(type, all[from], all[to]))
        move = rates.ofMove(type, all[from], all[to]) +
               (hasGradient ? rates.ofMove(type, all[to].getDual(), all[from].getDual()) : 0);
      for (LayoutAttr other : all)
        value.sources[to * count + from] += isNearer(other, all[from], all[to], rates.parts);
    }
  const bool isKept = backward.kept.contains(of) && isFloat(of) && !isParameter;
  for (LayoutAttr layout : all) {
    const int64_t held = rates.heldBytes(type, layout);
    if (isKept)
      bytes[number].kept.push_back(held);
    if (!isParameter)
      continue;
    const cost::Precision &precision = rates.costs.precision;
    const int64_t elements = held / precision.activation;
    const bool trains = backward.active.contains(of);
    const bool isUndivided = undivided.contains(of);
    const double more = isUndivided ? rates.orthogonalizedBytes : rates.trainedBytes;
    bytes[number].held.push_back(elements * precision.parameter +
                                 (trains ? std::llround(static_cast<double>(elements) * more) : 0));
    const bool isForbidden = layout.isPartial() || (isUndivided && layout.isSplit()) ||
                             (rates.areReplicas && !layout.isCopied());
    bytes[number].sums.push_back(isForbidden ? impossible
                                 : layout.isCopied() && hasGradient && !rates.areReplicas
                                     ? rates.ofMove(type, LayoutAttr::partial(type.getContext()),
                                                    LayoutAttr::whole(type.getContext()))
                                     : 0);
  }
}

void LayerReading::setPrice(double priceNs) {
  rates.priceNs = priceNs;
  for (unsigned number = 0; number < values.size(); ++number) {
    SearchValue &value = problem.values[number];
    ArrayRef<LayoutAttr> all = layouts[number];
    value.held = bytes[number].sums;
    for (size_t i = 0; i < value.held.size(); ++i)
      if (value.held[i] < impossible)
        value.held[i] += rates.ofMemory(bytes[number].held[i]);
    value.kept.clear();
    value.keptAs.clear();
    value.covers.clear();
    if (priceNs == 0 || bytes[number].kept.empty())
      continue;
    // Whole and copied are one in memory, and own units are taken out of them.
    const auto isAll = [](LayoutAttr each) { return each.isWhole() || each.isCopied(); };
    const auto first = static_cast<unsigned>(llvm::find_if(all, isAll) - all.begin());
    uint32_t splits = 0;
    for (auto [i, layout] : llvm::enumerate(all))
      splits |= static_cast<uint32_t>(layout.isSplit()) << i;
    for (auto [i, layout] : llvm::enumerate(all)) {
      value.kept.push_back(rates.ofMemory(bytes[number].kept[i]));
      value.keptAs.push_back(isAll(layout) ? first : static_cast<unsigned>(i));
      value.covers.push_back(isAll(layout) ? splits : 0);
    }
  }
}

FailureOr<LayerReading> LayerReading::read(LayerOp layer, ArrayRef<Value> active,
                                           const MachineRates &rates, ArrayRef<LayoutAttr> borders,
                                           ArrayRef<unsigned> orthogonalized, size_t mostLayouts) {
  LayerReading reading(layer, rates);
  reading.borders.assign(borders.begin(), borders.end());
  reading.borders.resize(layer.getInputs().size() + layer.getOutputs().size(),
                         LayoutAttr::whole(layer.getContext()));
  for (unsigned parameter : orthogonalized)
    reading.undivided.insert(layer.getBody().front().getArgument(
        static_cast<unsigned>(layer.getInputs().size()) + parameter));
  auto backward = readBackward(layer, active);
  if (failed(backward))
    return failure();
  reading.backward = std::move(*backward);
  reading.numberValues();
  const OpWays possible(layer);
  for (Operation &op : layer.getBody().front().without_terminator())
    if (llvm::any_of(op.getResults(), [&](Value each) { return reading.numbers.count(each); }))
      reading.readOp(op, possible);
  reading.readYield();
  if (const size_t count = reading.numberLayouts(); count > mostLayouts) {
    layer.emitWarning() << "layer " << layer.getName() << " is not divided: it has a value with "
                        << count << " layouts, and a search knows at most " << mostLayouts
                        << "; a file of layouts can divide it";
    reading.keepWhole();
    reading.numberLayouts();
  }
  if (failed(reading.priceWays()))
    return failure();
  for (unsigned value = 0; value < reading.values.size(); ++value)
    reading.describe(value);
  reading.setPrice(0);
  return reading;
}

/// Offers nothing else.
void LayerReading::keepWhole() {
  for (std::vector<Way> &offered : MutableArrayRef(ways).drop_back()) // but borders
    llvm::erase_if(offered, [](const Way &way) { return !isWhole(way); });
  for (auto &each : layouts)
    each.clear();
}

/// Collects the layouts of values from the ways in which ops read and give them. Returns how many
/// the value with most of them has.
size_t LayerReading::numberLayouts() {
  auto include = [&](Value value, LayoutAttr layout) {
    auto found = numbers.find(value);
    if (found != numbers.end() && !llvm::is_contained(layouts[found->second], layout))
      layouts[found->second].push_back(layout);
  };
  for (auto [op, offered] : llvm::zip_equal(ops, ways))
    for (const Way &way : offered) {
      for (auto [value, layout] : llvm::zip_equal(op->getOperands(), way.reads))
        include(value, layout);
      for (auto [value, layout] : llvm::zip(op->getResults(), way.layouts))
        include(value, layout);
    }
  size_t most = 0;
  for (auto [number, value] : llvm::enumerate(values)) {
    MLIRContext *context = value.getContext();
    const bool isInput = problem.values[number].kind == SearchValue::Kind::Input;
    LayoutAttr native =
        isInput ? borders[cast<BlockArgument>(value).getArgNumber()] : LayoutAttr::whole(context);
    if (problem.values[number].kind != SearchValue::Kind::Made)
      include(value, native);
    if (problem.values[number].kind == SearchValue::Kind::Parameter && rates.areReplicas)
      include(value, LayoutAttr::copied(context));
    llvm::sort(layouts[number], comesBefore);
    most = std::max(most, layouts[number].size());
    problem.values[number].native =
        isInput
            ? static_cast<unsigned>(llvm::find(layouts[number], native) - layouts[number].begin())
            : 0;
  }
  return most;
}

LogicalResult LayerReading::priceWays() {
  auto numberOf = [&](Value value, LayoutAttr layout) {
    return static_cast<unsigned>(llvm::find(layouts[numbers[value]], layout) -
                                 layouts[numbers[value]].begin());
  };
  for (auto [op, offered, found] : llvm::zip_equal(ops, ways, problem.ops)) {
    const bool isLast = op->hasTrait<OpTrait::IsTerminator>();
    SmallVector<bool> readsOperand(op->getNumOperands()), readsResult(op->getNumResults());
    for (const Way &way : offered) {
      SearchWay &priced = found.ways.emplace_back();
      if (!isLast) {
        FailureOr<BuiltWay> built = buildWay(op, way, backward, rates);
        if (failed(built))
          return failure();
        priced.work = backward.idle.contains(op) ? 0 : built->work;
        if (&way == &offered.front()) {
          readsOperand = built->readsOperand;
          readsResult = built->readsResult;
        }
      }
      for (auto [value, layout] : llvm::zip_equal(op->getOperands(), way.reads))
        if (numbers.count(value))
          priced.reads.push_back(numberOf(value, layout));
      for (auto [value, layout] : llvm::zip(op->getResults(), way.layouts))
        priced.layouts.push_back(numberOf(value, layout));
    }
    // What is computed again for backward reads its operands again.
    auto remat = dyn_cast<RematerializableOpInterface>(op);
    const bool runsAgain =
        remat && remat.isCheapToRecompute() &&
        llvm::any_of(op->getResults(),
                     [&](Value each) { return backward.active.contains(each); }) &&
        llvm::none_of(op->getResults(), [&](Value each) { return backward.kept.contains(each); });
    for (auto [value, isRead] : llvm::zip_equal(op->getOperands(), readsOperand))
      if (numbers.count(value))
        found.keepsOperand.push_back(backward.kept.contains(value) && (isRead || runsAgain));
    for (auto [value, isRead] : llvm::zip_equal(op->getResults(), readsResult))
      found.keepsResult.push_back(backward.kept.contains(value) && isRead);
  }
  return success();
}

std::optional<unsigned> LayerReading::findParameter(unsigned parameter) const {
  LayerOp of = layer;
  auto found = numbers.find(
      of.getBody().front().getArgument(static_cast<unsigned>(of.getInputs().size()) + parameter));
  if (found == numbers.end())
    return std::nullopt;
  return found->second;
}

LayerLayouts LayerReading::layoutsAt(const LayerChoice &choice) const {
  LayerOp of = layer;
  LayerLayouts result;
  LayoutAttr whole = LayoutAttr::whole(of.getContext());
  LayoutAttr unread = rates.areReplicas ? LayoutAttr::copied(of.getContext()) : whole;
  size_t next = 0;
  for (Operation &op : of.getBody().front().without_terminator()) {
    if (ops[next] == &op) {
      result.ways.push_back(ways[next][choice.ways[next]]);
      ++next;
      continue;
    }
    result.ways.push_back({SmallVector<LayoutAttr>(op.getNumOperands(), whole),
                           SmallVector<LayoutAttr>(op.getNumResults(), whole)});
  }
  for (unsigned i = 0, end = of.getParameters().size(); i < end; ++i) {
    auto value = findParameter(i);
    result.held.push_back(value ? layouts[*value][choice.held[*value]] : unread);
  }
  result.borders = borders;
  return result;
}

} // namespace omnibal::shard
