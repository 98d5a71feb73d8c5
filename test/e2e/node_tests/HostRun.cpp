//===- HostRun.cpp - Graphs with static shapes on the host backend
//-------------------------------------===//
#include "test/e2e/node_tests/HostRun.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "passes/lower/Lowering.h"
#include "passes/specialize/Specialize.h"
#include "runtime/core/Kernel.h"
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <unistd.h>

using namespace mlir;

namespace omnibal::test {

namespace {

void *findSymbol(void *library, const char *name) { return dlsym(library, name); }

int64_t elementsOf(const rt::Buffer &buffer) {
  int64_t count = 1;
  for (const rt::Extent &extent : buffer.shape)
    count *= extent.evaluate(0, 0);
  return count;
}

template <typename Visit> void visitElements(rt::DType dtype, Visit visit) {
  switch (dtype) {
  case rt::DType::F32:
    return visit(float{});
  case rt::DType::F64:
    return visit(double{});
  case rt::DType::I32:
    return visit(int32_t{});
  case rt::DType::I64:
    return visit(int64_t{});
  case rt::DType::Bool:
    return visit(uint8_t{});
  }
}

void store(const HostTensor &tensor, rt::DType dtype, char *out) {
  visitElements(dtype, [&](auto element) {
    for (int64_t i = 0; i < tensor.size(); ++i) {
      element = tensor.isFloat() ? static_cast<decltype(element)>(tensor.floats[i])
                                 : static_cast<decltype(element)>(tensor.ints[i]);
      std::memcpy(out + i * int64_t(sizeof(element)), &element, sizeof(element));
    }
  });
}

void load(const char *in, rt::DType dtype, HostTensor &tensor) {
  visitElements(dtype, [&](auto element) {
    for (int64_t i = 0; i < tensor.size(); ++i) {
      std::memcpy(&element, in + i * int64_t(sizeof(element)), sizeof(element));
      if (tensor.isFloat())
        tensor.floats[i] = static_cast<double>(element);
      else
        tensor.ints[i] = static_cast<int64_t>(element);
    }
  });
}

} // namespace

struct HostRuns::State {
  explicit State(MLIRContext &context) : kernels(&context) {}
  lower::KernelLibrary kernels;
  std::vector<lower::LoweredFunction> graphs;
  std::string path;
  void *library = nullptr;
};

HostRuns::HostRuns(MLIRContext &context) : state(std::make_unique<State>(context)) {}

HostRuns::~HostRuns() {
  if (state->library)
    dlclose(state->library);
  if (!state->path.empty())
    std::remove(state->path.c_str());
}

FailureOr<size_t> HostRuns::add(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  SpecializeOptions options;
  options.staticInputs = true;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    auto type = cast<RankedTensorType>(main.getArgument(i).getType());
    options.inputDims[main.getArgAttrOfType<StringAttr>(i, "omnibal.input")] =
        llvm::SmallVector<int64_t>(type.getShape());
  }
  if (failed(specialize(main, options)))
    return failure();
  Builder builder(module.getContext());
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    main.setArgAttr(i, "omnibal.role", builder.getStringAttr("input"));
    main.setArgAttr(i, "omnibal.index", builder.getI64IntegerAttr(i));
  }
  for (unsigned i = 0; i < main.getNumResults(); ++i) {
    main.setResultAttr(i, "omnibal.role", builder.getStringAttr("output"));
    main.setResultAttr(i, "omnibal.index", builder.getI64IntegerAttr(i));
  }
  FailureOr<lower::LoweredFunction> lowered =
      lower::lowerFunction(main, state->kernels, lower::LoweringOptions());
  if (failed(lowered))
    return failure();
  state->graphs.push_back(std::move(*lowered));
  return state->graphs.size() - 1;
}

std::string HostRuns::compile() {
  FailureOr<std::string> bytes = state->kernels.compileSharedObject("x86-64-v3");
  if (failed(bytes))
    return "the kernels do not compile";
  std::string pattern =
      (std::filesystem::temp_directory_path() / "omnibal-node-tests-XXXXXX").string();
  int file = mkstemp(pattern.data());
  state->path = pattern;
  bool written = file >= 0 && write(file, bytes->data(), bytes->size()) == ssize_t(bytes->size());
  if (file >= 0)
    close(file);
  state->library = written ? dlopen(pattern.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (state->library)
    return {};
  return written ? dlerror() : "cannot write " + pattern;
}

std::string HostRuns::run(size_t graph, const std::vector<HostTensor> &inputs,
                          std::vector<HostTensor> &results) {
  const lower::LoweredFunction &lowered = state->graphs[graph];
  const rt::Function &function = lowered.function;
  std::vector<std::vector<char>> formals;
  size_t constants = 0;
  for (size_t i = 0; i < size_t(function.formals); ++i) {
    const rt::Buffer &buffer = function.buffers[i];
    if (i >= inputs.size() + results.size()) {
      const std::string &data = lowered.constants[constants++].bytes;
      formals.emplace_back(data.begin(), data.end());
      continue;
    }
    // Results start as bytes that no kernel writes, so that a missing one shows.
    formals.emplace_back(size_t(elementsOf(buffer) * rt::byteSize(buffer.dtype)), '\xab');
    if (i < inputs.size()) {
      if (inputs[i].size() != elementsOf(buffer))
        return "input " + std::to_string(i) + " has another size than its buffer";
      store(inputs[i], buffer.dtype, formals.back().data());
    }
  }
  std::vector<char> memory(size_t(function.workspaceBytes) + 64, '\xab');
  char *workspace = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  rt::ThreadPool pool(1);
  for (const rt::KernelCall &call : function.calls) {
    rt::KernelSite site;
    site.kernel = call.kernel;
    site.attributes = call.attributes;
    site.label = call.label;
    site.symbol = findSymbol;
    site.library = state->library;
    std::vector<rt::TensorView> views;
    for (const auto &[name, view] : call.operands) {
      site.operands.push_back(name);
      const rt::Buffer &buffer = function.buffers[size_t(view.buffer)];
      rt::TensorView out;
      out.dtype = buffer.dtype;
      out.rank = int(view.shape.size());
      char *base = view.buffer < function.formals ? formals[size_t(view.buffer)].data()
                                                  : workspace + buffer.offset;
      out.data = base + view.offset.evaluate(0, 0) * rt::byteSize(buffer.dtype);
      for (int d = 0; d < out.rank; ++d) {
        out.shape[d] = view.shape[size_t(d)].evaluate(0, 0);
        out.strides[d] = view.strides[size_t(d)].evaluate(0, 0);
      }
      views.push_back(out);
    }
    auto kernel = rt::createHostKernel(site);
    if (!kernel)
      return kernel.status().message();
    if (rt::Status status = (*kernel)->run(views, 0, 0, pool); !status)
      return status.message();
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const rt::Buffer &buffer = function.buffers[inputs.size() + i];
    if (results[i].size() != elementsOf(buffer))
      return "result " + std::to_string(i) + " has another size than its buffer";
    load(formals[inputs.size() + i].data(), buffer.dtype, results[i]);
  }
  return {};
}

} // namespace omnibal::test
