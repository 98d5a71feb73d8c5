#include "runtime/backends/cuda/calls/KernelTable.h"
#include "runtime/backends/cuda/kernels/ColumnSum.h"
#include "runtime/backends/cuda/libraries/Libraries.h"
#include "test/unit/runtime/backends/cuda/kernels/GemmCase.h"
#include "test/unit/runtime/backends/cuda/libraries/FakeFolder.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;
using cuda::GemmActivation, cuda::GemmData, cuda::GemmShape, cuda::MatrixLibrary;

namespace {

std::unique_ptr<MatrixLibrary> openLibrary() {
  auto opened = MatrixLibrary::open("a device", directStream());
  EXPECT_TRUE(opened) << opened.status().message();
  return opened ? *std::move(opened) : nullptr;
}

struct Case {
  std::vector<int64_t> batch;
  int64_t m, n, k;
  bool bf16 = false, wide = false; ///< wide: float32 results of bfloat16
  bool oneWeight = false;
};

/// Returns whether the library did it.
bool runCase(MatrixLibrary &library, const Case &test, std::mt19937 &random) {
  auto draw = [&](int64_t rows, int64_t cols, bool dense, bool mayBroadcast) {
    std::vector<int64_t> shape = test.batch;
    shape.push_back(rows);
    shape.push_back(cols);
    std::vector<int> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    if (!dense && random() % 2)
      std::swap(order[order.size() - 2], order.back());
    if (!dense && order.size() == 4 && random() % 2)
      std::swap(order[0], order[1]);
    Tensor<float> t = randomTensor(random, shape, order, random() % 2 * 8);
    if (mayBroadcast)
      for (size_t d = 0; d < test.batch.size(); ++d)
        t.view.strides[d] = 0;
    if (test.bf16)
      roundAll(t);
    return t;
  };
  const bool columns = random() % 3 == 0; // a result that lies by columns
  auto result = [&] {
    Tensor<float> t =
        columns ? draw(test.n, test.m, true, false) : draw(test.m, test.n, true, false);
    if (columns) {
      std::swap(t.view.shape[t.view.rank - 2], t.view.shape[t.view.rank - 1]);
      std::swap(t.view.strides[t.view.rank - 2], t.view.strides[t.view.rank - 1]);
    }
    return t;
  };
  const bool narrow = test.bf16 && !test.wide;
  GemmCase product({draw(test.m, test.k, test.oneWeight, false),
                    draw(test.k, test.n, false, test.oneWeight), result(), result(), result(),
                    result(), randomTensor(random, {test.n})},
                   test.bf16, narrow, random);
  const std::string what =
      product.name() + (columns ? " by columns" : "") + (product.withBias ? " bias" : "") +
      (product.withResidual ? " residual" : "") + (product.withPre ? " pre" : "") +
      (product.withSumA ? " sum of a" : "") + (product.withSumB ? " sum of b" : "");
  std::vector<float> partials(cuda::columnSumScratch, NAN);
  GemmData data = product.data();
  data.partials = random() % 2 ? partials.data() : nullptr;
  auto done = library.run(product.shape(), data);
  EXPECT_TRUE(done) << what << ": " << done.status().message();
  EXPECT_EQ(omnibal::emulation::takeFailure(), "") << what;
  if (!done || !*done)
    return false;
  // A product that waits in bfloat16 for what follows is rounded once more.
  const double bound = (narrow ? 0.01 : 4e-6) * std::sqrt(static_cast<double>(test.k + 1));
  expectMemoryNear(product.c, product.tensors.c.memory, bound, narrow ? 0.01 : 4e-6, what);
  expectMemoryNear(product.pre, product.tensors.pre.memory, bound, narrow ? 0.01 : 4e-6,
                   what + ": pre");
  expectMemoryNear(product.sumA, product.hostSumA.memory, 4e-6 * test.k, 4e-6, what);
  expectMemoryNear(product.sumB, product.hostSumB.memory, 4e-6 * test.k, 4e-6, what);
  return true;
}

struct MatrixLibraryTest : ::testing::Test {
  Setting libraries{"OMNIBAL_CUDA_LIBRARIES", OMNIBAL_FAKE_LIBRARIES};
  Setting algorithms{"OMNIBAL_CUDA_ALGORITHMS", "off"};
  omnibal::fake::CublasLt &fake = freshCublasLt();
};

/// A product of ten million terms, which is worth measuring.
struct Large {
  int64_t m = 216, n = 240, k = 208;
  std::vector<float> a = std::vector<float>(m * k), b = std::vector<float>(k * n),
                     c = std::vector<float>(m * n);
  GemmShape shape;
  Large() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (std::vector<float> *values : {&a, &b})
      for (float &x : *values)
        x = normal(random);
    shape.m = m, shape.n = n, shape.k = k;
    shape.a.strides = {k, 1}, shape.b.strides = {n, 1}, shape.c.strides = {n, 1};
  }
  GemmData data() { return {a.data(), b.data(), c.data()}; }
};

} // namespace

TEST_F(MatrixLibraryTest, LikeTheHostOnEveryFormThatItTakes) {
  auto library = openLibrary();
  ASSERT_TRUE(library);
  std::mt19937 random(7);
  int done = 0, cases = 0;
  for (int round = 0; round < 30; ++round)
    for (Case c : std::vector<Case>{{{}, 1, 1, 1},
                                    {{}, 24, 40, 33},
                                    {{}, 17, 9, 5},
                                    {{}, 1, 32, 16},
                                    {{}, 24, 16, 2200},
                                    {{3}, 16, 24, 8},
                                    {{2, 3}, 8, 16, 16},
                                    {{4}, 5, 16, 12, false, false, true},
                                    {{2, 2}, 6, 8, 8, false, false, true}})
      for (auto [bf16, wide] : {std::pair{false, false}, {true, true}, {true, false}}) {
        c.bf16 = bf16, c.wide = wide;
        done += runCase(*library, c, random);
        ++cases;
        if (HasFatalFailure())
          return;
      }
  EXPECT_EQ(fake.mistakes, std::vector<std::string>());
  EXPECT_GE(done, cases * 9 / 10) << "of " << cases;
  for (uint32_t epilogue : {1, 2, 4, 6, 32, 36, 160, 164, 192, 256, 512})
    EXPECT_GT(std::count(fake.epilogues.begin(), fake.epilogues.end(), epilogue), 0) << epilogue;
}

TEST_F(MatrixLibraryTest, NoAlgorithmThatAddsInPlace) {
  fake.offered = 2;
  auto library = openLibrary();
  Setting file("OMNIBAL_CUDA_ALGORITHMS", "");
  Large large;
  EXPECT_TRUE(*library->run(large.shape, large.data()));
  EXPECT_EQ(fake.used, std::vector<int>{0});
  EXPECT_EQ(fake.mistakes, std::vector<std::string>());
}

TEST_F(MatrixLibraryTest, MeasuresOnceAndKeepsTheChoice) {
  TemporaryFolder folder;
  const std::string path = folder / "sub/algorithms.json";
  Setting file("OMNIBAL_CUDA_ALGORITHMS", path);
  Large large;
  {
    auto library = openLibrary();
    EXPECT_TRUE(*library->run(large.shape, large.data()));
    EXPECT_EQ(fake.used.back(), 2);
    EXPECT_GT(fake.products, 6);
  }
  const std::string kept = readFile(path);
  EXPECT_NE(kept.find("a device, cuBLASLt 130100: f32>f32 NN 256 256 256 epilogue 1 align 16"),
            std::string::npos)
      << kept;
  // Another run reads it, whatever is quickest now, also for a size near to the measured one.
  fake = {};
  fake.quickest = 0;
  auto library = openLibrary();
  EXPECT_TRUE(*library->run(large.shape, large.data()));
  large.shape.m -= 5;
  EXPECT_TRUE(*library->run(large.shape, large.data()));
  EXPECT_EQ(fake.used, (std::vector<int>{2, 2}));
  EXPECT_EQ(readFile(path), kept);
}

TEST_F(MatrixLibraryTest, MeasuresWhileAGraphIsRecorded) {
  TemporaryFolder folder;
  Setting file("OMNIBAL_CUDA_ALGORITHMS", folder / "algorithms.json");
  auto library = openLibrary();
  Large large;
  ASSERT_EQ(cudaStreamBeginCapture(directStream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_TRUE(*library->run(large.shape, large.data()));
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(directStream(), &graph), cudaSuccess) << "the recording is spoilt";
  cudaGraphDestroy(graph);
  EXPECT_GT(fake.products, 6);
  EXPECT_EQ(fake.used.back(), 2);
}

TEST_F(MatrixLibraryTest, OneFileTheSameBits) {
  TemporaryFolder folder;
  Setting file("OMNIBAL_CUDA_ALGORITHMS", folder / "algorithms.json");
  Large one, two, other;
  {
    auto library = openLibrary();
    EXPECT_TRUE(*library->run(one.shape, one.data()));
  }
  fake.quickest = 0;
  {
    auto library = openLibrary();
    EXPECT_TRUE(*library->run(two.shape, two.data()));
  }
  EXPECT_EQ(one.c, two.c);
  Setting off("OMNIBAL_CUDA_ALGORITHMS", "off");
  auto library = openLibrary();
  EXPECT_TRUE(*library->run(other.shape, other.data()));
  EXPECT_NE(one.c, other.c) << "the algorithms cannot be told apart";
}

TEST_F(MatrixLibraryTest, AKeptAlgorithmThatNoLongerFitsGivesWay) {
  TemporaryFolder folder;
  const std::string path = folder / "algorithms.json";
  Setting file("OMNIBAL_CUDA_ALGORITHMS", path);
  writeFile(path, cuda::printAlgorithms({{"a device, cuBLASLt 130100: f32>f32 NN 256 256 256 "
                                          "epilogue 1 align 16",
                                          {{{1, 2, 3}}, 1e-3}}}));
  Large large;
  EXPECT_TRUE(*openLibrary()->run(large.shape, large.data()));
  EXPECT_EQ(fake.used, std::vector<int>{0});
  EXPECT_EQ(fake.mistakes, std::vector<std::string>());
}

TEST_F(MatrixLibraryTest, OurKernelWhereItDeclines) {
  Large expected, large;
  ASSERT_EQ(cuda::launchGemm(expected.shape, expected.data(), directStream()), 0);
  fake.offered = 0;
  cuda::Libraries declining("a device", 90, directStream());
  EXPECT_OK(declining.multiply(large.shape, large.data()));
  EXPECT_EQ(large.c, expected.c);
  fake.offered = 4;
  fake.multiplyError = 15;
  std::fill(large.c.begin(), large.c.end(), 0.f);
  ::testing::internal::CaptureStderr();
  cuda::Libraries refusing("a device", 90, directStream());
  EXPECT_OK(refusing.multiply(large.shape, large.data()));
  EXPECT_OK(refusing.multiply(large.shape, large.data()));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said, "omnibal_cuda: cuBLASLt declines f32>f32 NN 256 256 256 epilogue 1 align 16 "
                  "(CUBLAS_STATUS_NOT_SUPPORTED): our own kernel multiplies\n");
  EXPECT_EQ(large.c, expected.c);
}

/// A weight's gradient beside which the bias's gradient is wanted, and the derivative of GELU,
/// which the library computes in bfloat16.
struct Backward : Large {
  bool weight;
  std::vector<float> sums = std::vector<float>(m, 1.f);
  std::vector<BFloat16> narrowA, narrowB, narrowC, at;
  explicit Backward(bool ofWeight) : weight(ofWeight) {
    if (weight) {
      shape.a.strides = {1, m};
      return;
    }
    shape.activation = GemmActivation::GeluTanh;
    shape.at.strides = {n, 1};
    shape.type = shape.resultType = cuda::Element::BF16;
    for (float x : a)
      narrowA.push_back(BFloat16::fromFloat(x));
    for (float x : b)
      narrowB.push_back(BFloat16::fromFloat(x));
    narrowC.resize(c.size());
    at.assign(c.size(), BFloat16::fromFloat(0.5f));
  }
  GemmData data() {
    GemmData d{narrowA.data(), narrowB.data(), narrowC.data()};
    if (weight) {
      d = Large::data();
      d.sumA = sums.data();
    } else {
      d.at = at.data();
    }
    return d;
  }
  std::vector<float> result() const {
    std::vector<float> values = c;
    for (size_t i = 0; i < narrowC.size(); ++i)
      values[i] = narrowC[i].toFloat();
    return values;
  }
  /// Which numbers the algorithm file has it under, up to the epilogue.
  std::string key() const {
    return weight ? "f32>f32 NT 256 256 256 epilogue 512" : "bf16>bf16 NN 256 256 256 epilogue 192";
  }
  static void expectNear(const Backward &one, const Backward &other) {
    const std::vector<float> a = one.result(), b = other.result();
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a[i], b[i], one.weight ? 1e-4 : 0.02 + 0.02 * std::abs(b[i]));
    for (size_t i = 0; i < one.sums.size(); ++i)
      ASSERT_NEAR(one.sums[i], other.sums[i], 1e-4);
  }
};

TEST_F(MatrixLibraryTest, AnEpilogueIsUsedWhereItIsFasterThanAKernelOfOurs) {
  for (bool weight : {true, false}) {
    TemporaryFolder folder;
    const std::string path = folder / "measured.json";
    {
      Setting file("OMNIBAL_CUDA_ALGORITHMS", path);
      Backward first(weight);
      EXPECT_TRUE(*openLibrary()->run(first.shape, first.data()));
    }
    auto measured = *cuda::parseAlgorithms(readFile(path), path);
    ASSERT_EQ(measured.size(), 3u) << "with the epilogue, without, what follows";
    const std::string name = Backward(weight).key() + " align 16";
    const std::string before = "a device, cuBLASLt 130100: ";
    ASSERT_TRUE(measured.count(before + name) && measured.count(before + "after " + name));
    std::vector<Backward> results;
    for (bool faster : {true, false}) {
      for (auto &[key, entry] : measured)
        entry.seconds = 1;
      measured[before + name].seconds = faster ? 2 : 2.1; // 1 + 1 without it
      Setting file("OMNIBAL_CUDA_ALGORITHMS", folder / (faster ? "fused.json" : "apart.json"));
      writeFile(folder / (faster ? "fused.json" : "apart.json"), cuda::printAlgorithms(measured));
      fake = {};
      auto library = openLibrary();
      Backward &result = results.emplace_back(weight);
      EXPECT_TRUE(*library->run(result.shape, result.data()));
      Backward again(weight);
      EXPECT_TRUE(*library->run(again.shape, again.data())) << "decided once";
      const uint32_t epilogue = faster ? weight ? 512 : 192 : 1;
      EXPECT_EQ(fake.epilogues, (std::vector<uint32_t>{epilogue, epilogue}));
      EXPECT_EQ(fake.mistakes, std::vector<std::string>());
    }
    Backward::expectNear(results[0], results[1]);
  }
}

TEST_F(MatrixLibraryTest, AnEpilogueThatIsDeclinedIsAKernelOfOurs) {
  for (bool weight : {true, false}) {
    Backward fused(weight), unknown(weight), refused(weight);
    fake = {};
    EXPECT_TRUE(*openLibrary()->run(fused.shape, fused.data()));
    fake.lackingEpilogues = 768 | 64;
    EXPECT_TRUE(*openLibrary()->run(unknown.shape, unknown.data()));
    EXPECT_EQ(fake.epilogues.back(), 1u);
    fake.lackingEpilogues = 0;
    fake.failingEpilogues = 768 | 64;
    fake.multiplyError = 15;
    ::testing::internal::CaptureStderr();
    auto library = openLibrary();
    for (int i = 0; i < 2; ++i) {
      std::fill(refused.sums.begin(), refused.sums.end(), 1.f);
      EXPECT_TRUE(*library->run(refused.shape, refused.data()));
    }
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              "omnibal_cuda: cuBLASLt declines " + refused.key() +
                  " align 16 (CUBLAS_STATUS_NOT_SUPPORTED): done without its epilogue\n");
    EXPECT_EQ(refused.result(), unknown.result());
    EXPECT_EQ(refused.sums, unknown.sums);
    Backward::expectNear(fused, refused);
    EXPECT_EQ(fake.mistakes, std::vector<std::string>());
  }
}

TEST_F(MatrixLibraryTest, AFailureIsAnError) {
  fake.multiplyError = 13;
  Large large;
  auto done = openLibrary()->run(large.shape, large.data());
  ASSERT_FALSE(done);
  EXPECT_NE(done.status().message().find("CUBLAS_STATUS_OF_THE_FAKE"), std::string::npos);
}

TEST_F(MatrixLibraryTest, SaysWhyThereIsNone) {
  auto why = [] { return MatrixLibrary::open("a device", directStream()).status().message(); };
  fake.version = 120900;
  EXPECT_NE(why().find("is cuBLASLt of version 120900; one of CUDA 13 is needed"),
            std::string::npos)
      << why();
  fake.version = 130100;
  fake.createError = 1;
  EXPECT_NE(why().find("does not start: CUBLAS_STATUS_OF_THE_FAKE"), std::string::npos) << why();
  Setting hollow("OMNIBAL_CUDA_LIBRARIES", OMNIBAL_FAKE_LIBRARIES "/hollow");
  EXPECT_NE(why().find("has no cublasLtCreate"), std::string::npos) << why();
  Setting none("OMNIBAL_CUDA_LIBRARIES", "none");
  Large large;
  ::testing::internal::CaptureStderr();
  cuda::Libraries without("a device", 90, directStream());
  EXPECT_OK(without.multiply(large.shape, large.data()));
  cuda::Libraries again("a device", 90, directStream());
  EXPECT_OK(again.multiply(large.shape, large.data()));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "omnibal_cuda: matrix products run on our own kernels, which are slow: "
            "libcublasLt.so.13: not opened, OMNIBAL_CUDA_LIBRARIES is none\n");
}

/// Before the arena is allocated, and not while work is recorded.
TEST_F(MatrixLibraryTest, KernelsThatMultiplyTakeTheWorkspaceWhenTheyAreCreated) {
  BoundCall product, head;
  product.kernel = "gemm";
  product.operands = {"a", "b", "c"};
  head.kernel = "linear_cross_entropy";
  head.operands = {"hidden", "weight", "targets", "loss", "scratch"};
  for (const BoundCall &call : {product, head}) {
    cuda::WorkspaceLedger own;
    cuda::Libraries libraries("a device", 90, directStream(), &own);
    cuda::KernelContext context{directStream(), nullptr, &libraries};
    auto kernel = cuda::createDeviceKernel(call, context);
    ASSERT_TRUE(kernel) << kernel.status().message();
    ASSERT_EQ(own.list().size(), 1u) << call.kernel;
    EXPECT_EQ(own.list()[0].bytes, cuda::productWorkspaceBytes);
  }
}
