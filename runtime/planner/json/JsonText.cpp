//===- JsonText.cpp ----------------------------------------------------------------------===//
#include "runtime/planner/json/JsonText.h"
#include "runtime/support/AtomicFile.h"
#include <cstdlib>

namespace omnibal::planner {
using nlohmann::json;
namespace {

rt::Result<json> parse(std::string_view text, const std::string &where, bool keepDecimals) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  if (text.starts_with(mark))
    text.remove_prefix(mark.size());
  if (text.find_first_not_of(" \t\n\v\f\r") == text.npos)
    return rt::invalid(where + ": the file is empty");
  static const std::string remedy = "; join equal neighboring layers";
  return rt::parseJson(text, where, {64, 250'000, 5'000'000, remedy, keepDecimals});
}

rt::Result<json> read(const std::string &path, bool keepDecimals) {
  rt::Result<std::string> text = rt::readWholeFile(path);
  if (text)
    return parse(*text, path, keepDecimals);
  std::string why = text.status().message();
  if (why.starts_with(path + ": "))
    why.erase(0, path.size() + 2);
  return rt::Status(text.status().code(), path + ": cannot be read: " + why);
}

} // namespace

rt::Result<json> parseJson(std::string_view text, const std::string &where) {
  return parse(text, where, true);
}

rt::Result<json> readJson(const std::string &path) { return read(path, true); }

rt::Result<json> parsePlainJson(std::string_view text, const std::string &where) {
  return parse(text, where, false);
}

rt::Result<json> readPlainJson(const std::string &path) { return read(path, false); }

std::optional<int64_t> integerOf(const json &value) {
  if (value.is_number())
    return rt::integerOf(value);
  std::optional<Decimal> decimal = decimalOf(value);
  return decimal && decimal->scale == 0 ? std::optional(decimal->digits) : std::nullopt;
}

std::optional<Decimal> decimalOf(const json &value) {
  if (value.is_number_integer())
    return Decimal::parse(value.dump());
  return Decimal::parse(rt::keptDecimal(value));
}

std::optional<double> doubleOf(const json &value) {
  if (value.is_number())
    return value.get<double>();
  std::string text = rt::keptDecimal(value);
  return text.empty() ? std::nullopt : std::optional(std::strtod(text.c_str(), nullptr));
}

const json *memberOf(const json &object, const char *key) {
  if (!object.is_object())
    return nullptr;
  auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

const json *objectIn(const json &object, const char *key) {
  const json *member = memberOf(object, key);
  return member && member->is_object() ? member : nullptr;
}

const json *listIn(const json &object, const char *key) {
  const json *member = memberOf(object, key);
  return member && member->is_array() ? member : nullptr;
}

const std::string *textIn(const json &object, const char *key) {
  const json *member = memberOf(object, key);
  return member ? member->get_ptr<const std::string *>() : nullptr;
}

} // namespace omnibal::planner
