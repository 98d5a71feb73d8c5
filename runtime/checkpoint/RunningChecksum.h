//===- RunningChecksum.h - The CRC-32 of bytes as they pass -----------------------------------===//
#ifndef RUNTIME_CHECKPOINT_RUNNINGCHECKSUM_H
#define RUNTIME_CHECKPOINT_RUNNINGCHECKSUM_H

#include <cstdint>
#include <zlib.h>

namespace omnibal::rt {

class RunningChecksum {
public:
  void add(const void *data, int64_t bytes) {
    sum = ::crc32_z(sum, static_cast<const Bytef *>(data), static_cast<z_size_t>(bytes));
  }
  uint32_t value() const { return static_cast<uint32_t>(sum); }

private:
  uLong sum = ::crc32_z(0, nullptr, 0);
};

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_RUNNINGCHECKSUM_H
