//===- AttentionReference.h - Attention by its definition ------------------------------------===//
//
// In double, with gradients by the chain rule, and with the sums of the absolute values of each
// result's terms: what it costs that a kernel rounds probabilities and their gradients.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef TEST_CONFORMANCE_ATTENTIONREFERENCE_H
#define TEST_CONFORMANCE_ATTENTIONREFERENCE_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace omnibal::rt::test {

struct AttentionReference {
  int64_t heads, keyHeads, size, valueSize;
  std::string mask = "full";
  int64_t window = 0;
  double scale = 1;
  int64_t tokens = 0;
  std::vector<int> segment = {}; ///< of every token; -1: none. Tokens of one lie together
  std::vector<int32_t> types = {};
  /// [tokens, heads or key heads, size or value size]
  std::vector<double> q = {}, k = {}, v = {}, dout = {}, out = {}, lse = {}, dq = {}, dk = {},
                      dv = {};
  /// Sums of |p v|, |ds k|, |ds q| and |p dout|, where p are probabilities and ds the gradients of
  /// scores.
  std::vector<double> outTerms = {}, dqTerms = {}, dkTerms = {}, dvTerms = {};
  std::vector<double> slopes = {}; ///< of a row's capped scores, by those before
  double softcap = 0;
  std::vector<double> sinks = {}; ///< of every head, or none
  int64_t firstType = 0, lastType = std::numeric_limits<int32_t>::max();

  bool counts(int64_t token) const { return types[token] >= firstType && types[token] <= lastType; }
  int64_t chunkOf(int64_t token) const {
    int64_t before = 0;
    while (token - before > 0 && segment[token - before - 1] == segment[token])
      ++before;
    return before / window;
  }
  bool inOneBlock(int64_t i, int64_t j) const {
    for (int64_t t = std::min(i, j); t <= std::max(i, j); ++t)
      if (!counts(t))
        return false;
    return true;
  }

  bool sees(int64_t i, int64_t j) const {
    if (segment[i] != segment[j] || segment[i] < 0)
      return false;
    if (mask == "causal")
      return j <= i;
    if (mask == "sliding")
      return j <= i && i - j < window;
    if (mask == "chunked")
      return j <= i && chunkOf(i) == chunkOf(j);
    if (mask == "prefix")
      return (j <= i && (window == 0 || i - j < window)) || (types[j] == 0 && counts(i));
    if (mask == "blocks")
      return (window == 0 || i - j < window) && (j <= i || inOneBlock(i, j));
    return true;
  }

  void run(bool backward) {
    out.assign(tokens * heads * valueSize, 0), outTerms = out;
    lse.assign(tokens * heads, -std::numeric_limits<double>::infinity());
    dq.assign(q.size(), 0), dk.assign(k.size(), 0), dv.assign(v.size(), 0);
    dqTerms = dq, dkTerms = dk, dvTerms = dv;
    std::vector<double> p(tokens);
    slopes.assign(tokens, 1);
    for (int64_t i = 0; i < tokens; ++i) {
      int64_t begin = i, end = i; // of the token's segment
      while (begin > 0 && segment[begin - 1] == segment[i])
        --begin;
      while (end < tokens && segment[end] == segment[i])
        ++end;
      for (int64_t h = 0; h < heads; ++h)
        if (forwardRow(i, h, begin, end, p) && backward)
          backwardRow(i, h, begin, end, p);
    }
  }

  double objective() {
    run(false);
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i)
      sum += out[i] * dout[i];
    return sum;
  }

private:
  static int64_t at(int64_t t, int64_t h, int64_t f, int64_t heads, int64_t size) {
    return (t * heads + h) * size + f;
  }
  int64_t ofKey(int64_t t, int64_t h, int64_t f) const {
    return at(t, h * keyHeads / heads, f, keyHeads, size);
  }
  int64_t ofValue(int64_t t, int64_t h, int64_t f) const {
    return at(t, h * keyHeads / heads, f, keyHeads, valueSize);
  }

  /// Leaves the row's probabilities in p; false if the token sees nothing.
  bool forwardRow(int64_t i, int64_t h, int64_t begin, int64_t end, std::vector<double> &p) {
    double sum = 0, top = -1e300;
    for (int64_t j = begin; j < end; ++j) {
      p[j] = 0;
      if (!sees(i, j))
        continue;
      for (int64_t f = 0; f < size; ++f)
        p[j] += scale * q[at(i, h, f, heads, size)] * k[ofKey(j, h, f)];
      if (softcap > 0) {
        const double part = std::tanh(p[j] / softcap);
        p[j] = softcap * part;
        slopes[j] = 1 - part * part;
      }
      top = std::max(top, p[j]);
    }
    if (!sinks.empty() && top > -1e300)
      top = std::max(top, sinks[h]);
    for (int64_t j = begin; j < end; ++j)
      sum += p[j] = sees(i, j) ? std::exp(p[j] - top) : 0;
    if (sum == 0)
      return false;
    if (!sinks.empty())
      sum += std::exp(sinks[h] - top);
    lse[i * heads + h] = top + std::log(sum);
    for (int64_t j = begin; j < end; ++j) {
      p[j] /= sum;
      for (int64_t f = 0; f < valueSize; ++f) {
        const double term = p[j] * v[ofValue(j, h, f)];
        out[at(i, h, f, heads, valueSize)] += term;
        outTerms[at(i, h, f, heads, valueSize)] += std::abs(term);
      }
    }
    return true;
  }

  void backwardRow(int64_t i, int64_t h, int64_t begin, int64_t end, const std::vector<double> &p) {
    double delta = 0;
    for (int64_t f = 0; f < valueSize; ++f)
      delta += out[at(i, h, f, heads, valueSize)] * dout[at(i, h, f, heads, valueSize)];
    auto add = [](std::vector<double> &sum, std::vector<double> &terms, int64_t place,
                  double term) {
      sum[place] += term;
      terms[place] += std::abs(term);
    };
    for (int64_t j = begin; j < end; ++j) {
      double dp = 0;
      for (int64_t f = 0; f < valueSize; ++f) {
        const double grad = dout[at(i, h, f, heads, valueSize)];
        dp += grad * v[ofValue(j, h, f)];
        add(dv, dvTerms, ofValue(j, h, f), p[j] * grad);
      }
      const double ds = p[j] * (dp - delta) * slopes[j] * scale;
      for (int64_t f = 0; f < size; ++f) {
        add(dq, dqTerms, at(i, h, f, heads, size), ds * k[ofKey(j, h, f)]);
        add(dk, dkTerms, ofKey(j, h, f), ds * q[at(i, h, f, heads, size)]);
      }
    }
  }
};

} // namespace omnibal::rt::test
#endif // TEST_CONFORMANCE_ATTENTIONREFERENCE_H
