//===- JsonField.h - Strict reading of JSON: types, keys, one error with its path -------===//
#ifndef RUNTIME_SUPPORT_JSONFIELD_H
#define RUNTIME_SUPPORT_JSONFIELD_H

#include "runtime/support/Json.h"
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

namespace omnibal::rt {

/// A place in a JSON document. All places of a document share one error, the first; after it every
/// read gives an empty value, so that a reader needs to look at the error only once.
class JsonField {
public:
  JsonField(const nlohmann::json &value, std::string path, Status &error)
      : value(&value), path(std::move(path)), error(&error) {}

  void fail(const std::string &message) const {
    if (error->isOk())
      *error = Status(Code::DataLoss, path + ": " + message);
  }
  bool failed() const { return !error->isOk(); }

  /// Member `key`, which must exist.
  JsonField operator[](const char *key) const {
    static const nlohmann::json nothing;
    if (value->is_object())
      if (auto found = value->find(key); found != value->end())
        return {*found, path + "." + key, *error};
    fail(value->is_object() ? std::string("the field \"") + key + "\" is missing"
                            : "an object is expected");
    return {nothing, path + "." + key, *error};
  }
  bool has(const char *key) const { return value->is_object() && value->contains(key); }
  /// Any other key of this object is an error.
  void onlyKeys(std::initializer_list<const char *> keys) const {
    if (!value->is_object())
      return fail("an object is expected");
    for (const auto &[key, ignored] : value->items()) {
      if (std::any_of(keys.begin(), keys.end(), [&](const char *known) { return key == known; }))
        continue;
      std::string known;
      for (const char *each : keys)
        known += (known.empty() ? "" : ", ") + std::string(each);
      return fail("the field \"" + key + "\" is unknown (known: " + known + ")");
    }
  }

  /// A number whose value is an integer (25e9 is one).
  int64_t integer(int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max()) const {
    std::optional<int64_t> number = integerOf(*value);
    if (number && *number >= low && *number <= high)
      return *number;
    std::string range;
    if (low > std::numeric_limits<int64_t>::min())
      range = high < std::numeric_limits<int64_t>::max()
                  ? " from " + std::to_string(low) + " to " + std::to_string(high)
                  : " of at least " + std::to_string(low);
    fail("an integer" + range + " is expected" +
         (number ? ", not " + std::to_string(*number) : ""));
    return std::max<int64_t>(low, 0);
  }
  int32_t small() const {
    return static_cast<int32_t>(
        integer(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
  }
  double number() const {
    if (!value->is_number())
      fail("a number is expected");
    return value->is_number() ? value->get<double>() : 0;
  }
  /// From `low` on, and finite.
  double number(double low, double high = std::numeric_limits<double>::max()) const {
    double number = value->is_number() ? value->get<double>() : low - 1;
    if (number >= low && number <= high)
      return number;
    auto text = [](double bound) { return nlohmann::json(bound).dump(); };
    fail("a number " +
         (high < std::numeric_limits<double>::max() ? "from " + text(low) + " to " + text(high)
                                                    : "of at least " + text(low)) +
         " is expected");
    return low;
  }
  bool flag() const {
    if (!value->is_boolean())
      fail("true or false is expected");
    return value->is_boolean() && value->get<bool>();
  }
  std::string text() const {
    if (!value->is_string())
      fail("a string is expected");
    return value->is_string() ? value->get<std::string>() : std::string();
  }
  /// f(element) for every element of an array.
  template <typename F> void each(F f) const {
    if (!value->is_array())
      return fail("an array is expected");
    for (size_t i = 0; i < value->size() && error->isOk(); ++i)
      f(JsonField((*value)[i], path + "[" + std::to_string(i) + "]", *error));
  }
  /// f(key, member) for every member of an object.
  template <typename F> void members(F f) const {
    if (!value->is_object())
      return fail("an object is expected");
    for (const auto &[key, member] : value->items())
      if (error->isOk())
        f(key, JsonField(member, path + "." + key, *error));
  }
  template <typename F> auto list(F f) const {
    std::vector<decltype(f(*this))> result;
    each([&](JsonField element) { result.push_back(f(element)); });
    return result;
  }
  /// The elements of an array of exactly `count`. There are as many after an error too, this one or
  /// an earlier one: a reader looks at the error at its end.
  std::vector<JsonField> tuple(size_t count) const {
    static const nlohmann::json nothing;
    if (!value->is_array() || value->size() != count) {
      fail("an array of " + std::to_string(count) + " is expected");
      return std::vector<JsonField>(count, JsonField(nothing, path, *error));
    }
    std::vector<JsonField> elements;
    for (size_t i = 0; i < count; ++i)
      elements.emplace_back((*value)[i], path + "[" + std::to_string(i) + "]", *error);
    return elements;
  }
  const nlohmann::json &json() const { return *value; }

private:
  const nlohmann::json *value;
  std::string path;
  Status *error;
};

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_JSONFIELD_H
