#include "test/conformance/device/Device.h"
#include "runtime/executor/BackendPlugin.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <vector>

namespace omnibal::rt::test {
namespace {

[[noreturn]] void giveUp(const Status &status) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::_Exit(1);
}

/// A range of host memory and where it lies on the device.
struct Range {
  std::byte *begin, *end;
  int64_t offset = 0;
};

/// A dimension of stride 0 has its memory also when its size is 0: a reduction over nothing writes.
Range rangeOf(const TensorView &view) {
  auto *begin = static_cast<std::byte *>(view.data);
  int64_t last = 0;
  for (int d = 0; d < view.rank; ++d) {
    if (view.shape[d] == 0 && view.strides[d] != 0)
      return {begin, begin};
    if (view.shape[d] > 0)
      last += (view.shape[d] - 1) * view.strides[d];
  }
  return {begin, begin + (last + 1) * byteSize(view.dtype)};
}

/// The views' memory as ranges that do not overlap, ascending, each with a place.
std::vector<Range> placed(std::span<const TensorView> views, int64_t &bytes) {
  std::vector<Range> all, ranges;
  for (const TensorView &view : views)
    if (Range range = rangeOf(view); range.begin != range.end)
      all.push_back(range);
  std::sort(all.begin(), all.end(),
            [](const Range &a, const Range &b) { return a.begin < b.begin; });
  for (const Range &range : all) {
    if (!ranges.empty() && range.begin < ranges.back().end)
      ranges.back().end = std::max(ranges.back().end, range.end);
    else
      ranges.push_back(range);
  }
  bytes = 0;
  for (Range &range : ranges) {
    range.offset = (bytes + 255) / 256 * 256 +
                   static_cast<int64_t>(reinterpret_cast<uintptr_t>(range.begin) % 16);
    bytes = range.offset + (range.end - range.begin);
  }
  return ranges;
}

void *placeOf(const TensorView &view, const std::vector<Range> &ranges, std::byte *device) {
  auto *data = static_cast<std::byte *>(view.data);
  for (const Range &range : ranges)
    if (data >= range.begin && data < range.end)
      return device + range.offset + (data - range.begin);
  return device; // of nothing
}

} // namespace

BackendKind &deviceKind() {
  auto found = backendForTarget("cuda");
  if (!found)
    giveUp(found.status());
  return **found;
}

Backend &deviceBackend() {
  static Backend *backend = [] {
    static ThreadPool pool(1);
    BackendOptions options;
    options.pool = &pool;
    auto opened = deviceKind().open(options);
    if (!opened)
      giveUp(opened.status());
    return opened->release(); // lives for ever
  }();
  return *backend;
}

Status runOnDevice(Kernel &kernel, std::span<const TensorView> operands, int64_t tiles,
                   int64_t tokens) {
  Backend &backend = deviceBackend();
  int64_t bytes = 0;
  const std::vector<Range> ranges = placed(operands, bytes);
  OMNIBAL_ASSIGN_OR_RETURN(auto arena, backend.allocateArena(bytes, true));
  for (const Range &range : ranges)
    OMNIBAL_RETURN_IF_ERROR(
        backend.upload(arena->data() + range.offset, range.begin, range.end - range.begin));
  std::vector<TensorView> views(operands.begin(), operands.end());
  for (TensorView &view : views)
    view.data = placeOf(view, ranges, arena->data());
  ThreadPool pool(1);
  OMNIBAL_RETURN_IF_ERROR(kernel.run(views, SymbolValues::of(tiles, tokens), pool));
  OMNIBAL_RETURN_IF_ERROR(backend.finish());
  for (const Range &range : ranges)
    OMNIBAL_RETURN_IF_ERROR(backend.read(
        arena->data() + range.offset, range.end - range.begin, [&](const std::byte *values) {
          std::copy_n(values, range.end - range.begin, range.begin);
          return Status::ok();
        }));
  Status status = arena->checkGuards();
  backend.forgetEvents();
  return status;
}

namespace {

using SetOrder = void (*)(uint64_t);

/// What the emulated plugin exports beside itself.
SetOrder findSetOrder() {
  deviceKind(); // loads the plugin
  const char *folder = std::getenv("OMNIBAL_PLUGINS");
  const std::string path = std::string(folder ? folder : ".") + "/libomnibal_cuda.so";
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<SetOrder>(library ? dlsym(library, "omnibalEmulationOrder") : nullptr);
}

SetOrder setOrder() {
  static const SetOrder found = findSetOrder();
  return found;
}

} // namespace

void setDeviceOrder(uint64_t seed) {
  if (setOrder())
    setOrder()(seed);
}

bool deviceIsEmulated() { return setOrder() != nullptr; }

} // namespace omnibal::rt::test
