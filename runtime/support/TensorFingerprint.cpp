#include "runtime/support/TensorFingerprint.h"
#include "runtime/support/Checksum.h"
#include <cstring>

namespace omnibal::rt {

std::string fingerprintOf(const StoredTensor &tensor) {
  uint64_t state = fnv1a(storedTypeName(tensor.dtype));
  state = fnv1aWords(std::span<const int64_t>(tensor.shape), state);
  const int64_t step = elementsAtOnce(tensor), size = byteSize(tensor.dtype);
  for (int64_t first = 0; first < tensor.elements; first += step) {
    const int64_t count = std::min(step, tensor.elements - first);
    const std::byte *at = tensor.data + first * size;
    int64_t left = count * size;
    // Words, which need not be aligned in the file; eight times as fast as bytes.
    for (uint64_t word; left >= int64_t{sizeof word}; left -= sizeof word, at += sizeof word) {
      std::memcpy(&word, at, sizeof word);
      state = fnv1aWords(std::span<const uint64_t>(&word, 1), state);
    }
    state = fnv1a({reinterpret_cast<const char *>(at), static_cast<size_t>(left)}, state);
    releasePages(tensor, first, count);
  }
  return checksumText(state);
}

} // namespace omnibal::rt
