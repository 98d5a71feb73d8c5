//===- AttentionEval.cpp - Attention, its gradient, rotary embedding ---------------------===//
#include "dialects/omnibal/interpreter/Evaluation.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace omnibal {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Who sees whom, by mask kind, segments and token types (docs/kernels.md says the same).
struct Visibility {
  MaskKind kind = MaskKind::Full;
  int64_t window = 0;
  std::vector<int64_t> segment; ///< of each position; empty: one segment
  const HostTensor *types = nullptr;
  int64_t firstType = 0, lastType = std::numeric_limits<int64_t>::max();

  bool counts(int64_t token) const {
    return types->ints[token] >= firstType && types->ints[token] <= lastType;
  }
  /// The number of a position's chunk, counted from the beginning of its segment.
  int64_t chunkOf(int64_t position) const {
    int64_t begin = position;
    while (begin > 0 && (segment.empty() || segment[begin - 1] == segment[position]))
      --begin;
    return (position - begin) / window;
  }
  /// Whether all tokens between two are of one block with them.
  bool inOneBlock(int64_t a, int64_t b) const {
    for (int64_t i = std::min(a, b); i <= std::max(a, b); ++i)
      if (!counts(i))
        return false;
    return true;
  }

  bool sees(int64_t query, int64_t key) const {
    if (!segment.empty() && segment[query] != segment[key])
      return false;
    switch (kind) {
    case MaskKind::Explicit:
    case MaskKind::Full:
      return true;
    case MaskKind::Causal:
      return key <= query;
    case MaskKind::Sliding:
      return key <= query && query - key < window;
    case MaskKind::Chunked:
      return key <= query && chunkOf(query) == chunkOf(key);
    case MaskKind::Prefix:
      return (key <= query && (window == 0 || query - key < window)) ||
             (types->ints[key] == 0 && counts(query));
    case MaskKind::Blocks:
      return (window == 0 || query - key < window) && (key <= query || inOneBlock(query, key));
    }
    return false;
  }
};

template <typename OpT> Visibility visibilityOf(const Evaluation &e, OpT op, int64_t length) {
  Visibility visible;
  visible.kind = op.getMaskKind();
  if (op.getWindow())
    visible.window = *op.getWindow();
  visible.types = e.valueOf(op.getTypes());
  if (auto range = op.getTypeRange()) {
    visible.firstType = (*range)[0];
    visible.lastType = (*range)[1];
  }
  if (const HostTensor *borders = e.valueOf(op.getCuSeqlens())) {
    visible.segment.assign(length, 0);
    for (int64_t border : borders->ints)
      for (int64_t i = std::max<int64_t>(border, 0); i < length; ++i)
        ++visible.segment[i];
  }
  return visible;
}

/// Sizes of query [B, H, L, D], key [B, Hk, S, D] and value [B, Hk, S, Dv].
struct AttentionSizes {
  int64_t batch, heads, queries, size, keyHeads, keys, valueSize;
  AttentionSizes(const HostTensor &q, const HostTensor &k, const HostTensor &v)
      : batch(q.shape[0]), heads(q.shape[1]), queries(q.shape[2]), size(q.shape[3]),
        keyHeads(k.shape[1]), keys(k.shape[2]), valueSize(v.shape[3]) {}
  int64_t query(int64_t b, int64_t h, int64_t i) const {
    return ((b * heads + h) * queries + i) * size;
  }
  int64_t output(int64_t b, int64_t h, int64_t i) const {
    return ((b * heads + h) * queries + i) * valueSize;
  }
  int64_t keyRow(int64_t b, int64_t h, int64_t j) const {
    return (b * keyHeads + h * keyHeads / heads) * keys + j;
  }
};

double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

LogicalResult attention(Evaluation &e, AttentionOp op) {
  const HostTensor &q = e.operand(0), &k = e.operand(1), &v = e.operand(2);
  AttentionSizes s(q, k, v);
  HostTensor &out = e.addResult({s.batch, s.heads, s.queries, s.valueSize});
  HostTensor &lse = e.addResult({s.batch, s.heads, s.queries});
  Visibility visible = visibilityOf(e, op, s.queries);
  const HostTensor *mask = e.valueOf(op.getMask());
  SmallVector<int64_t> maskStrides(4, 0);
  if (mask)
    maskStrides = broadcastStrides(mask->shape, {s.batch, s.heads, s.queries, s.keys});
  const HostTensor *sinks = e.valueOf(op.getSinks());
  double scale = op.getScale().convertToDouble();
  double cap = op.getSoftcap() ? op.getSoftcap()->convertToDouble() : 0;
  std::vector<double> score(s.keys);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.queries; ++i) {
        double top = -infinity, sum = 0;
        for (int64_t j = 0; j < s.keys; ++j) {
          score[j] = -infinity;
          if (!visible.sees(i, j))
            continue;
          double x = scale * dot(&q.floats[s.query(b, h, i)], &k.floats[s.keyRow(b, h, j) * s.size],
                                 s.size);
          if (cap > 0)
            x = cap * std::tanh(x / cap);
          if (mask) {
            int64_t at =
                b * maskStrides[0] + h * maskStrides[1] + i * maskStrides[2] + j * maskStrides[3];
            if (mask->isFloat())
              x += mask->floats[at];
            else if (!mask->ints[at])
              x = -infinity;
          }
          score[j] = x;
          top = std::max(top, x);
        }
        int64_t row = (b * s.heads + h) * s.queries + i;
        if (top == -infinity) { // sees nothing: 0
          lse.floats[row] = -infinity;
          continue;
        }
        if (sinks) {
          top = std::max(top, sinks->floats[h]);
          sum = std::exp(sinks->floats[h] - top);
        }
        for (int64_t j = 0; j < s.keys; ++j)
          sum += std::exp(score[j] - top);
        lse.floats[row] = top + std::log(sum);
        double *o = &out.floats[s.output(b, h, i)];
        for (int64_t j = 0; j < s.keys; ++j) {
          double p = std::exp(score[j] - top) / sum;
          for (int64_t d = 0; p != 0 && d < s.valueSize; ++d)
            o[d] += p * v.floats[s.keyRow(b, h, j) * s.valueSize + d];
        }
      }
  return success();
}

LogicalResult attentionGrad(Evaluation &e, AttentionGradOp op) {
  const HostTensor &q = e.operand(0), &k = e.operand(1), &v = e.operand(2);
  const HostTensor &out = e.operand(3), &lse = e.operand(4), &grad = e.operand(5);
  AttentionSizes s(q, k, v);
  HostTensor &dq = e.addResult(q.shape), &dk = e.addResult(k.shape), &dv = e.addResult(v.shape);
  Visibility visible = visibilityOf(e, op, s.queries);
  double scale = op.getScale().convertToDouble();
  double cap = op.getSoftcap() ? op.getSoftcap()->convertToDouble() : 0;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.queries; ++i) {
        int64_t qRow = s.query(b, h, i), oRow = s.output(b, h, i);
        double norm = lse.floats[(b * s.heads + h) * s.queries + i];
        if (norm == -infinity)
          continue;
        double delta = dot(&out.floats[oRow], &grad.floats[oRow], s.valueSize);
        for (int64_t j = 0; j < s.keys; ++j) {
          if (!visible.sees(i, j))
            continue;
          int64_t kRow = s.keyRow(b, h, j) * s.size, vRow = s.keyRow(b, h, j) * s.valueSize;
          double score = scale * dot(&q.floats[qRow], &k.floats[kRow], s.size), slope = scale;
          if (cap > 0) {
            double part = std::tanh(score / cap);
            score = cap * part;
            slope *= 1 - part * part;
          }
          double p = std::exp(score - norm);
          double dp = dot(&grad.floats[oRow], &v.floats[vRow], s.valueSize);
          double ds = slope * p * (dp - delta);
          for (int64_t d = 0; d < s.valueSize; ++d)
            dv.floats[vRow + d] += p * grad.floats[oRow + d];
          for (int64_t d = 0; d < s.size; ++d) {
            dq.floats[qRow + d] += ds * k.floats[kRow + d];
            dk.floats[kRow + d] += ds * q.floats[qRow + d];
          }
        }
      }
  return success();
}

LogicalResult rope(Evaluation &e, RopeOp op) {
  const HostTensor &x = e.operand(0), &positions = e.operand(1), &cos = e.operand(2),
                   &sin = e.operand(3);
  int64_t length = x.shape[2], size = x.shape[3], rows = cos.shape[0], turned = cos.shape[1];
  HostTensor &result = e.addResult(x.shape);
  result.floats = x.floats;
  for (int64_t row = 0; size > 0 && row < x.size() / size; ++row) {
    int64_t position = positions.ints[row % length];
    if (position < 0 || position >= rows)
      return op.emitOpError() << "position " << position << " is out of range for " << rows
                              << " table rows";
    const double *c = &cos.floats[position * turned], *s = &sin.floats[position * turned];
    const double *in = &x.floats[row * size];
    double *out = &result.floats[row * size];
    for (int64_t i = 0; i < turned / 2; ++i) {
      int64_t a = op.getInterleaved() ? 2 * i : i, b = op.getInterleaved() ? a + 1 : i + turned / 2;
      if (op.getInverse()) {
        out[a] = in[a] * c[a] + in[b] * s[b];
        out[b] = in[b] * c[b] - in[a] * s[a];
      } else {
        out[a] = in[a] * c[a] - in[b] * s[a];
        out[b] = in[b] * c[b] + in[a] * s[b];
      }
    }
  }
  return success();
}

} // namespace

std::optional<LogicalResult> evaluateAttention(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, std::optional<LogicalResult>>(e.op)
      .Case([&](AttentionOp op) { return attention(e, op); })
      .Case([&](AttentionGradOp op) { return attentionGrad(e, op); })
      .Case([&](RopeOp op) { return rope(e, op); })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace omnibal
