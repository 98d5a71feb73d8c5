//===- Messages.cpp ----------------------------------------------------------------------===//
#include "passes/schedule/Messages.h"
#include <map>

using namespace mlir;

namespace omnibal::schedule {
namespace {

/// Whether the backward of `call` yields the gradient of its input `input`.
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

} // namespace

std::vector<SharedValue> sharedValues(const analysis::CallGraph &graph) {
  std::vector<SharedValue> values;
  for (const analysis::Edge &edge : graph.edges) {
    SharedValue &value = values.emplace_back();
    value.chunk = graph.calls[edge.producer].chunk;
    for (auto [call, input] : edge.consumers) {
      const analysis::Call &reader = graph.calls[call];
      // Only what leaves a chunk is asked for.
      bool gives = reader.chunk != value.chunk && givesInputGradient(reader, input);
      value.uses.push_back({reader.chunk, gives});
    }
  }
  return values;
}

std::vector<Message> collectMessages(const std::vector<SharedValue> &values,
                                     llvm::ArrayRef<int64_t> chunkStage, bool gradients) {
  std::vector<Message> messages;
  std::map<std::tuple<bool, int64_t, int64_t>, size_t> known;
  auto add = [&](bool gradient, int64_t from, int64_t to, int64_t edge) {
    auto [it, fresh] = known.try_emplace({gradient, from, to}, messages.size());
    if (fresh)
      messages.push_back({{static_cast<int32_t>(messages.size()), gradient, from, to,
                           chunkStage[from], chunkStage[to]},
                          {}});
    std::vector<int64_t> &edges = messages[it->second].edges;
    if (!llvm::is_contained(edges, edge))
      edges.push_back(edge);
  };
  for (bool gradient : {false, true})
    for (auto [index, value] : llvm::enumerate(values))
      for (const SharedValue::Use &use : value.uses) {
        int64_t from = value.chunk, to = use.chunk;
        if (from == to || chunkStage[from] == chunkStage[to])
          continue;
        if (!gradient)
          add(false, from, to, index);
        else if (gradients && use.givesGradient)
          add(true, to, from, index);
      }
  return messages;
}

} // namespace omnibal::schedule
