//===- CudnnAttention.cpp - libomnibal_cudnn.so: attention by cuDNN's graph API --------------===//
//
// The one file that sees cuDNN's headers. cuDNN itself is opened when the first rank asks; the
// headers then call what has been opened.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/driver/SharedLibrary.h"
#include "runtime/backends/cuda/libraries/AttentionInterface.h"
#include "runtime/backends/cuda/libraries/AttentionLibrary.h"
#include <cstdlib>
#include <exception>
#include <mutex>
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>

namespace cudnn_frontend {
void *cudnn_dlhandle = nullptr; // the headers' functions look here
}

namespace omnibal::rt::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;
using Tensor = std::shared_ptr<Tensor_attributes>;

constexpr size_t leastVersion = 91002; // 9.10.0 and 9.10.1 have wrong gradients
constexpr int leastCapability = 90;    // before, packed lse and ordered gradients do not exist
constexpr int64_t lengthsId = 1, firstTensorId = 10, firstOffsetsId = 50;

Status failed(fe::error_t error, const char *what) {
  const bool declined =
      error.get_code() == fe::error_code_t::GRAPH_NOT_SUPPORTED ||
      error.get_code() == fe::error_code_t::GRAPH_EXECUTION_PLAN_CREATION_FAILED ||
      error.get_code() == fe::error_code_t::HEURISTIC_QUERY_FAILED;
  std::string message = error.get_message().substr(0, 400);
  for (char &c : message)
    c = c == '\n' ? ' ' : c;
  return {declined ? Code::NotFound : Code::Internal,
          std::string("cuDNN: ") + what + ": " + message};
}

#define OMNIBAL_CUDNN(call, what)                                                                  \
  if (fe::error_t error = (call); error.is_bad())                                                  \
  return failed(error, what)

/// The headers throw where a function is missing.
template <typename F> auto guarded(F work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception &error) {
    return Status(Code::Unavailable, std::string("cuDNN: ") + error.what());
  }
}

/// A graph of one attention node.
class Builder {
public:
  explicit Builder(const AttentionForm &form)
      : form(form), graph(std::make_shared<fe::graph::Graph>()) {
    graph->set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  std::shared_ptr<fe::graph::Graph> build() {
    form.backward ? addBackward() : addForward();
    return graph;
  }

private:
  std::vector<int64_t> sizes(AttentionTensor t) const {
    const bool values = t == TensorV || t == TensorOut || t == TensorDout || t == TensorDv;
    return {form.samples, isOfKeys(t) ? form.keyHeads : form.heads, form.longest,
            t == TensorLse ? 1
            : values       ? form.valueSize
                           : form.size};
  }

  Tensor integers(const std::string &name, int64_t id, int64_t count) {
    return graph->tensor(Tensor_attributes()
                             .set_name(name)
                             .set_uid(id)
                             .set_dim({count, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(fe::DataType_t::INT32));
  }

  /// The distance of samples says nothing, since their offsets are given.
  void place(Tensor_attributes &tensor, AttentionTensor t) {
    const AttentionForm::Strides &s = form.strides[t];
    tensor.set_uid(firstTensorId + t)
        .set_dim(sizes(t))
        .set_stride({form.longest * s.token, s.head, s.token, 1})
        .set_ragged_offset(
            integers("offsets" + std::to_string(t), firstOffsetsId + t, form.samples + 1));
    if (t == TensorLse)
      tensor.set_data_type(fe::DataType_t::FLOAT);
  }

  Tensor input(AttentionTensor t) {
    Tensor_attributes tensor;
    tensor.set_name("input" + std::to_string(t));
    place(tensor, t);
    return graph->tensor(tensor);
  }
  void output(const Tensor &tensor, AttentionTensor t) {
    tensor->set_output(true);
    place(*tensor, t);
  }

  template <typename Options> void describe(Options &options) {
    Tensor lengths = integers("lengths", lengthsId, form.samples);
    options.set_name("attention")
        .set_attn_scale(form.scale)
        .set_padding_mask(true)
        .set_seq_len_q(lengths)
        .set_seq_len_kv(lengths);
    if (form.causal)
      options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
          .set_diagonal_band_right_bound(0);
  }

  void addForward() {
    fe::graph::SDPA_attributes options;
    describe(options);
    options.set_generate_stats(true);
    Tensor q = input(TensorQ), k = input(TensorK), v = input(TensorV);
    auto [out, lse] = graph->sdpa(q, k, v, options);
    output(out, TensorOut);
    output(lse, TensorLse);
  }

  void addBackward() {
    fe::graph::SDPA_backward_attributes options;
    describe(options);
    options.set_deterministic_algorithm(form.ordered);
    Tensor q = input(TensorQ), k = input(TensorK), v = input(TensorV), out = input(TensorOut);
    Tensor dout = input(TensorDout), lse = input(TensorLse);
    auto [dq, dk, dv] = graph->sdpa_backward(q, k, v, out, dout, lse, options);
    output(dq, TensorDq);
    output(dk, TensorDk);
    output(dv, TensorDv);
  }

  AttentionForm form;
  std::shared_ptr<fe::graph::Graph> graph;
};

class CudnnPlan final : public AttentionPlan {
public:
  CudnnPlan(std::shared_ptr<fe::graph::Graph> graph, cudnnHandle_t handle, int64_t bytes,
            int tensors)
      : graph(std::move(graph)), handle(handle), bytes(bytes), tensors(tensors) {}

  int64_t workspaceBytes() const override { return bytes; }

  Status run(const AttentionCall &call) override {
    if (!handle)
      return {Code::Internal, "a plan without a device"};
    std::unordered_map<int64_t, void *> memory;
    memory.emplace(lengthsId, const_cast<int32_t *>(call.lengths));
    for (int t = 0; t < tensors; ++t) {
      memory.emplace(firstTensorId + t, call.data[t]);
      memory.emplace(firstOffsetsId + t, const_cast<int32_t *>(call.offsets[t]));
    }
    return guarded([&]() -> Status {
      OMNIBAL_CUDNN(graph->execute(handle, memory, call.workspace), "attention");
      return Status::ok();
    });
  }

private:
  std::shared_ptr<fe::graph::Graph> graph;
  cudnnHandle_t handle;
  int64_t bytes;
  int tensors;
};

class CudnnAttention final : public AttentionLibrary {
public:
  static Result<std::unique_ptr<CudnnAttention>> open(const AttentionDevice &device) {
    if (device.capability < leastCapability)
      return Status(Code::Unavailable, "the device has compute capability " +
                                           std::to_string(device.capability / 10) + "." +
                                           std::to_string(device.capability % 10) +
                                           ", and cuDNN's packed attention is used from 9.0 on");
    std::unique_ptr<CudnnAttention> made(new CudnnAttention);
    made->capability = device.capability;
    OMNIBAL_RETURN_IF_ERROR(openCudnn(made->version, device.runtime));
    if (device.properties.empty())
      OMNIBAL_RETURN_IF_ERROR(made->connect(device.stream));
    else
      OMNIBAL_RETURN_IF_ERROR(made->describeDevice(device.properties));
    return made;
  }
  ~CudnnAttention() override {
    if (handle)
      (void)guarded([&] { return fe::detail::destroy_handle(handle), Status::ok(); });
  }

  std::string description() const override {
    return "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
           "." + std::to_string(version % 100);
  }

  Result<std::unique_ptr<AttentionPlan>> plan(const AttentionForm &form) override {
    return guarded([&]() -> Result<std::unique_ptr<AttentionPlan>> {
      auto graph = Builder(form).build();
      graph->set_sm_version(capability);
      if (properties)
        graph->set_device_properties(properties);
      OMNIBAL_CUDNN(graph->validate(), "a graph of attention");
      OMNIBAL_CUDNN(handle ? graph->build_operation_graph(handle) : graph->build_operation_graph(),
                    "a graph of attention");
      OMNIBAL_CUDNN(graph->create_execution_plans({fe::HeurMode_t::A}), "kernels for attention");
      OMNIBAL_CUDNN(graph->check_support(), "kernels for attention");
      OMNIBAL_CUDNN(graph->build_plans(), "a kernel for attention");
      int64_t bytes = 0;
      OMNIBAL_CUDNN(graph->get_workspace_size(bytes), "attention's workspace");
      return std::unique_ptr<AttentionPlan>(
          std::make_unique<CudnnPlan>(std::move(graph), handle, bytes, form.tensors()));
    });
  }

private:
  CudnnAttention() = default;

  /// Once a process.
  static Status openCudnn(size_t &version, const std::string &runtime) {
    static std::mutex mutex;
    static std::unique_ptr<SharedLibrary> library;
    std::lock_guard<std::mutex> lock(mutex);
    if (!library) {
      // cuDNN asks the loader for both by name when it first needs them, and ends the process where
      // the first is missing; what is open already is found.
      static std::unique_ptr<SharedLibrary> products, compiler;
      OMNIBAL_ASSIGN_OR_RETURN(products, SharedLibrary::open("libcublasLt.so.13", "cu13"));
      OMNIBAL_ASSIGN_OR_RETURN(compiler, SharedLibrary::open("libnvrtc.so.13", "cu13"));
      OMNIBAL_ASSIGN_OR_RETURN(library, SharedLibrary::open("libcudnn.so.9", "cudnn"));
      fe::cudnn_dlhandle = library->handle();
      // The headers open CUDA's runtime by name, and take version 12 where both are found.
      if (!runtime.empty())
        setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", runtime.c_str(), 0);
    }
    return guarded([&]() -> Status {
      version = fe::detail::get_backend_version();
      if (version < leastVersion)
        return {Code::Unavailable, library->path() + " is of version " + std::to_string(version) +
                                       "; " + std::to_string(leastVersion) + " or newer is needed"};
      return Status::ok();
    });
  }

  Status connect(cudaStream_t stream) {
    return guarded([&]() -> Status {
      if (cudnnStatus_t status = fe::detail::create_handle(&handle); status != CUDNN_STATUS_SUCCESS)
        return {Code::Unavailable,
                description() + " does not start: " + fe::detail::get_error_string(status)};
      if (cudnnStatus_t status = fe::detail::set_stream(handle, stream);
          status != CUDNN_STATUS_SUCCESS)
        return {Code::Unavailable, description() + " does not take the stream: " +
                                       fe::detail::get_error_string(status)};
      return Status::ok();
    });
  }

  Status describeDevice(const std::string &json) {
    return guarded([&]() -> Status {
      properties = std::make_shared<fe::DeviceProperties>();
      OMNIBAL_CUDNN(properties->deserialize({json.begin(), json.end()}), "device properties");
      return Status::ok();
    });
  }

  size_t version = 0;
  int capability = 0;
  cudnnHandle_t handle = nullptr;
  std::shared_ptr<fe::DeviceProperties> properties;
};

AttentionLibrary *open(const AttentionDevice &device, Status &error) {
  auto opened = CudnnAttention::open(device);
  if (opened)
    return opened->release();
  error = std::move(opened).status();
  return nullptr;
}

} // namespace
} // namespace omnibal::rt::cuda

extern "C" __attribute__((visibility("default")))
const omnibal::rt::cuda::AttentionPlugin omnibalAttentionPlugin{
    omnibal::rt::cuda::attentionInterface, omnibal::rt::cuda::open};
