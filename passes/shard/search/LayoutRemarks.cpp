//===- LayoutRemarks.cpp ---------------------------------------------------------------------===//
#include "passes/shard/search/LayoutRemarks.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace omnibal::shard {
namespace {

std::string microseconds(Cost cost) {
  return llvm::formatv("{0:F3}", static_cast<double>(cost) / 1e6).str();
}

/// Without the name of the attribute.
std::string textOf(LayoutAttr layout) {
  std::string text = llvm::formatv("{0}", layout).str();
  StringRef inside(text);
  inside.consume_front("#plan.layout<");
  inside.consume_back(">");
  return inside.str();
}

class LayerRemark {
public:
  LayerRemark(const LayerGraph &graph, const ModelSearch &search, const DistinctLayer &layer)
      : graph(graph), search(search), layer(layer), reading(*layer.reading) {}

  std::string text() const {
    const LayerSolution &found = layer.solution;
    LayerOp first = layer.layers.front();
    std::string text =
        llvm::formatv("{0} layer{1} like {2} on {3} parts: {4}; {5}", layer.layers.size(),
                      layer.layers.size() == 1 ? "" : "s", first.getName(), search.parts(),
                      heldBy(found.choice), figuresOf(found));
    if (auto bound = boundOf(search.problemOf(layer)))
      text += "; no less than " + microseconds(bound->total()) + " us";
    if (!found.isExact)
      text += "; not all layouts were tried";
    return text + nextBest();
  }

private:
  std::string nameOf(unsigned parameter) const {
    return graph.getParameter(layer.layers.front(), parameter).getSymName().str();
  }

  std::string heldBy(const LayerChoice &choice) const {
    const LayerLayouts layouts = reading.layoutsAt(choice);
    std::string text;
    for (auto [i, held] : llvm::enumerate(layouts.held))
      if (!held.isWhole())
        text +=
            llvm::formatv("{0}{1} {2}", text.empty() ? "" : ", ", nameOf(i), textOf(held)).str();
    if (llvm::any_of(layouts.borders, [](LayoutAttr each) { return each.isSplit(); }))
      text += text.empty() ? "shares of rows between layers" : ", shares of rows between layers";
    if (!text.empty())
      return text;
    return layouts.isDivided() ? "all parameters whole" : "all parts do the same";
  }

  std::string figuresOf(const LayerSolution &found) const {
    int64_t bytes = 0;
    for (unsigned i = 0, end = layer.tied.size(); i < end; ++i)
      if (auto value = reading.findParameter(i))
        bytes += reading.heldBytes(*value, found.choice.held[*value]);
    return llvm::formatv(
               "{0} us: work {1}, moves {2}, price of kept values {3} and of parameters {4}; "
               "{5} bytes of parameters",
               microseconds(found.cost.total()), microseconds(found.cost.work),
               microseconds(found.cost.moves), microseconds(found.cost.kept),
               microseconds(found.cost.held), bytes)
        .str();
  }

  /// Of the choices that hold some split parameter otherwise, or, where none is split, that split
  /// one, the cheapest.
  std::string nextBest() const {
    const LayerProblem problem = search.problemOf(layer);
    const LayerChoice &best = layer.solution.choice;
    SmallVector<unsigned> split, all;
    for (unsigned i = 0, end = layer.tied.size(); i < end; ++i) {
      auto value = reading.findParameter(i);
      if (!value || layer.tied[i] >= 0)
        continue;
      all.push_back(*value);
      if (reading.layoutsOf(*value)[best.held[*value]].isSplit())
        split.push_back(*value);
    }
    std::optional<LayerSolution> next;
    for (unsigned value : split.empty() ? all : split) {
      LayerProblem other = problem;
      for (unsigned l = 0; l < reading.layoutsOf(value).size(); ++l)
        if (split.empty() ? !reading.layoutsOf(value)[l].isSplit() : l == best.held[value])
          other.values[value].held[l] = impossible;
      auto found = solveLayer(other);
      if (found && (!next || found->cost.total() < next->cost.total()))
        next = std::move(found);
    }
    if (!next)
      return "";
    const LayerCost &a = layer.solution.cost, &b = next->cost;
    auto more = [](const char *name, Cost own, Cost others) {
      return others > own
                 ? llvm::formatv(", {0} {1} us more", name, microseconds(others - own)).str()
                 : std::string();
    };
    return llvm::formatv("; next best: {0}: {1} us{2}{3}{4}{5}", heldBy(next->choice),
                         microseconds(b.total()), more("work", a.work, b.work),
                         more("moves", a.moves, b.moves), more("kept values", a.kept, b.kept),
                         more("parameters", a.held, b.held))
        .str();
  }

  const LayerGraph &graph;
  const ModelSearch &search;
  const DistinctLayer &layer;
  const LayerReading &reading;
};

} // namespace

void explainLayouts(const LayerGraph &graph, const ModelSearch &search) {
  if (!graph.main->getContext()->getRemarkEngine())
    return;
  for (const DistinctLayer &layer : search.layers()) {
    LayerOp first = layer.layers.front();
    remark::analysis(first.getLoc(), remark::RemarkOpts::name("layouts").category("omnibal-layout"))
        << LayerRemark(graph, search, layer).text();
  }
}

} // namespace omnibal::shard
