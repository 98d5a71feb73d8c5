//===- NumberText.h - Numbers for people -----------------------------------------------------===//
#ifndef RUNTIME_SUPPORT_NUMBERTEXT_H
#define RUNTIME_SUPPORT_NUMBERTEXT_H

#include <cstdint>
#include <cstdio>
#include <string>

namespace omnibal::rt {

inline std::string fixed(double value, int decimals) {
  std::string text(static_cast<size_t>(std::snprintf(nullptr, 0, "%.*f", decimals, value)), ' ');
  std::snprintf(text.data(), text.size() + 1, "%.*f", decimals, value);
  return text;
}

inline std::string milliseconds(int64_t ns, int decimals = 3) {
  return fixed(static_cast<double>(ns) / 1e6, decimals);
}
/// "12.5 %" of a share of 0.125.
inline std::string percent(double share, int decimals = 2) {
  return fixed(100 * share, decimals) + " %";
}
inline std::string gigabytes(int64_t bytes) { return fixed(static_cast<double>(bytes) / 1e9, 3); }

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_NUMBERTEXT_H
