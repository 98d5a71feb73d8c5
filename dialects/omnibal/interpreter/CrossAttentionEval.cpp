//===- CrossAttentionEval.cpp - Tokens that attend to pictures, and the gradient -----------===//
#include "dialects/omnibal/interpreter/Evaluation.h"
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace omnibal {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Query [1, H, L, D], key [1, Hk, S, D] and value [1, Hk, S, Dv], and the keys each query sees.
struct CrossSizes {
  int64_t heads, queries, size, keyHeads, keys, valueSize, rows;
  const HostTensor &begins, &ends;

  template <typename OpT>
  CrossSizes(const Evaluation &e, OpT op)
      : heads(e.operand(0).shape[1]), queries(e.operand(0).shape[2]), size(e.operand(0).shape[3]),
        keyHeads(e.operand(1).shape[1]), keys(e.operand(1).shape[2]),
        valueSize(e.operand(2).shape[3]), rows(op.getRows()), begins(*e.valueOf(op.getBegins())),
        ends(*e.valueOf(op.getEnds())) {}

  int64_t keyRow(int64_t head, int64_t key) const { return head * keyHeads / heads * keys + key; }
  int64_t begin(int64_t query) const { return begins.ints[query] * rows; }
  int64_t end(int64_t query) const { return ends.ints[query] * rows; }
  LogicalResult check(Operation *op) const {
    for (int64_t i = 0; i < queries; ++i)
      if (begin(i) < end(i) && (begin(i) < 0 || end(i) > keys))
        return op->emitOpError() << "query " << i << " sees keys " << begin(i) << " to " << end(i)
                                 << " of " << keys;
    return success();
  }
};

double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

LogicalResult crossAttention(Evaluation &e, CrossAttentionOp op) {
  const HostTensor &q = e.operand(0), &k = e.operand(1), &v = e.operand(2);
  CrossSizes s(e, op);
  if (failed(s.check(op)))
    return failure();
  HostTensor &out = e.addResult({1, s.heads, s.queries, s.valueSize});
  HostTensor &lse = e.addResult({1, s.heads, s.queries});
  double scale = op.getScale().convertToDouble();
  for (int64_t row = 0; row < s.heads * s.queries; ++row) {
    int64_t head = row / s.queries, query = row % s.queries;
    std::vector<double> score;
    double top = -infinity, sum = 0;
    for (int64_t j = s.begin(query); j < s.end(query); ++j) {
      score.push_back(scale *
                      dot(&q.floats[row * s.size], &k.floats[s.keyRow(head, j) * s.size], s.size));
      top = std::max(top, score.back());
    }
    lse.floats[row] = -infinity; // sees nothing: 0
    if (score.empty())
      continue;
    for (double x : score)
      sum += std::exp(x - top);
    lse.floats[row] = top + std::log(sum);
    for (auto [i, x] : llvm::enumerate(score))
      for (int64_t d = 0; d < s.valueSize; ++d)
        out.floats[row * s.valueSize + d] +=
            std::exp(x - top) / sum *
            v.floats[s.keyRow(head, s.begin(query) + i) * s.valueSize + d];
  }
  return success();
}

LogicalResult crossAttentionGrad(Evaluation &e, CrossAttentionGradOp op) {
  const HostTensor &q = e.operand(0), &k = e.operand(1), &v = e.operand(2);
  const HostTensor &out = e.operand(3), &lse = e.operand(4), &grad = e.operand(5);
  CrossSizes s(e, op);
  if (failed(s.check(op)))
    return failure();
  HostTensor &dq = e.addResult(q.shape), &dk = e.addResult(k.shape), &dv = e.addResult(v.shape);
  double scale = op.getScale().convertToDouble();
  for (int64_t row = 0; row < s.heads * s.queries; ++row) {
    int64_t head = row / s.queries, query = row % s.queries;
    const double *dout = &grad.floats[row * s.valueSize];
    double delta = dot(&out.floats[row * s.valueSize], dout, s.valueSize);
    for (int64_t j = s.begin(query); j < s.end(query); ++j) {
      int64_t key = s.keyRow(head, j);
      double score = scale * dot(&q.floats[row * s.size], &k.floats[key * s.size], s.size);
      double p = std::exp(score - lse.floats[row]);
      double ds = scale * p * (dot(dout, &v.floats[key * s.valueSize], s.valueSize) - delta);
      for (int64_t d = 0; d < s.valueSize; ++d)
        dv.floats[key * s.valueSize + d] += p * dout[d];
      for (int64_t d = 0; d < s.size; ++d) {
        dq.floats[row * s.size + d] += ds * k.floats[key * s.size + d];
        dk.floats[key * s.size + d] += ds * q.floats[row * s.size + d];
      }
    }
  }
  return success();
}

} // namespace

std::optional<LogicalResult> evaluateCrossAttention(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, std::optional<LogicalResult>>(e.op)
      .Case([&](CrossAttentionOp op) { return crossAttention(e, op); })
      .Case([&](CrossAttentionGradOp op) { return crossAttentionGrad(e, op); })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace omnibal
