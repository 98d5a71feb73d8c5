//===- ModelSearch.cpp -----------------------------------------------------------------------===//
#include "passes/shard/search/ModelSearch.h"
#include "dialects/omnibal/ir/Layouts.h"
#include "passes/differentiate/LayerActivity.h"
#include "llvm/ADT/MapVector.h"
#include <map>

using namespace mlir;

namespace omnibal::shard {
namespace {

/// Choices of all parameters that tie the same layers together; beyond it they stay whole.
constexpr size_t mostTiedChoices = 65536;

SmallVector<unsigned> numbersOf(ArrayRef<Value> arguments) {
  SmallVector<unsigned> numbers;
  for (Value each : arguments)
    numbers.push_back(cast<BlockArgument>(each).getArgNumber());
  return numbers;
}

/// The tied parameters that a layer reads, each once.
SmallVector<size_t> tiesOf(const DistinctLayer &layer) {
  SmallVector<size_t> ties;
  for (int64_t tie : layer.tied)
    if (tie >= 0 && !llvm::is_contained(ties, static_cast<size_t>(tie)))
      ties.push_back(static_cast<size_t>(tie));
  return ties;
}

} // namespace

/// Layers are equal if their tied parameters, as far as they are known, are the same, too.
void ModelSearch::findDistinct(const LayerGraph &graph) {
  distinct.clear();
  llvm::DenseMap<Operation *, int64_t> tiedNumber;
  for (auto [i, each] : llvm::enumerate(tied))
    tiedNumber[each.parameter] = static_cast<int64_t>(i);
  const auto active = findActiveOutputs(graph);
  for (LayerOp layer : graph.layers) {
    SmallVector<Value> own = activeArguments(graph, layer, active);
    SmallVector<int64_t> ties;
    SmallVector<unsigned> orthogonalized;
    for (unsigned i = 0, end = layer.getParameters().size(); i < end; ++i) {
      auto found = tiedNumber.find(graph.getParameter(layer, i));
      ties.push_back(found == tiedNumber.end() ? -1 : found->second);
      if (graph.getParameter(layer, i)->hasAttr(orthogonalizedAttrName))
        orthogonalized.push_back(i);
    }
    SmallVector<LayoutAttr> ofLayer = borders.of(layer);
    auto equal = llvm::find_if(distinct, [&](const DistinctLayer &other) {
      return other.tied == ties && other.borders == ofLayer &&
             other.orthogonalized == orthogonalized && numbersOf(other.active) == numbersOf(own) &&
             haveSameBody(other.layers.front(), layer);
    });
    if (equal == distinct.end()) {
      distinct.push_back({{},
                          std::move(own),
                          std::move(ties),
                          std::move(orthogonalized),
                          std::move(ofLayer),
                          std::nullopt,
                          {},
                          false});
      equal = std::prev(distinct.end());
    }
    equal->layers.push_back(layer);
  }
}

/// Returns whether these are others than were known, or have other numbers.
bool ModelSearch::findTied(const LayerGraph &graph) {
  llvm::MapVector<Operation *, SmallVector<std::pair<size_t, unsigned>>> places;
  for (auto [number, each] : llvm::enumerate(distinct))
    for (LayerOp layer : each.layers)
      for (unsigned i = 0, end = layer.getParameters().size(); i < end; ++i) {
        auto &own = places[graph.getParameter(layer, i)];
        if (!llvm::is_contained(own, std::pair(number, i)))
          own.push_back({number, i});
      }
  std::vector<Tied> found;
  for (auto &[parameter, own] : places)
    if (own.size() > 1)
      found.push_back({cast<ParameterOp>(parameter), own, {}, {}});
  const bool isNew = !llvm::equal(
      found, tied, [](const Tied &a, const Tied &b) { return a.parameter == b.parameter; });
  tied = std::move(found);
  return isNew;
}

/// Layouts that every layer can read.
void ModelSearch::findCandidates(Tied &of) {
  if (rates.areReplicas) {
    of.held = LayoutAttr::copied(of.parameter.getContext());
    of.candidates = {of.held};
    return;
  }
  of.held = LayoutAttr::whole(of.parameter.getContext());
  bool isFirst = true;
  for (auto [number, parameter] : of.places) {
    const LayerReading &reading = *distinct[number].reading;
    auto value = reading.findParameter(parameter);
    if (!value)
      continue;
    ArrayRef<LayoutAttr> own = reading.layoutsOf(*value);
    if (isFirst)
      of.candidates.assign(own.begin(), own.end());
    isFirst = false;
    llvm::erase_if(of.candidates, [&](LayoutAttr each) {
      return each.isPartial() || !llvm::is_contained(own, each);
    });
  }
  if (of.candidates.empty())
    of.candidates.push_back(of.held);
}

FailureOr<ModelSearch> ModelSearch::read(const LayerGraph &graph, const MachineRates &rates,
                                         const RowBorders &borders, const ModelSearch *known) {
  ModelSearch search;
  search.rates = rates;
  search.borders = borders;
  do
    search.findDistinct(graph);
  while (search.findTied(graph));
  for (DistinctLayer &each : search.distinct) {
    if (const DistinctLayer *other = known ? known->findEqual(each) : nullptr) {
      each.reading = other->reading;
      each.solution = other->solution;
      each.isKnown = tiesOf(each).empty();
      continue;
    }
    auto reading = LayerReading::read(each.layers.front(), each.active, rates, each.borders,
                                      each.orthogonalized);
    if (failed(reading))
      return failure();
    each.reading = std::move(*reading);
  }
  for (Tied &each : search.tied)
    search.findCandidates(each);
  return search;
}

/// The layer that begins where the given one does, with the same borders and arguments.
const DistinctLayer *ModelSearch::findEqual(const DistinctLayer &layer) const {
  const auto *found = llvm::find_if(ArrayRef(distinct), [&](const DistinctLayer &other) {
    return other.layers.front() == layer.layers.front() && other.borders == layer.borders &&
           other.orthogonalized == layer.orthogonalized &&
           numbersOf(other.active) == numbersOf(layer.active);
  });
  return found == ArrayRef(distinct).end() ? nullptr : found;
}

double ModelSearch::leastNs() const {
  double picoseconds = 0;
  for (const DistinctLayer &each : distinct)
    for (const SearchOp &op : each.reading->problem.ops) {
      Cost least = impossible;
      for (const SearchWay &way : op.ways)
        least = std::min(least, way.work);
      picoseconds += static_cast<double>(least) * static_cast<double>(each.layers.size());
    }
  return picoseconds / 1000;
}

double ModelSearch::total() const {
  double total = 0;
  for (const Tied &each : tied)
    total += memoryOf(each);
  for (const DistinctLayer &each : distinct)
    total +=
        static_cast<double>(each.solution.cost.total()) * static_cast<double>(each.layers.size());
  return total;
}

LayerProblem ModelSearch::problemOf(const DistinctLayer &layer) const {
  LayerProblem problem = layer.reading->problem;
  for (auto [i, number] : llvm::enumerate(layer.tied)) {
    auto value = number < 0 ? std::nullopt : layer.reading->findParameter(i);
    if (!value)
      continue;
    // Its memory counts once, however many layers read it.
    ArrayRef<LayoutAttr> layouts = layer.reading->layoutsOf(*value);
    for (unsigned l = 0; l < layouts.size(); ++l) {
      Cost &held = problem.values[*value].held[l];
      held = layouts[l] == tied[number].held ? held - layer.reading->memoryCost(*value, l)
                                             : impossible;
    }
  }
  return problem;
}

/// The choices of layouts of tied parameters, or some number above `mostTiedChoices`.
size_t ModelSearch::choicesOf(ArrayRef<size_t> ties) const {
  size_t choices = 1;
  for (size_t tie : ties)
    choices = std::min(choices * tied[tie].candidates.size(), mostTiedChoices + 1);
  return choices;
}

bool ModelSearch::canTryAll(ArrayRef<size_t> members, ArrayRef<size_t> ties,
                            const SearchLimits &limits) const {
  if (ties.empty())
    return true;
  size_t solutions = 0;
  for (size_t member : members)
    solutions += choicesOf(tiesOf(distinct[member]));
  return choicesOf(ties) <= mostTiedChoices && solutions <= limits.tiedSolutions;
}

/// The price of a tied parameter as it is held.
double ModelSearch::memoryOf(const Tied &of) const {
  const auto [number, parameter] = of.places.front();
  const LayerReading &reading = *distinct[number].reading;
  auto value = reading.findParameter(parameter);
  if (!value)
    return 0;
  ArrayRef<LayoutAttr> layouts = reading.layoutsOf(*value);
  const auto held = static_cast<unsigned>(llvm::find(layouts, of.held) - layouts.begin());
  return static_cast<double>(reading.memoryCost(*value, held));
}

/// Layers that tied parameters connect, for each choice of the layouts of these. A layer is solved
/// once for each choice of its own ones.
LogicalResult ModelSearch::solveTogether(ArrayRef<size_t> members, ArrayRef<size_t> ties,
                                         const SearchLimits &limits) {
  using Solutions = std::vector<const LayerSolution *>;
  std::vector<std::map<std::vector<const void *>, std::optional<LayerSolution>>> known(
      members.size());
  auto take = [&](size_t choice) {
    for (size_t tie : ties) {
      tied[tie].held = tied[tie].candidates[choice % tied[tie].candidates.size()];
      choice /= tied[tie].candidates.size();
    }
  };
  auto solutionOf = [&](size_t i) -> const std::optional<LayerSolution> & {
    const DistinctLayer &layer = distinct[members[i]];
    std::vector<const void *> held;
    for (size_t tie : tiesOf(layer))
      held.push_back(tied[tie].held.getAsOpaquePointer());
    auto [found, isNew] = known[i].try_emplace(std::move(held));
    if (isNew)
      found->second = solveLayer(problemOf(layer), limits.states);
    return found->second;
  };
  std::optional<double> best;
  size_t bestChoice = 0;
  Solutions solutions;
  const bool triesAll = canTryAll(members, ties, limits);
  // The first choice is to hold all of them whole.
  for (size_t choice = 0, end = triesAll ? choicesOf(ties) : 1; choice < end; ++choice) {
    take(choice);
    double total = 0;
    for (size_t tie : ties)
      total += memoryOf(tied[tie]);
    Solutions found;
    for (size_t i = 0; i < members.size(); ++i)
      if (const auto &solution = solutionOf(i)) {
        total += static_cast<double>(solution->cost.total()) *
                 static_cast<double>(distinct[members[i]].layers.size());
        found.push_back(&*solution);
      }
    if (found.size() < members.size() || (best && total >= *best))
      continue;
    best = total;
    bestChoice = choice;
    solutions = std::move(found);
  }
  if (!best)
    return LayerOp(distinct[members.front()].layers.front()).emitOpError()
           << "has costs of more than " << impossible / 1'000'000'000'000
           << " s under all layouts; look at the rates of device and links and at the price";
  take(bestChoice);
  for (auto [member, solution] : llvm::zip_equal(members, solutions)) {
    distinct[member].solution = *solution;
    distinct[member].solution.isExact &= triesAll;
  }
  return success();
}

LogicalResult ModelSearch::solve(double priceNs, const SearchLimits &limits) {
  for (DistinctLayer &each : distinct)
    each.reading->setPrice(priceNs);
  std::vector<size_t> leader(distinct.size());
  for (size_t i = 0; i < leader.size(); ++i)
    leader[i] = i;
  auto join = [&](size_t a, size_t b) {
    const size_t from = leader[a], to = leader[b];
    for (size_t &each : leader)
      if (each == from)
        each = to;
  };
  for (const Tied &each : tied)
    for (auto place : each.places)
      join(place.first, each.places.front().first);
  for (size_t group = 0; group < distinct.size(); ++group) {
    SmallVector<size_t> members, ties;
    for (size_t i = 0; i < distinct.size(); ++i)
      if (leader[i] == group)
        members.push_back(i);
    for (size_t i = 0; i < tied.size(); ++i)
      if (leader[tied[i].places.front().first] == group)
        ties.push_back(i);
    const bool isKnown = members.size() == 1 && distinct[members.front()].isKnown;
    if (!members.empty() && !isKnown && failed(solveTogether(members, ties, limits)))
      return failure();
  }
  return success();
}

} // namespace omnibal::shard
