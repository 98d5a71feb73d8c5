#include "runtime/data/SampleReader.h"
#include <algorithm>
#include <limits>

namespace omnibal::rt {

bool SampleReader::wanted(const std::string &name) const {
  return !needs.tokenInputs || name == "input_ids" || name == "labels" || name == "images" ||
         name == "chosen_tokens" ||
         std::find(needs.tokenInputs->begin(), needs.tokenInputs->end(), name) !=
             needs.tokenInputs->end();
}

bool SampleReader::key(std::string &name) {
  if (depth != 1)
    return true;
  passed = {};
  field = &passed;
  if (!wanted(name))
    return true;
  auto [place, isNew] = fields.try_emplace(name);
  if (!isNew) {
    failure = "the key \"" + name + "\" occurs twice";
    return false;
  }
  field = &place->second;
  return true;
}

bool SampleReader::start_object(size_t) {
  other();
  isObject |= depth == 0;
  ++depth;
  return true;
}

bool SampleReader::start_array(size_t) {
  other();
  if (depth == 1 && field && field != &passed) {
    list = field;
    list->isList = true;
  }
  ++depth;
  return true;
}

bool SampleReader::leave() {
  if (--depth == 1)
    list = nullptr;
  return true;
}

bool SampleReader::number_unsigned(Json::number_unsigned_t value) {
  if (depth == 1 && field)
    field->number = value;
  if (depth == 2 && list)
    return value > INT32_MAX ? other() : element(static_cast<int64_t>(value));
  return true;
}

/// Something that is no element of a list of tokens.
bool SampleReader::other() {
  if (depth == 2 && list && list->why.empty()) {
    list->why = "[" + std::to_string(list->count) + "] is not a 32-bit integer";
    list->values = {};
  }
  return true;
}

bool SampleReader::element(int64_t value) {
  if (value < INT32_MIN || value > INT32_MAX)
    return other();
  if (list->why.empty() && (needs.tokensCap < 0 || list->count < needs.tokensCap))
    list->values.push_back(static_cast<int32_t>(value));
  ++list->count;
  return true;
}

} // namespace omnibal::rt
