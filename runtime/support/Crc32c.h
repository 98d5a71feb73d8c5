//===- Crc32c.h - CRC-32 with Castagnoli's polynomial, as event files have it ---------------===//
#ifndef RUNTIME_SUPPORT_CRC32C_H
#define RUNTIME_SUPPORT_CRC32C_H

#include <array>
#include <cstdint>
#include <string_view>

namespace omnibal::rt {
namespace crc32c_details {

/// The remainders of all bytes, lowest bit first.
constexpr std::array<uint32_t, 256> remainders() {
  constexpr uint32_t polynomial = 0x82f63b78; // 0x1edc6f41, reflected
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit)
      rest = rest & 1 ? rest >> 1 ^ polynomial : rest >> 1;
    table[byte] = rest;
  }
  return table;
}

inline constexpr std::array<uint32_t, 256> table = remainders();

} // namespace crc32c_details

constexpr uint32_t crc32c(std::string_view bytes) {
  uint32_t state = ~uint32_t{0};
  for (char c : bytes)
    state = state >> 8 ^ crc32c_details::table[(state ^ static_cast<unsigned char>(c)) & 0xff];
  return ~state;
}

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_CRC32C_H
