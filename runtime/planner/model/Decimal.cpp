#include "runtime/planner/model/Decimal.h"
#include <algorithm>
#include <limits>

namespace omnibal::planner {
namespace {

constexpr int maxDigits = 18, maxScale = 36;

bool isDigit(char c) { return c >= '0' && c <= '9'; }

__int128 powerOfTen(int32_t exponent) {
  __int128 result = 1;
  for (int32_t i = 0; i < exponent; ++i)
    result *= 10;
  return result;
}

template <typename Integer> Integer tenthOf(Integer value) {
  return value / 10 + (value % 10 != 0);
}

} // namespace

Decimal Decimal::of(int64_t digits, int32_t scale) {
  while (scale > 0 && digits % 10 == 0) {
    digits /= 10;
    --scale;
  }
  return {digits, scale};
}

std::optional<Decimal> Decimal::parse(std::string_view text) {
  size_t at = 0;
  bool negative = at < text.size() && text[at] == '-';
  at += negative;
  std::string digits;
  int64_t scale = 0;
  size_t begin = at;
  for (; at < text.size() && isDigit(text[at]); ++at)
    digits += text[at];
  if (at == begin)
    return std::nullopt;
  if (at < text.size() && text[at] == '.') {
    for (begin = ++at; at < text.size() && isDigit(text[at]); ++at, ++scale)
      digits += text[at];
    if (at == begin)
      return std::nullopt;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    bool down = at < text.size() && text[at] == '-';
    at += at < text.size() && (text[at] == '-' || text[at] == '+');
    int64_t exponent = 0;
    for (begin = at; at < text.size() && isDigit(text[at]); ++at)
      exponent = std::min<int64_t>(exponent * 10 + (text[at] - '0'), 1'000'000);
    if (at == begin)
      return std::nullopt;
    scale += down ? exponent : -exponent;
  }
  if (at != text.size())
    return std::nullopt;
  digits.erase(0, digits.find_first_not_of('0'));
  if (digits.empty())
    return Decimal{0, 0};
  while (digits.back() == '0') {
    digits.pop_back();
    --scale;
  }
  if (negative || scale > maxScale)
    return std::nullopt;
  for (; scale < 0 && digits.size() <= maxDigits; ++scale)
    digits += '0';
  if (digits.size() > maxDigits)
    return std::nullopt;
  return Decimal{std::stoll(digits), static_cast<int32_t>(scale)};
}

int64_t Decimal::times(int64_t amount) const {
  // Both factors are below 2^63, so the product fits 128 bits.
  __int128 divisor = powerOfTen(scale), product = static_cast<__int128>(amount) * digits;
  __int128 result = product / divisor + (product % divisor != 0);
  return static_cast<int64_t>(std::min<__int128>(result, std::numeric_limits<int64_t>::max()));
}

Decimal Decimal::plus(const Decimal &other) const {
  if (digits == 0 || other.digits == 0)
    return digits == 0 ? other : *this;
  const Decimal &coarse = scale < other.scale ? *this : other;
  Decimal fine = scale < other.scale ? other : *this;
  // The sum has no more places than these behind the last of `coarse`, so 128 bits hold it.
  for (; fine.scale - coarse.scale > maxDigits; --fine.scale)
    fine.digits = tenthOf(fine.digits);
  __int128 sum = coarse.digits * powerOfTen(fine.scale - coarse.scale) + fine.digits;
  const __int128 end = powerOfTen(maxDigits);
  for (; sum >= end && fine.scale > 0; --fine.scale)
    sum = tenthOf(sum);
  return of(static_cast<int64_t>(std::min(sum, end - 1)), fine.scale);
}

std::string Decimal::text() const {
  std::string result = std::to_string(digits);
  if (scale == 0)
    return result;
  if (static_cast<int64_t>(result.size()) <= scale)
    result.insert(0, scale + 1 - result.size(), '0');
  result.insert(result.size() - scale, ".");
  return result;
}

} // namespace omnibal::planner
