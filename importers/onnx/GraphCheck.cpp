//===- GraphCheck.cpp - A graph's tables, checked before any op is built -----------------===//
#include "importers/onnx/GraphCheck.h"
#include "importers/onnx/Diagnostics.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace omnibal::onnx {

std::string nodeLabel(const NodeProto &node) {
  if (!node.name().empty())
    return node.op_type() + " node '" + node.name() + "'";
  if (node.output_size() != 0)
    return "unnamed " + node.op_type() + " node that gives '" + node.output(0) + "'";
  return "unnamed " + node.op_type() + " node";
}

namespace {

/// Names that a subgraph reads from outside, including those of its own subgraphs.
void collectCaptures(const GraphProto &graph, std::vector<std::string> &captures) {
  llvm::StringSet<> own;
  for (const ValueInfoProto &input : graph.input())
    own.insert(input.name());
  for (const TensorProto &tensor : graph.initializer())
    own.insert(tensor.name());
  for (const NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      own.insert(output);
  std::vector<std::string> uses;
  for (const NodeProto &node : graph.node()) {
    uses.insert(uses.end(), node.input().begin(), node.input().end());
    for (const AttributeProto &attribute : node.attribute())
      if (attribute.has_g())
        collectCaptures(attribute.g(), uses);
  }
  for (const ValueInfoProto &output : graph.output())
    uses.push_back(output.name());
  for (std::string &use : uses)
    if (!use.empty() && !own.contains(use))
      captures.push_back(std::move(use));
}

std::vector<std::string> usesOf(const NodeProto &node) {
  std::vector<std::string> uses(node.input().begin(), node.input().end());
  for (const AttributeProto &attribute : node.attribute())
    if (attribute.has_g())
      collectCaptures(attribute.g(), uses);
  return uses;
}

class Orderer {
public:
  Orderer(const NodeList &nodes, const llvm::StringSet<> &outer, Location where)
      : nodes(nodes), outer(outer), where(where), states(nodes.size(), Unseen) {}

  LogicalResult index(const std::vector<std::string> &given) {
    for (const std::string &name : given)
      if (!name.empty())
        producers.try_emplace(name, -1);
    for (int i = 0; i < nodes.size(); ++i) {
      if (nodes[i].op_type().empty())
        return invalidModel(where) << nodeLabel(nodes[i]) << " has no op_type";
      for (const std::string &output : nodes[i].output()) {
        if (output.empty())
          continue;
        auto [entry, isNew] = producers.try_emplace(output, i);
        if (!isNew || outer.contains(output))
          return invalidModel(where)
                 << "the value '" << output << "' is defined twice, the second time by the "
                 << nodeLabel(nodes[i]);
      }
    }
    // Every use, also those of nodes that nothing needs: a dangling name means a damaged file.
    dependencies.resize(size_t(nodes.size()));
    for (int i = 0; i < nodes.size(); ++i)
      for (const std::string &use : usesOf(nodes[i])) {
        if (use.empty())
          continue;
        auto producer = producers.find(use);
        if (producer != producers.end()) {
          if (producer->second >= 0)
            dependencies[size_t(i)].push_back(producer->second);
        } else if (!outer.contains(use)) {
          return invalidModel(where) << "the " << nodeLabel(nodes[i]) << " reads '" << use
                                     << "', which nothing defines";
        }
      }
    return success();
  }

  /// Depth first from node `root`, without recursion: graphs are tens of thousands of nodes deep.
  LogicalResult visit(int root) {
    struct Frame {
      int node;
      size_t next = 0;
    };
    std::vector<Frame> stack;
    if (states[size_t(root)] == Unseen) {
      states[size_t(root)] = Open;
      stack.push_back({root});
    }
    while (!stack.empty()) {
      Frame &frame = stack.back();
      const std::vector<int> &inputs = dependencies[size_t(frame.node)];
      if (frame.next == inputs.size()) {
        states[size_t(frame.node)] = Done;
        order.push_back(frame.node);
        stack.pop_back();
        continue;
      }
      int input = inputs[frame.next++];
      if (states[size_t(input)] == Open) {
        auto diagnostic = invalidModel(where);
        diagnostic << "the graph has a cycle:";
        bool inside = false;
        for (const Frame &open : stack)
          if ((inside |= open.node == input))
            diagnostic << " " << nodeLabel(nodes[open.node]) << " ->";
        return diagnostic << " " << nodeLabel(nodes[input]);
      }
      if (states[size_t(input)] == Unseen) {
        states[size_t(input)] = Open;
        stack.push_back({input});
      }
    }
    return success();
  }

  const NodeList &nodes;
  const llvm::StringSet<> &outer;
  Location where;
  enum State : uint8_t { Unseen, Open, Done };
  std::vector<State> states;
  llvm::StringMap<int> producers; ///< -1: given
  std::vector<std::vector<int>> dependencies;
  std::vector<int> order;
};

} // namespace

FailureOr<std::vector<const NodeProto *>> orderNodes(const NodeList &nodes,
                                                     const llvm::StringSet<> &outer,
                                                     const std::vector<std::string> &given,
                                                     const std::vector<std::string> &wanted,
                                                     Location where) {
  Orderer orderer(nodes, outer, where);
  if (failed(orderer.index(given)))
    return failure();
  for (int i = 0; i < nodes.size(); ++i)
    if (failed(orderer.visit(i)))
      return failure();

  std::vector<bool> needed(size_t(nodes.size()), false);
  for (const std::string &name : wanted) {
    auto producer = orderer.producers.find(name);
    if (producer != orderer.producers.end()) {
      if (producer->second >= 0)
        needed[size_t(producer->second)] = true;
    } else if (!outer.contains(name)) {
      return invalidModel(where) << "the graph's output '" << name << "' is defined by nothing";
    }
  }
  for (auto node = orderer.order.rbegin(); node != orderer.order.rend(); ++node)
    if (needed[size_t(*node)])
      for (int input : orderer.dependencies[size_t(*node)])
        needed[size_t(input)] = true;
  std::vector<const NodeProto *> result;
  for (int node : orderer.order)
    if (needed[size_t(node)])
      result.push_back(&nodes[node]);
  return result;
}

} // namespace omnibal::onnx
