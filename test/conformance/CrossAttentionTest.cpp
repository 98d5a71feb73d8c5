//===- CrossAttentionTest.cpp - Tokens that attend to pictures, against naive sums ----------===//
#include "test/conformance/KernelTest.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// softmax(scale q k^T) v in double, where token i sees the rows of pictures begins[i] to
/// ends[i] - 1, and the gradients.
struct Reference {
  std::vector<int32_t> begins, ends;
  int64_t pictures, rows, heads, keyHeads, size, valueSize;
  double scale = 0.4;
  std::vector<double> q = {}, k = {}, v = {}, dout = {}, out = {}, lse = {}, dq = {}, dk = {},
                      dv = {};

  int64_t tokens() const { return static_cast<int64_t>(begins.size()); }
  int64_t keys() const { return pictures * rows; }
  const double *keyAt(int64_t j, int64_t h) const {
    return &k[(j * keyHeads + h * keyHeads / heads) * size];
  }

  void draw(std::mt19937 &random) {
    std::normal_distribution<float> normal(0, 1);
    for (auto [list, n] : {std::pair{&q, tokens() * heads * size},
                           {&k, keys() * keyHeads * size},
                           {&v, keys() * keyHeads * valueSize},
                           {&dout, tokens() * heads * valueSize}}) {
      list->resize(n);
      for (double &x : *list)
        x = normal(random);
    }
  }

  void run() {
    out.assign(tokens() * heads * valueSize, 0);
    lse.assign(tokens() * heads, -infinity);
    dq.assign(q.size(), 0);
    dk.assign(k.size(), 0);
    dv.assign(v.size(), 0);
    for (int64_t i = 0; i < tokens(); ++i)
      for (int64_t h = 0; h < heads; ++h)
        runRow(i, h);
  }

  /// The sum that `dout` weighs the outputs to.
  double objective() {
    run();
    return std::inner_product(out.begin(), out.end(), dout.begin(), 0.0);
  }

private:
  void runRow(int64_t i, int64_t h) {
    const int64_t first = begins[i] * rows, last = ends[i] * rows, row = i * heads + h;
    std::vector<double> p;
    double sum = 0;
    for (int64_t j = first; j < last; ++j) {
      p.push_back(std::exp(
          scale * std::inner_product(keyAt(j, h), keyAt(j, h) + size, &q[row * size], 0.0)));
      sum += p.back();
    }
    if (p.empty())
      return;
    lse[row] = std::log(sum);
    double delta = 0;
    for (int64_t j = first; j < last; ++j)
      for (int64_t d = 0; d < valueSize; ++d) {
        const int64_t at = (j * keyHeads + h * keyHeads / heads) * valueSize + d;
        const double part = p[j - first] / sum * v[at];
        out[row * valueSize + d] += part;
        delta += part * dout[row * valueSize + d];
        dv[at] += p[j - first] / sum * dout[row * valueSize + d];
      }
    for (int64_t j = first; j < last; ++j) {
      const int64_t key = j * keyHeads + h * keyHeads / heads;
      const double dp = std::inner_product(&v[key * valueSize], &v[key * valueSize] + valueSize,
                                           &dout[row * valueSize], 0.0);
      const double ds = scale * p[j - first] / sum * (dp - delta);
      for (int64_t d = 0; d < size; ++d) {
        dq[row * size + d] += ds * k[key * size + d];
        dk[key * size + d] += ds * q[row * size + d];
      }
    }
  }
};

/// As a sample has them: some tokens before all of its pictures, which see all of them, then runs
/// of pictures, of which each token sees the last as far as it goes. Samples without pictures see
/// nothing; every fifth picture is seen by nobody.
Reference samples(std::mt19937 &random, int64_t count, int64_t longest, int64_t rows, int64_t heads,
                  int64_t keyHeads, int64_t size, int64_t valueSize) {
  Reference r{{}, {}, 0, rows, heads, keyHeads, size, valueSize};
  std::uniform_int_distribution<int32_t> length(1, static_cast<int32_t>(longest));
  auto add = [&](int32_t begin, int64_t end, int32_t times) {
    r.begins.insert(r.begins.end(), times, begin);
    r.ends.insert(r.ends.end(), times, static_cast<int32_t>(end));
  };
  for (int64_t s = 0; s < count; ++s) {
    const auto first = static_cast<int32_t>(r.pictures);
    const int32_t has = static_cast<int32_t>(s % 4);
    add(first, first + has, length(random));
    for (int32_t p = 0; p < has; ++p) // the second and third stand side by side
      add(first + (p > 0), first + p + 1, p == 1 ? 1 : length(random));
    r.pictures += has + (s % 5 == 4);
  }
  r.draw(random);
  r.run();
  return r;
}

void check(const Reference &want, bool featureMajor, const std::string &what) {
  std::vector<int> order = featureMajor ? std::vector<int>{1, 2, 0} : std::vector<int>{0, 1, 2};
  auto tensor = [&](int64_t count, int64_t heads, int64_t size, const std::vector<double> &values) {
    Tensor<float> t({count, heads, size}, order, 3);
    std::fill(t.memory.begin(), t.memory.end(), NAN);
    if (!values.empty())
      t.fill([&](int64_t i) { return static_cast<float>(values[i]); });
    return t;
  };
  const int64_t tokens = want.tokens(), keys = want.keys();
  Tensor<float> q = tensor(tokens, want.heads, want.size, want.q),
                k = tensor(keys, want.keyHeads, want.size, want.k),
                v = tensor(keys, want.keyHeads, want.valueSize, want.v),
                dout = tensor(tokens, want.heads, want.valueSize, want.dout);
  Tensor<int32_t> begins({tokens}), ends({tokens});
  begins.fill([&](int64_t i) { return want.begins[i]; });
  ends.fill([&](int64_t i) { return want.ends[i]; });
  const nlohmann::json attributes = {{"scale", want.scale}, {"rows", want.rows}};
  Tensor<float> first[5];
  for (int threads : {1, 3}) {
    Tensor<float> out = tensor(tokens, want.heads, want.valueSize, {}), lse({tokens, want.heads}),
                  dq = tensor(tokens, want.heads, want.size, {}),
                  dk = tensor(keys, want.keyHeads, want.size, {}),
                  dv = tensor(keys, want.keyHeads, want.valueSize, {});
    Operands operands = {{"q", q.view},      {"k", k.view},     {"v", v.view},
                         {"out", out.view},  {"lse", lse.view}, {"begins", begins.view},
                         {"ends", ends.view}};
    EXPECT_OK(runKernel("cross_attention", operands, attributes, threads));
    expectNear(out, want.out, 3e-6, 1e-5, what + " out");
    expectNear(lse, want.lse, 3e-6, 1e-6, what + " lse");
    for (auto [name, view] :
         {std::pair{"dout", dout.view}, {"dq", dq.view}, {"dk", dk.view}, {"dv", dv.view}})
      operands.push_back({name, view});
    EXPECT_OK(runKernel("cross_attention_backward", operands, attributes, threads));
    expectNear(dq, want.dq, 2e-5, 2e-5, what + " dq");
    expectNear(dk, want.dk, 5e-5, 2e-5, what + " dk");
    expectNear(dv, want.dv, 5e-5, 2e-5, what + " dv");
    Tensor<float> *now[5] = {&out, &lse, &dq, &dk, &dv};
    for (int i = 0; i < 5; ++i) {
      if (threads == 1)
        first[i] = *now[i];
      else
        for (int64_t j = 0; j < now[i]->elements(); ++j)
          ASSERT_EQ((*now[i])[j], first[i][j]) << "threads change the result: " << what;
    }
  }
}

} // namespace

TEST(CrossAttention, ReferenceGradientsMatchFiniteDifferences) {
  std::mt19937 random(1);
  Reference r = samples(random, 4, 2, 2, 4, 2, 3, 2);
  auto analytic = std::array{r.dq, r.dk, r.dv};
  std::vector<double> *inputs[] = {&r.q, &r.k, &r.v};
  for (int which = 0; which < 3; ++which)
    for (size_t i = 0; i < inputs[which]->size(); ++i) {
      double &x = (*inputs[which])[i], keep = x, step = 1e-5;
      x = keep + step;
      double up = r.objective();
      x = keep - step;
      double down = r.objective();
      x = keep;
      ASSERT_NEAR((up - down) / (2 * step), analytic[which][i], 1e-7);
    }
}

TEST(CrossAttention, TokensSeePicturesOfTheirSample) {
  std::mt19937 random(2);
  int seed = 0;
  for (auto [count, longest, rows, heads, keyHeads, size, valueSize] :
       {std::array<int64_t, 7>{1, 5, 3, 1, 1, 8, 8},
        {6, 4, 5, 4, 2, 16, 16},
        {9, 40, 17, 8, 2, 12, 20},
        {5, 130, 33, 2, 2, 64, 64},
        {4, 3, 101, 6, 1, 5, 7}})
    for (bool featureMajor : {false, true})
      check(samples(random, count, longest, rows, heads, keyHeads, size, valueSize), featureMajor,
            "case " + std::to_string(seed++));
}

/// Ranges in any order, some of them overlapping those of tokens far before.
TEST(CrossAttention, AnyRanges) {
  std::mt19937 random(3);
  Reference r{{3, 0, 2, 9, 4, 1, 0, 6, 6}, {5, 0, 3, 9, 5, 2, 0, 8, 7}, 9, 11, 4, 2, 8, 8};
  r.draw(random);
  r.run();
  check(r, false, "any ranges");
}

TEST(CrossAttention, NoPicturesAndNoTokens) {
  std::mt19937 random(4);
  Reference none{{0, 0, 0}, {0, 0, 0}, 0, 4, 2, 1, 8, 8};
  none.draw(random);
  none.run();
  check(none, false, "no pictures");
  Reference empty{{}, {}, 2, 4, 2, 1, 8, 8};
  empty.draw(random);
  empty.run();
  check(empty, false, "no tokens");
}

TEST(CrossAttention, RejectsPicturesThatAreNotThere) {
  Tensor<float> q({1, 1, 4}), k({6, 1, 4}), v({6, 1, 4}), out({1, 1, 4}), lse({1, 1});
  Tensor<int32_t> begins({1}), ends({1});
  ends[0] = 3;
  Operands operands = {{"q", q.view},      {"k", k.view},     {"v", v.view},
                       {"out", out.view},  {"lse", lse.view}, {"begins", begins.view},
                       {"ends", ends.view}};
  Status status = runKernel("cross_attention", operands, {{"rows", 3}});
  EXPECT_NE(status.message().find("token 0 sees rows 0 to 9 of 6 of the pictures"),
            std::string::npos)
      << status.message();
  status = runKernel("cross_attention", operands);
  EXPECT_NE(status.message().find("rows"), std::string::npos) << status.message();
}
