//===- NumberText.h - Numbers for people -----------------------------------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_NUMBERTEXT_H
#define RUNTIME_PLANNER_MODEL_NUMBERTEXT_H

#include <cstdint>
#include <cstdio>
#include <string>

namespace omnibal::planner {

inline std::string fixed(double value, int decimals) {
  std::string text(static_cast<size_t>(std::snprintf(nullptr, 0, "%.*f", decimals, value)), ' ');
  std::snprintf(text.data(), text.size() + 1, "%.*f", decimals, value);
  return text;
}

inline std::string milliseconds(int64_t ns, int decimals = 3) {
  return fixed(static_cast<double>(ns) / 1e6, decimals);
}
inline std::string gigabytes(int64_t bytes) { return fixed(static_cast<double>(bytes) / 1e9, 3); }

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_NUMBERTEXT_H
