//===- Messages.cpp ----------------------------------------------------------------------===//
#include "passes/schedule/Messages.h"
#include <map>

using namespace mlir;

namespace omnibal::schedule {

bool givesInputGradient(const analysis::Call &call, int64_t input) {
  LayerFnOp callee = call.callee;
  if (!callee.getBackward())
    return false;
  auto backward =
      SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(callee, callee.getBackwardAttr());
  for (unsigned i = 0, end = backward ? backward.getNumResults() : 0; i < end; ++i) {
    auto role = backward.getResultAttrOfType<StringAttr>(i, "omnibal.role");
    auto index = backward.getResultAttrOfType<IntegerAttr>(i, "omnibal.index");
    if (role && index && role == "grad_input" && index.getInt() == input)
      return true;
  }
  return false;
}

std::vector<Message> collectMessages(const analysis::CallGraph &graph,
                                     llvm::ArrayRef<int64_t> chunkStage, bool gradients) {
  std::vector<Message> messages;
  std::map<std::tuple<bool, int64_t, int64_t>, size_t> known;
  auto add = [&](bool gradient, int64_t from, int64_t to, int64_t edge) {
    auto [it, fresh] = known.try_emplace({gradient, from, to}, messages.size());
    if (fresh)
      messages.push_back({static_cast<int32_t>(messages.size()), gradient, from, to,
                          chunkStage[from], chunkStage[to]});
    std::vector<int64_t> &edges = messages[it->second].edges;
    if (!llvm::is_contained(edges, edge))
      edges.push_back(edge);
  };
  for (bool gradient : {false, true})
    for (auto [index, edge] : llvm::enumerate(graph.edges)) {
      int64_t from = graph.calls[edge.producer].chunk;
      for (auto [call, input] : edge.consumers) {
        int64_t to = graph.calls[call].chunk;
        if (from == to || chunkStage[from] == chunkStage[to])
          continue;
        if (!gradient)
          add(false, from, to, index);
        else if (gradients && givesInputGradient(graph.calls[call], input))
          add(true, to, from, index);
      }
    }
  return messages;
}

} // namespace omnibal::schedule
