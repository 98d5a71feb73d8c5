#include "runtime/backends/cuda/calls/KernelTable.h"
#include "runtime/backends/cuda/calls/PlainKernel.h"
#include "runtime/backends/cuda/kernels/ColumnSum.h"
#include "runtime/backends/cuda/kernels/Copy.h"
#include "runtime/backends/cuda/kernels/Reduce.h"
#include "runtime/backends/cuda/libraries/GemmSums.h"
#include "runtime/backends/cuda/libraries/Libraries.h"
#include <algorithm>
#include <map>

namespace omnibal::rt::cuda {
namespace {

/// `sizes` are those of `from` where it is given (`to` may have been reduced to stride 0).
StridedPair pairOf(const TensorView &to, const TensorView *from) {
  StridedPair pair;
  for (int d = 0; d < to.rank; ++d)
    pair.append(from ? from->shape[d] : to.shape[d], to.strides[d], from ? from->strides[d] : 0);
  return pair;
}

class CopyKernel final : public DeviceKernel {
public:
  CopyKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context) {
    src = call.operand("src");
    dst = call.operand("dst");
    accumulate = call.flag("accumulate", false);
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &to = views[dst], &from = views[src];
    OMNIBAL_RETURN_IF_ERROR(same(from, "src", to, "dst"));
    const bool floats = (from.dtype == DType::F32 || from.dtype == DType::BF16) &&
                        (to.dtype == DType::F32 || to.dtype == DType::BF16);
    if (!floats)
      OMNIBAL_RETURN_IF_ERROR(sameType(from, "src", to, "dst"));
    if (accumulate && to.dtype == DType::Bool)
      return bad("'accumulate' has no meaning for bool");
    if (to.elements() == 0)
      return Status::ok();
    return launched(
        launchCopy({pairOf(to, &from), elementOf(to.dtype), elementOf(from.dtype), accumulate},
                   to.data, from.data, context.stream));
  }

private:
  int src, dst;
  bool accumulate;
};

class FillKernel final : public DeviceKernel {
public:
  FillKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context) {
    dst = call.operand("dst");
    value = call.number("value", 0);
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &to = views[dst];
    if (to.elements() == 0)
      return Status::ok();
    return launched(
        launchFill({pairOf(to, nullptr), elementOf(to.dtype), value}, to.data, context.stream));
  }

private:
  int dst;
  double value;
};

class ReduceKernel final : public DeviceKernel {
public:
  ReduceKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context) {
    pairs = call.operandPairs("src", "dst");
    kind = static_cast<ReduceKind>(call.choice("kind", {"sum", "mean", "max", "min", "prod"}));
    accumulate = call.flag("accumulate", false);
    if (kind == ReduceKind::Sum)
      needPartials(call);
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    ColumnSums together; // in one launch
    for (auto [src, dst] : pairs) {
      const ColumnSumShape sum = columnSum(views[dst], views[src]);
      if (sum.rows < 32 || sum.from != Element::F32 || columnSumServes(sum) ||
          !same(views[src], "src", views[dst], "dst")) {
        OMNIBAL_RETURN_IF_ERROR(runOne(views[src], views[dst]));
        continue;
      }
      if (together.count == ColumnSums::most) {
        OMNIBAL_RETURN_IF_ERROR(launched(launchColumnSums(together, context.stream)));
        together.count = 0;
      }
      together.parts[together.count++] = {sum, static_cast<const float *>(views[src].data),
                                          static_cast<float *>(views[dst].data)};
    }
    return launched(launchColumnSums(together, context.stream));
  }

private:
  Status runOne(const TensorView &from, const TensorView &to) const {
    OMNIBAL_RETURN_IF_ERROR(same(from, "src", to, "dst"));
    OMNIBAL_RETURN_IF_ERROR(sameType(to, "dst", from, "src", from.dtype == DType::BF16));
    if (const ColumnSumShape sum = columnSum(to, from); columnSumServes(sum))
      return launched(launchColumnSum(sum, static_cast<float *>(to.data), from.data, partials(),
                                      context.stream));
    return launched(launchReduce(
        {pairOf(to, &from), elementOf(to.dtype), elementOf(from.dtype), kind, accumulate}, to.data,
        from.data, context.stream));
  }

  /// Sums over rows of a matrix; without rows where the call is something else.
  ColumnSumShape columnSum(const TensorView &to, const TensorView &from) const {
    ColumnSumShape s;
    if (kind != ReduceKind::Sum || !context.partials || to.rank != 2 || to.strides[0] != 0 ||
        to.strides[1] == 0 || to.dtype != DType::F32 || from.strides[1] != 1)
      return s;
    s.rows = to.shape[0];
    s.cols = to.shape[1];
    s.fromRow = from.strides[0];
    s.toStep = to.strides[1];
    s.from = elementOf(from.dtype);
    s.accumulate = accumulate;
    return s;
  }

  std::vector<std::pair<int, int>> pairs; ///< src, dst
  ReduceKind kind;
  bool accumulate;
};

/// A generated kernel. Its parameters are the operands' addresses in their order, the sizes, and
/// the number of rows, all of 8 bytes; a block of `threads` does `grain` rows and has `shared`
/// bytes. With `blocks` there are always so many, which divide the rows among themselves.
class FusedKernel final : public DeviceKernel {
public:
  FusedKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context) {
    for (const std::string &name : description.operands)
      call.operand(name); // any names
    const std::string symbol = call.text("symbol", "");
    rows = call.extent("rows", {});
    grain = call.integer("grain", 1);
    threads = call.integer("threads", 256);
    fixedBlocks = call.integer("blocks", 0);
    sharedBytes = call.integer("shared", 0);
    sizes = call.extents("sizes");
    if (symbol.empty() || !call.has("rows"))
      call.fail("attributes 'symbol' and 'rows' are needed");
    if (grain <= 0)
      call.fail("attribute 'grain' must be positive");
    if (threads <= 0 || threads > 1024)
      call.fail("attribute 'threads' must be from 1 to 1024");
    if (fixedBlocks < 0 || fixedBlocks > mostBlocks)
      call.fail("attribute 'blocks' is out of range");
    if (sharedBytes < 0 || sharedBytes > mostShared)
      call.fail("attribute 'shared' must be from 0 to " + std::to_string(mostShared));
    if (symbol.empty())
      return;
    if (!context.code) {
      call.fail("the program has no generated code");
      return;
    }
    Result<cudaKernel_t> found = context.code->kernel(symbol);
    if (found)
      kernel = *found;
    else
      call.fail(found.status().message());
  }

  Status run(std::span<const TensorView> views, const SymbolValues &symbols,
             ThreadPool &) override {
    int64_t count = rows.evaluate(symbols);
    const int64_t blocks = fixedBlocks > 0 ? fixedBlocks : (count + grain - 1) / grain;
    if (blocks == 0)
      return Status::ok();
    if (blocks > mostBlocks)
      return bad(std::to_string(blocks) + " blocks are more than a launch may have");
    values.clear();
    for (const TensorView &view : views)
      values.push_back(reinterpret_cast<int64_t>(view.data));
    for (const Extent &size : sizes)
      values.push_back(size.evaluate(symbols));
    values.push_back(count);
    arguments.clear();
    for (int64_t &value : values)
      arguments.push_back(&value);
    return launched(cudaLaunchKernel(reinterpret_cast<const void *>(kernel),
                                     dim3(static_cast<unsigned>(blocks)),
                                     dim3(static_cast<unsigned>(threads)), arguments.data(),
                                     static_cast<size_t>(sharedBytes), context.stream));
  }

private:
  static constexpr int64_t mostBlocks = 0x7fffffff;
  static constexpr int64_t mostShared = 48 * 1024; ///< without asking the driver for more
  cudaKernel_t kernel = nullptr;
  Extent rows;
  int64_t grain, threads, fixedBlocks, sharedBytes;
  std::vector<Extent> sizes;
  std::vector<int64_t> values;   ///< of one launch
  std::vector<void *> arguments; ///< their addresses
};

DeviceKernelTable makeTable() {
  DeviceKernelTable table;
  table["copy"] = createKernelOf<CopyKernel>;
  table["fill"] = createKernelOf<FillKernel>;
  table["fused"] = createKernelOf<FusedKernel>;
  table["reduce"] = createKernelOf<ReduceKernel>;
  addAttentionKernels(table);
  addCrossAttentionKernels(table);
  addGroupedKernels(table);
  addLossKernels(table);
  addMatrixKernels(table);
  addPlainKernels(table);
  addPlainRowKernels(table);
  addQuantizedKernels(table);
  addRecurrentKernels(table);
  addRowKernels(table);
  addWordLossKernels(table);
  return table;
}

} // namespace

Element elementOf(DType type) {
  switch (type) {
  case DType::F32:
    return Element::F32;
  case DType::I32:
    return Element::I32;
  case DType::I64:
    return Element::I64;
  case DType::Bool:
    return Element::Bool;
  case DType::F64:
    return Element::F64;
  case DType::BF16:
    return Element::BF16;
  }
  return Element::F32;
}

Result<DeviceKernel::Scratch> DeviceKernel::scratch(std::span<const TensorView> views, int operand,
                                                    int64_t bytes) const {
  if (operand < 0) {
    OMNIBAL_ASSIGN_OR_RETURN(auto own, DeviceBuffer::allocate(bytes, context.stream));
    std::byte *data = own->data();
    return Scratch{data, std::move(own)};
  }
  const TensorView &view = views[operand];
  OMNIBAL_RETURN_IF_ERROR(expectList(view, "workspace", view.dtype, -1));
  if (view.shape[0] * byteSize(view.dtype) < bytes)
    return bad("operand 'workspace' has " + std::to_string(view.shape[0] * byteSize(view.dtype)) +
               " bytes; " + std::to_string(bytes) + " are needed");
  return Scratch{static_cast<std::byte *>(view.data), nullptr};
}

void DeviceKernel::needPartials(CallReader &call) {
  if (!context.partials || *context.partials)
    return;
  static_assert(columnSumScratch * sizeof(float) == columnSumBytes);
  auto made = DeviceBuffer::allocate(columnSumBytes, context.stream);
  if (!made)
    return call.fail(made.status().message());
  *context.partials = *std::move(made);
  if (context.own)
    context.own->took("column sums", columnSumBytes);
}

float *DeviceKernel::partials() const {
  return context.partials ? reinterpret_cast<float *>((*context.partials)->data()) : nullptr;
}

Status DeviceKernel::multiply(const GemmShape &shape, const GemmData &d) const {
  if (context.libraries)
    return context.libraries->multiply(shape, d).context(where);
  OMNIBAL_RETURN_IF_ERROR(launched(launchGemm(shape, d, context.stream)));
  return launched(launchGemmSums(shape, d, context.stream));
}

Result<std::unique_ptr<Kernel>> createDeviceKernel(const BoundCall &call,
                                                   const KernelContext &context) {
  static const DeviceKernelTable table = makeTable();
  auto found = table.find(call.kernel);
  if (found != table.end())
    return found->second(call, context);
  std::string names;
  for (const auto &[name, factory] : table)
    names += (names.empty() ? "" : ", ") + name;
  return invalid("the cuda backend has no kernel '" + call.kernel + "'" +
                 (call.label.empty() ? "" : " (" + call.label + ")") + "; it has " + names);
}

} // namespace omnibal::rt::cuda
