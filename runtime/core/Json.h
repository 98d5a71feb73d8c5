//===- Json.h - Parsing JSON that others wrote -------------------------------------------===//
#ifndef RUNTIME_CORE_JSON_H
#define RUNTIME_CORE_JSON_H

#include "runtime/core/Status.h"
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace omnibal::rt {

/// Parses `text`; duplicate keys of an object are an error too. `where` (a file, perhaps with a
/// line) stands in front of the message.
Result<nlohmann::json> parseJson(std::string_view text, const std::string &where);

} // namespace omnibal::rt
#endif // RUNTIME_CORE_JSON_H
