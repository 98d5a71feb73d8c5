//===- FakeRank.h - A backend on the fake device, and values in its memory -------------------===//
#ifndef TEST_UNIT_RUNTIME_BACKENDS_CUDA_FAKERANK_H
#define TEST_UNIT_RUNTIME_BACKENDS_CUDA_FAKERANK_H

#include "runtime/backends/cuda/CudaBackend.h"
#include "test/support/fake_cuda/FakeCuda.h"
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

namespace omnibal::rt::cuda {

#define EXPECT_OK(expression)                                                                      \
  do {                                                                                             \
    ::omnibal::rt::Status testStatus = (expression);                                               \
    EXPECT_TRUE(testStatus.isOk()) << testStatus.message();                                        \
  } while (false)

struct FakeRank {
  explicit FakeRank(int rank = 0, int64_t bytes = 65536, bool guarded = false,
                    Communicator::Milliseconds deadline = std::chrono::seconds(20),
                    int device = 0) {
    auto opened = openCudaBackend(device, {&pool, rank, deadline});
    EXPECT_TRUE(opened) << opened.status().message();
    backend = *std::move(opened);
    auto allocated = backend->allocateArena(bytes, guarded);
    EXPECT_TRUE(allocated) << allocated.status().message();
    arena = *std::move(allocated);
  }

  float *floats(int64_t offset) { return reinterpret_cast<float *>(arena->data() + offset); }
  void put(int64_t offset, const std::vector<float> &values) {
    EXPECT_OK(backend->upload(floats(offset), values.data(), values.size() * sizeof(float)));
  }
  std::vector<float> get(int64_t offset, size_t count) {
    std::vector<float> values(count);
    EXPECT_OK(backend->read(floats(offset), count * sizeof(float), [&](const std::byte *bytes) {
      if (count > 0)
        std::memcpy(values.data(), bytes, count * sizeof(float));
      return Status::ok();
    }));
    return values;
  }
  Status run(const std::string &kernel,
             const std::vector<std::pair<std::string, TensorView>> &operands,
             nlohmann::json attributes = nlohmann::json::object(), int64_t tokens = 0) {
    BoundCall call;
    call.kernel = kernel;
    call.attributes = std::move(attributes);
    std::vector<TensorView> views;
    for (const auto &[name, view] : operands) {
      call.operands.push_back(name);
      views.push_back(view);
    }
    OMNIBAL_ASSIGN_OR_RETURN(auto made, backend->createKernel(call));
    return made->run(views, SymbolValues::of(0, tokens), pool);
  }
  TensorView row(int64_t offset, int64_t count) {
    TensorView view;
    view.data = arena->data() + offset;
    view.rank = 1;
    view.shape[0] = count;
    view.strides[0] = 1;
    return view;
  }

  ThreadPool pool{1};
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Arena> arena;
};

} // namespace omnibal::rt::cuda
#endif // TEST_UNIT_RUNTIME_BACKENDS_CUDA_FAKERANK_H
