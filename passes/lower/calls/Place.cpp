//===- Place.cpp -------------------------------------------------------------------------===//
#include "passes/lower/calls/Place.h"
#include "llvm/ADT/STLExtras.h"

namespace omnibal::lower {
namespace {

/// Order of sizes where any symbols are possible: by values at one large point.
bool less(const SymbolicDim &a, const SymbolicDim &b) {
  constexpr rt::SymbolValues at{1009, 100003, 337, 33347};
  return a.evaluate(at) < b.evaluate(at);
}

} // namespace

std::optional<SymbolicShape> denseStrides(llvm::ArrayRef<SymbolicDim> shape) {
  SymbolicShape strides(shape.size());
  SymbolicDim stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    auto next = multiply(stride, shape[i]);
    if (!next)
      return std::nullopt;
    stride = *next;
  }
  return strides;
}

bool isContiguous(const Place &place, size_t from, size_t to) {
  if (llvm::is_contained(llvm::ArrayRef(place.shape).slice(from, to - from), SymbolicDim(0)))
    return true; // nothing lies there
  SymbolicDim stride = 1;
  for (size_t i = to; i-- > from;) {
    if (place.shape[i].isOne())
      continue;
    if (place.strides[i] != stride)
      return false;
    auto next = multiply(stride, place.shape[i]);
    if (!next)
      return false;
    stride = *next;
  }
  return true;
}

bool isDense(const Place &place) {
  return place.offset == SymbolicDim(0) && isContiguous(place, 0, place.rank());
}

std::optional<Place> reshape(const Place &place, llvm::ArrayRef<SymbolicDim> shape) {
  Place result = place;
  result.shape.assign(shape.begin(), shape.end());
  result.strides.assign(shape.size(), SymbolicDim(0));
  if (product(place.shape) == SymbolicDim(0) && product(shape) == SymbolicDim(0)) {
    if (auto dense = denseStrides(shape))
      result.strides = *dense;
    return result; // nothing to find again
  }
  // Old dimensions without the ones; a group of them with equal product makes a group of new ones.
  SymbolicShape sizes, strides;
  for (size_t i = 0; i < place.rank(); ++i)
    if (!place.shape[i].isOne()) {
      sizes.push_back(place.shape[i]);
      strides.push_back(place.strides[i]);
    }
  size_t from = 0, next = 0;
  while (next < shape.size()) {
    if (shape[next].isOne()) {
      ++next;
      continue;
    }
    if (from == sizes.size())
      return std::nullopt;
    size_t last = from, newLast = next;
    std::optional<SymbolicDim> have = sizes[from], want = shape[next];
    while (*have != *want) {
      if (less(*have, *want)) {
        if (++last == sizes.size())
          return std::nullopt;
        have = multiply(*have, sizes[last]);
      } else {
        if (++newLast == shape.size())
          return std::nullopt;
        want = multiply(*want, shape[newLast]);
      }
      if (!have || !want)
        return std::nullopt;
    }
    for (size_t i = from; i < last; ++i)
      if (multiply(strides[i + 1], sizes[i + 1]) != strides[i])
        return std::nullopt;
    SymbolicDim stride = strides[last];
    for (size_t i = newLast + 1; i-- > next;) {
      result.strides[i] = stride;
      auto grown = multiply(stride, shape[i]);
      if (!grown && i > next)
        return std::nullopt;
      stride = grown.value_or(0);
    }
    from = last + 1;
    next = newLast + 1;
  }
  if (from != sizes.size())
    return std::nullopt;
  return result;
}

Place permute(const Place &place, llvm::ArrayRef<int64_t> permutation) {
  Place result = place;
  for (size_t i = 0; i < permutation.size(); ++i) {
    result.shape[i] = place.shape[permutation[i]];
    result.strides[i] = place.strides[permutation[i]];
  }
  return result;
}

Place broadcast(const Place &place, llvm::ArrayRef<SymbolicDim> shape) {
  Place result = place;
  result.shape.assign(shape.begin(), shape.end());
  result.strides.assign(shape.size(), SymbolicDim(0));
  size_t missing = shape.size() - place.rank();
  for (size_t i = 0; i < place.rank(); ++i)
    if (place.shape[i] == shape[missing + i])
      result.strides[missing + i] = place.strides[i];
  return result;
}

} // namespace omnibal::lower
