//===- JsonFields.h - Strict reading of JSON: types, keys, one error with its path -------===//
#ifndef RUNTIME_PROGRAM_JSONFIELDS_H
#define RUNTIME_PROGRAM_JSONFIELDS_H

#include "runtime/support/Status.h"
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
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
      bool known = false;
      for (const char *k : keys)
        known |= key == k;
      if (!known)
        return fail("the field \"" + key + "\" is unknown");
    }
  }

  int64_t integer(int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max()) const {
    bool tooLarge = value->is_number_unsigned() &&
                    value->get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max());
    if (!value->is_number_integer() || tooLarge) {
      fail("an integer is expected");
      return 0;
    }
    int64_t number = value->get<int64_t>();
    if (number < low || number > high) {
      fail(std::to_string(number) + " is out of range");
      return 0;
    }
    return number;
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
  /// The elements of an array of exactly `count`; empty places after an error.
  std::vector<JsonField> tuple(size_t count) const {
    static const nlohmann::json nothing;
    if (value->is_array() && value->size() == count)
      return list([](JsonField element) { return element; });
    fail("an array of " + std::to_string(count) + " is expected");
    return std::vector<JsonField>(count, JsonField(nothing, path, *error));
  }
  const nlohmann::json &json() const { return *value; }

private:
  const nlohmann::json *value;
  std::string path;
  Status *error;
};

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_JSONFIELDS_H
