//===- PlainKernels.cpp - Elementwise ops, gathers, scatters and the like on the device -------===//
#include "runtime/backends/cuda/calls/PlainKernel.h"
#include "runtime/backends/cuda/kernels/Copy.h"
#include "runtime/device/calls/BoundElementwise.h"
#include <algorithm>

namespace omnibal::rt::cuda {
namespace {

class UnaryKernel final : public PlainKernel, private BoundUnary {
public:
  UnaryKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : PlainKernel(description, context), BoundUnary(call, description.kernel) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_ASSIGN_OR_RETURN(const PlainView from, broadcast(views[operand], views[result]));
    return launched(launchUnary(op, plainView(views[result]), from, context.stream));
  }
};

class BinaryKernel final : public PlainKernel, private BoundBinary {
public:
  BinaryKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : PlainKernel(description, context), BoundBinary(call, description.kernel) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_ASSIGN_OR_RETURN(const PlainView a, broadcast(views[lhs], views[result]));
    OMNIBAL_ASSIGN_OR_RETURN(const PlainView b, broadcast(views[rhs], views[result]));
    return launched(launchBinary(op, plainView(views[result]), a, b, context.stream));
  }
};

class SelectKernel final : public PlainKernel {
public:
  SelectKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : PlainKernel(description, context), condition(call.operand("condition")),
        onTrue(call.operand("onTrue")), onFalse(call.operand("onFalse")),
        result(call.operand("result")) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &to = views[result];
    OMNIBAL_ASSIGN_OR_RETURN(const PlainView c, broadcast(views[condition], to));
    OMNIBAL_ASSIGN_OR_RETURN(const PlainView yes, broadcast(views[onTrue], to));
    OMNIBAL_ASSIGN_OR_RETURN(const PlainView no, broadcast(views[onFalse], to));
    return launched(launchSelect(plainView(to), c, yes, no, context.stream));
  }

private:
  int condition, onTrue, onFalse, result;
};

class Trilu final : public PlainKernel {
public:
  Trilu(CallReader &call, const BoundCall &description, const KernelContext &context)
      : PlainKernel(description, context), input(call.operand("input")),
        k(call.optionalOperand("k")), result(call.operand("result")),
        upper(call.flag("upper", true)) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(same(views[result], "result", views[input], "input"));
    if (views[result].rank < 2)
      return bad("a matrix is needed, not " + printShape(views[result]));
    return launched(launchTrilu(plainView(views[result]), plainView(views[input]),
                                k >= 0 ? plainView(views[k]) : PlainView(), upper, context.stream));
  }

private:
  int input, k, result;
  bool upper;
};

class TopK final : public PlainKernel {
public:
  TopK(CallReader &call, const BoundCall &description, const KernelContext &context)
      : PlainKernel(description, context), input(call.operand("input")),
        result(call.operand("result")), k(call.requiredInteger("k")),
        smallest(call.flag("smallest", false)) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &from = views[input], &to = views[result];
    if (from.rank < 1 || to.rank != from.rank || to.shape[to.rank - 1] != k ||
        k > from.shape[from.rank - 1] ||
        !std::equal(from.shape, from.shape + from.rank - 1, to.shape))
      return bad("result " + printShape(to) + " does not hold the places of " + std::to_string(k) +
                 " values of each line of " + printShape(from));
    return launched(launchTopK(plainView(to), plainView(from), smallest, context.stream));
  }

private:
  int input, result;
  int64_t k;
  bool smallest;
};

class Range final : public PlainKernel {
public:
  Range(CallReader &call, const BoundCall &description, const KernelContext &context)
      : PlainKernel(description, context), start(call.operand("start")),
        delta(call.operand("delta")), result(call.operand("result")) {
    call.optionalOperand("limit"); // the result's size says it
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    return launched(launchRange(plainView(views[result]), plainView(views[start]),
                                plainView(views[delta]), context.stream));
  }

private:
  int start, delta, result;
};

/// Gathers and scatters by one of the three kinds of indices.
template <IndexKind kind, bool scatters> class IndexKernel final : public PlainKernel {
public:
  IndexKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : PlainKernel(description, context), input(call.operand("input")),
        indices(call.operand("indices")), result(call.operand("result")) {
    if (kind != IndexKind::Vector)
      first = call.integer("axis", 0);
    else if (!scatters)
      first = call.integer("batch_dims", 0);
    if (scatters) {
      updates = call.operand("updates");
      reduction =
          static_cast<ScatterKind>(call.choice("reduction", {"none", "add", "mul", "max", "min"}));
    }
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &from = views[input], &to = views[result];
    PlainIndex index;
    index.kind = kind;
    index.indices = plainView(views[indices]);
    index.first = static_cast<int>(first);
    if (kind != IndexKind::Vector) {
      OMNIBAL_ASSIGN_OR_RETURN(index.first, axisOf(first, from));
    }
    // What the indices point into, and what has a value for each.
    const TensorView &into = scatters ? to : from, &positions = scatters ? views[updates] : to;
    OMNIBAL_RETURN_IF_ERROR(checkShapes(into, positions, views[indices]));
    if constexpr (!scatters)
      return launched(launchGather(index, plainView(to), plainView(from), context.stream));
    OMNIBAL_RETURN_IF_ERROR(copyInput(from, to));
    OMNIBAL_ASSIGN_OR_RETURN(Scratch memory,
                             scratch(views, -1, scatterBytes(positions.elements())));
    return launched(launchScatter(index, reduction, plainView(to), plainView(positions),
                                  memory.data, context.stream));
  }

private:
  Status checkShapes(const TensorView &into, const TensorView &positions,
                     const TensorView &which) const {
    const int64_t last = which.rank > 0 ? which.shape[which.rank - 1] : 0;
    bool fits = false;
    switch (kind) {
    case IndexKind::Axis:
      fits = positions.rank == into.rank - 1 + which.rank;
      break;
    case IndexKind::Vector:
      fits = which.rank > 0 && first >= 0 && first < which.rank && first + last <= into.rank &&
             positions.rank == which.rank - 1 + into.rank - first - last;
      break;
    case IndexKind::Element:
      fits = which.rank == into.rank && positions.rank == which.rank &&
             std::equal(which.shape, which.shape + which.rank, positions.shape);
      break;
    }
    if (fits)
      return Status::ok();
    return bad("indices " + printShape(which) + (scatters ? " and updates " : " and result ") +
               printShape(positions) + " do not fit " + printShape(into));
  }

  Status copyInput(const TensorView &from, const TensorView &to) const {
    OMNIBAL_RETURN_IF_ERROR(same(to, "result", from, "input"));
    OMNIBAL_RETURN_IF_ERROR(sameType(to, "result", from, "input"));
    if (from.data == to.data || to.elements() == 0)
      return Status::ok();
    CopyShape copy;
    for (int d = 0; d < to.rank; ++d)
      copy.strides.append(to.shape[d], to.strides[d], from.strides[d]);
    copy.to = copy.from = elementOf(to.dtype);
    return launched(launchCopy(copy, to.data, from.data, context.stream));
  }

  int input, indices, result, updates = -1;
  int64_t first = 0;
  ScatterKind reduction = ScatterKind::None;
};

} // namespace

PlainView plainView(const TensorView &view) {
  PlainView v;
  v.data = view.data;
  v.type = elementOf(view.dtype);
  v.rank = view.rank;
  std::copy_n(view.shape, view.rank, v.shape);
  std::copy_n(view.strides, view.rank, v.strides);
  return v;
}

Result<PlainView> PlainKernel::broadcast(const TensorView &view, const TensorView &to) const {
  PlainView wide = plainView(to);
  wide.data = view.data;
  wide.type = elementOf(view.dtype);
  const int shift = to.rank - view.rank;
  bool fits = shift >= 0;
  for (int d = 0; d < to.rank && fits; ++d) {
    const int64_t size = d >= shift ? view.shape[d - shift] : 1;
    fits = size == 1 || size == to.shape[d];
    wide.strides[d] = d >= shift && size == to.shape[d] ? view.strides[d - shift] : 0;
  }
  if (!fits)
    return bad("shape " + printShape(view) + " does not broadcast to " + printShape(to));
  return wide;
}

Result<PlainView> PlainKernel::broadcast(std::span<const TensorView> views, int operand,
                                         const TensorView &to) const {
  return operand < 0 ? PlainView() : broadcast(views[operand], to);
}

Result<int> PlainKernel::axisOf(int64_t axis, const TensorView &view) const {
  const int64_t positive = axis < 0 ? axis + view.rank : axis;
  if (positive < 0 || positive >= view.rank)
    return bad("axis " + std::to_string(axis) + " of shape " + printShape(view));
  return static_cast<int>(positive);
}

void addPlainKernels(DeviceKernelTable &table) {
  for (const auto &[name, op] : plain::unaryNames)
    table[name] = createKernelOf<UnaryKernel>;
  for (const auto &[name, op] : plain::binaryNames)
    table[name] = createKernelOf<BinaryKernel>;
  table["select"] = createKernelOf<SelectKernel>;
  table["trilu"] = createKernelOf<Trilu>;
  table["range"] = createKernelOf<Range>;
  table["top_k"] = createKernelOf<TopK>;
  table["gather"] = createKernelOf<IndexKernel<IndexKind::Axis, false>>;
  table["gather_nd"] = createKernelOf<IndexKernel<IndexKind::Vector, false>>;
  table["gather_elements"] = createKernelOf<IndexKernel<IndexKind::Element, false>>;
  table["scatter_nd"] = createKernelOf<IndexKernel<IndexKind::Vector, true>>;
  table["scatter_elements"] = createKernelOf<IndexKernel<IndexKind::Element, true>>;
}

} // namespace omnibal::rt::cuda
