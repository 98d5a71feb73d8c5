//===- BenchHostKernels.cpp - Speed of the host backend's heavy kernels ------------------===//
//
// bench_host_kernels [threads]: best of several repetitions, GFLOP/s. Attention counts only the
// visible pairs of query and key, so that skipped blocks show as speed.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/host/HostBackend.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

using namespace omnibal::rt;

namespace {

struct Dense {
  std::vector<float> memory;
  TensorView view;
  Dense(std::vector<int64_t> shape, bool transposed = false) {
    view.rank = static_cast<int>(shape.size());
    int64_t stride = 1;
    for (int i = view.rank - 1; i >= 0; --i) {
      view.shape[i] = shape[i];
      view.strides[i] = stride;
      stride *= shape[i];
    }
    if (transposed) {
      view.strides[0] = 1;
      view.strides[1] = shape[0];
    }
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 1);
    memory.resize(stride);
    for (float &x : memory)
      x = normal(random);
    view.data = memory.data();
  }
};

TensorView integers(std::vector<int32_t> &values) {
  TensorView view;
  view.rank = 1;
  view.dtype = DType::I32;
  view.shape[0] = static_cast<int64_t>(values.size());
  view.strides[0] = 1;
  view.data = values.data();
  return view;
}

void measure(const std::string &what, const std::string &kernel,
             const std::vector<std::pair<std::string, TensorView>> &operands,
             const nlohmann::json &attributes, double flops, ThreadPool &pool) {
  BoundCall call;
  call.kernel = kernel;
  call.attributes = attributes;
  std::vector<TensorView> views;
  for (const auto &[name, view] : operands) {
    call.operands.push_back(name);
    views.push_back(view);
  }
  auto created = createHostKernel(call);
  if (!created) {
    std::fprintf(stderr, "%s\n", created.status().message().c_str());
    std::exit(1);
  }
  double best = 1e30, total = 0;
  for (int i = 0; i < 200 && (total < 0.3 || i < 3); ++i) {
    auto start = std::chrono::steady_clock::now();
    Status status = (*created)->run(views, SymbolValues(), pool);
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!status) {
      std::fprintf(stderr, "%s\n", status.message().c_str());
      std::exit(1);
    }
    best = std::min(best, seconds);
    total += seconds;
  }
  std::printf("%-44s %9.3f ms %8.1f GFLOP/s\n", what.c_str(), best * 1e3, flops / best * 1e-9);
}

void gemm(int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool accumulate, bool epilogue,
          ThreadPool &pool) {
  Dense a({m, k}, ta), b({k, n}, tb), c({m, n}), bias({n}), residual({m, n});
  std::vector<std::pair<std::string, TensorView>> operands = {
      {"a", a.view}, {"b", b.view}, {"c", c.view}};
  nlohmann::json attributes = {{"accumulate", accumulate}};
  if (epilogue) {
    operands.push_back({"bias", bias.view});
    attributes["activation"] = "gelu";
  }
  std::string name = "gemm " + std::to_string(m) + "x" + std::to_string(n) + "x" +
                     std::to_string(k) + (ta ? " T" : " N") + (tb ? "T" : "N") +
                     (accumulate ? " +=" : "") + (epilogue ? " bias gelu" : "");
  measure(name, "gemm", operands, attributes, 2.0 * m * n * k, pool);
}

void attention(const std::vector<int32_t> &lengths, int64_t heads, int64_t keyHeads, int64_t size,
               const std::string &mask, ThreadPool &pool) {
  std::vector<int32_t> borders = {0};
  double pairs = 0;
  for (int32_t n : lengths) {
    borders.push_back(borders.back() + n);
    pairs += mask == "causal" ? 0.5 * n * (n + 1) : double(n) * n;
  }
  int64_t t = borders.back();
  Dense q({t, heads, size}), k({t, keyHeads, size}), v({t, keyHeads, size}), out({t, heads, size}),
      lse({t, heads}), dout({t, heads, size}), dq({t, heads, size}), dk({t, keyHeads, size}),
      dv({t, keyHeads, size});
  nlohmann::json attributes = {{"scale", 1 / std::sqrt(double(size))}, {"mask", mask}};
  std::vector<std::pair<std::string, TensorView>> operands = {
      {"q", q.view},     {"k", k.view},     {"v", v.view},
      {"out", out.view}, {"lse", lse.view}, {"cu_seqlens", integers(borders)}};
  std::string name = std::to_string(lengths.size()) + " x " + std::to_string(lengths[0]) + ", " +
                     std::to_string(heads) + ":" + std::to_string(keyHeads) + " heads x " +
                     std::to_string(size) + " " + mask;
  measure("attention " + name, "attention", operands, attributes, 4 * pairs * heads * size, pool);
  for (auto [operand, tensor] : {std::pair{"dout", &dout}, {"dq", &dq}, {"dk", &dk}, {"dv", &dv}})
    operands.push_back({operand, tensor->view});
  measure("  backward", "attention_backward", operands, attributes, 10 * pairs * heads * size,
          pool);
}

} // namespace

int main(int argc, char **argv) {
  int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (threads < 1) {
    std::fprintf(stderr, "usage: bench_host_kernels [threads]\n");
    return 2;
  }
  ThreadPool pool(threads);
  gemm(1028, 1536, 384, false, false, false, false, pool);
  gemm(1028, 1536, 384, false, false, false, true, pool);
  gemm(1028, 384, 1536, false, false, false, false, pool);
  gemm(1028, 384, 1536, false, true, false, false, pool);
  gemm(1028, 1536, 384, false, true, false, false, pool);
  gemm(384, 1536, 1028, true, false, true, false, pool);
  gemm(512, 512, 512, false, false, false, false, pool);
  gemm(512, 512, 512, false, true, false, false, pool);
  gemm(512, 512, 512, true, false, true, false, pool);
  gemm(512, 16384, 512, false, true, false, false, pool);
  gemm(128, 192, 64, false, false, false, true, pool);
  gemm(64, 192, 128, true, false, true, false, pool);
  attention({257, 257, 257, 257}, 6, 6, 64, "full", pool);
  attention({128, 128, 128, 128}, 8, 4, 64, "causal", pool);
  attention({256, 256, 256, 256}, 16, 16, 64, "causal", pool);
  attention({1024}, 16, 8, 128, "causal", pool);
  attention({1025}, 6, 6, 64, "full", pool);
  attention({17, 17, 17, 17, 17, 17, 17, 17}, 4, 4, 16, "full", pool);
  return 0;
}
