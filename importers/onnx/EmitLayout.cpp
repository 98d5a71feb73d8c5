//===- EmitLayout.cpp - Building layout ops with inferred result types -------------------===//
#include "importers/onnx/Emit.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {
/// Product of the dimensions, kDynamic if one is unknown (and none is 0).
int64_t countOf(llvm::ArrayRef<int64_t> dims) {
  int64_t count = 1;
  if (llvm::is_contained(dims, 0))
    return 0;
  for (int64_t dim : dims) {
    if (dim == kDynamic)
      return kDynamic;
    count *= dim;
  }
  return count;
}
} // namespace

Value Emitter::reshape(Value x, Value shape, bool allowZero, RankedTensorType fallback) {
  if (!x || !requireInt(shape, "the shape"))
    return {};
  if (rankOf(shape) != 1)
    return invalid("the shape must have rank 1");
  std::optional<KnownInts::Ints> dims = known.get(shape);
  if (!dims && fallback)
    dims = KnownInts::Ints(fallback.getShape());
  if (!dims)
    return unsupported("the number of dimensions depends on run-time values");
  llvm::SmallVector<int64_t> result;
  int64_t inferred = -1;
  for (auto [i, dim] : llvm::enumerate(*dims)) {
    if (dim == 0 && !allowZero) {
      if (int64_t(i) >= rankOf(x))
        return invalid("dimension " + llvm::Twine(i) + " is to be copied from an input of rank " +
                       llvm::Twine(rankOf(x)));
      result.push_back(shapeOf(x)[i]);
    } else if (dim == -1) {
      if (inferred >= 0)
        return invalid("the shape holds more than one -1");
      inferred = int64_t(i);
      result.push_back(kDynamic);
    } else if (dim < 0 && dim != kDynamic) {
      return invalid("the shape holds " + llvm::Twine(dim));
    } else {
      result.push_back(dim);
    }
  }
  int64_t total = countOf(shapeOf(x));
  if (inferred >= 0) {
    llvm::SmallVector<int64_t> others(result);
    others.erase(others.begin() + inferred);
    int64_t rest = countOf(others);
    if (total != kDynamic && rest != kDynamic && rest != 0) {
      if (total % rest != 0)
        return invalid("cannot reshape " + llvm::Twine(total) + " elements to rows of " +
                       llvm::Twine(rest));
      result[size_t(inferred)] = total / rest;
    }
  }
  int64_t count = countOf(result);
  if (total != kDynamic && count != kDynamic && total != count)
    return invalid("cannot reshape " + llvm::Twine(total) + " elements to " + llvm::Twine(count));
  return ReshapeOp::create(builder, loc, RankedTensorType::get(result, elementOf(x)), x, shape,
                           allowZero);
}

Value Emitter::reshape(Value x, llvm::ArrayRef<int64_t> shape) {
  return x ? reshape(x, ints(shape), /*allowZero=*/false) : Value();
}

Value Emitter::squeeze(Value x, Value axes) {
  if (!x)
    return {};
  llvm::SmallVector<int64_t> drop;
  if (axes) {
    if (!requireInt(axes, "axes"))
      return {};
    std::optional<KnownInts::Ints> given = known.getAll(axes);
    if (!given)
      return unsupported("axes that are not constant");
    for (int64_t a : *given) {
      std::optional<int64_t> at = axis(a, rankOf(x));
      if (!at)
        return {};
      drop.push_back(*at);
    }
  } else {
    for (int64_t i = 0; i < rankOf(x); ++i) {
      if (shapeOf(x)[i] == kDynamic)
        return unsupported(
            "without axes, of a tensor whose sizes are not all known; give the axes");
      if (shapeOf(x)[i] == 1)
        drop.push_back(i);
    }
  }
  llvm::SmallVector<int64_t> dims;
  for (int64_t i = 0; i < rankOf(x); ++i) {
    if (!llvm::is_contained(drop, i))
      dims.push_back(shapeOf(x)[i]);
    else if (shapeOf(x)[i] != 1 && shapeOf(x)[i] != kDynamic)
      return invalid("dimension " + llvm::Twine(i) + " has size " + llvm::Twine(shapeOf(x)[i]) +
                     ", not 1");
  }
  return SqueezeOp::create(builder, loc, RankedTensorType::get(dims, elementOf(x)), x,
                           axes ? axes : ints(drop));
}

Value Emitter::squeeze(Value x, llvm::ArrayRef<int64_t> axes) {
  return x ? squeeze(x, ints(axes)) : Value();
}

Value Emitter::unsqueeze(Value x, Value axes) {
  if (!x || !requireInt(axes, "axes"))
    return {};
  std::optional<KnownInts::Ints> given = known.getAll(axes);
  if (!given)
    return unsupported("axes that are not constant");
  int64_t rank = rankOf(x) + int64_t(given->size());
  llvm::SmallVector<bool> isNew(size_t(rank), false);
  for (int64_t a : *given) {
    std::optional<int64_t> at = axis(a, rank);
    if (!at)
      return {};
    if (isNew[size_t(*at)])
      return invalid("axis " + llvm::Twine(a) + " occurs twice");
    isNew[size_t(*at)] = true;
  }
  llvm::SmallVector<int64_t> dims;
  size_t next = 0;
  for (bool inserted : isNew)
    dims.push_back(inserted ? 1 : shapeOf(x)[next++]);
  return UnsqueezeOp::create(builder, loc, RankedTensorType::get(dims, elementOf(x)), x, axes);
}

Value Emitter::unsqueeze(Value x, llvm::ArrayRef<int64_t> axes) {
  return x ? unsqueeze(x, ints(axes)) : Value();
}

Value Emitter::transpose(Value x, llvm::ArrayRef<int64_t> permutation) {
  if (!x)
    return {};
  llvm::SmallVector<bool> seen(size_t(rankOf(x)), false);
  bool fits = int64_t(permutation.size()) == rankOf(x);
  llvm::SmallVector<int64_t> dims;
  for (size_t i = 0; fits && i < permutation.size(); ++i) {
    int64_t from = permutation[i];
    fits = from >= 0 && from < rankOf(x) && !seen[size_t(from)];
    if (fits) {
      seen[size_t(from)] = true;
      dims.push_back(shapeOf(x)[from]);
    }
  }
  if (!fits)
    return invalid("perm is no permutation of the dimensions");
  return TransposeOp::create(builder, loc, RankedTensorType::get(dims, elementOf(x)), x,
                             permutation);
}

Value Emitter::expand(Value x, Value shape, RankedTensorType fallback) {
  if (!x || !requireInt(shape, "the shape"))
    return {};
  std::optional<KnownInts::Ints> dims = known.get(shape);
  if (!dims && fallback)
    dims = KnownInts::Ints(size_t(fallback.getRank()), kDynamic);
  if (!dims)
    return unsupported("the number of dimensions depends on run-time values");
  size_t rank = std::max(dims->size(), size_t(rankOf(x)));
  llvm::SmallVector<int64_t> result(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    int64_t target = i + dims->size() < rank ? 1 : (*dims)[i + dims->size() - rank];
    int64_t own = i + size_t(rankOf(x)) < rank ? 1 : shapeOf(x)[i + size_t(rankOf(x)) - rank];
    if (target != kDynamic && target < 0)
      return invalid("the shape holds " + llvm::Twine(target));
    if (own == 1)
      result[i] = target;
    else if (target == 1 || target == own || target == kDynamic || own == kDynamic)
      result[i] = own == kDynamic && target != 1 ? target : own;
    else
      return invalid("size " + llvm::Twine(own) + " cannot be expanded to " + llvm::Twine(target));
  }
  return ExpandOp::create(builder, loc, RankedTensorType::get(result, elementOf(x)), x, shape);
}

Value Emitter::slice(Value x, Value starts, Value ends, Value axes, Value steps) {
  if (!x || !requireInt(starts, "starts") || !requireInt(ends, "ends") ||
      (axes && !requireInt(axes, "axes")) || (steps && !requireInt(steps, "steps")))
    return {};
  llvm::SmallVector<int64_t> dims(shapeOf(x));
  auto begin = known.get(starts), end = known.get(ends);
  std::optional<KnownInts::Ints> where, by;
  if (axes) {
    where = known.getAll(axes);
  } else if (begin) {
    where.emplace();
    for (size_t i = 0; i < begin->size(); ++i)
      where->push_back(int64_t(i));
  }
  if (steps)
    by = known.get(steps);
  if (!where || !begin || !end || begin->size() != where->size() || end->size() != where->size() ||
      (steps && (!by || by->size() != where->size()))) {
    if (!where)
      return unsupported("axes that are not constant");
    return invalid("starts, ends, axes and steps must have one length");
  }
  for (size_t i = 0; i < where->size(); ++i) {
    std::optional<int64_t> at = axis((*where)[i], rankOf(x));
    if (!at)
      return {};
    int64_t size = shapeOf(x)[*at], step = by ? (*by)[i] : 1, b = (*begin)[i], e = (*end)[i];
    if (step == 0)
      return invalid("a step of 0");
    int64_t &result = dims[size_t(*at)];
    if (size == kDynamic || step == kDynamic || b == kDynamic || e == kDynamic) {
      result = kDynamic;
      continue;
    }
    // Backwards, the last start is size - 1 and the position before the first element is -1.
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    b = std::clamp(b < 0 ? b + size : b, std::min<int64_t>(0, high), high);
    e = e < -size ? low : std::clamp(e < 0 ? e + size : e, low, high);
    int64_t distance = step > 0 ? e - b : b - e, stride = step > 0 ? step : -step;
    result = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  }
  return SliceOp::create(builder, loc, RankedTensorType::get(dims, elementOf(x)), x, starts, ends,
                         axes, steps, DenseI64ArrayAttr(), DenseI64ArrayAttr());
}

Value Emitter::slice(Value x, int64_t axisIndex, int64_t begin, int64_t end) {
  return x ? slice(x, ints({begin}), ints({end}), ints({axisIndex}), Value()) : Value();
}

Value Emitter::concat(llvm::ArrayRef<Value> inputs, int64_t axisIndex) {
  for (Value input : inputs)
    if (!input)
      return {};
  std::optional<int64_t> at = axis(axisIndex, rankOf(inputs.front()));
  if (!at)
    return {};
  llvm::SmallVector<int64_t> dims(shapeOf(inputs.front()));
  for (Value input : inputs.drop_front()) {
    if (rankOf(input) != int64_t(dims.size()) || !sameElements(inputs.front(), input))
      return invalid("inputs of different ranks or element types");
    for (size_t i = 0; i < dims.size(); ++i) {
      int64_t size = shapeOf(input)[i];
      if (int64_t(i) == *at)
        dims[i] = dims[i] == kDynamic || size == kDynamic ? kDynamic : dims[i] + size;
      else if (dims[i] == kDynamic)
        dims[i] = size;
      else if (size != kDynamic && size != dims[i])
        return invalid("inputs differ in dimension " + llvm::Twine(i));
    }
  }
  return ConcatOp::create(builder, loc, RankedTensorType::get(dims, elementOf(inputs.front())),
                          inputs, *at);
}

Value Emitter::tile(Value x, Value repeats) {
  if (!x || !requireInt(repeats, "repeats"))
    return {};
  llvm::SmallVector<int64_t> dims(size_t(rankOf(x)), kDynamic);
  if (std::optional<KnownInts::Ints> times = known.get(repeats)) {
    if (int64_t(times->size()) != rankOf(x))
      return invalid("repeats must have one element a dimension");
    for (size_t i = 0; i < dims.size(); ++i)
      if ((*times)[i] != kDynamic && shapeOf(x)[i] != kDynamic)
        dims[i] = (*times)[i] * shapeOf(x)[i];
  }
  return TileOp::create(builder, loc, RankedTensorType::get(dims, elementOf(x)), x, repeats);
}

} // namespace omnibal::onnx
