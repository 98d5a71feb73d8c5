#include "runtime/device/CallReader.h"
#include <algorithm>

namespace omnibal::rt {

int CallReader::optionalOperand(const std::string &name) {
  knownOperands.insert(name);
  auto found = std::find(call.operands.begin(), call.operands.end(), name);
  return found == call.operands.end() ? -1 : static_cast<int>(found - call.operands.begin());
}

int CallReader::operand(const std::string &name) {
  int position = optionalOperand(name);
  if (position < 0)
    fail("operand '" + name + "' is missing");
  return std::max(position, 0);
}

std::vector<int> CallReader::operands(const std::string &name) {
  std::vector<int> positions;
  if (int single = optionalOperand(name); single >= 0)
    positions.push_back(single);
  for (int i = 0;; ++i) {
    int position = optionalOperand(name + std::to_string(i));
    if (position < 0)
      break;
    positions.push_back(position);
  }
  return positions;
}

std::vector<std::pair<int, int>> CallReader::operandPairs(const std::string &first,
                                                          const std::string &second) {
  std::vector<std::pair<int, int>> pairs{{operand(first), operand(second)}};
  for (int i = 1;; ++i) {
    const std::string number = std::to_string(i);
    const int one = optionalOperand(first + number), other = optionalOperand(second + number);
    if (one < 0 && other < 0)
      return pairs;
    if (one < 0 || other < 0) {
      fail("operands '" + first + number + "' and '" + second + number + "' belong together");
      return pairs;
    }
    pairs.emplace_back(one, other);
  }
}

const nlohmann::json *CallReader::find(const std::string &name) {
  knownAttributes.insert(name);
  if (!call.attributes.is_object())
    return nullptr;
  auto found = call.attributes.find(name);
  return found == call.attributes.end() ? nullptr : &*found;
}

bool CallReader::has(const std::string &attribute) const {
  return call.attributes.is_object() && call.attributes.contains(attribute);
}

bool CallReader::flag(const std::string &name, bool byDefault) {
  const nlohmann::json *value = find(name);
  if (!value)
    return byDefault;
  if (value->is_boolean())
    return value->get<bool>();
  if (value->is_null()) // present without a value, like a unit attribute
    return true;
  if (value->is_number_integer())
    return value->get<int64_t>() != 0;
  fail("attribute '" + name + "' must be true or false");
  return byDefault;
}

double CallReader::number(const std::string &name, double byDefault) {
  const nlohmann::json *value = find(name);
  if (!value)
    return byDefault;
  if (value->is_number())
    return value->get<double>();
  // JSON has no infinities; a constant that is one arrives as text.
  if (value->is_string()) {
    if (*value == "inf")
      return std::numeric_limits<double>::infinity();
    if (*value == "-inf")
      return -std::numeric_limits<double>::infinity();
    if (*value == "nan")
      return std::numeric_limits<double>::quiet_NaN();
  }
  fail("attribute '" + name + "' must be a number");
  return byDefault;
}

int64_t CallReader::integer(const std::string &name, int64_t byDefault) {
  const nlohmann::json *value = find(name);
  if (!value)
    return byDefault;
  if (value->is_number_integer())
    return value->get<int64_t>();
  fail("attribute '" + name + "' must be an integer");
  return byDefault;
}

int64_t CallReader::requiredInteger(const std::string &name) {
  if (!has(name))
    fail("attribute '" + name + "' is missing");
  return integer(name, 0);
}

std::vector<int64_t> CallReader::integers(const std::string &name, std::vector<int64_t> byDefault) {
  const nlohmann::json *value = find(name);
  if (!value)
    return byDefault;
  std::vector<int64_t> list;
  if (value->is_array())
    for (const nlohmann::json &item : *value)
      if (item.is_number_integer())
        list.push_back(item.get<int64_t>());
  if (!value->is_array() || list.size() != value->size())
    fail("attribute '" + name + "' must be a list of integers");
  return list;
}

int CallReader::choice(const std::string &name, std::initializer_list<const char *> choices) {
  const nlohmann::json *value = find(name);
  if (!value)
    return 0;
  std::string allowed;
  int position = 0;
  for (const char *candidate : choices) {
    if (value->is_string() && value->get<std::string>() == candidate)
      return position;
    allowed += (position++ ? ", " : "") + std::string(candidate);
  }
  fail("attribute '" + name + "' is " + value->dump() + ", not one of " + allowed);
  return 0;
}

std::string CallReader::text(const std::string &name, const std::string &byDefault) {
  const nlohmann::json *value = find(name);
  if (!value)
    return byDefault;
  if (value->is_string())
    return value->get<std::string>();
  fail("attribute '" + name + "' must be a string");
  return byDefault;
}

Result<Extent> CallReader::parseExtent(const nlohmann::json &value, const std::string &name) {
  auto isInteger = [](const nlohmann::json &item) { return item.is_number_integer(); };
  if (value.is_number_integer())
    return Extent{value.get<int64_t>()};
  if (value.is_array() && (value.size() == 3 || value.size() == 5) &&
      std::all_of(value.begin(), value.end(), isInteger))
    return Extent::of(value.get<std::vector<int64_t>>());
  return invalid("attribute '" + name +
                 "' must be an integer or [constant, per V, per N] or [constant, per V, per N, "
                 "per v, per n], not " +
                 value.dump());
}

Extent CallReader::extent(const std::string &name, Extent byDefault) {
  const nlohmann::json *value = find(name);
  if (!value)
    return byDefault;
  Result<Extent> parsed = parseExtent(*value, name);
  if (!parsed) {
    fail(parsed.status().message());
    return byDefault;
  }
  return *parsed;
}

std::vector<Extent> CallReader::extents(const std::string &name) {
  const nlohmann::json *value = find(name);
  std::vector<Extent> list;
  if (!value)
    return list;
  if (!value->is_array()) {
    fail("attribute '" + name + "' must be a list of sizes");
    return list;
  }
  for (const nlohmann::json &item : *value) {
    Result<Extent> parsed = parseExtent(item, name);
    if (!parsed) {
      fail(parsed.status().message());
      return list;
    }
    list.push_back(*parsed);
  }
  return list;
}

void CallReader::fail(const std::string &message) {
  if (error.isOk())
    error = invalid(message);
}

Status CallReader::finish() {
  if (error.isOk())
    for (const std::string &name : call.operands)
      if (!knownOperands.count(name))
        fail("has no operand '" + name + "'");
  if (error.isOk() && call.attributes.is_object())
    for (const auto &[name, value] : call.attributes.items())
      if (!knownAttributes.count(name))
        fail("has no attribute '" + name + "'");
  std::string where = "kernel '" + call.kernel + "'";
  if (!call.label.empty())
    where += " (" + call.label + ")";
  return std::move(error).context(where);
}

} // namespace omnibal::rt
