#include "runtime/backends/cuda/libraries/Product.h"
#include "runtime/backends/cuda/libraries/Abi.h"
#include <algorithm>
#include <bit>

namespace omnibal::rt::cuda {
namespace {

constexpr int64_t mostCalls = 64;

/// The shape without what need not be there: batches of size 1, batches that are rows.
class Folded {
public:
  Folded(const GemmShape &shape, const GemmData &data) : s(shape), data(data) {
    dropUnits();
    while (foldIntoRows()) {
    }
    mergeBatches();
  }
  GemmShape s;

private:
  /// Calls f for the operands that are there and follow the rows of c.
  template <typename F> void eachRowed(F f) {
    f(s.a);
    f(s.c);
    if (data.residual)
      f(s.residual);
    if (data.pre)
      f(s.pre);
    if (data.at)
      f(s.at);
  }
  template <typename F> void each(F f) {
    eachRowed(f);
    f(s.b);
  }

  void remove(int d) {
    for (int e = d; e + 1 < s.batchRank; ++e) {
      s.batch[e] = s.batch[e + 1];
      each([&](GemmShape::Operand &o) { o.batch[e] = o.batch[e + 1]; });
    }
    --s.batchRank;
  }

  void dropUnits() {
    for (int d = s.batchRank - 1; d >= 0; --d)
      if (s.batch[d] == 1)
        remove(d);
  }

  /// The innermost batch, where b is the same in all of it and the others' rows go on.
  bool foldIntoRows() {
    const int d = s.batchRank - 1;
    if (d < 0 || s.b.batch[d] != 0)
      return false;
    bool goesOn = true;
    eachRowed([&](const GemmShape::Operand &o) {
      goesOn = goesOn && (s.m == 1 || o.batch[d] == s.m * o.strides.row);
    });
    if (!goesOn)
      return false;
    if (s.m == 1)
      eachRowed([&](GemmShape::Operand &o) { o.strides.row = o.batch[d]; });
    s.m *= s.batch[d];
    --s.batchRank;
    return true;
  }

  void mergeBatches() {
    for (int d = s.batchRank - 2; d >= 0; --d) {
      bool goesOn = true;
      each([&](const GemmShape::Operand &o) {
        goesOn = goesOn && o.batch[d] == o.batch[d + 1] * s.batch[d + 1];
      });
      if (!goesOn)
        continue;
      s.batch[d + 1] *= s.batch[d];
      remove(d);
    }
  }

  const GemmData &data;
};

/// Distance between the dense lines of a matrix, and whether those are its columns.
struct Lines {
  bool columns;
  int64_t line;
};

std::optional<Lines> linesOf(RowStrides s, int64_t rows, int64_t cols) {
  if ((s.col == 1 || cols == 1) && (s.row >= cols || rows == 1))
    return Lines{false, rows == 1 ? cols : s.row};
  if ((s.row == 1 || rows == 1) && (s.col >= rows || cols == 1))
    return Lines{true, cols == 1 ? rows : s.col};
  return std::nullopt;
}

/// Does the same for an operand that must have its dense lines where c has them.
std::optional<int64_t> lineLike(const Lines &c, RowStrides s, int64_t rows, int64_t cols) {
  const RowStrides turned = c.columns ? RowStrides{s.col, s.row} : s;
  const int64_t lines = c.columns ? cols : rows, length = c.columns ? rows : cols;
  if (length > 1 && turned.col != 1)
    return std::nullopt;
  if (lines > 1 && turned.row < length)
    return std::nullopt;
  return lines == 1 ? length : turned.row;
}

/// The library's tanh has too few digits for float32 results.
bool hasGelu(Element resultType) { return resultType == Element::BF16; }

/// The library computes GELU by tanh alone, and what it keeps beside ReLU is a bit mask.
std::optional<uint32_t> activationEpilogue(GemmActivation activation, bool pre,
                                           Element resultType) {
  switch (activation) {
  case GemmActivation::None:
    return pre ? std::nullopt : std::optional<uint32_t>(0);
  case GemmActivation::GeluTanh:
    if (!hasGelu(resultType))
      return std::nullopt;
    return pre ? lt::gelu | lt::aux : uint32_t{lt::gelu};
  case GemmActivation::Relu:
    return pre ? std::nullopt : std::optional<uint32_t>(lt::relu);
  default:
    return std::nullopt;
  }
}

/// The largest power of two up to 16 that divides all the bytes.
class Alignment {
public:
  void bytes(uint64_t value) { bits |= value; }
  void pointer(const void *p) { bytes(reinterpret_cast<uintptr_t>(p)); }
  int64_t value() const { return int64_t{1} << std::countr_zero(bits); }

private:
  uint64_t bits = 16;
};

const std::byte *moved(const void *p, int64_t elements, Element type) {
  return p ? static_cast<const std::byte *>(p) + elements * bytesOf(type) : nullptr;
}

/// One of the operands' sums over k. With results in rows the library's op(A) [n, k] is our b
/// transposed and its op(B) [k, m] our a transposed: its sums of A (one value a row of D, [n]) are
/// ours of b, those of B (one a column of D, [m]) ours of a. A weight's gradient c = dy^T x [out,
/// in] so has the bias's gradient, the sum of a = dy^T over the tokens, from B; one that lies as
/// x^T dy [in, out] has it from A. With results in columns nothing changes places. The library
/// overwrites its sums, in the result's type, and is not known to scale them.
void fuseSums(ProductPlan &plan, const GemmShape &s, const GemmData &data, bool swapped) {
  const bool ofA = data.sumA != nullptr;
  const int64_t count = ofA ? s.m : s.n;
  if (ofA == (data.sumB != nullptr) || s.alpha != 1 || s.resultType != Element::F32 ||
      count > mostSums)
    return;
  plan.product.epilogue = ofA == swapped ? lt::sumOfB : lt::sumOfA;
  plan.sums = ofA ? data.sumA : data.sumB;
  plan.sumCount = count;
  plan.sumsApart = false;
}

/// The offsets of the batches that the library does not walk itself.
void appendCalls(ProductPlan &plan, const GemmShape &s, const ProductCall &first, bool swapped,
                 const GemmShape::Operand *c, const GemmShape::Operand *aux, int inner) {
  int64_t calls = 1;
  for (int d = 0; d < s.batchRank; ++d)
    calls *= d == inner ? 1 : s.batch[d];
  for (int64_t i = 0; i < calls; ++i) {
    int64_t a = 0, b = 0, out = 0, in = 0, extra = 0, rest = i;
    for (int d = s.batchRank - 1; d >= 0; --d) {
      if (d == inner)
        continue;
      const int64_t at = rest % s.batch[d];
      rest /= s.batch[d];
      a += at * s.a.batch[d];
      b += at * s.b.batch[d];
      out += at * s.c.batch[d];
      in += c ? at * c->batch[d] : 0;
      extra += aux ? at * aux->batch[d] : 0;
    }
    if (swapped)
      std::swap(a, b);
    plan.calls.push_back({moved(first.a, a, s.type), moved(first.b, b, s.type),
                          moved(first.c, in, s.resultType),
                          const_cast<std::byte *>(moved(first.d, out, s.resultType)),
                          const_cast<std::byte *>(moved(first.aux, extra, s.resultType))});
  }
}

} // namespace

bool Product::writesAux() const { return (epilogue & lt::aux) && !(epilogue & lt::geluGradient); }
bool Product::makesSums() const { return epilogue & (lt::sumOfA | lt::sumOfB); }
bool Product::isSpecial() const { return (epilogue & lt::aux) || makesSums(); }

std::optional<ProductPlan> planProduct(const GemmShape &shape, const GemmData &data,
                                       Epilogues allowed) {
  if (shape.batchRank > GemmShape::maxBatchRank || shape.m <= 0 || shape.n <= 0 || shape.k <= 0)
    return std::nullopt;
  const GemmShape s = Folded(shape, data).s;
  const std::optional<Lines> a = linesOf(s.a.strides, s.m, s.k), b = linesOf(s.b.strides, s.k, s.n),
                             c = linesOf(s.c.strides, s.m, s.n);
  if (!a || !b || !c)
    return std::nullopt;
  int64_t calls = 1;
  int inner = -1; // the batch that the library walks: the largest
  for (int d = 0; d < s.batchRank; ++d) {
    if (s.batch[d] <= 0 || s.c.batch[d] == 0)
      return std::nullopt;
    calls *= s.batch[d];
    if (inner < 0 || s.batch[d] > s.batch[inner])
      inner = d;
  }
  if (inner >= 0)
    calls /= s.batch[inner];
  if (calls > mostCalls)
    return std::nullopt;

  // Which of bias, activation and residual the library's epilogue takes.
  const bool swapped = !c->columns;
  const void *auxData = data.at ? data.at : data.pre;
  const GemmShape::Operand &auxOperand = data.at ? s.at : s.pre;
  std::optional<int64_t> added, aux;
  if (data.residual)
    added = lineLike(*c, s.residual.strides, s.m, s.n);
  if (auxData)
    aux = lineLike(*c, auxOperand.strides, s.m, s.n);
  const bool auxFits = allowed == Epilogues::All && aux && *aux % 8 == 0 &&
                       reinterpret_cast<uintptr_t>(auxData) % 16 == 0 &&
                       (inner < 0 || auxOperand.batch[inner] % 8 == 0);
  std::optional<uint32_t> activation =
      data.at ? 0 : activationEpilogue(s.activation, data.pre != nullptr, s.resultType);
  if (activation && (*activation & lt::aux) && !auxFits)
    activation.reset();
  const bool fusesDerivative =
      data.at && auxFits && s.activation == GemmActivation::GeluTanh && hasGelu(s.resultType);
  const bool fusesBias = !data.bias || (swapped && s.biasStride == 1 && s.type == s.resultType);
  const bool fusesActivation = fusesBias && activation;
  const bool fusesResidual =
      !data.residual || (fusesActivation && s.activation == GemmActivation::None && added);

  ProductPlan plan;
  // What remains begins from the pre-activation, which lies in `pre` where that is asked for.
  const bool intoPre = !fusesActivation && data.pre;
  plan.rest = {!fusesBias, !fusesActivation && !data.at && s.activation != GemmActivation::None,
               !fusesResidual, intoPre, data.at && !fusesDerivative};
  if (plan.rest.any() && data.residual && data.residual == data.c && !intoPre)
    return std::nullopt; // it would be overwritten before it is added
  if (plan.rest.derivative && data.at == data.c)
    return std::nullopt; // likewise
  const GemmShape::Operand &to = intoPre ? s.pre : s.c;
  if (intoPre && !aux)
    return std::nullopt;
  const bool beta = s.accumulate || (data.residual && fusesResidual);
  const GemmShape::Operand &from = s.accumulate ? s.c : beta ? s.residual : to;
  const void *fromData = s.accumulate ? data.c : beta ? data.residual : intoPre ? data.pre : data.c;

  Product &p = plan.product;
  p.m = swapped ? s.n : s.m;
  p.n = swapped ? s.m : s.n;
  p.k = s.k;
  const Lines &left = swapped ? *b : *a, &right = swapped ? *a : *b;
  p.transposedA = left.columns == swapped;
  p.transposedB = right.columns == swapped;
  p.lineA = left.line;
  p.lineB = right.line;
  p.lineD = intoPre ? *aux : c->line;
  p.lineC = s.accumulate ? c->line : beta ? *added : p.lineD;
  p.type = s.type;
  p.resultType = s.resultType;
  p.beta = beta;
  p.epilogue = 0;
  if (fusesActivation)
    p.epilogue |= *activation;
  if (data.bias && fusesBias) {
    p.epilogue |= lt::addBias;
    plan.bias = data.bias;
  }
  if (fusesDerivative)
    p.epilogue |= lt::geluGradient | lt::aux;
  const bool usesAux = p.epilogue & lt::aux;
  plan.sumsApart = data.sumA || data.sumB;
  if (allowed == Epilogues::All && p.epilogue == 0 && !plan.rest.any() && shape.batchRank == 0)
    fuseSums(plan, s, data, swapped);
  if (p.epilogue == 0)
    p.epilogue = lt::plain;
  if (usesAux)
    p.lineAux = *aux;
  if (inner >= 0) {
    p.batches = s.batch[inner];
    p.strideA = swapped ? s.b.batch[inner] : s.a.batch[inner];
    p.strideB = swapped ? s.a.batch[inner] : s.b.batch[inner];
    p.strideC = from.batch[inner];
    p.strideD = to.batch[inner];
    p.strideAux = usesAux ? auxOperand.batch[inner] : 0;
  }
  plan.alpha = s.alpha;
  const ProductCall first{swapped ? data.b : data.a, swapped ? data.a : data.b, fromData,
                          intoPre ? data.pre : data.c,
                          usesAux ? const_cast<void *>(auxData) : nullptr};
  GemmShape walked = s;
  walked.c = to;
  appendCalls(plan, walked, first, swapped, &from, usesAux ? &auxOperand : nullptr, inner);

  Alignment alignment;
  for (const ProductCall &call : plan.calls)
    for (const void *pointer : {call.a, call.b, call.c, static_cast<const void *>(call.d)})
      alignment.pointer(pointer);
  alignment.pointer(plan.bias);
  for (int64_t elements : {p.lineA, p.lineB, p.strideA, p.strideB})
    alignment.bytes(elements * bytesOf(p.type));
  for (int64_t elements : {p.lineC, p.lineD, p.strideC, p.strideD})
    alignment.bytes(elements * bytesOf(p.resultType));
  p.alignment = alignment.value();
  return plan;
}

std::string algorithmKey(const Product &p) {
  auto rounded = [](int64_t size) {
    const int64_t step =
        std::max<int64_t>(64, int64_t(std::bit_floor(static_cast<uint64_t>(size))) / 2);
    return size < 64 ? size : (size + step - 1) / step * step;
  };
  auto name = [](Element type) { return type == Element::BF16 ? "bf16" : "f32"; };
  std::string key = std::string(name(p.type)) + ">" + name(p.resultType) + " ";
  key += p.transposedA ? 'T' : 'N';
  key += p.transposedB ? 'T' : 'N';
  for (int64_t size : {p.m, p.n, p.k})
    key += " " + std::to_string(rounded(size));
  if (p.batches > 1)
    key += " x" + std::to_string(rounded(p.batches));
  key += " epilogue " + std::to_string(p.epilogue) + (p.beta ? " beta" : "") + " align " +
         std::to_string(p.alignment);
  return key;
}

} // namespace omnibal::rt::cuda
