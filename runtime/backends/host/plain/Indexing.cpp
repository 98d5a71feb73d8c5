//===- Indexing.cpp - Plain gathers, scatters, triangles, ranges
//--------------------------------------===//
#include "runtime/backends/host/plain/Plain.h"

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

Reduction readReduction(SiteReader &site) {
  return static_cast<Reduction>(site.choice("reduction", {"none", "add", "mul", "max", "min"}));
}

class IndexKernel : public PlainKernel {
public:
  IndexKernel(SiteReader &site, const KernelSite &description)
      : PlainKernel(description), input(site.operand("input")), indices(site.operand("indices")),
        result(site.operand("result")) {}

protected:
  int input, indices, result;
};

/// result[a.., i.., b..] = input[a.., indices[i..], b..]
class Gather final : public IndexKernel {
public:
  Gather(SiteReader &site, const KernelSite &description)
      : IndexKernel(site, description), axis(site.integer("axis", 0)) {}

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &pool) override {
    const TensorView &from = views[input], &which = views[indices], &to = views[result];
    OMNIBAL_ASSIGN_OR_RETURN(const int at, axisOf(axis, from));
    if (to.rank != from.rank - 1 + which.rank)
      return bad("result " + printShape(to) + " does not fit input " + printShape(from) +
                 " and indices " + printShape(which));
    TaskStatus status;
    forPositions(to, pool, [&](const Counter &position) {
      const int64_t index = loadInteger(which, position.offset(which, at));
      const int64_t wrapped = wrapIndex(index, from.shape[at]);
      if (wrapped < 0)
        return status.note(badIndex(index, from.shape[at]));
      int64_t source = wrapped * from.strides[at];
      for (int d = 0; d < from.rank; ++d)
        if (d != at)
          source += position.index[d < at ? d : d - 1 + which.rank] * from.strides[d];
      copyElement(from, source, to, position.offset(to));
    });
    return status.take();
  }

private:
  int64_t axis;
};

/// Offset in `into` of the index vector that `which` holds at `offset`; batch dimensions are the
/// counter's first ones. Error if an index is outside.
class VectorIndex {
public:
  VectorIndex(const TensorView &into, const TensorView &which, int64_t batchDims)
      : into(into), which(which), batchDims(static_cast<int>(batchDims)),
        length(which.shape[which.rank - 1]) {}

  /// -1 and the offending index and size on failure.
  bool resolve(const Counter &position, int64_t &offset, int64_t &index, int64_t &size) const {
    int64_t place = 0;
    for (int d = 0; d < which.rank - 1; ++d)
      place += position.index[d] * which.strides[d];
    offset = 0;
    for (int d = 0; d < batchDims; ++d)
      offset += position.index[d] * into.strides[d];
    for (int64_t i = 0; i < length; ++i) {
      const int d = batchDims + static_cast<int>(i);
      index = loadInteger(which, place + i * which.strides[which.rank - 1]);
      size = into.shape[d];
      const int64_t wrapped = wrapIndex(index, size);
      if (wrapped < 0)
        return false;
      offset += wrapped * into.strides[d];
    }
    for (int d = batchDims + static_cast<int>(length); d < into.rank; ++d)
      offset += position.index[which.rank - 1 + d - batchDims - length] * into.strides[d];
    return true;
  }

private:
  const TensorView &into, &which;
  int batchDims;
  int64_t length;
};

class GatherND final : public IndexKernel {
public:
  GatherND(SiteReader &site, const KernelSite &description)
      : IndexKernel(site, description), batchDims(site.integer("batch_dims", 0)) {}

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &pool) override {
    const TensorView &from = views[input], &which = views[indices], &to = views[result];
    if (which.rank < 1 || batchDims < 0 || batchDims >= which.rank ||
        batchDims + which.shape[which.rank - 1] > from.rank ||
        to.rank != which.rank - 1 + from.rank - batchDims - which.shape[which.rank - 1])
      return bad("indices " + printShape(which) + " do not fit input " + printShape(from) +
                 " and result " + printShape(to));
    const VectorIndex vector(from, which, batchDims);
    TaskStatus status;
    forPositions(to, pool, [&](const Counter &position) {
      int64_t source, index, size;
      if (!vector.resolve(position, source, index, size))
        return status.note(badIndex(index, size));
      copyElement(from, source, to, position.offset(to));
    });
    return status.take();
  }

private:
  int64_t batchDims;
};

class GatherElements final : public IndexKernel {
public:
  GatherElements(SiteReader &site, const KernelSite &description)
      : IndexKernel(site, description), axis(site.integer("axis", 0)) {}

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &pool) override {
    const TensorView &from = views[input], &which = views[indices], &to = views[result];
    OMNIBAL_ASSIGN_OR_RETURN(const int at, axisOf(axis, from));
    OMNIBAL_RETURN_IF_ERROR(same(to, "result", which, "indices"));
    if (which.rank != from.rank)
      return bad("indices " + printShape(which) + " do not fit input " + printShape(from));
    TaskStatus status;
    forPositions(to, pool, [&](const Counter &position) {
      const int64_t index = loadInteger(which, position.offset(which));
      const int64_t wrapped = wrapIndex(index, from.shape[at]);
      if (wrapped < 0)
        return status.note(badIndex(index, from.shape[at]));
      const int64_t source =
          position.offset(from) + (wrapped - position.index[at]) * from.strides[at];
      copyElement(from, source, to, position.offset(to));
    });
    return status.take();
  }

private:
  int64_t axis;
};

/// Scatters run on one thread: updates may meet, and their order counts.
class ScatterKernel : public IndexKernel {
public:
  ScatterKernel(SiteReader &site, const KernelSite &description)
      : IndexKernel(site, description), updates(site.operand("updates")),
        reduction(readReduction(site)) {}

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

  int updates;
  Reduction reduction;
};

class ScatterND final : public ScatterKernel {
public:
  using ScatterKernel::ScatterKernel;

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &pool) override {
    const TensorView &which = views[indices], &from = views[updates], &to = views[result];
    OMNIBAL_RETURN_IF_ERROR(copyInput(views, pool));
    if (which.rank < 1 || which.shape[which.rank - 1] > to.rank ||
        from.rank != which.rank - 1 + to.rank - which.shape[which.rank - 1])
      return bad("indices " + printShape(which) + " and updates " + printShape(from) +
                 " do not fit " + printShape(to));
    const VectorIndex vector(to, which, 0);
    Counter position(from.shape, from.rank);
    for (int64_t i = 0; i < position.count(); ++i, position.next()) {
      int64_t target, index, size;
      if (!vector.resolve(position, target, index, size))
        return badIndex(index, size);
      combine(reduction, to, target, from, position.offset(from));
    }
    return Status::ok();
  }
};

class ScatterElements final : public ScatterKernel {
public:
  ScatterElements(SiteReader &site, const KernelSite &description)
      : ScatterKernel(site, description), axis(site.integer("axis", 0)) {}

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &pool) override {
    const TensorView &which = views[indices], &from = views[updates], &to = views[result];
    OMNIBAL_RETURN_IF_ERROR(copyInput(views, pool));
    OMNIBAL_RETURN_IF_ERROR(same(from, "updates", which, "indices"));
    OMNIBAL_ASSIGN_OR_RETURN(const int at, axisOf(axis, to));
    if (which.rank != to.rank)
      return bad("indices " + printShape(which) + " do not fit " + printShape(to));
    Counter position(from.shape, from.rank);
    for (int64_t i = 0; i < position.count(); ++i, position.next()) {
      const int64_t index = loadInteger(which, position.offset(which));
      const int64_t wrapped = wrapIndex(index, to.shape[at]);
      if (wrapped < 0)
        return badIndex(index, to.shape[at]);
      const int64_t target = position.offset(to) + (wrapped - position.index[at]) * to.strides[at];
      combine(reduction, to, target, from, position.offset(from));
    }
    return Status::ok();
  }

private:
  int64_t axis;
};

class Trilu final : public PlainKernel {
public:
  Trilu(SiteReader &site, const KernelSite &description)
      : PlainKernel(description), input(site.operand("input")), k(site.optionalOperand("k")),
        result(site.operand("result")), upper(site.flag("upper", true)) {}

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &pool) override {
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

class Range final : public PlainKernel {
public:
  Range(SiteReader &site, const KernelSite &description)
      : PlainKernel(description), start(site.operand("start")), delta(site.operand("delta")),
        result(site.operand("result")) {
    site.optionalOperand("limit"); // the result's size says it
  }

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &pool) override {
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
  table["range"] = createKernel<plain::Range>;
}
