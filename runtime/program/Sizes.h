//===- Sizes.h - Bytes of tensors whose sizes depend on the micro-batch --------------------===//
#ifndef RUNTIME_PROGRAM_SIZES_H
#define RUNTIME_PROGRAM_SIZES_H

#include "runtime/support/Types.h"
#include <vector>

namespace omnibal::rt {

/// Of a dense tensor in a micro-batch of V = `tiles` and N = `tokens`.
inline int64_t bytesAt(DType dtype, const std::vector<Extent> &shape, int64_t tiles,
                       int64_t tokens) {
  int64_t bytes = byteSize(dtype);
  for (const Extent &extent : shape)
    bytes *= extent.evaluate(tiles, tokens);
  return bytes;
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
