//===- JsonFuzz.cpp - The parser behind every JSON file, and the strict reading of fields ----===//
#include "runtime/support/JsonField.h"
#include "test/fuzz/Fuzz.h"

namespace omnibal::fuzz {

const Allowance allowance;

namespace {

using namespace rt;
using nlohmann::json;

size_t depthOf(const json &value) {
  size_t depth = 0;
  if (value.is_structured())
    for (const json &element : value)
      depth = std::max(depth, depthOf(element));
  return value.is_structured() ? depth + 1 : 0;
}

/// Asks every value for everything.
void readAll(JsonField field) {
  (void)field.integer();
  (void)field.integer(0, 8);
  (void)field.small();
  (void)field.number();
  (void)field.number(0, 1);
  (void)field.flag();
  (void)field.text();
  (void)field.tuple(2);
  (void)field["key"].text();
  field.onlyKeys({"key"});
  integerOf(field.json());
}

/// Each value without an error in the way, which would end each list; the first few of many.
void walk(const json &value, int &left) {
  Status error;
  if (left-- > 0)
    readAll(JsonField(value, "value", error));
  if (value.is_structured())
    for (const json &element : value)
      walk(element, left);
}

} // namespace

void run(std::string_view input) {
  auto value = parseJson(input, "input");
  JsonRules exact;
  exact.keepDecimals = true;
  auto kept = parseJson(input, "input", exact);
  require(value.isOk() == kept.isOk(), "digits that are kept make a text right or wrong");
  JsonRules few;
  few.mostObjects = few.mostLists = 2;
  (void)parseJson(input, "input", few);
  if (!value)
    return;
  require(depthOf(*value) <= JsonRules().mostNested, "nested deeper than allowed");
  auto again = parseJson(value->dump(), "again");
  require(again.status());
  require(*again == *value, "the value changed when it was written and read");
  int left = 16;
  walk(*value, left);
}

} // namespace omnibal::fuzz
