#include "test/conformance/KernelTest.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

/// The gated delta rule by its definition, in double, with gradients by the chain rule.
struct GatedDeltaReference {
  int64_t heads, size, valueSize;
  std::vector<int> segment = {}; ///< of every token; -1: none
  double scale = 1;
  std::vector<double> q = {}, k = {}, v = {}, decay = {}, beta = {}, dout = {}, out = {}, dq = {},
                      dk = {}, dv = {}, ddecay = {}, dbeta = {};

  int64_t tokens() const { return static_cast<int64_t>(segment.size()); }

  void run() {
    out.assign(v.size(), 0), dq.assign(q.size(), 0), dk = dq, dv.assign(v.size(), 0);
    ddecay.assign(decay.size(), 0), dbeta = ddecay;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t begin = 0; begin < tokens();) {
        int64_t end = begin + 1;
        while (end < tokens() && segment[end] == segment[begin])
          ++end;
        if (segment[begin] >= 0)
          runSegment(h, begin, end);
        begin = end;
      }
  }

  double objective() {
    run();
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i)
      sum += out[i] * dout[i];
    return sum;
  }

private:
  using Matrix = std::vector<double>; ///< [size][valueSize]

  void runSegment(int64_t h, int64_t begin, int64_t end) {
    std::vector<Matrix> decayed, after;
    std::vector<std::vector<double>> rest;
    Matrix state(size * valueSize);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row = t * heads + h;
      for (double &x : state)
        x *= std::exp(decay[row]);
      decayed.push_back(state);
      std::vector<double> missing(v.begin() + row * valueSize, v.begin() + (row + 1) * valueSize);
      for (int64_t i = 0; i < size * valueSize; ++i)
        missing[i % valueSize] -= k[row * size + i / valueSize] * state[i];
      for (int64_t i = 0; i < size * valueSize; ++i)
        state[i] += k[row * size + i / valueSize] * beta[row] * missing[i % valueSize];
      for (int64_t i = 0; i < size * valueSize; ++i)
        out[row * valueSize + i % valueSize] += scale * q[row * size + i / valueSize] * state[i];
      after.push_back(state);
      rest.push_back(missing);
    }
    Matrix grad(size * valueSize);
    for (int64_t t = end - 1; t >= begin; --t) {
      const int64_t row = t * heads + h;
      std::vector<double> update(valueSize);
      for (int64_t i = 0; i < size * valueSize; ++i) {
        const int64_t f = row * size + i / valueSize, j = i % valueSize;
        dq[f] += scale * dout[row * valueSize + j] * after[t - begin][i];
        grad[i] += scale * dout[row * valueSize + j] * q[f];
        dk[f] += grad[i] * beta[row] * rest[t - begin][j];
        update[j] += grad[i] * k[f];
      }
      for (int64_t j = 0; j < valueSize; ++j) {
        dbeta[row] += update[j] * rest[t - begin][j];
        dv[row * valueSize + j] = beta[row] * update[j];
      }
      for (int64_t i = 0; i < size * valueSize; ++i) {
        const int64_t f = row * size + i / valueSize;
        const double change = dv[row * valueSize + i % valueSize];
        dk[f] -= decayed[t - begin][i] * change;
        grad[i] -= k[f] * change;
        ddecay[row] += grad[i] * decayed[t - begin][i];
        grad[i] *= std::exp(decay[row]);
      }
    }
  }
};

GatedDeltaReference makeReference(const std::vector<int64_t> &lengths, int64_t tail, int64_t heads,
                                  int64_t size, int64_t valueSize, std::mt19937 &random) {
  GatedDeltaReference r{heads, size, valueSize};
  for (size_t s = 0; s < lengths.size(); ++s)
    r.segment.insert(r.segment.end(), lengths[s], static_cast<int>(s));
  r.segment.insert(r.segment.end(), tail, -1);
  r.scale = 0.7;
  std::normal_distribution<float> normal(0, 1);
  std::uniform_real_distribution<float> uniform(0, 1);
  auto draw = [&](std::vector<double> &x, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      x.push_back(normal(random));
  };
  const int64_t rows = r.tokens() * heads;
  draw(r.q, rows * size);
  draw(r.k, rows * size);
  for (double &x : r.k) // about unit vectors, as models have them: states stay bounded
    x = static_cast<float>(x / std::sqrt(static_cast<double>(size)));
  draw(r.v, rows * valueSize);
  draw(r.dout, rows * valueSize);
  for (int64_t i = 0; i < rows; ++i) {
    r.decay.push_back(-3 * uniform(random) * uniform(random)); // some forget nearly all
    r.beta.push_back(uniform(random));
  }
  return r;
}

void runCase(const std::vector<int64_t> &lengths, int64_t heads, int64_t size, int64_t valueSize,
             int64_t tail = 0, bool equalSegments = false) {
  std::mt19937 random(static_cast<unsigned>(size * 31 + valueSize));
  GatedDeltaReference want = makeReference(lengths, tail, heads, size, valueSize, random);
  want.run();
  const int64_t tokens = want.tokens();
  auto rows = [&](int64_t features, const std::vector<double> &values) {
    Tensor<float> t({tokens, heads, features}, {}, 3);
    std::fill(t.memory.begin(), t.memory.end(), NAN);
    if (!values.empty())
      t.fill([&](int64_t i) { return static_cast<float>(values[i]); });
    return t;
  };
  auto numbers = [&](const std::vector<double> &values) {
    Tensor<float> t({tokens, heads}, {1, 0});
    std::fill(t.memory.begin(), t.memory.end(), NAN);
    if (!values.empty())
      t.fill([&](int64_t i) { return static_cast<float>(values[i]); });
    return t;
  };
  Tensor<float> q = rows(size, want.q), k = rows(size, want.k), v = rows(valueSize, want.v),
                dout = rows(valueSize, want.dout), decay = numbers(want.decay),
                beta = numbers(want.beta);
  std::vector<int32_t> list = {0};
  for (int64_t n : lengths)
    list.push_back(list.back() + static_cast<int32_t>(n));
  list.push_back(list.back()); // past the last sample
  Tensor<int32_t> borders({static_cast<int64_t>(list.size())});
  borders.fill([&](int64_t i) { return list[i]; });
  nlohmann::json attributes = {{"scale", want.scale}};
  if (equalSegments)
    attributes["segment_rows"] = lengths[0];
  const std::string what =
      std::to_string(size) + "x" + std::to_string(valueSize) + " T=" + std::to_string(tokens);
  std::vector<Tensor<float>> before;
  for (int threads : {1, 3}) {
    Operands operands = {
        {"q", q.view}, {"k", k.view}, {"v", v.view}, {"decay", decay.view}, {"beta", beta.view}};
    if (!equalSegments)
      operands.push_back({"cu_seqlens", borders.view});
    Tensor<float> out = rows(valueSize, {}), dq = rows(size, {}), dk = rows(size, {}),
                  dv = rows(valueSize, {}), ddecay = numbers({}), dbeta = numbers({});
    Operands forward = operands;
    forward.push_back({"out", out.view});
    EXPECT_OK(runKernel("gated_delta", forward, attributes, threads));
    expectNear(out, want.out, 2e-5, 2e-5, what + " out");
    for (auto [name, view] : {std::pair{"dout", dout.view},
                              {"dq", dq.view},
                              {"dk", dk.view},
                              {"dv", dv.view},
                              {"ddecay", ddecay.view},
                              {"dbeta", dbeta.view}})
      operands.push_back({name, view});
    EXPECT_OK(runKernel("gated_delta_backward", operands, attributes, threads));
    expectNear(dq, want.dq, 5e-5, 5e-5, what + " dq");
    expectNear(dk, want.dk, 2e-4, 5e-5, what + " dk");
    expectNear(dv, want.dv, 5e-5, 5e-5, what + " dv");
    expectNear(ddecay, want.ddecay, 2e-4, 5e-5, what + " ddecay");
    expectNear(dbeta, want.dbeta, 2e-4, 5e-5, what + " dbeta");
    std::vector<Tensor<float>> now = {out, dq, dk, dv, ddecay, dbeta};
    for (size_t i = 0; i < before.size(); ++i)
      for (int64_t j = 0; j < now[i].elements(); ++j)
        ASSERT_EQ(now[i][j], before[i][j]) << "threads change the result: " << what;
    before = now;
  }
}

} // namespace

TEST(GatedDelta, ReferenceGradientsMatchFiniteDifferences) {
  std::mt19937 random(1);
  GatedDeltaReference r = makeReference({4, 2}, 1, 2, 3, 2, random);
  r.run();
  auto analytic = std::array{r.dq, r.dk, r.dv, r.ddecay, r.dbeta};
  std::vector<double> *inputs[] = {&r.q, &r.k, &r.v, &r.decay, &r.beta};
  for (int which = 0; which < 5; ++which)
    for (size_t i = 0; i < inputs[which]->size(); ++i) {
      double &x = (*inputs[which])[i], keep = x, step = 1e-5;
      x = keep + step;
      const double up = r.objective();
      x = keep - step;
      const double down = r.objective();
      x = keep;
      ASSERT_NEAR((up - down) / (2 * step), analytic[which][i], 1e-7);
    }
}

TEST(GatedDelta, PackedSamples) {
  runCase({30, 7, 0, 65, 1}, 3, 16, 16);
  runCase({13, 80}, 2, 24, 40, 5);
}

TEST(GatedDelta, AnySize) {
  runCase({20}, 1, 1, 1);
  runCase({9, 10}, 2, 5, 3);
  runCase({11}, 1, 40, 33);
  runCase({12, 3}, 1, 33, 130);
}

TEST(GatedDelta, EqualSegments) { runCase({21, 21, 21}, 2, 8, 8, 0, true); }

TEST(GatedDelta, LongSamples) {
  runCase({700, 133, 260}, 2, 16, 16);
  runCase({300}, 1, 128, 128);
}

TEST(GatedDelta, NoRows) {
  runCase({}, 2, 8, 8);
  runCase({}, 2, 8, 8, 9);
}

TEST(GatedDelta, RejectsBrokenBorders) {
  Tensor<float> x({4, 1, 2}), out({4, 1, 2}), numbers({4, 1});
  Tensor<int32_t> borders({2});
  borders[0] = 0, borders[1] = 5;
  EXPECT_NE(runKernel("gated_delta", {{"q", x.view},
                                      {"k", x.view},
                                      {"v", x.view},
                                      {"decay", numbers.view},
                                      {"beta", numbers.view},
                                      {"out", out.view},
                                      {"cu_seqlens", borders.view}})
                .message()
                .find("cu_seqlens[1] is 5"),
            std::string::npos);
}
