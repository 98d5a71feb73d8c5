//===- Indexing.cpp - Plain gathers, scatters, triangles, ranges -------------------------===//
#include "runtime/backends/host/kernels/plain/Plain.h"

namespace omnibal::rt::plain {
namespace {

/// What a scatter does with an element that is already there.
enum class Reduction { None, Add, Mul, Max, Min };

void combine(Reduction reduction, const TensorView &to, int64_t target, const TensorView &from,
             int64_t source) {
  if (isFloat(to.dtype)) {
    const double old = loadReal(to, target), x = loadReal(from, source);
    storeReal(to, target,
              reduction == Reduction::None  ? x
              : reduction == Reduction::Add ? old + x
              : reduction == Reduction::Mul ? old * x
              : reduction == Reduction::Max ? (x > old || x != x ? x : old)
                                            : (x < old || x != x ? x : old));
    return;
  }
  const int64_t old = loadInteger(to, target), x = loadInteger(from, source);
  storeInteger(to, target,
               reduction == Reduction::None  ? x
               : reduction == Reduction::Add ? old + x
               : reduction == Reduction::Mul ? old * x
               : reduction == Reduction::Max ? std::max(old, x)
                                             : std::min(old, x));
}

Reduction readReduction(CallReader &call) {
  return static_cast<Reduction>(call.choice("reduction", {"none", "add", "mul", "max", "min"}));
}

/// An index outside of its dimension, for messages.
struct BadIndex {
  int64_t index = 0, size = 0;
};

/// Wraps `index` and adds its place along dimension d of `into` to `offset`; false if it is
/// outside.
bool addIndex(const TensorView &into, int d, int64_t index, int64_t &offset, BadIndex &wrong) {
  wrong = {index, into.shape[d]};
  const int64_t wrapped = wrapIndex(index, into.shape[d]);
  offset += wrapped * into.strides[d];
  return wrapped >= 0;
}

/// The element of `into` at [a.., indices[i..], b..] for a position [a.., i.., b..].
class AxisIndex {
public:
  AxisIndex(const TensorView &into, const TensorView &which, int axis)
      : into(into), which(which), axis(axis) {}

  bool resolve(const Counter &position, int64_t &offset, BadIndex &wrong) const {
    offset = 0;
    for (int d = 0; d < into.rank; ++d)
      if (d != axis)
        offset += position.index[d < axis ? d : d - 1 + which.rank] * into.strides[d];
    return addIndex(into, axis, loadInteger(which, position.offset(which, axis)), offset, wrong);
  }

private:
  const TensorView &into, &which;
  int axis;
};

/// The element (the first of a slice) that a vector along the last dimension of `which` names;
/// batch dimensions are the position's first ones.
class VectorIndex {
public:
  VectorIndex(const TensorView &into, const TensorView &which, int64_t batchDims)
      : into(into), which(which), batchDims(static_cast<int>(batchDims)),
        length(static_cast<int>(which.shape[which.rank - 1])) {}

  bool resolve(const Counter &position, int64_t &offset, BadIndex &wrong) const {
    int64_t place = 0;
    for (int d = 0; d < which.rank - 1; ++d)
      place += position.index[d] * which.strides[d];
    offset = 0;
    for (int d = 0; d < batchDims; ++d)
      offset += position.index[d] * into.strides[d];
    for (int i = 0; i < length; ++i)
      if (!addIndex(into, batchDims + i,
                    loadInteger(which, place + i * which.strides[which.rank - 1]), offset, wrong))
        return false;
    for (int d = batchDims + length; d < into.rank; ++d)
      offset += position.index[which.rank - 1 + d - batchDims - length] * into.strides[d];
    return true;
  }

private:
  const TensorView &into, &which;
  int batchDims, length;
};

/// The element at the position itself, apart from `axis`, whose index `which` has at the position.
class ElementIndex {
public:
  ElementIndex(const TensorView &into, const TensorView &which, int axis)
      : into(into), which(which), axis(axis) {}

  bool resolve(const Counter &position, int64_t &offset, BadIndex &wrong) const {
    offset = position.offset(into) - position.index[axis] * into.strides[axis];
    return addIndex(into, axis, loadInteger(which, position.offset(which)), offset, wrong);
  }

private:
  const TensorView &into, &which;
  int axis;
};

class IndexKernel : public PlainKernel {
public:
  IndexKernel(CallReader &call, const BoundCall &description)
      : PlainKernel(description), input(call.operand("input")), indices(call.operand("indices")),
        result(call.operand("result")) {}

protected:
  /// to[position] = from[where(position)] for all positions of `to`.
  template <typename Index>
  Status gather(const TensorView &from, const TensorView &to, const Index &where,
                ThreadPool &pool) const {
    TaskStatus status;
    forPositions(to, pool, [&](const Counter &position) {
      int64_t source;
      BadIndex wrong;
      if (!where.resolve(position, source, wrong))
        return status.note(badIndex(wrong.index, wrong.size));
      copyElement(from, source, to, position.offset(to));
    });
    return status.take();
  }

  int input, indices, result;
};

class Gather final : public IndexKernel {
public:
  Gather(CallReader &call, const BoundCall &description)
      : IndexKernel(call, description), axis(call.integer("axis", 0)) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &from = views[input], &which = views[indices], &to = views[result];
    OMNIBAL_ASSIGN_OR_RETURN(const int at, axisOf(axis, from));
    if (to.rank != from.rank - 1 + which.rank)
      return bad("result " + printShape(to) + " does not fit input " + printShape(from) +
                 " and indices " + printShape(which));
    return gather(from, to, AxisIndex(from, which, at), pool);
  }

private:
  int64_t axis;
};

class GatherND final : public IndexKernel {
public:
  GatherND(CallReader &call, const BoundCall &description)
      : IndexKernel(call, description), batchDims(call.integer("batch_dims", 0)) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &from = views[input], &which = views[indices], &to = views[result];
    if (which.rank < 1 || batchDims < 0 || batchDims >= which.rank ||
        batchDims + which.shape[which.rank - 1] > from.rank ||
        to.rank != which.rank - 1 + from.rank - batchDims - which.shape[which.rank - 1])
      return bad("indices " + printShape(which) + " do not fit input " + printShape(from) +
                 " and result " + printShape(to));
    return gather(from, to, VectorIndex(from, which, batchDims), pool);
  }

private:
  int64_t batchDims;
};

class GatherElements final : public IndexKernel {
public:
  GatherElements(CallReader &call, const BoundCall &description)
      : IndexKernel(call, description), axis(call.integer("axis", 0)) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &from = views[input], &which = views[indices], &to = views[result];
    OMNIBAL_ASSIGN_OR_RETURN(const int at, axisOf(axis, from));
    OMNIBAL_RETURN_IF_ERROR(same(to, "result", which, "indices"));
    if (which.rank != from.rank)
      return bad("indices " + printShape(which) + " do not fit input " + printShape(from));
    return gather(from, to, ElementIndex(from, which, at), pool);
  }

private:
  int64_t axis;
};

/// Scatters run on one thread: updates may meet, and their order counts.
class ScatterKernel : public IndexKernel {
public:
  ScatterKernel(CallReader &call, const BoundCall &description)
      : IndexKernel(call, description), updates(call.operand("updates")),
        reduction(readReduction(call)) {}

protected:
  Status copyInput(std::span<const TensorView> views, ThreadPool &pool) const {
    const TensorView &from = views[input], &to = views[result];
    OMNIBAL_RETURN_IF_ERROR(same(to, "result", from, "input"));
    if (from.data != to.data)
      forPositions(to, pool, [&](const Counter &position) {
        copyElement(from, position.offset(from), to, position.offset(to));
      });
    return Status::ok();
  }

  /// Combines from[position] with to[where(position)] for all positions of `from`, in order.
  template <typename Index>
  Status scatter(const TensorView &from, const TensorView &to, const Index &where) const {
    Counter position(from.shape, from.rank);
    for (int64_t i = 0; i < position.count(); ++i, position.next()) {
      int64_t target;
      BadIndex wrong;
      if (!where.resolve(position, target, wrong))
        return badIndex(wrong.index, wrong.size);
      combine(reduction, to, target, from, position.offset(from));
    }
    return Status::ok();
  }

  int updates;
  Reduction reduction;
};

class ScatterND final : public ScatterKernel {
public:
  using ScatterKernel::ScatterKernel;

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &which = views[indices], &from = views[updates], &to = views[result];
    OMNIBAL_RETURN_IF_ERROR(copyInput(views, pool));
    if (which.rank < 1 || which.shape[which.rank - 1] > to.rank ||
        from.rank != which.rank - 1 + to.rank - which.shape[which.rank - 1])
      return bad("indices " + printShape(which) + " and updates " + printShape(from) +
                 " do not fit " + printShape(to));
    return scatter(from, to, VectorIndex(to, which, 0));
  }
};

class ScatterElements final : public ScatterKernel {
public:
  ScatterElements(CallReader &call, const BoundCall &description)
      : ScatterKernel(call, description), axis(call.integer("axis", 0)) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &which = views[indices], &from = views[updates], &to = views[result];
    OMNIBAL_RETURN_IF_ERROR(copyInput(views, pool));
    OMNIBAL_RETURN_IF_ERROR(same(from, "updates", which, "indices"));
    OMNIBAL_ASSIGN_OR_RETURN(const int at, axisOf(axis, to));
    if (which.rank != to.rank)
      return bad("indices " + printShape(which) + " do not fit " + printShape(to));
    return scatter(from, to, ElementIndex(to, which, at));
  }

private:
  int64_t axis;
};

class Trilu final : public PlainKernel {
public:
  Trilu(CallReader &call, const BoundCall &description)
      : PlainKernel(description), input(call.operand("input")), k(call.optionalOperand("k")),
        result(call.operand("result")), upper(call.flag("upper", true)) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &from = views[input], &to = views[result];
    OMNIBAL_RETURN_IF_ERROR(same(to, "result", from, "input"));
    if (to.rank < 2)
      return bad("a matrix is needed, not " + printShape(to));
    const int64_t diagonal = k >= 0 ? loadInteger(views[k], 0) : 0;
    forPositions(to, pool, [&](const Counter &at) {
      const int64_t above = at.index[to.rank - 1] - at.index[to.rank - 2] - diagonal;
      if (upper ? above >= 0 : above <= 0)
        copyElement(from, at.offset(from), to, at.offset(to));
      else
        storeInteger(to, at.offset(to), 0);
    });
    return Status::ok();
  }

private:
  int input, k, result;
  bool upper;
};

/// Places of the largest (or smallest) values of each line, of equal ones the first.
class TopK final : public PlainKernel {
public:
  TopK(CallReader &call, const BoundCall &description)
      : PlainKernel(description), input(call.operand("input")), result(call.operand("result")),
        k(call.requiredInteger("k")), smallest(call.flag("smallest", false)) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &from = views[input], &to = views[result];
    if (from.rank < 1 || to.rank != from.rank || to.shape[to.rank - 1] != k ||
        k > from.shape[from.rank - 1] ||
        !std::equal(from.shape, from.shape + from.rank - 1, to.shape))
      return bad("result " + printShape(to) + " does not hold the places of " + std::to_string(k) +
                 " values of each line of " + printShape(from));
    const int last = from.rank - 1;
    TensorView lines = from;
    lines.rank = last;
    const int64_t size = from.shape[last], step = from.strides[last];
    forPositions(
        lines, pool,
        [&](const Counter &at) {
          const int64_t source = at.offset(from), target = at.offset(to);
          int64_t before = -1;
          for (int64_t i = 0; i < k; ++i) {
            int64_t best = -1;
            for (int64_t j = 0; j < size; ++j)
              if ((before < 0 || precedes(from, source, step, before, j)) &&
                  (best < 0 || precedes(from, source, step, j, best)))
                best = j;
            storeInteger(to, target + i * to.strides[last], best);
            before = best;
          }
        },
        std::max<int64_t>(1, 4096 / std::max<int64_t>(size * k, 1)));
    return Status::ok();
  }

private:
  /// Whether the value at place i comes before that at place j; what is no number comes first.
  bool precedes(const TensorView &from, int64_t line, int64_t step, int64_t i, int64_t j) const {
    const double x = loadReal(from, line + i * step), y = loadReal(from, line + j * step);
    if (x == y || (x != x && y != y))
      return i < j;
    if (x != x || y != y)
      return x != x;
    return smallest ? x < y : x > y;
  }

  int input, result;
  int64_t k;
  bool smallest;
};

class Range final : public PlainKernel {
public:
  Range(CallReader &call, const BoundCall &description)
      : PlainKernel(description), start(call.operand("start")), delta(call.operand("delta")),
        result(call.operand("result")) {
    call.optionalOperand("limit"); // the result's size says it
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &to = views[result];
    const TensorView &first = views[start], &step = views[delta];
    forPositions(to, pool, [&](const Counter &at) {
      const int64_t i = at.index[0];
      if (isFloat(to.dtype))
        storeReal(to, at.offset(to),
                  loadReal(first, 0) + static_cast<double>(i) * loadReal(step, 0));
      else
        storeInteger(to, at.offset(to), loadInteger(first, 0) + i * loadInteger(step, 0));
    });
    return Status::ok();
  }

private:
  int start, delta, result;
};

} // namespace
} // namespace omnibal::rt::plain

void omnibal::rt::addIndexingKernels(KernelTable &table) {
  table["gather"] = createKernel<plain::Gather>;
  table["gather_nd"] = createKernel<plain::GatherND>;
  table["gather_elements"] = createKernel<plain::GatherElements>;
  table["scatter_nd"] = createKernel<plain::ScatterND>;
  table["scatter_elements"] = createKernel<plain::ScatterElements>;
  table["trilu"] = createKernel<plain::Trilu>;
  table["top_k"] = createKernel<plain::TopK>;
  table["range"] = createKernel<plain::Range>;
}
