//===- Sizes.h - Bytes of tensors whose sizes depend on the micro-batch --------------------===//
#ifndef RUNTIME_PROGRAM_SIZES_H
#define RUNTIME_PROGRAM_SIZES_H

#include "runtime/support/Types.h"
#include <algorithm>
#include <vector>

namespace omnibal::rt {

/// Whether parts of a stage have different sizes of a tensor of this shape.
inline bool isOwn(const std::vector<Extent> &shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Extent &e) { return e.isOwn(); });
}

/// Of a tensor in a micro-batch.
inline int64_t elementsAt(const std::vector<Extent> &shape, const SymbolValues &symbols) {
  int64_t elements = 1;
  for (const Extent &extent : shape)
    elements *= extent.evaluate(symbols);
  return elements;
}
/// Of a dense one.
inline int64_t bytesAt(DType dtype, const std::vector<Extent> &shape, const SymbolValues &symbols) {
  return elementsAt(shape, symbols) * byteSize(dtype);
}
/// Of one that is not divided among parts.
inline int64_t bytesAt(DType dtype, const std::vector<Extent> &shape, int64_t tiles,
                       int64_t tokens) {
  return bytesAt(dtype, shape, SymbolValues::of(tiles, tokens));
}

/// Of a dense tensor that may be anything: -1 if a dimension is negative or the product does not
/// fit.
inline int64_t denseBytes(const std::vector<int64_t> &shape, DType type) {
  int64_t bytes = byteSize(type);
  for (int64_t d : shape)
    if (d < 0 || __builtin_mul_overflow(bytes, d, &bytes))
      return -1;
  return bytes;
}

inline int64_t denseBytes(const std::vector<Extent> &shape, DType type,
                          const SymbolValues &symbols) {
  std::vector<int64_t> actual;
  for (const Extent &e : shape)
    actual.push_back(e.evaluate(symbols));
  return denseBytes(actual, type);
}

/// Of one tile's rows in a dense tensor whose rows belong to one tile each, tile after tile; 0 for
/// other tensors.
inline int64_t bytesOfTile(DType dtype, const std::vector<Extent> &shape) {
  if (shape.empty() || shape[0] != Extent{0, shape[0].perTile, 0})
    return 0;
  int64_t bytes = byteSize(dtype) * shape[0].perTile;
  for (size_t i = 1; i < shape.size(); ++i) {
    if (!shape[i].isStatic())
      return 0;
    bytes *= shape[i].constant;
  }
  return bytes;
}

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_SIZES_H
