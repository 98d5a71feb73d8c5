#include "runtime/core/Json.h"
#include <set>
#include <vector>

namespace omnibal::rt {

Result<nlohmann::json> parseJson(std::string_view text, const std::string &where) {
  using json = nlohmann::json;
  std::vector<std::set<std::string>> open;
  std::string duplicate;
  auto watch = [&](int, json::parse_event_t event, json &value) {
    if (event == json::parse_event_t::object_start)
      open.emplace_back();
    else if (event == json::parse_event_t::object_end)
      open.pop_back();
    else if (event == json::parse_event_t::key && duplicate.empty()) {
      std::string key = value.get<std::string>();
      if (!open.back().insert(key).second)
        duplicate = key;
    }
    return true;
  };
  try {
    json value = json::parse(text.begin(), text.end(), watch);
    if (!duplicate.empty())
      return Status(Code::DataLoss, where + ": the key \"" + duplicate + "\" occurs twice");
    return value;
  } catch (const json::exception &error) {
    return Status(Code::DataLoss, where + ": not valid JSON: " + error.what());
  }
}

} // namespace omnibal::rt
