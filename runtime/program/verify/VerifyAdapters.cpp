//===- VerifyAdapters.cpp - Rule p19: adapters of linear layers ------------------------------===//
#include "runtime/program/verify/VerifierInternal.h"
#include <cmath>
#include <map>
#include <set>

namespace omnibal::rt {
namespace {

/// A number of dimensions beyond any honest one, of which no product overflows.
constexpr int64_t rankLimit = int64_t{1} << 20;

class AdapterCheck {
public:
  explicit AdapterCheck(const Program &program) : adapters(program.adapters) {
    for (const Stage &stage : program.stageList)
      for (const Parameter &q : stage.parameters)
        parameters[q.name].push_back(&q);
  }

  Status run() {
    if (adapters.rank < 1 || adapters.rank > rankLimit)
      return bad("rank must lie in [1, " + std::to_string(rankLimit) + "]");
    if (!std::isfinite(adapters.alpha) || adapters.alpha <= 0)
      return bad("alpha must be a number above 0");
    for (const LinearAdapter &linear : adapters.linears)
      OMNIBAL_RETURN_IF_ERROR(check(linear));
    for (const SavedParameter &saved : adapters.saved) {
      OMNIBAL_ASSIGN_OR_RETURN(const Parameter *q, find(saved.parameter));
      if (!q->trainable)
        return bad("no gradient reaches the parameter \"" + saved.parameter + "\"");
    }
    std::set<std::string> names, keys;
    for (const AdapterTensor &tensor : adapterTensors(adapters))
      if (!names.insert(tensor.parameter).second || !keys.insert(tensor.key).second)
        return bad("the parameter \"" + tensor.parameter + "\" or its module is named twice");
    return Status::ok();
  }

private:
  static Status bad(const std::string &what) { return broken("p19", "manifest, adapters", what); }

  Result<const Parameter *> find(const std::string &name) const {
    auto found = parameters.find(name);
    if (found == parameters.end())
      return bad("no stage has the parameter \"" + name + "\"");
    return found->second.front();
  }

  Status check(const LinearAdapter &linear) const {
    OMNIBAL_ASSIGN_OR_RETURN(const Parameter *w, find(linear.weight));
    OMNIBAL_ASSIGN_OR_RETURN(const Parameter *a, find(linear.a));
    OMNIBAL_ASSIGN_OR_RETURN(const Parameter *b, find(linear.b));
    if (w->shape.size() != 2)
      return bad("the weight \"" + linear.weight + "\" is no matrix");
    if (w->trainable)
      return bad("the weight \"" + linear.weight + "\" trains beside its adapter");
    const int64_t in = w->shape[linear.inOut ? 0 : 1], out = w->shape[linear.inOut ? 1 : 0];
    const std::vector<int64_t> ofA = {adapters.rank, in}, ofB = {out, adapters.rank};
    if (a->shape != ofA || b->shape != ofB)
      return bad("the adapter of \"" + linear.weight + "\" is not [rank, in] and [out, rank]");
    if (!a->trainable || !b->trainable)
      return bad("no gradient reaches the adapter of \"" + linear.weight + "\"");
    // Merging takes them from one rank.
    if (parameters.at(linear.a).size() != parameters.at(linear.b).size())
      return bad("the adapter of \"" + linear.weight + "\" is not on the same stages");
    return adapters.dora ? checkMagnitude(linear, out) : Status::ok();
  }

  Status checkMagnitude(const LinearAdapter &linear, int64_t out) const {
    OMNIBAL_ASSIGN_OR_RETURN(const Parameter *magnitude, find(linear.magnitude));
    if (magnitude->shape != std::vector<int64_t>{out})
      return bad("the magnitude of \"" + linear.weight + "\" is not [out]");
    if (!magnitude->trainable)
      return bad("no gradient reaches the magnitude of \"" + linear.weight + "\"");
    if (parameters.at(linear.magnitude).size() != parameters.at(linear.a).size())
      return bad("the magnitude of \"" + linear.weight + "\" is not on the adapter's stages");
    return Status::ok();
  }

  const Adapters &adapters;
  std::map<std::string, std::vector<const Parameter *>> parameters;
};

} // namespace

Status verifyAdapters(const Program &program) {
  return program.adapters.empty() ? Status::ok() : AdapterCheck(program).run();
}

} // namespace omnibal::rt
