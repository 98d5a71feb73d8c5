//===- RecurrentEval.cpp - The gated delta rule and its gradient, token by token -----------===//
#include "dialects/omnibal/interpreter/Evaluation.h"
#include <cmath>

using namespace mlir;

namespace omnibal {
namespace {

using State = std::vector<double>; ///< [size][valueSize]

/// Operands of one head, by rows, and the rule's steps.
struct Head {
  int64_t size, valueSize, rows; ///< rows: places of tokens in one batch entry and head
  const double *q, *k, *v, *decay, *beta;
  double scale;

  Head(Evaluation &e, double scale, int64_t head)
      : size(e.operand(0).shape[3]), valueSize(e.operand(2).shape[3]), rows(e.operand(0).shape[2]),
        q(&e.operand(0).floats[head * rows * size]), k(&e.operand(1).floats[head * rows * size]),
        v(&e.operand(2).floats[head * rows * valueSize]), decay(&e.operand(3).floats[head * rows]),
        beta(&e.operand(4).floats[head * rows]), scale(scale) {}

  /// exp(decay) times the state before token t.
  State decayed(const State &before, int64_t t) const {
    State state = before;
    for (double &x : state)
      x *= std::exp(decay[t]);
    return state;
  }
  /// value - key^T S for the decayed state.
  std::vector<double> missing(const State &state, int64_t t) const {
    std::vector<double> rest(v + t * valueSize, v + (t + 1) * valueSize);
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < valueSize; ++j)
        rest[j] -= k[t * size + i] * state[i * valueSize + j];
    return rest;
  }
  State after(const State &before, int64_t t) const {
    State state = decayed(before, t);
    std::vector<double> rest = missing(state, t);
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < valueSize; ++j)
        state[i * valueSize + j] += k[t * size + i] * beta[t] * rest[j];
    return state;
  }
};

/// The first row of each row's segment.
template <typename OpT> std::vector<char> beginnings(Evaluation &e, OpT op, int64_t rows) {
  std::vector<char> first(rows, 0);
  if (rows > 0)
    first[0] = 1;
  if (const HostTensor *borders = e.valueOf(op.getCuSeqlens()))
    for (int64_t border : borders->ints)
      if (border >= 0 && border < rows)
        first[border] = 1;
  return first;
}

LogicalResult gatedDelta(Evaluation &e, GatedDeltaOp op) {
  const HostTensor &value = e.operand(2);
  HostTensor &out = e.addResult(value.shape);
  int64_t rows = value.shape[2];
  std::vector<char> first = beginnings(e, op, rows);
  for (int64_t h = 0; h < value.shape[0] * value.shape[1]; ++h) {
    Head head(e, op.getScale().convertToDouble(), h);
    State state(head.size * head.valueSize);
    for (int64_t t = 0; t < rows; ++t) {
      if (first[t])
        std::fill(state.begin(), state.end(), 0);
      state = head.after(state, t);
      double *o = &out.floats[(h * rows + t) * head.valueSize];
      for (int64_t i = 0; i < head.size; ++i)
        for (int64_t j = 0; j < head.valueSize; ++j)
          o[j] += head.scale * head.q[t * head.size + i] * state[i * head.valueSize + j];
    }
  }
  return success();
}

/// The chain rule through the steps of one head, last token first.
void headGradient(const Head &head, const std::vector<char> &first, const double *dout, double *dq,
                  double *dk, double *dv, double *ddecay, double *dbeta) {
  const int64_t size = head.size, valueSize = head.valueSize;
  std::vector<State> before; // of every token
  State state(size * valueSize);
  for (int64_t t = 0; t < head.rows; ++t) {
    if (first[t])
      std::fill(state.begin(), state.end(), 0);
    before.push_back(state);
    state = head.after(state, t);
  }
  State ds(size * valueSize);
  for (int64_t t = head.rows - 1; t >= 0; --t) {
    State decayed = head.decayed(before[t], t), after = head.after(before[t], t);
    std::vector<double> rest = head.missing(decayed, t), du(valueSize);
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < valueSize; ++j) {
        const double grad = head.scale * dout[t * valueSize + j];
        dq[t * size + i] += grad * after[i * valueSize + j];
        ds[i * valueSize + j] += grad * head.q[t * size + i];
        du[j] += ds[i * valueSize + j] * head.k[t * size + i];
        dk[t * size + i] += ds[i * valueSize + j] * head.beta[t] * rest[j];
      }
    for (int64_t j = 0; j < valueSize; ++j) {
      dbeta[t] += du[j] * rest[j];
      dv[t * valueSize + j] = head.beta[t] * du[j];
    }
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < valueSize; ++j) {
        double &x = ds[i * valueSize + j];
        dk[t * size + i] -= decayed[i * valueSize + j] * dv[t * valueSize + j];
        x -= head.k[t * size + i] * dv[t * valueSize + j];
        ddecay[t] += x * decayed[i * valueSize + j];
        x *= first[t] ? 0 : std::exp(head.decay[t]);
      }
  }
}

LogicalResult gatedDeltaGrad(Evaluation &e, GatedDeltaGradOp op) {
  const HostTensor &query = e.operand(0), &value = e.operand(2), &grad = e.operand(5);
  HostTensor &dq = e.addResult(query.shape), &dk = e.addResult(query.shape),
             &dv = e.addResult(value.shape), &ddecay = e.addResult(e.operand(3).shape),
             &dbeta = e.addResult(e.operand(4).shape);
  int64_t rows = query.shape[2], size = query.shape[3], valueSize = value.shape[3];
  std::vector<char> first = beginnings(e, op, rows);
  for (int64_t h = 0; h < query.shape[0] * query.shape[1]; ++h)
    headGradient(Head(e, op.getScale().convertToDouble(), h), first,
                 &grad.floats[h * rows * valueSize], &dq.floats[h * rows * size],
                 &dk.floats[h * rows * size], &dv.floats[h * rows * valueSize],
                 &ddecay.floats[h * rows], &dbeta.floats[h * rows]);
  return success();
}

} // namespace

std::optional<LogicalResult> evaluateRecurrent(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, std::optional<LogicalResult>>(e.op)
      .Case([&](GatedDeltaOp op) { return gatedDelta(e, op); })
      .Case([&](GatedDeltaGradOp op) { return gatedDeltaGrad(e, op); })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace omnibal
