#include "test/support/FunctionRun.h"
#include "runtime/backends/host/HostBackend.h"
#include "runtime/device/CallReader.h"
#include "runtime/support/BFloat16.h"
#include "test/support/cuda_emulation/Control.h"
#include "test/support/cuda_emulation/GeneratedCode.h"
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <unistd.h>

namespace omnibal::test {
namespace {

void *findSymbol(void *library, const char *name) { return dlsym(library, name); }

/// A stored bfloat16 that casts to and from numbers as the other element types do.
struct StoredHalf {
  rt::BFloat16 stored;
  StoredHalf() = default;
  template <typename T>
  explicit StoredHalf(T value) : stored(rt::BFloat16::fromDouble(static_cast<double>(value))) {}
  template <typename T> explicit operator T() const { return static_cast<T>(stored.toFloat()); }
};

template <typename Visit> void visitElementType(rt::DType dtype, Visit visit) {
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
  case rt::DType::BF16:
    return visit(StoredHalf{});
  }
}

/// The function's memory during one run.
struct Memory {
  const rt::Function &function;
  std::vector<std::vector<char>> &formals;
  char *workspace;
  int64_t tiles, tokens;

  /// "" or how far the view leaves its buffer.
  std::string resolve(const rt::View &view, rt::TensorView &out) const {
    const rt::Buffer &buffer = function.buffers[view.buffer];
    int64_t last = view.offset.evaluate(tiles, tokens), elements = 1, whole = 1;
    char *base =
        view.buffer < function.formals ? formals[view.buffer].data() : workspace + buffer.offset;
    out.dtype = buffer.dtype;
    out.rank = static_cast<int>(view.shape.size());
    // An empty buffer may have no address.
    out.data = base ? base + last * rt::byteSize(buffer.dtype) : nullptr;
    for (int d = 0; d < out.rank; ++d) {
      out.shape[d] = view.shape[d].evaluate(tiles, tokens);
      out.strides[d] = view.strides[d].evaluate(tiles, tokens);
      elements *= out.shape[d];
      last += (out.shape[d] - 1) * out.strides[d];
    }
    for (int64_t size : sizesOf(buffer, tiles, tokens))
      whole *= size;
    if (elements > 0 && last >= whole)
      return "leaves its buffer: element " + std::to_string(last) + " of " + std::to_string(whole);
    return "";
  }
};

} // namespace

namespace {

/// As the cuda backend launches a generated kernel.
std::string launch(const rt::BoundCall &bound, const std::vector<rt::TensorView> &views,
                   int64_t tiles, int64_t tokens) {
  rt::CallReader reader(bound);
  for (const std::string &name : bound.operands)
    reader.operand(name);
  const auto kernel = emulation::findGeneratedKernel(bound.library, reader.text("symbol", ""));
  const int64_t rows = reader.extent("rows", {}).evaluate(tiles, tokens);
  const int64_t grain = reader.integer("grain", 1), threads = reader.integer("threads", 0);
  int64_t blocks = reader.integer("blocks", 0);
  const int64_t shared = reader.integer("shared", 0);
  std::vector<int64_t> values;
  for (const rt::TensorView &view : views)
    values.push_back(reinterpret_cast<int64_t>(view.data));
  for (const rt::Extent &size : reader.extents("sizes"))
    values.push_back(size.evaluate(tiles, tokens));
  values.push_back(rows);
  if (rt::Status status = reader.finish(); !status)
    return status.message();
  if (!kernel.function || kernel.parameters != static_cast<int64_t>(values.size()))
    return "no such kernel, or one of other parameters";
  if (blocks == 0)
    blocks = (rows + grain - 1) / grain;
  if (blocks > 0)
    emulation::runGeneratedKernel(kernel, blocks, threads, shared, values);
  return emulation::takeFailure();
}

/// Calls use(number, offset) for every element of the view: its number in row-major order and where
/// it lies.
template <typename Use> void forElements(const rt::TensorView &view, Use use) {
  for (int64_t i = 0, end = view.elements(); i < end; ++i) {
    int64_t offset = 0, rest = i;
    for (int d = view.rank - 1; d >= 0; --d) {
      offset += rest % view.shape[d] * view.strides[d];
      rest /= view.shape[d];
    }
    use(i, offset);
  }
}

/// Runs a kernel of the host, which takes float32, on operands some of which lie in bfloat16: on
/// dense float32 copies of these. What it changes is rounded into its place.
rt::Status runWidened(rt::Kernel &kernel, std::vector<rt::TensorView> views, int64_t tiles,
                      int64_t tokens, rt::ThreadPool &pool) {
  struct Copy {
    size_t operand;
    rt::TensorView place;
    std::vector<float> before, now;
  };
  std::vector<Copy> copies;
  for (size_t i = 0; i < views.size(); ++i) {
    if (views[i].dtype != rt::DType::BF16)
      continue;
    Copy copy{i, views[i], std::vector<float>(views[i].elements()), {}};
    auto *stored = static_cast<const rt::BFloat16 *>(views[i].data);
    forElements(views[i], [&](int64_t n, int64_t at) { copy.before[n] = stored[at].toFloat(); });
    copy.now = copy.before;
    copies.push_back(std::move(copy));
  }
  for (Copy &copy : copies) {
    rt::TensorView &view = views[copy.operand];
    view.dtype = rt::DType::F32;
    view.data = copy.now.data();
    for (int64_t d = view.rank - 1, stride = 1; d >= 0; stride *= view.shape[d--])
      view.strides[d] = stride;
  }
  if (rt::Status status = kernel.run(views, rt::SymbolValues::of(tiles, tokens), pool); !status)
    return status;
  for (const Copy &copy : copies) {
    auto *stored = static_cast<rt::BFloat16 *>(copy.place.data);
    forElements(copy.place, [&](int64_t n, int64_t at) {
      if (std::memcmp(&copy.now[n], &copy.before[n], sizeof(float)) != 0)
        stored[at] = rt::BFloat16::fromFloat(copy.now[n]);
    });
  }
  return rt::Status::ok();
}

} // namespace

LoadedKernels::~LoadedKernels() {
  if (device)
    dlclose(device);
  if (handle)
    dlclose(handle);
  if (!path.empty())
    std::remove(path.c_str());
}

std::string LoadedKernels::load(const std::string &bytes) {
  path = (std::filesystem::temp_directory_path() / "omnibal-test-kernels-XXXXXX").string();
  int file = mkstemp(path.data());
  bool written =
      file >= 0 && write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  if (file >= 0)
    close(file);
  handle = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  std::string error;
  if (handle && dlsym(handle, "omnibal_device"))
    device = emulation::openGeneratedCode(path, error);
  if (handle)
    return error;
  return written ? dlerror() : "cannot write " + path;
}

llvm::SmallVector<int64_t> sizesOf(const rt::Buffer &buffer, int64_t tiles, int64_t tokens) {
  llvm::SmallVector<int64_t> sizes;
  for (const rt::Extent &extent : buffer.shape)
    sizes.push_back(extent.evaluate(tiles, tokens));
  return sizes;
}

std::vector<char> toBytes(const HostTensor &tensor, rt::DType dtype) {
  std::vector<char> bytes(tensor.size() * rt::byteSize(dtype));
  visitElementType(dtype, [&](auto element) {
    for (int64_t i = 0; i < tensor.size(); ++i) {
      element = tensor.isFloat() ? static_cast<decltype(element)>(tensor.floats[i])
                                 : static_cast<decltype(element)>(tensor.ints[i]);
      std::memcpy(bytes.data() + i * sizeof(element), &element, sizeof(element));
    }
  });
  return bytes;
}

void fromBytes(const char *bytes, rt::DType dtype, HostTensor &tensor) {
  visitElementType(dtype, [&](auto element) {
    for (int64_t i = 0; i < tensor.size(); ++i) {
      std::memcpy(&element, bytes + i * sizeof(element), sizeof(element));
      if (tensor.isFloat())
        tensor.floats[i] = static_cast<double>(element);
      else
        tensor.ints[i] = static_cast<int64_t>(element);
    }
  });
}

std::string runFunction(const rt::Function &function, std::vector<std::vector<char>> &formals,
                        const LoadedKernels &kernels, int64_t tiles, int64_t tokens, int threads) {
  std::vector<char> block(function.workspaceBytes + 64, static_cast<char>(0xff));
  char *workspace = block.data() + (64 - reinterpret_cast<uintptr_t>(block.data()) % 64) % 64;
  Memory memory{function, formals, workspace, tiles, tokens};
  rt::ThreadPool pool(threads);
  for (const rt::KernelCall &call : function.calls) {
    rt::BoundCall bound;
    bound.kernel = call.kernel;
    bound.attributes = call.attributes;
    bound.label = call.label;
    bound.symbol = findSymbol;
    bound.library = kernels.library();
    std::vector<rt::TensorView> views;
    for (const auto &[operand, view] : call.operands) {
      if (operand == "workspace") // of the device's kernels
        continue;
      bound.operands.push_back(operand);
      if (std::string error = memory.resolve(view, views.emplace_back()); !error.empty())
        return call.kernel + " " + operand + " " + error;
    }
    if (kernels.emulated() && call.kernel == "fused") {
      if (std::string error = launch(bound, views, tiles, tokens); !error.empty())
        return "fused: " + error;
      continue;
    }
    auto kernel = rt::createHostKernel(bound);
    if (!kernel)
      return kernel.status().message();
    if (rt::Status status = runWidened(**kernel, views, tiles, tokens, pool); !status)
      return status.message();
  }
  return "";
}

} // namespace omnibal::test
