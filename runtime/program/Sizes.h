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

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_SIZES_H
