//===- Checksum.h - FNV-1a, 64 bit: finds damage, not malice -----------------------------===//
#ifndef RUNTIME_SUPPORT_CHECKSUM_H
#define RUNTIME_SUPPORT_CHECKSUM_H

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace omnibal::rt {

constexpr uint64_t fnv1a(std::string_view bytes, uint64_t state = 0xcbf29ce484222325u) {
  for (char c : bytes)
    state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return state;
}

/// The same with whole numbers in the place of bytes: as many steps fewer for long arrays.
template <typename Integer>
constexpr uint64_t fnv1aWords(std::span<const Integer> words, uint64_t state) {
  for (Integer word : words)
    state = (state ^ static_cast<std::make_unsigned_t<Integer>>(word)) * 0x100000001b3u;
  return state;
}

inline std::string checksumText(uint64_t checksum) {
  char text[32];
  std::snprintf(text, sizeof text, "fnv1a:%016llx", static_cast<unsigned long long>(checksum));
  return text;
}

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_CHECKSUM_H
