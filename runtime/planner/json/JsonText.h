//===- JsonText.h - JSON from people, with exact numbers ------------------------------------===//
#ifndef RUNTIME_PLANNER_JSON_JSONTEXT_H
#define RUNTIME_PLANNER_JSON_JSONTEXT_H

#include "runtime/planner/model/Decimal.h"
#include "runtime/support/Json.h"

namespace omnibal::planner {

/// Parses `text` with the runtime's reader, which refuses a key that occurs twice in one object. It
/// also refuses an empty text, nesting deeper than 64, and more than 250,000 objects or 5,000,000
/// lists. A byte order mark is skipped. Numbers keep the digits that are written. Messages begin
/// with `where`.
rt::Result<nlohmann::json> parseJson(std::string_view text, const std::string &where);

/// The same from a file; "cannot be read" where it cannot.
rt::Result<nlohmann::json> readJson(const std::string &path);
/// Parses with the same checks, but reads numbers with a fraction as doubles; for values that are
/// handed on.
rt::Result<nlohmann::json> parsePlainJson(std::string_view text, const std::string &where);
rt::Result<nlohmann::json> readPlainJson(const std::string &path);

/// A number whose value is an integer (25e9 is one); none if it is not, or leaves 64 bits.
std::optional<int64_t> integerOf(const nlohmann::json &value);

/// A number of at least 0 as written; none if the value is none, or has more than 18 digits.
std::optional<Decimal> decimalOf(const nlohmann::json &value);

/// A number as the nearest double, sign allowed.
std::optional<double> doubleOf(const nlohmann::json &value);

/// The member of that name; null where there is none, or `object` is no object.
const nlohmann::json *memberOf(const nlohmann::json &object, const char *key);
/// The same; null also where it is of another type.
const nlohmann::json *objectIn(const nlohmann::json &object, const char *key);
const nlohmann::json *listIn(const nlohmann::json &object, const char *key);
const std::string *textIn(const nlohmann::json &object, const char *key);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_JSON_JSONTEXT_H
