//===- Json.h - Parsing JSON that others wrote -------------------------------------------===//
#ifndef RUNTIME_SUPPORT_JSON_H
#define RUNTIME_SUPPORT_JSON_H

#include "runtime/support/Status.h"
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace omnibal::rt {

/// What a reader admits, and how it wants numbers.
struct JsonRules {
  /// What walks a value (printing it, say) calls itself, so no file may make that go deep.
  size_t mostNested = 64;
  size_t mostObjects = std::numeric_limits<size_t>::max();
  size_t mostLists = std::numeric_limits<size_t>::max();
  std::string remedy; ///< ends the message about a text with more of them
  /// A number with a fraction or an exponent is kept as it is written, in a binary value, which no
  /// other JSON text can make: its digits are exact where a double's are not.
  bool keepDecimals = false;
};

/// Parses `text`; duplicate keys of an object are an error too. `where` (a file, perhaps with a
/// line) stands in front of the message.
Result<nlohmann::json> parseJson(std::string_view text, const std::string &where,
                                 const JsonRules &rules = {});

/// A number whose value is an integer (25e9 is one); none if it is not, or leaves 64 bits.
std::optional<int64_t> integerOf(const nlohmann::json &value);

/// The text of a number kept by JsonRules::keepDecimals; empty for any other value.
std::string keptDecimal(const nlohmann::json &value);

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_JSON_H
