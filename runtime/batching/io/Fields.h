//===- Fields.h - Numbers and texts of a JSON object ----------------------------------------===//
#ifndef RUNTIME_BATCHING_IO_FIELDS_H
#define RUNTIME_BATCHING_IO_FIELDS_H

#include "runtime/support/Status.h"
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace omnibal::rt {

/// Reads numbers of an object; the first error stays.
class Fields {
public:
  Fields(const nlohmann::json &object, std::string where)
      : object(object), where(std::move(where)) {
    if (!object.is_object())
      fail("an object is expected");
  }
  const nlohmann::json &at(const char *key) {
    static const nlohmann::json nothing;
    auto found = object.is_object() ? object.find(key) : object.end();
    if (object.is_object() && found == object.end())
      fail(std::string("the field \"") + key + "\" is missing");
    return object.is_object() && found != object.end() ? *found : nothing;
  }
  int64_t integer(const char *key, int64_t least, int64_t most) {
    const nlohmann::json &value = at(key);
    bool good = value.is_number_integer() &&
                !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(INT64_MAX)) &&
                value.get<int64_t>() >= least && value.get<int64_t>() <= most;
    if (!good)
      fail(std::string("\"") + key + "\" is not a whole number from " + std::to_string(least) +
           " to " + std::to_string(most));
    return good ? value.get<int64_t>() : least;
  }
  double nonNegative(const char *key) {
    const nlohmann::json &value = at(key);
    bool good = value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= 0;
    if (!good)
      fail(std::string("\"") + key + "\" is not a number of at least 0");
    return good ? value.get<double>() : 0;
  }
  std::string text(const char *key) {
    const nlohmann::json &value = at(key);
    if (!value.is_string())
      fail(std::string("\"") + key + "\" is not a string");
    return value.is_string() ? value.get<std::string>() : "";
  }
  void fail(const std::string &what) {
    if (status.isOk())
      status = Status(Code::DataLoss, where + ": " + what);
  }
  Status status;

private:
  const nlohmann::json &object;
  std::string where;
};

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_IO_FIELDS_H
