//===- Recurrent.cpp - States of a few columns, row by row --------------------------------===//
//
// The backward needs the state before every token. It keeps one in about the root of the segment's
// length, and from there those up to the next.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/host/vector/Recurrent.h"
#include "runtime/backends/host/vector/VectorMath.h"

namespace {
using omnibal::rt::GatedDeltaTask;

constexpr int64_t width = 16; ///< columns of a state
constexpr int parts = width / lanes;

/// A row of a state, or what a token has for its columns.
struct Row {
  Vec at[parts];
};

OMNIBAL_INLINE Row loadRow(const float *p) {
  Row row;
  for (int c = 0; c < parts; ++c)
    row.at[c] = load(p + c * lanes);
  return row;
}
OMNIBAL_INLINE void storeRow(float *p, const Row &row) {
  for (int c = 0; c < parts; ++c)
    store(p + c * lanes, row.at[c]);
}
/// The first `count` columns, zeros in the others.
OMNIBAL_INLINE Row loadPartOfRow(const float *p, int64_t count) {
  float buffer[width] = {};
  for (int64_t i = 0; i < count; ++i)
    buffer[i] = p[i];
  return loadRow(buffer);
}
OMNIBAL_INLINE void storePartOfRow(float *p, const Row &row, int64_t count) {
  float buffer[width];
  storeRow(buffer, row);
  for (int64_t i = 0; i < count; ++i)
    p[i] = buffer[i];
}
OMNIBAL_INLINE Row times(const Row &row, float factor) {
  Row result;
  for (int c = 0; c < parts; ++c)
    result.at[c] = row.at[c] * factor;
  return result;
}
/// sum += factor * row.
OMNIBAL_INLINE void add(Row &sum, const Row &row, float factor) {
  for (int c = 0; c < parts; ++c)
    sum.at[c] += row.at[c] * factor;
}
OMNIBAL_INLINE float dot(const Row &a, const Row &b) {
  Vec sum{};
  for (int c = 0; c < parts; ++c)
    sum += a.at[c] * b.at[c];
  return sumLanes(sum);
}

OMNIBAL_INLINE int64_t columnsFrom(const GatedDeltaTask &t, int64_t column) {
  return t.valueSize - column < width ? t.valueSize - column : width;
}

/// Decays the state of some columns and returns value - key^T state.
OMNIBAL_INLINE Row decayState(const GatedDeltaTask &t, float *state, int64_t token,
                              int64_t column) {
  const float *k = t.k.at(token, t.head), decay = __builtin_expf(*t.decay.at(token, t.head));
  Row rest = loadPartOfRow(t.v.at(token, t.head) + column, columnsFrom(t, column));
  for (int64_t i = 0; i < t.size; ++i) {
    const Row row = times(loadRow(state + i * width), decay);
    storeRow(state + i * width, row);
    add(rest, row, -k[i]);
  }
  return rest;
}

/// The state after a token.
OMNIBAL_INLINE void step(const GatedDeltaTask &t, float *state, int64_t token, int64_t column) {
  const Row update = times(decayState(t, state, token, column), *t.beta.at(token, t.head));
  const float *k = t.k.at(token, t.head);
  for (int64_t i = 0; i < t.size; ++i) {
    Row row = loadRow(state + i * width);
    add(row, update, k[i]);
    storeRow(state + i * width, row);
  }
}

int64_t forwardFloats(int64_t size) { return size * width; }

void forward(const GatedDeltaTask &t) {
  float *state = t.scratch;
  std::memset(state, 0, t.size * width * sizeof(float));
  for (int64_t token = t.begin; token < t.end; ++token) {
    const Row update = times(decayState(t, state, token, t.column), *t.beta.at(token, t.head));
    const float *k = t.k.at(token, t.head), *q = t.q.at(token, t.head);
    Row sum{};
    for (int64_t i = 0; i < t.size; ++i) {
      Row row = loadRow(state + i * width);
      add(row, update, k[i]);
      storeRow(state + i * width, row);
      add(sum, row, q[i]);
    }
    storePartOfRow(t.out.at(token, t.head) + t.column, times(sum, t.scale),
                   columnsFrom(t, t.column));
  }
}

/// Tokens between two states that are kept.
int64_t periodOf(int64_t tokens) {
  int64_t period = 1;
  while (period * period < tokens)
    ++period;
  return period;
}

int64_t backwardFloats(int64_t size, int64_t tokens) {
  const int64_t period = periodOf(tokens), kept = (tokens + period - 1) / period;
  return (kept + period + 2) * size * width;
}

/// Adds, or writes where nothing is there yet.
OMNIBAL_INLINE void give(float *to, float value, bool first) { *to = first ? value : *to + value; }

/// The chain rule through one token's step for some columns. `state` is the one before it, `grad`
/// that of the state after it, which becomes that of the state before.
void stepBack(const GatedDeltaTask &t, float *state, float *grad, int64_t token, int64_t column) {
  const bool first = column == 0;
  const int64_t head = t.head, count = columnsFrom(t, column);
  const float beta = *t.beta.at(token, head), decay = __builtin_expf(*t.decay.at(token, head));
  const float *q = t.q.at(token, head), *k = t.k.at(token, head);
  float *dq = t.dq.at(token, head), *dk = t.dk.at(token, head);
  const Row rest = decayState(t, state, token, column), update = times(rest, beta);
  const Row dout = times(loadPartOfRow(t.dout.at(token, head) + column, count), t.scale);
  Row dupdate{};
  for (int64_t i = 0; i < t.size; ++i) {
    Row after = loadRow(state + i * width), row = loadRow(grad + i * width);
    add(after, update, k[i]);
    give(dq + i, dot(dout, after), first);
    add(row, dout, q[i]);
    storeRow(grad + i * width, row);
    add(dupdate, row, k[i]);
  }
  give(t.dbeta.at(token, head), dot(dupdate, rest), first);
  const Row dvalue = times(dupdate, beta);
  storePartOfRow(t.dv.at(token, head) + column, dvalue, count);
  Row ddecay{};
  for (int64_t i = 0; i < t.size; ++i) {
    const Row decayed = loadRow(state + i * width);
    Row row = loadRow(grad + i * width);
    give(dk + i, dot(row, update) - dot(decayed, dvalue), first);
    add(row, dvalue, -k[i]);
    for (int c = 0; c < parts; ++c)
      ddecay.at[c] += row.at[c] * decayed.at[c];
    storeRow(grad + i * width, times(row, decay));
  }
  Vec sum{};
  for (const Vec &part : ddecay.at)
    sum += part;
  give(t.ddecay.at(token, head), sumLanes(sum), first);
}

void backward(const GatedDeltaTask &t) {
  const int64_t tokens = t.end - t.begin, period = periodOf(tokens), state = t.size * width;
  const int64_t kept = (tokens + period - 1) / period;
  float *begins = t.scratch, *states = begins + kept * state, *now = states + period * state;
  float *grad = now + state;
  for (int64_t column = 0; column < t.valueSize; column += width) {
    std::memset(now, 0, state * sizeof(float));
    std::memset(grad, 0, state * sizeof(float));
    for (int64_t i = 0; i < tokens; ++i) {
      if (i % period == 0)
        std::memcpy(begins + i / period * state, now, state * sizeof(float));
      step(t, now, t.begin + i, column);
    }
    for (int64_t part = kept - 1; part >= 0; --part) {
      const int64_t first = part * period;
      const int64_t last = first + period < tokens ? first + period : tokens;
      std::memcpy(now, begins + part * state, state * sizeof(float));
      for (int64_t i = first; i < last; ++i) {
        std::memcpy(states + (i - first) * state, now, state * sizeof(float));
        if (i + 1 < last)
          step(t, now, t.begin + i, column);
      }
      for (int64_t i = last - 1; i >= first; --i)
        stepBack(t, states + (i - first) * state, grad, t.begin + i, column);
    }
  }
}

} // namespace

namespace omnibal::rt::OMNIBAL_ISA {
const GatedDeltaTable gatedDeltaTable = {width, forwardFloats, backwardFloats, forward, backward};
}
