// How the host backend calls a generated kernel.
#include "runtime/backends/host/HostBackend.h"
#include "test/conformance/KernelTest.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

// A generated kernel as docs/kernels.md describes it: y = x + size, and one partial sum a task.
extern "C" void addSize(void *const *operands, const int64_t *sizes, int64_t begin, int64_t end) {
  const float *x = static_cast<const float *>(operands[0]);
  float *y = static_cast<float *>(operands[1]), *partial = static_cast<float *>(operands[2]);
  partial[begin / 4] = 0;
  for (int64_t i = begin; i < end; ++i) {
    y[i] = x[i] + float(sizes[0]) + 100 * float(sizes[1]);
    partial[begin / 4] += x[i];
  }
}

void *lookUp(void *, const char *name) {
  return std::string(name) == "add_size" ? reinterpret_cast<void *>(&addSize) : nullptr;
}

} // namespace

TEST(Fused, CallsTheSymbolForEachGrainOfRows) {
  BoundCall call;
  call.kernel = "fused";
  call.operands = {"in0", "out0", "partial0"};
  call.attributes = {
      {"symbol", "add_size"}, {"rows", {1, 0, 2}}, {"grain", 4}, {"sizes", {7, {0, 3, 0}}}};
  call.symbol = lookUp;
  auto kernel = createHostKernel(call);
  ASSERT_TRUE(kernel.isOk()) << kernel.status().message();
  Tensor<float> x({11}), y({11}), partial({3});
  x.fill([](int64_t i) { return float(i); });
  ThreadPool pool(3);
  std::vector<TensorView> views = {x.view, y.view, partial.view};
  EXPECT_OK(
      (*kernel)->run(views, SymbolValues::of(2, 5), pool)); // rows 1 + 2 * 5, sizes 7 and 3 * 2
  for (int64_t i = 0; i < 11; ++i)
    EXPECT_EQ(y[i], float(i) + 7 + 600);
  EXPECT_EQ(partial[0], 6);
  EXPECT_EQ(partial[1], 22);
  EXPECT_EQ(partial[2], 27);
  call.attributes["symbol"] = "missing";
  EXPECT_NE(createHostKernel(call).status().message().find("no symbol 'missing'"),
            std::string::npos);
}
