//===- FusedAttentionTest.cpp - Attention by a library beside our own kernels -----------------===//
#include "runtime/backends/cuda/libraries/Libraries.h"
#include "test/support/fake_libraries/FakeAttention.h"
#include "test/unit/runtime/backends/cuda/kernels/KernelChecks.h"
#include "test/unit/runtime/backends/cuda/libraries/FakeFolder.h"

using namespace omnibal;
using namespace omnibal::rt;
using namespace omnibal::rt::test;
using namespace omnibal::rt::cuda;

namespace {

/// The fake as it is when opened.
fake::Attention &freshAttention() {
  static void *library = dlopen(OMNIBAL_FAKE_ATTENTION "/libomnibal_cudnn.so", RTLD_NOW);
  EXPECT_NE(library, nullptr) << dlerror();
  auto state = reinterpret_cast<fake::Attention *(*)()>(dlsym(library, "fakeAttention"))();
  *state = {};
  return *state;
}

struct Problem {
  std::vector<int64_t> lengths;
  int64_t heads = 2, keyHeads = 1, size = 64, valueSize = 64;
  bool causal = true;
  int64_t tail = 0;        ///< rows behind the last sample
  bool equal = false;      ///< segments instead of borders
  bool oneMatrix = false;  ///< q, k and v lie side by side, their gradients too
  bool headsFirst = false; ///< lse by heads
};

/// bfloat16 memory, 16 bytes aligned, between values that nobody may touch.
struct Memory {
  std::vector<uint16_t> values;
  uint16_t *at(int64_t i) { return values.data() + 64 + i; }
  Memory(int64_t count, std::mt19937 *random) : values(count + 128, 0x7fc1) {
    std::normal_distribution<float> normal(0, 1);
    for (int64_t i = 0; random && i < count; ++i)
      *at(i) = roundToBf16(normal(*random));
    if (reinterpret_cast<uintptr_t>(values.data()) % 16 != 0)
      ADD_FAILURE() << "memory is not aligned";
  }
};

/// A problem's tensors, and one side's results.
class Call {
public:
  Call(const Problem &p, int seed) : problem(p), random(seed) {
    borders = {0};
    for (int64_t n : p.lengths)
      borders.push_back(borders.back() + static_cast<int32_t>(n));
    tokens = borders.back() + p.tail;
    borders.resize(tokens + 1, borders.back()); // as the runtime has it
    shape.tokens = tokens;
    shape.heads = p.heads;
    shape.keyHeads = p.keyHeads;
    shape.size = p.size;
    shape.valueSize = p.valueSize;
    shape.scale = 1 / std::sqrt(float(p.size));
    shape.mask = p.causal ? AttentionMask::Causal : AttentionMask::Full;
    shape.segmentRows = p.equal ? p.lengths[0] : 0;
    shape.borderCount = p.equal ? 0 : tokens + 1;
    shape.type = Element::BF16;
    const int64_t row = p.heads * p.size + p.keyHeads * (p.size + p.valueSize);
    const int64_t q = p.oneMatrix ? row : p.heads * p.size;
    const int64_t k = p.oneMatrix ? row : p.keyHeads * p.size;
    const int64_t v = p.oneMatrix ? row : p.keyHeads * p.valueSize;
    shape.q = shape.dq = {q, p.size, 1};
    shape.k = shape.dk = {k, p.size, 1};
    shape.v = shape.dv = {v, p.valueSize, 1};
    shape.out = shape.dout = {p.heads * p.valueSize, p.valueSize, 1};
    shape.lseToken = p.headsFirst ? 1 : p.heads;
    shape.lseHead = p.headsFirst ? tokens : 1;
    addMatrices(inputs, &random);
    dout = std::make_unique<Memory>(tokens * p.heads * p.valueSize, &random);
    clearResults();
  }

  void clearResults() {
    out = std::make_unique<Memory>(tokens * problem.heads * problem.valueSize, nullptr);
    lse.assign(tokens * problem.heads + 4, NAN);
    addMatrices(gradients, nullptr);
  }

  AttentionData data() {
    AttentionData d;
    d.q = part(inputs, 0), d.k = part(inputs, 1), d.v = part(inputs, 2);
    d.dq = part(gradients, 0), d.dk = part(gradients, 1), d.dv = part(gradients, 2);
    d.out = out->at(0);
    d.dout = dout->at(0);
    d.lse = lse.data();
    d.borders = problem.equal ? nullptr : borders.data();
    return d;
  }
  Load load() const {
    std::vector<int64_t> ends = {0};
    for (int64_t n : problem.lengths)
      ends.push_back(ends.back() + n);
    return loadOf(ends, -1);
  }

  void own(bool backward) {
    AttentionData d = data();
    std::vector<double> workspace(attentionWorkspaceBytes(shape) / 8 + 2);
    d.workspace = workspace.data();
    ASSERT_EQ(backward ? launchAttentionBackward(shape, d, directStream())
                       : launchAttention(shape, d, directStream()),
              cudaSuccess);
  }

  const Problem &problem;
  std::mt19937 random;
  int64_t tokens = 0;
  std::vector<int32_t> borders;
  AttentionShape shape;
  std::vector<std::unique_ptr<Memory>> inputs, gradients; ///< one, or q, k, v
  std::unique_ptr<Memory> out, dout;
  std::vector<float> lse;

private:
  void addMatrices(std::vector<std::unique_ptr<Memory>> &list, std::mt19937 *values) {
    list.clear();
    const Problem &p = problem;
    const int64_t q = p.heads * p.size, k = p.keyHeads * p.size, v = p.keyHeads * p.valueSize;
    for (int64_t columns :
         p.oneMatrix ? std::vector<int64_t>{q + k + v} : std::vector<int64_t>{q, k, v})
      list.push_back(std::make_unique<Memory>(tokens * columns, values));
  }
  void *part(std::vector<std::unique_ptr<Memory>> &list, int which) {
    const Problem &p = problem;
    if (!p.oneMatrix)
      return list[which]->at(0);
    const int64_t before[] = {0, p.heads * p.size, (p.heads + p.keyHeads) * p.size};
    return list[0]->at(before[which]);
  }
};

void expectNear(const Memory &got, const Memory &want, double tolerance, const char *what) {
  ASSERT_EQ(got.values.size(), want.values.size());
  for (size_t i = 0; i < want.values.size(); ++i) {
    const float g = fromBf16(got.values[i]), w = fromBf16(want.values[i]);
    if (got.values[i] == want.values[i])
      continue;
    ASSERT_LE(std::abs(g - w), tolerance * (1 + std::abs(w))) << what << ", place " << i;
  }
}

class AttentionByLibrary : public testing::Test {
protected:
  AttentionByLibrary() : state(freshAttention()) {}
  ~AttentionByLibrary() override { EXPECT_EQ(state.mistakes, std::vector<std::string>()); }

  Result<bool> attend(Call &call, bool backward, bool known = true) {
    const Load load = call.load();
    return libraries.attend(call.shape, call.data(), known ? &load : nullptr, backward);
  }

  /// Forward and backward by the library, by our own kernels, and each direction by the other.
  void expectSame(const Problem &problem, int seed, bool known = true) {
    SCOPED_TRACE("heads of " + std::to_string(problem.size) + ", seed " + std::to_string(seed));
    Call own(problem, seed), library(problem, seed), mixed(problem, seed);
    own.own(false);
    own.own(true);
    for (bool backward : {false, true}) {
      auto done = attend(library, backward, known);
      ASSERT_TRUE(done) << done.status().message();
      ASSERT_TRUE(*done);
    }
    expectNear(*library.out, *own.out, 0.01, "out");
    for (size_t i = 0; i < own.lse.size(); ++i)
      if (!(own.lse[i] == library.lse[i]) && !std::isnan(own.lse[i]))
        ASSERT_NEAR(library.lse[i], own.lse[i], 1e-2) << "lse, place " << i;
    mixed.own(false);
    ASSERT_TRUE(*attend(mixed, true, known));
    for (size_t i = 0; i < own.gradients.size(); ++i) {
      expectNear(*library.gradients[i], *own.gradients[i], 0.03, "gradients");
      expectNear(*mixed.gradients[i], *own.gradients[i], 0.03, "gradients of our own results");
    }
    Call other(problem, seed);
    ASSERT_TRUE(*attend(other, false, known));
    other.own(true);
    for (size_t i = 0; i < own.gradients.size(); ++i)
      expectNear(*other.gradients[i], *own.gradients[i], 0.03, "our gradients of its results");
  }

  Setting folder{"OMNIBAL_CUDA_LIBRARIES", OMNIBAL_FAKE_ATTENTION};
  fake::Attention &state;
  Libraries libraries{"a device", 90, directStream()};
};

TEST_F(AttentionByLibrary, EqualsOurKernels) {
  int seed = 0;
  expectSame({.lengths = {5, 1, 17}, .tail = 3}, ++seed);
  expectSame({.lengths = {9}, .heads = 4, .keyHeads = 2, .size = 80, .valueSize = 80}, ++seed);
  expectSame({.lengths = {1}, .causal = false}, ++seed);
  expectSame({.lengths = {3, 0, 7, 2, 11}, .heads = 2, .keyHeads = 2, .causal = false, .tail = 60},
             ++seed);
  expectSame({.lengths = {6, 4}, .size = 128, .valueSize = 64, .tail = 1, .headsFirst = true},
             ++seed);
  expectSame({.lengths = {13, 13, 13},
              .heads = 2,
              .keyHeads = 2,
              .causal = false,
              .equal = true,
              .oneMatrix = true},
             ++seed);
  expectSame({.lengths = {8, 21}, .heads = 3, .keyHeads = 1, .tail = 5, .oneMatrix = true}, ++seed);
}

TEST_F(AttentionByLibrary, WithoutKnowingTheLoad) {
  expectSame({.lengths = {5, 9}, .tail = 2}, 1, false);
  EXPECT_EQ(state.plans[0].samples, 16); // as many as rows
  EXPECT_EQ(state.plans[0].longest, 128);
}

TEST_F(AttentionByLibrary, ManySamplesAreCutIntoPieces) {
  // Promised, not there: gradients of scores of 8 x 2048 x 2048 x 16 heads are 1 GiB.
  Problem problem{.lengths = {2, 3, 1, 4, 2, 6, 5}, .heads = 16, .keyHeads = 16};
  Call own(problem, 1), library(problem, 1);
  own.own(false);
  own.own(true);
  const Load load{-1, 8, 2048};
  ASSERT_TRUE(*libraries.attend(library.shape, library.data(), &load, false));
  ASSERT_TRUE(*libraries.attend(library.shape, library.data(), &load, true));
  EXPECT_EQ(state.runs, 1);
  EXPECT_EQ(state.backwardRuns, 2);
  EXPECT_EQ(state.plans[0].samples, 8);
  EXPECT_EQ(state.plans[1].samples, 4);
  for (size_t i = 0; i < 3; ++i)
    expectNear(*library.gradients[i], *own.gradients[i], 0.03, "gradients");
}

TEST_F(AttentionByLibrary, LongSamplesAreCutByHeads) {
  // Promised, not there: gradients of scores of a sample of 8192 rows are 2 GiB for 16 heads.
  for (const Load &load : {Load{-1, 1, 8192}, Load{-1, 4, 8192}}) {
    state = {};
    Problem problem{.lengths = {7}, .heads = 16, .keyHeads = 8, .oneMatrix = true};
    Call own(problem, 1), library(problem, 1);
    own.own(false);
    own.own(true);
    ASSERT_TRUE(*libraries.attend(library.shape, library.data(), &load, false));
    ASSERT_TRUE(*libraries.attend(library.shape, library.data(), &load, true));
    EXPECT_EQ(state.backwardRuns, 4 * load.samples);
    EXPECT_EQ(state.plans[1].heads, 4);
    EXPECT_EQ(state.plans[1].keyHeads, 2);
    EXPECT_EQ(state.plans[1].samples, 1);
    expectNear(*library.gradients[0], *own.gradients[0], 0.03, "gradients");
  }
}

TEST_F(AttentionByLibrary, OnlySegmentsThatExistAreRun) {
  // 33 segments of one row, 64 in the bucket; a launch has room for 8 of 4096 heads.
  Problem problem{.lengths = std::vector<int64_t>(33, 1),
                  .heads = 4096,
                  .keyHeads = 4096,
                  .causal = false,
                  .equal = true};
  Call library(problem, 1);
  ASSERT_TRUE(*attend(library, false));
  ASSERT_TRUE(*attend(library, true));
  EXPECT_EQ(state.plans[0].samples, 64);
  EXPECT_EQ(state.plans[1].samples, 8);
  EXPECT_EQ(state.backwardRuns, 5);
  // A row that sees itself alone: its values are the result, whose gradient is theirs.
  expectNear(*library.out, *library.inputs[2], 0.01, "out");
  expectNear(*library.gradients[2], *library.dout, 0.01, "gradient of values");
}

TEST_F(AttentionByLibrary, PlansServeABucket) {
  for (std::vector<int64_t> lengths :
       std::vector<std::vector<int64_t>>{{5, 6}, {128}, {1, 1, 1, 1}, {100, 27, 9}}) {
    Problem problem{.lengths = lengths};
    Call call(problem, 1);
    ASSERT_TRUE(*attend(call, false));
  }
  EXPECT_EQ(state.plans.size(), 1u);
  Problem longer{.lengths = {129}}, more{.lengths = {1, 2, 3, 4, 5}};
  Call a(longer, 1), b(more, 1);
  ASSERT_TRUE(*attend(a, false));
  ASSERT_TRUE(*attend(b, false));
  ASSERT_EQ(state.plans.size(), 3u);
  EXPECT_EQ(state.plans[1].longest, 256) << "of forward there are fewer than lengthBucket has";
  EXPECT_EQ(state.plans[2].samples, 8);
  EXPECT_TRUE(state.plans[2].ordered);
}

TEST_F(AttentionByLibrary, LeavesTheRestToOurKernels) {
  auto expectDeclined = [&](const Problem &problem, const std::function<void(Call &)> &change,
                            const char *what, bool backward = false) {
    Call call(problem, 1);
    change(call);
    auto done = attend(call, backward);
    ASSERT_TRUE(done) << done.status().message();
    EXPECT_FALSE(*done) << what;
  };
  const Problem plain{.lengths = {4, 3}};
  auto nothing = [](Call &) {};
  expectDeclined({.lengths = {4}, .size = 32, .valueSize = 32}, nothing, "small heads");
  expectDeclined({.lengths = {4}, .size = 68, .valueSize = 68}, nothing, "odd heads");
  expectDeclined({.lengths = {4}, .size = 264, .valueSize = 264}, nothing, "large heads");
  expectDeclined({.lengths = {4}, .size = 136, .valueSize = 136}, nothing,
                 "gradients of large heads", true);
  expectDeclined(plain, [](Call &c) { c.shape.type = Element::F32; }, "float32");
  expectDeclined(plain, [](Call &c) { c.shape.mask = AttentionMask::Prefix; }, "prefix");
  expectDeclined(plain, [](Call &c) { c.shape.mask = AttentionMask::Blocks; }, "blocks");
  expectDeclined(plain, [](Call &c) { c.shape.softcap = 3; }, "capped scores");
  expectDeclined(
      plain, [](Call &c) { c.shape.mask = AttentionMask::Sliding, c.shape.window = 2; }, "sliding");
  expectDeclined(plain, [](Call &c) { c.shape.q.feature = 7; }, "features apart");
  expectDeclined(plain, [](Call &c) { c.shape.k.token += 4; }, "rows that are not aligned");
  expectDeclined(plain, [](Call &c) { c.shape.v.token = int64_t{1} << 40; }, "offsets of 64 bits");
  EXPECT_EQ(state.plans.size(), 0u);
  // Gradients of scores of one sample of 32768 rows are 2 GiB for one head.
  Problem large{.lengths = {4}, .heads = 16, .keyHeads = 16};
  Call call(large, 1);
  const Load load{-1, 4, 32768};
  EXPECT_FALSE(*libraries.attend(call.shape, call.data(), &load, true));
  EXPECT_EQ(state.plans.size(), 0u);
  state.refuses = true;
  expectDeclined(plain, nothing, "refused");
  expectDeclined(plain, nothing, "refused once and for all");
  EXPECT_EQ(state.plans.size(), 1u);
}

TEST_F(AttentionByLibrary, Wishes) {
  Problem problem{.lengths = {4, 30}};
  Call call(problem, 1);
  {
    Setting wish("OMNIBAL_CUDA_ATTENTION", "own");
    Libraries own{"a device", 90, directStream()};
    const Load load = call.load();
    EXPECT_FALSE(*own.attend(call.shape, call.data(), &load, false));
    EXPECT_FALSE(own.usesAttention());
  }
  {
    Setting wish("OMNIBAL_CUDA_ATTENTION", "cudnn-forward");
    Libraries forward{"a device", 90, directStream()};
    const Load load = call.load();
    EXPECT_TRUE(*forward.attend(call.shape, call.data(), &load, false));
    EXPECT_FALSE(*forward.attend(call.shape, call.data(), &load, true));
    EXPECT_EQ(state.plans.size(), 1u);
    state.plans.clear();
  }
  Setting wish("OMNIBAL_CUDA_ATTENTION", "cudnn-unordered");
  Problem few{.lengths = {4, 9}};
  Call small(few, 1);
  EXPECT_FALSE(libraries.usesAttention());
  ASSERT_TRUE(*attend(small, false));
  ASSERT_TRUE(*attend(small, true));
  EXPECT_TRUE(libraries.usesAttention());
  EXPECT_FALSE(state.plans[1].ordered);
}

TEST_F(AttentionByLibrary, AbsentOrTooOld) {
  Problem problem{.lengths = {4, 9}};
  Call call(problem, 1);
  state.refusesToOpen = true;
  EXPECT_FALSE(*attend(call, false));
  EXPECT_FALSE(libraries.usesAttention());
  Setting none("OMNIBAL_CUDA_LIBRARIES", "none");
  auto opened = openAttentionLibrary({directStream(), 90, "", ""});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.status().message(), "");
}

TEST(LoadBuckets, FewValues) {
  EXPECT_EQ(sampleBucket(0), 4);
  EXPECT_EQ(sampleBucket(4), 4);
  EXPECT_EQ(sampleBucket(5), 8);
  EXPECT_EQ(sampleBucket(1000), 1024);
  std::vector<int64_t> seen;
  for (int64_t n = 0; n <= 2048; ++n) {
    const int64_t bucket = lengthBucket(n);
    EXPECT_GE(bucket, n);
    if (seen.empty() || seen.back() != bucket)
      seen.push_back(bucket);
  }
  EXPECT_EQ(seen, (std::vector<int64_t>{128, 192, 256, 384, 512, 768, 1024, 1536, 2048}));
  const std::vector<int64_t> borders = {0, 3, 3, 140};
  EXPECT_EQ(loadOf(borders, 7).longest, 192);
  EXPECT_EQ(loadOf(borders, 7).samples, 4);
  EXPECT_EQ(loadOf(borders, 7).labels, 7);
}

} // namespace
