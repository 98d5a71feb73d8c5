//===- Decimal.h - A decimal number as written ----------------------------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_DECIMAL_H
#define RUNTIME_PLANNER_MODEL_DECIMAL_H

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace omnibal::planner {

/// digits / 10^scale, at least 0; normalized (no trailing zero in digits while scale > 0), so that
/// equal values compare equal. Exact, because 1.1 * 100 must be 110 and not 111 when rounded up.
struct Decimal {
  int64_t digits = 1;
  int32_t scale = 0;

  /// A JSON number (sign, fraction and exponent allowed); none where it is negative, malformed, or
  /// needs more than 18 digits or 36 decimal places.
  static std::optional<Decimal> parse(std::string_view text);
  /// digits / 10^scale, normalized.
  static Decimal of(int64_t digits, int32_t scale);

  /// amount * this, rounded up; the largest int64 where it does not fit. `amount` is at least 0.
  int64_t times(int64_t amount) const;
  /// this + other. Where that needs more than 18 digits, it has fewer decimal places, rounded up;
  /// the largest number of 18 digits where those before the point are too many.
  Decimal plus(const Decimal &other) const;
  bool isOne() const { return digits == 1 && scale == 0; }
  std::string text() const;

  friend bool operator==(const Decimal &, const Decimal &) = default;
  /// Some total order, for maps; not the order of the values.
  friend auto operator<=>(const Decimal &, const Decimal &) = default;
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_DECIMAL_H
