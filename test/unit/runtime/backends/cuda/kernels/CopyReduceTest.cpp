#include "runtime/backends/cuda/kernels/ColumnSum.h"
#include "runtime/backends/cuda/kernels/Copy.h"
#include "runtime/backends/cuda/kernels/Reduce.h"
#include "test/unit/runtime/backends/cuda/kernels/KernelChecks.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

std::vector<int> randomOrder(std::mt19937 &random, int rank) {
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

std::vector<int64_t> randomShape(std::mt19937 &random, int64_t most) {
  std::vector<int64_t> shape(1 + random() % 4);
  int64_t n = 1;
  for (int64_t &size : shape) {
    size = random() % 12 == 0
               ? 0
               : 1 + random() % std::max<int64_t>(1, std::min<int64_t>(70, most / n));
    n *= std::max<int64_t>(size, 1);
  }
  return shape;
}

} // namespace

TEST(CudaCopy, AnyStridesLikeTheHost) {
  std::mt19937 random(1);
  for (int number = 0; number < 120; ++number) {
    const auto shape = randomShape(random, 3000);
    const int rank = static_cast<int>(shape.size());
    const bool plain = number % 3 == 0;
    Tensor<float> from = randomTensor(random, shape,
                                      plain ? std::vector<int>{} : randomOrder(random, rank),
                                      plain ? 0 : random() % 3),
                  to = randomTensor(random, shape,
                                    number % 2 ? randomOrder(random, rank) : std::vector<int>{},
                                    plain ? 0 : random() % 3);
    const bool fromHalf = random() % 2, toHalf = random() % 2, accumulate = random() % 2;
    if (fromHalf)
      roundAll(from);
    if (toHalf)
      roundAll(to);
    Stored fromStored(from.memory, fromHalf), toStored(to.memory, toHalf);
    EXPECT_OK(
        runKernel("copy", {{"src", from.view}, {"dst", to.view}}, {{"accumulate", accumulate}}));
    cuda::CopyShape s{stridesOf(to.view, from.view), toStored.type(), fromStored.type(),
                      accumulate};
    runInSeveralOrders({toStored.bytes()}, [&] {
      return cuda::launchCopy(s, toStored.data(), fromStored.data(), nullptr);
    });
    expectMemoryNear(toStored, to.memory, 0, toHalf ? 0.004 : 0, "case " + std::to_string(number));
  }
}

TEST(CudaCopy, OtherTypesAndBroadcast) {
  auto check = [](auto one, cuda::Element type, bool accumulate) {
    using T = decltype(one);
    Tensor<T> from({37}), to({5, 37, 3}, {2, 0, 1}, 2);
    from.fill([](int64_t i) { return static_cast<T>(i % 3); });
    to.fill([](int64_t i) { return static_cast<T>(i % 2); });
    TensorView spread = from.view; // [5, 37, 3] with strides 0
    spread.rank = 3;
    for (int d : {0, 1, 2}) {
      spread.shape[d] = to.view.shape[d];
      spread.strides[d] = d == 1;
    }
    Tensor<T> got = to;
    EXPECT_OK(runKernel("copy", {{"src", spread}, {"dst", to.view}}, {{"accumulate", accumulate}}));
    cuda::CopyShape s{stridesOf(to.view, spread), type, type, accumulate};
    runInSeveralOrders({bytesOf(got.memory)}, [&] {
      return cuda::launchCopy(s, got.memory.data(), from.memory.data(), nullptr);
    });
    EXPECT_EQ(got.memory, to.memory);
    Tensor<T> filled = to;
    EXPECT_OK(runKernel("fill", {{"dst", to.view}}, {{"value", 1.0}}));
    cuda::FillShape f{stridesOf(to.view, to.view), type, 1.0};
    runInSeveralOrders({bytesOf(filled.memory)},
                       [&] { return cuda::launchFill(f, filled.memory.data(), nullptr); });
    EXPECT_EQ(filled.memory, to.memory);
  };
  for (bool accumulate : {false, true}) {
    check(double(), cuda::Element::F64, accumulate);
    check(int32_t(), cuda::Element::I32, accumulate);
    check(int64_t(), cuda::Element::I64, accumulate);
  }
  check(uint8_t(), cuda::Element::Bool, false);
  cuda::CopyShape wrong;
  wrong.to = cuda::Element::I32;
  EXPECT_NE(cuda::launchCopy(wrong, nullptr, nullptr, nullptr), 0);
}

TEST(CudaReduce, AnyDimensionsLikeTheHost) {
  std::mt19937 random(2);
  const char *kinds[] = {"sum", "mean", "max", "min", "prod"};
  for (int number = 0; number < 150; ++number) {
    const auto shape = number % 10 == 9 ? std::vector<int64_t>{1, 1 + int64_t(random() % 9000)}
                                        : randomShape(random, 6000);
    const int rank = static_cast<int>(shape.size()), kind = number % 5;
    Tensor<float> from = randomTensor(random, shape, randomOrder(random, rank), random() % 3,
                                      kind == 4 ? 0.5f : 1.f);
    std::vector<int64_t> kept = shape;
    std::vector<bool> reduced(rank);
    for (int d = 0; d < rank; ++d)
      if ((reduced[d] = random() % 2))
        kept[d] = 1;
    Tensor<float> to = randomTensor(random, kept, randomOrder(random, rank));
    TensorView view = to.view;
    for (int d = 0; d < rank; ++d)
      if (reduced[d]) {
        view.shape[d] = shape[d];
        view.strides[d] = 0;
      }
    const bool fromHalf = random() % 2, toHalf = fromHalf && random() % 2,
               accumulate = random() % 2;
    if (fromHalf)
      roundAll(from);
    if (toHalf)
      roundAll(to);
    Stored fromStored(from.memory, fromHalf), toStored(to.memory, toHalf);
    EXPECT_OK(runKernel("reduce", {{"src", from.view}, {"dst", view}},
                        {{"kind", kinds[kind]}, {"accumulate", accumulate}}));
    cuda::ReduceShape s{stridesOf(view, from.view), toStored.type(), fromStored.type(),
                        static_cast<cuda::ReduceKind>(kind), accumulate};
    runInSeveralOrders({toStored.bytes()}, [&] {
      return cuda::launchReduce(s, toStored.data(), fromStored.data(), nullptr);
    });
    // Sums cancel: their rounding is relative to the terms.
    const double terms = double(from.elements()) / std::max<int64_t>(1, to.elements());
    expectMemoryNear(toStored, to.memory, kind < 2 ? 1e-6 * std::sqrt(terms) : 1e-37,
                     roundingOf(toHalf, 4e-6),
                     "case " + std::to_string(number) + " " + kinds[kind]);
  }
}

TEST(CudaReduce, IntegersExactly) {
  Tensor<int64_t> from({300, 7}), to({300, 1});
  from.fill([](int64_t i) { return i * i % 1001 - 500; });
  TensorView view = to.view;
  view.shape[1] = 7, view.strides[1] = 0;
  Tensor<int64_t> got = to;
  for (int kind = 0; kind < 4; ++kind) {
    const char *kinds[] = {"sum", "mean", "max", "min"};
    EXPECT_OK(runKernel("reduce", {{"src", from.view}, {"dst", view}}, {{"kind", kinds[kind]}}));
    cuda::ReduceShape s{stridesOf(view, from.view), cuda::Element::I64, cuda::Element::I64,
                        static_cast<cuda::ReduceKind>(kind), false};
    runInSeveralOrders({bytesOf(got.memory)}, [&] {
      return cuda::launchReduce(s, got.memory.data(), from.memory.data(), nullptr);
    });
    EXPECT_EQ(got.memory, to.memory) << kinds[kind];
  }
}

TEST(CudaReduce, ManySumsOfFewRowsAtOnce) {
  std::mt19937 random(5);
  for (int number = 0; number < 12; ++number) {
    cuda::ColumnSums sums;
    std::vector<Tensor<float>> from, to;
    std::vector<std::vector<double>> wanted;
    const int count = 1 + static_cast<int>(random() % cuda::ColumnSums::most);
    for (int i = 0; i < count; ++i) {
      const int64_t rows = 1 + random() % 60, cols = random() % 90;
      from.push_back(randomTensor(random, {rows, cols}, {}, random() % 3));
      to.push_back(randomTensor(random, {1, cols}, {}, 0));
      const bool accumulate = random() % 2;
      std::vector<double> total(cols, 0.0);
      for (int64_t c = 0; c < cols; ++c) {
        total[c] = accumulate ? to[i].memory[c] : 0;
        for (int64_t r = 0; r < rows; ++r)
          total[c] += from[i].memory[r * from[i].view.strides[0] + c];
      }
      wanted.push_back(total);
      cuda::ColumnSumShape shape;
      shape.rows = rows;
      shape.cols = cols;
      shape.fromRow = from[i].view.strides[0];
      shape.accumulate = accumulate;
      sums.parts[i] = {shape, nullptr, nullptr};
    }
    sums.count = count;
    std::vector<std::pair<void *, size_t>> written;
    for (int i = 0; i < count; ++i) {
      sums.parts[i].from = from[i].memory.data();
      sums.parts[i].to = to[i].memory.data();
      written.push_back(bytesOf(to[i].memory));
    }
    runInSeveralOrders(written, [&] { return cuda::launchColumnSums(sums, nullptr); });
    for (int i = 0; i < count; ++i)
      for (size_t c = 0; c < wanted[i].size(); ++c)
        ASSERT_NEAR(to[i].memory[c], wanted[i][c], 1e-4);
  }
}
