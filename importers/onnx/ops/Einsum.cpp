//===- Einsum.cpp - Sums of products as transposes and batched matrix products ------------===//
#include "importers/onnx/OpTable.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {

/// A letter for each dimension. Dimensions of the ellipsis have the labels '0', '1', ..
using Labels = std::string;

/// An operand on the way: what its dimensions are called.
struct Term {
  Value value;
  Labels labels;
};

bool has(const Labels &labels, char label) { return labels.find(label) != Labels::npos; }

/// The labels that `keep` accepts, in their order.
Labels filter(const Labels &labels, llvm::function_ref<bool(char)> keep) {
  Labels result;
  llvm::copy_if(labels, std::back_inserter(result), keep);
  return result;
}

class Einsum {
public:
  explicit Einsum(NodeContext &context) : c(context), e(context.e) {}

  LogicalResult run() {
    if (failed(parse()))
      return failure();
    Term sum = terms.front();
    for (size_t i = 1; i < terms.size() && sum.value; ++i) {
      Labels later = result;
      for (const Term &term : llvm::ArrayRef(terms).drop_front(i + 1))
        later += term.labels;
      sum = multiply(sum, terms[i], later);
    }
    return c.give(ordered(summed(sum, result), result));
  }

private:
  LogicalResult parse();
  /// The labels of one term of the equation, whose operand has `rank` dimensions (none for the
  /// result: its ellipsis is that of the operands).
  std::optional<Labels> labelsOf(llvm::StringRef text, std::optional<int64_t> rank);

  /// Sums over the dimensions whose labels are not in `needed`.
  Term summed(Term term, const Labels &needed);
  Value ordered(const Term &term, const Labels &order);
  /// The product of two terms, summed over what nothing later needs.
  Term multiply(Term lhs, Term rhs, const Labels &later);
  /// Dimensions [begin, end) of a value as a shape.
  Value sizes(Value value, size_t begin, size_t end) {
    return e.shape(value, int64_t(begin), int64_t(end));
  }
  /// The dimensions [begin, end) as one.
  Value merged(Value value, size_t begin, size_t end) {
    return end - begin == 1 ? sizes(value, begin, end)
                            : e.reduce(sizes(value, begin, end), ReduceKind::Prod, {0}, true);
  }

  NodeContext &c;
  Emitter &e;
  llvm::SmallVector<Term> terms;
  Labels result;
  std::optional<int64_t> ellipsis; ///< number of its dimensions
};

std::optional<Labels> Einsum::labelsOf(llvm::StringRef text, std::optional<int64_t> rank) {
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("...")) {
      if (has(labels, '0') || (rank && *rank < int64_t(text.size()) - 3))
        return e.invalid("the term '" + text + "' does not fit its operand"), std::nullopt;
      int64_t dims = rank ? *rank - (int64_t(text.size()) - 3) : ellipsis.value_or(0);
      if (ellipsis.value_or(dims) != dims)
        return e.unsupported("an ellipsis for different numbers of dimensions"), std::nullopt;
      if (dims > 10)
        return e.unsupported("an ellipsis for more than 10 dimensions"), std::nullopt;
      ellipsis = dims;
      for (int64_t d = 0; d < dims; ++d)
        labels += char('0' + d);
      i += 2;
    } else if (!llvm::isAlpha(text[i])) {
      return e.invalid("'" + text + "' is no term of an equation"), std::nullopt;
    } else if (has(labels, text[i])) {
      if (rank)
        return e.unsupported("the index '" + text.substr(i, 1) +
                             "' twice in one operand (a "
                             "diagonal)"),
               std::nullopt;
      return e.invalid("the index '" + text.substr(i, 1) + "' twice in the result"), std::nullopt;
    } else {
      labels += text[i];
    }
  }
  if (rank && *rank != int64_t(labels.size()))
    return e.invalid("the term '" + text + "' is for an operand of rank " +
                     llvm::Twine(labels.size()) + ", not " + llvm::Twine(*rank)),
           std::nullopt;
  return labels;
}

LogicalResult Einsum::parse() {
  std::string equation = c.getString("equation", "");
  llvm::erase_if(equation, [](char letter) { return letter == ' '; });
  auto [left, right] = llvm::StringRef(equation).split("->");
  llvm::SmallVector<llvm::StringRef> texts;
  left.split(texts, ',');
  if (texts.size() != c.inputs.size())
    return e.invalid("the equation '" + equation + "' has " + llvm::Twine(texts.size()) +
                     " terms for " + llvm::Twine(c.inputs.size()) + " operands"),
           failure();
  Labels all;
  for (auto [text, input] : llvm::zip_equal(texts, c.inputs)) {
    auto labels = labelsOf(text, rankOf(input));
    if (!labels)
      return failure();
    terms.push_back({input, *labels});
    all += *labels;
  }
  if (llvm::StringRef(equation).contains("->")) {
    auto labels = labelsOf(right, std::nullopt);
    if (!labels)
      return failure();
    result = *labels;
  } else { // the ellipsis, then what occurs once, in alphabetical order: digits come before letters
    for (char label : all)
      if (!has(result, label) && (llvm::isDigit(label) || llvm::count(all, label) == 1))
        result += label;
    llvm::sort(result);
  }
  for (char label : result)
    if (!has(all, label))
      return e.invalid("the index '" + llvm::Twine(label) + "' of the result is in no operand"),
             failure();
  return success();
}

Term Einsum::summed(Term term, const Labels &needed) {
  llvm::SmallVector<int64_t> over;
  for (auto [i, label] : llvm::enumerate(term.labels))
    if (!has(needed, label))
      over.push_back(int64_t(i));
  if (over.empty())
    return term;
  return {e.reduce(term.value, ReduceKind::Sum, over, /*keepDims=*/false),
          filter(term.labels, [&](char label) { return has(needed, label); })};
}

Value Einsum::ordered(const Term &term, const Labels &order) {
  llvm::SmallVector<int64_t> permutation;
  for (char label : order)
    permutation.push_back(int64_t(term.labels.find(label)));
  if (llvm::is_sorted(permutation))
    return term.value;
  return e.transpose(term.value, permutation);
}

Term Einsum::multiply(Term lhs, Term rhs, const Labels &later) {
  lhs = summed(lhs, later + rhs.labels);
  rhs = summed(rhs, later + lhs.labels);
  auto shared = [&](char label) { return has(rhs.labels, label) && has(lhs.labels, label); };
  Labels batch = filter(lhs.labels, [&](char l) { return shared(l) && has(later, l); });
  Labels inner = filter(lhs.labels, [&](char l) { return shared(l) && !has(later, l); });
  Labels rows = filter(lhs.labels, [&](char l) { return !shared(l); });
  Labels columns = filter(rhs.labels, [&](char l) { return !shared(l); });
  // [batch.., rows, inner] times [batch.., columns, inner] transposed.
  Value a = ordered(lhs, batch + rows + inner), b = ordered(rhs, batch + columns + inner);
  if (!a || !b)
    return {};
  auto asMatrices = [&](Value x, size_t free) {
    size_t split = batch.size() + free, rank = split + inner.size();
    if (free == 1 && inner.size() == 1)
      return x;
    llvm::SmallVector<Value> shape;
    if (!batch.empty())
      shape.push_back(sizes(x, 0, batch.size()));
    shape.push_back(free == 0 ? e.ints({1}) : merged(x, batch.size(), split));
    shape.push_back(inner.empty() ? e.ints({1}) : merged(x, split, rank));
    return e.reshape(x, e.concat(shape, 0), /*allowZero=*/true);
  };
  Value product = e.matmul(asMatrices(a, rows.size()), asMatrices(b, columns.size()),
                           /*transposeA=*/false, /*transposeB=*/true);
  Labels labels = batch + rows + columns;
  if (!product || (rows.size() == 1 && columns.size() == 1))
    return {product, labels};
  llvm::SmallVector<Value> shape;
  if (!batch.empty())
    shape.push_back(sizes(product, 0, batch.size()));
  if (!rows.empty())
    shape.push_back(sizes(a, batch.size(), batch.size() + rows.size()));
  if (!columns.empty())
    shape.push_back(sizes(b, batch.size(), batch.size() + columns.size()));
  Value sizes = shape.empty() ? e.ints({}) : e.concat(shape, 0);
  return {e.reshape(product, sizes, /*allowZero=*/true), labels};
}

LogicalResult buildEinsum(NodeContext &c) { return Einsum(c).run(); }

} // namespace

llvm::ArrayRef<OpEntry> einsumOps() {
  static const OpEntry table[] = {{"Einsum", kFirst, kLast, 1, -1, buildEinsum}};
  return table;
}

} // namespace omnibal::onnx
