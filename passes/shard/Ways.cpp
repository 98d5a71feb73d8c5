//===- Ways.cpp - The four ways to run an op -------------------------------------------------===//
#include "passes/shard/Ways.h"
#include "dialects/omnibal/ir/Layouts.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "passes/shard/LayerLayouts.h"

using namespace mlir;

namespace omnibal::shard {
namespace {

std::string textOf(LayoutAttr layout) {
  std::string text;
  llvm::raw_string_ostream(text) << layout;
  return text;
}

bool isFloat(Value value) {
  return isa<FloatType>(cast<RankedTensorType>(value.getType()).getElementType());
}

bool agree(Value value, LayoutAttr layout, LayoutAttr wanted) {
  return areAlike(cast<RankedTensorType>(value.getType()), layout, wanted);
}

/// What a split takes of an op: neighboring letters, and units of so many of their elements.
struct Span {
  DimLetters letters;
  SymbolicDim units;
  int64_t inner = 1;
  bool isAll = false; ///< all of the letters and not a factor of the outermost
};

/// Judges one op.
class WayCheck {
public:
  WayCheck(Operation *op, const std::optional<FactorRule> &rule, ArrayRef<LayoutAttr> reads,
           ArrayRef<LayoutAttr> layouts)
      : op(op), rule(rule), reads(reads), layouts(layouts) {}

  std::string run() {
    MLIRContext *context = op->getContext();
    for (LayoutAttr all : {LayoutAttr::whole(context), LayoutAttr::copied(context)})
      if (allAre(all))
        return "";
    if (!rule || op->getNumOperands() == 0)
      return "layout_c2: the op is not divided, so operands and results must be all whole or all "
             "copied";
    if (std::optional<bool> found = findSpan())
      return *found ? checkSpan() : fault;
    return checkLinear();
  }

private:
  bool allAre(LayoutAttr wanted) {
    auto isWanted = [&](auto pair) { return agree(std::get<0>(pair), std::get<1>(pair), wanted); };
    return llvm::all_of(llvm::zip_equal(op->getOperands(), reads), isWanted) &&
           llvm::all_of(llvm::zip_equal(op->getResults(), layouts), isWanted);
  }

  /// True if there is a split and its letters are found, false with a fault if they are not.
  std::optional<bool> findSpan();
  bool spanOf(const ValueLetters &letters, LayoutAttr split);
  std::string checkSpan();
  std::string checkLinear();
  /// The layout of a value that has the span's letters; null if it has none of them, and a fault
  /// if it has some of them, or not side by side.
  LayoutAttr splitOf(const ValueLetters &letters);

  Operation *op;
  const std::optional<FactorRule> &rule;
  ArrayRef<LayoutAttr> reads, layouts;
  Span span;
  std::string fault;
};

std::optional<bool> WayCheck::findSpan() {
  auto search = [&](ValueRange values, ArrayRef<LayoutAttr> given,
                    ArrayRef<ValueLetters> letters) -> std::optional<bool> {
    for (auto [value, layout, own] : llvm::zip_equal(values, given, letters)) {
      if (!layout.isSplit())
        continue;
      if (!outerOf(layout, shapeOf(value))) {
        fault = "layout_c3: " + textOf(layout) + " does not fit " +
                llvm::formatv("{0}", value.getType()).str();
        return false;
      }
      return spanOf(own, layout);
    }
    return std::nullopt;
  };
  if (auto found = search(op->getOperands(), reads, rule->operands))
    return found;
  return search(op->getResults(), layouts, rule->results);
}

bool WayCheck::spanOf(const ValueLetters &letters, LayoutAttr split) {
  const DimLetters &dim = letters[split.getDim()];
  span.units = unitsOf(split);
  span.inner = split.getInner();
  size_t end = dim.size();
  // Whole letters that stand within a unit.
  for (; end > 0; --end) {
    const SymbolicDim &size = rule->sizes[dim[end - 1]];
    if (!size.isStatic() || size.constant == 0 || span.inner % size.constant != 0)
      break;
    span.inner /= size.constant;
  }
  const SymbolicDim row = *multiply(span.units, span.inner);
  SymbolicDim passed(1);
  for (size_t begin = end; begin > 0; --begin) {
    auto more = multiply(passed, rule->sizes[dim[begin - 1]]);
    if (!more)
      break;
    passed = *more;
    if (passed == row || (row != SymbolicDim(0) && divideExactly(passed, row))) {
      span.letters.assign(dim.begin() + begin - 1, dim.begin() + end);
      span.isAll = passed == row;
      return true;
    }
  }
  fault = "layout_c3: " + textOf(split) + " cuts what the op does not divide there";
  return false;
}

LayoutAttr WayCheck::splitOf(const ValueLetters &letters) {
  for (auto [dim, own] : llvm::enumerate(letters)) {
    if (llvm::none_of(span.letters, [&](unsigned each) { return llvm::is_contained(own, each); }))
      continue;
    auto at = std::search(own.begin(), own.end(), span.letters.begin(), span.letters.end());
    SymbolicDim inner(span.inner);
    if (at == own.end()) {
      fault = "layout_c2: an operand or result has only some of the letters that are split";
      return {};
    }
    for (unsigned behind : llvm::make_range(at + span.letters.size(), own.end())) {
      auto more = multiply(inner, rule->sizes[behind]);
      inner = more.value_or(SymbolicDim::tokens());
    }
    if (!inner.isStatic()) {
      fault = "layout_c2: elements behind the letters that are split depend on the micro-batch";
      return {};
    }
    MLIRContext *context = op->getContext();
    const auto where = static_cast<int64_t>(dim);
    if (span.units.isStatic())
      return LayoutAttr::split(context, where, span.units.constant, inner.constant);
    const UnitsOf of = span.units == SymbolicDim::tiles() ? UnitsOf::Tiles : UnitsOf::Tokens;
    return LayoutAttr::split(context, where, of, inner.constant);
  }
  return {};
}

std::string WayCheck::checkSpan() {
  bool sums = true, joins = true;
  for (unsigned each : span.letters) {
    const LetterKind kind = rule->kinds[each];
    const bool isAddressed = kind == LetterKind::Index || kind == LetterKind::Joined;
    if (kind == LetterKind::Closed || (isAddressed && !span.isAll))
      return "layout_c3: a dimension is split that the op does not divide";
    sums &= kind == LetterKind::Sum || kind == LetterKind::Index;
    joins &= kind == LetterKind::Joined;
  }
  MLIRContext *context = op->getContext();
  LayoutAttr copied = LayoutAttr::copied(context), partial = LayoutAttr::partial(context);
  bool givesPartial = false;
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    LayoutAttr wanted = splitOf(rule->results[i]);
    if (!fault.empty())
      return fault;
    if (!wanted && joins)
      wanted = LayoutAttr::whole(context);
    if (!wanted && (!sums || !isFloat(result)))
      return "layout_c2: a result lacks the letter that is split, and the op does not add over it";
    givesPartial |= !wanted;
    wanted = wanted ? wanted : partial;
    if (!agree(result, layouts[i], wanted))
      return llvm::formatv("layout_c2: result {0} must be {1}, not {2}", i, textOf(wanted),
                           textOf(layouts[i]));
  }
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    LayoutAttr wanted = splitOf(rule->operands[i]);
    if (!fault.empty() && span.isAll && llvm::is_contained(rule->picked, i))
      fault.clear();
    if (!fault.empty())
      return fault;
    if (!wanted)
      wanted = givesPartial && llvm::is_contained(rule->added, i) ? partial : copied;
    if (!agree(operand, reads[i], wanted))
      return llvm::formatv("layout_c2: operand {0} must be read {1}, not {2}", i, textOf(wanted),
                           textOf(reads[i]));
  }
  return "";
}

std::string WayCheck::checkLinear() {
  SmallVector<unsigned> partial;
  for (auto [i, read] : llvm::enumerate(reads))
    if (read.isPartial())
      partial.push_back(static_cast<unsigned>(i));
  const bool othersAreCopied =
      llvm::all_of_zip(op->getOperands(), reads, [&](Value v, LayoutAttr l) {
        return l.isPartial() || agree(v, l, LayoutAttr::copied(op->getContext()));
      });
  const bool fits = othersAreCopied && llvm::is_contained(rule->linearIn, partial) &&
                    llvm::all_of(layouts, [](LayoutAttr each) { return each.isPartial(); });
  return fits ? ""
              : "layout_c2: operands and results must be all whole, all copied, split along "
                "letters of the op, or partial where it is linear";
}

} // namespace

std::string findFault(Operation *op, const std::optional<FactorRule> &rule,
                      ArrayRef<LayoutAttr> reads, ArrayRef<LayoutAttr> layouts) {
  return WayCheck(op, rule, reads, layouts).run();
}

std::string findFault(Operation *op, ArrayRef<LayoutAttr> reads, ArrayRef<LayoutAttr> layouts) {
  auto divided = dyn_cast<FactorOpInterface>(op);
  return findFault(op, divided ? divided.getFactorRule() : std::nullopt, reads, layouts);
}

} // namespace omnibal::shard
