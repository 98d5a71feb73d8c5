//===- NumberChecks.h - What a flag's number may be --------------------------------------===//
#ifndef TOOLS_NUMBERCHECKS_H
#define TOOLS_NUMBERCHECKS_H

#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>

namespace omnibal::rt {

/// A finite number in [least, most], or in (least, most] if `open`; NaN is in no range.
inline CLI::Validator number(double least, bool open = false,
                             double most = std::numeric_limits<double>::max()) {
  auto isGood = [=](const std::string &text) -> std::string {
    double value = 0;
    bool parsed = CLI::detail::lexical_cast(text, value);
    if (parsed && value <= most && (open ? value > least : value >= least))
      return "";
    std::ostringstream message;
    message << text << " is not a finite number " << (open ? "above " : "of at least ") << least;
    if (most < std::numeric_limits<double>::max())
      message << " and at most " << most;
    return message.str();
  };
  return CLI::Validator(isGood, "");
}

/// A whole number in [least, most], all of the text. Not one that begins with a zero, which would
/// be read as octal.
inline CLI::Validator wholeNumber(int64_t least, int64_t most) {
  auto isGood = [=](const std::string &text) -> std::string {
    errno = 0;
    long long value = std::strtoll(text.c_str(), nullptr, 10);
    const std::string plain = std::to_string(value);
    const bool isAll = text == plain || text == "+" + plain;
    if (isAll && errno == 0 && value >= least && value <= most)
      return "";
    return text + " is not a whole number from " + std::to_string(least) + " to " +
           std::to_string(most);
  };
  return CLI::Validator(isGood, "");
}

/// The same in [0, 2^64).
inline CLI::Validator wholeNumberOf64Bits() {
  auto isGood = [](const std::string &text) -> std::string {
    uint64_t value = 0;
    const char *end = text.data() + text.size();
    const std::from_chars_result read = std::from_chars(text.data(), end, value);
    if (read.ec == std::errc() && read.ptr == end && text == std::to_string(value))
      return "";
    return text + " is not a whole number from 0 to " + std::to_string(UINT64_MAX);
  };
  return CLI::Validator(isGood, "");
}

/// Bytes: a whole number from 1 on, which may be written as 3e10; becomes its digits. An option of
/// the type name BYTES takes such a number in a file of options, too.
inline CLI::Validator byteCount() {
  auto spell = [](std::string &text) -> std::string {
    if (wholeNumber(1, INT64_MAX)(text).empty())
      return "";
    double value = 0;
    const char *end = text.data() + text.size();
    const std::from_chars_result read = std::from_chars(text.data(), end, value);
    const bool parsed = read.ec == std::errc() && read.ptr == end;
    if (!parsed || !(value >= 1 && value < 0x1p63) || value != std::floor(value))
      return text + " is not a whole number of bytes from 1 to " + std::to_string(INT64_MAX);
    text = std::to_string(static_cast<int64_t>(value));
    return "";
  };
  return CLI::Validator(spell, "");
}

} // namespace omnibal::rt
#endif // TOOLS_NUMBERCHECKS_H
