#include "runtime/support/Json.h"
#include <cmath>
#include <vector>

namespace omnibal::rt {
namespace {

using nlohmann::json;

/// Builds the value from the parser's events, so that it can stop at the first that the rules
/// refuse.
class Builder : public nlohmann::json_sax<json> {
public:
  Builder(const std::string &where, const JsonRules &rules) : where(where), rules(rules) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t &text) override {
    if (!rules.keepDecimals)
      return add(value);
    return add(json::binary(json::binary_t::container_type(text.begin(), text.end())));
  }
  bool string(string_t &value) override { return add(std::move(value)); }
  bool binary(binary_t &value) override { return add(std::move(value)); }
  bool start_object(size_t) override { return (++objects, begin(json::object())); }
  bool end_object() override { return end(); }
  bool start_array(size_t) override { return (++lists, begin(json::array())); }
  bool end_array() override { return end(); }
  bool key(string_t &name) override {
    auto [place, fresh] = open.back()->emplace(name, nullptr);
    member = &*place;
    lastKey = std::move(name);
    return fresh || fail("the key \"" + lastKey + "\" occurs twice");
  }
  bool parse_error(size_t, const std::string &, const json::exception &error) override {
    std::string after = lastKey.empty() ? "" : ", after the key \"" + lastKey + "\"";
    return fail(std::string("not valid JSON: ") + error.what() + after);
  }

  json root;
  Status status;

private:
  bool fail(const std::string &message) {
    status = Status(Code::DataLoss, where + ": " + message);
    return false;
  }

  /// Puts a value where the next one belongs and remembers where that is.
  bool add(json value) {
    if (open.empty())
      added = &root;
    else if (open.back()->is_array())
      added = &open.back()->emplace_back();
    else
      added = member;
    *added = std::move(value);
    return true;
  }

  bool begin(json empty) {
    if (open.size() >= rules.mostNested)
      return fail("nested deeper than " + std::to_string(rules.mostNested));
    if (objects > rules.mostObjects || lists > rules.mostLists)
      return fail("too large: more than " + std::to_string(rules.mostObjects) + " objects or " +
                  std::to_string(rules.mostLists) + " lists" + rules.remedy);
    add(std::move(empty));
    open.push_back(added);
    return true;
  }
  bool end() {
    open.pop_back();
    return true;
  }

  const std::string &where;
  const JsonRules &rules;
  std::vector<json *> open; ///< the containers around; one grows only after those in it are closed
  json *member = nullptr, *added = nullptr;
  std::string lastKey;
  size_t objects = 0, lists = 0;
};

} // namespace

Result<json> parseJson(std::string_view text, const std::string &where, const JsonRules &rules) {
  Builder builder(where, rules);
  if (!json::sax_parse(text.begin(), text.end(), &builder))
    return std::move(builder.status);
  return std::move(builder.root);
}

std::optional<int64_t> integerOf(const json &value) {
  if (value.is_number_unsigned()) {
    auto number = value.get<uint64_t>();
    constexpr auto largest = uint64_t{std::numeric_limits<int64_t>::max()};
    return number <= largest ? std::optional<int64_t>(number) : std::nullopt;
  }
  if (value.is_number_integer())
    return value.get<int64_t>();
  if (value.is_number_float()) {
    auto number = value.get<double>();
    bool fits = std::abs(number) < 0x1p63 && number == std::trunc(number);
    return fits ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
  }
  return std::nullopt;
}

std::string keptDecimal(const json &value) {
  if (!value.is_binary())
    return "";
  const json::binary_t &bytes = value.get_binary();
  return {bytes.begin(), bytes.end()};
}

} // namespace omnibal::rt
