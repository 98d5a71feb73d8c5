#include "passes/layers/AdapterTargets.h"
#include "passes/layers/LinearWeights.h"
#include "passes/layers/ModuleWords.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Regex.h"
#include <set>

using namespace mlir;

namespace omnibal::layers {
namespace {

constexpr StringLiteral passName = "omnibal-add-adapters";

/// "a.b" of "a.b.weight".
StringRef moduleOfWeight(StringRef name) {
  name.consume_back(".weight");
  return name;
}

StringRef lastPart(StringRef path) { return path.substr(path.rfind('.') + 1); }

/// What holds a parameter; "" if nothing does.
StringRef ownerOf(StringRef name) {
  return name.rsplit('.').second.empty() ? "" : name.rsplit('.').first;
}

/// A module's path by the graph, which knows a model that has renamed what its checkpoint holds, or
/// else the name that the checkpoint has for it.
std::string pathInModel(StringRef named, ArrayRef<Operation *> readers) {
  for (Operation *reader : readers)
    if (StringRef path = modulePathOf(reader); !path.empty() && lastPart(path) == lastPart(named))
      return path.str();
  return named.str();
}

/// How far the words of an expression are from a name's parts: 0 if all of them are there.
double distance(ArrayRef<StringRef> words, StringRef name) {
  SmallVector<StringRef> parts;
  name.split(parts, '.');
  double sum = 0;
  for (StringRef word : words) {
    double nearest = 1;
    for (StringRef part : parts) {
      const auto changes = static_cast<double>(word.edit_distance(part));
      const auto length = static_cast<double>(std::max(word.size(), part.size()));
      nearest = part.contains(word) ? 0 : std::min(nearest, changes / length);
    }
    sum += nearest;
  }
  return sum;
}

/// The words of an expression, which people mistype.
SmallVector<StringRef> wordsOf(StringRef expression) {
  SmallVector<StringRef> words;
  size_t begin = 0;
  for (size_t i = 0; i <= expression.size(); ++i) {
    if (i < expression.size() && (llvm::isAlnum(expression[i]) || expression[i] == '_'))
      continue;
    if (i - begin >= 2)
      words.push_back(expression.slice(begin, i));
    begin = i + 1;
  }
  return words;
}

/// A name with its numbers left out: modules of equal layers count once.
std::string withoutNumbers(StringRef name) {
  std::string text;
  for (char c : name)
    if (!llvm::isDigit(c))
      text += c;
  return text;
}

/// "a, b and c": the names that the expression was perhaps meant for.
std::string nearNames(StringRef expression, ArrayRef<StringRef> names) {
  constexpr size_t most = 3;
  const SmallVector<StringRef> words = wordsOf(expression);
  SmallVector<StringRef> sorted(names);
  llvm::stable_sort(
      sorted, [&](StringRef a, StringRef b) { return distance(words, a) < distance(words, b); });
  std::set<std::string> kinds;
  std::string text;
  for (StringRef name : sorted)
    if (kinds.size() < most && kinds.insert(withoutNumbers(name)).second)
      text += (text.empty() ? "" : ", ") + name.str();
  return text;
}

class TargetSearch {
public:
  explicit TargetSearch(const LayerGraph &graph)
      : module(graph.main->getParentOfType<ModuleOp>()), readers(findReaders(graph)) {}

  FailureOr<AdapterTargets> find(StringRef match, StringRef save) {
    if (failed(collectSaved(save)) || failed(collectLinears(match)))
      return failure();
    return std::move(targets);
  }

private:
  FailureOr<llvm::Regex> compiled(StringRef expression) {
    llvm::Regex regex(expression);
    std::string problem;
    if (expression.empty() || !regex.isValid(problem))
      return module.emitError() << passName << ": '" << expression
                                << "' is not a regular expression: "
                                << (expression.empty() ? "it is empty" : problem);
    return regex;
  }

  static bool matches(const llvm::Regex &regex, ParameterOp parameter) {
    StringRef name = parameter.getSymName();
    return regex.match(name) || regex.match(moduleOfWeight(name));
  }

  LogicalResult collectSaved(StringRef save) {
    if (save.empty())
      return success();
    FailureOr<llvm::Regex> regex = compiled(save);
    if (failed(regex))
      return failure();
    llvm::StringSet<> modules;
    SmallVector<StringRef> names;
    for (auto &[parameter, ops] : readers) {
      StringRef owner = ownerOf(parameter.getSymName());
      if (owner.empty())
        continue;
      names.push_back(owner);
      if (matches(*regex, parameter))
        modules.insert(owner);
    }
    if (modules.empty())
      return module.emitError() << passName << ": no parameter's name matches '" << save
                                << "'; modules with names near it: " << nearNames(save, names);
    // A module is saved as a whole.
    for (auto &[parameter, ops] : readers)
      if (StringRef owner = ownerOf(parameter.getSymName()); modules.contains(owner)) {
        targets.saved.push_back({parameter, pathInModel(owner, ops)});
        saved.insert(parameter);
      }
    return success();
  }

  LogicalResult collectLinears(StringRef match) {
    FailureOr<llvm::Regex> regex = compiled(match);
    if (failed(regex))
      return failure();
    SmallVector<StringRef> linears;
    SmallVector<ParameterOp> others; ///< matrices that match and have no adapter
    for (auto &[parameter, ops] : readers) {
      const bool linear = areLinearsOf(ops, parameter);
      if (linear)
        linears.push_back(moduleOfWeight(parameter.getSymName()));
      if (!matches(*regex, parameter) || saved.contains(parameter))
        continue;
      if (linear)
        targets.linears.push_back(describe(parameter, ops));
      else if (cast<RankedTensorType>(parameter.getType()).getRank() >= 2)
        others.push_back(parameter);
    }
    if (targets.linears.empty())
      return module.emitError() << passName << ": no linear layer's weight matches '" << match
                                << "'; linear layers with names near it: "
                                << nearNames(match, linears);
    if (!others.empty())
      module.emitWarning() << passName << ": " << others.size() << " parameters match '" << match
                           << "' but get no adapter, as they are not the weights of linear layers "
                              "alone (embeddings, experts, convolutions): '"
                           << others.front().getSymName() << "'"
                           << (others.size() > 1 ? " and others" : "");
    keepPathsApart();
    return success();
  }

  static AdapterTarget describe(ParameterOp weight, ArrayRef<Operation *> ops) {
    const bool inOut = cast<LinearOp>(ops.front()).getInOut();
    ArrayRef<int64_t> shape = cast<RankedTensorType>(weight.getType()).getShape();
    const StringRef named = moduleOfWeight(weight.getSymName());
    return {weight,
            pathInModel(named, ops),
            (named + ".lora_A.weight").str(),
            (named + ".lora_B.weight").str(),
            (named + ".lora_magnitude_vector").str(),
            shape[inOut ? 0 : 1],
            shape[inOut ? 1 : 0],
            inOut != weight.getTransposed()};
  }

  /// Two weights with one path have the checkpoint's names instead.
  void keepPathsApart() {
    llvm::StringMap<unsigned> count;
    for (const AdapterTarget &target : targets.linears)
      ++count[target.module];
    for (AdapterTarget &target : targets.linears)
      if (count[target.module] > 1)
        target.module = moduleOfWeight(target.weight.getSymName()).str();
  }

  ModuleOp module;
  Readers readers;
  AdapterTargets targets;
  llvm::DenseSet<Operation *> saved;
};

} // namespace

FailureOr<AdapterTargets> findAdapterTargets(const LayerGraph &graph, StringRef match,
                                             StringRef save) {
  return TargetSearch(graph).find(match, save);
}

} // namespace omnibal::layers
