//===- JsonPlace.h - Objects of a JSON file, with their place for messages -------------------===//
#ifndef RUNTIME_PLANNER_JSON_JSONPLACE_H
#define RUNTIME_PLANNER_JSON_JSONPLACE_H

#include "runtime/planner/json/JsonText.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/support/RankOrder.h"
#include <algorithm>

namespace omnibal::planner {

inline const char *rankOrderName(rt::RankOrder order) {
  return rt::rankOrderNames[static_cast<size_t>(order)];
}

/// A JSON object with its place ("p.json: layers[3].remat[0]") for messages.
struct Place {
  const nlohmann::json &object;
  std::string where;

  rt::Status bad(const std::string &message) const { return rt::invalid(where + ": " + message); }

  rt::Status onlyKeys(std::initializer_list<std::string_view> known) const {
    for (const auto &[key, ignored] : object.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        return bad("unknown key `" + key + "`");
    return rt::Status::ok();
  }
  rt::Status integer(const char *key, int64_t &out, bool required = true) const {
    const nlohmann::json *value = memberOf(object, key);
    if (!value)
      return required ? bad("`" + std::string(key) + "` is missing") : rt::Status::ok();
    std::optional<int64_t> number = integerOf(*value);
    if (!number || *number < 0)
      return bad("`" + std::string(key) + "` must be an integer of at least 0");
    out = *number;
    return rt::Status::ok();
  }
  rt::Status text(const char *key, std::string &out) const {
    const std::string *value = textIn(object, key);
    if (!value)
      return bad("`" + std::string(key) + "` is missing or not a string");
    out = *value;
    return rt::Status::ok();
  }
  rt::Status schema(const char *expected) const {
    std::string found;
    OMNIBAL_RETURN_IF_ERROR(text("schema", found));
    return found == expected ? rt::Status::ok()
                             : bad("`schema` is " + found + ", expected " + expected);
  }
  rt::Status schedule(std::string &out) const {
    OMNIBAL_RETURN_IF_ERROR(text("schedule", out));
    if (out == "auto" || chunksPerStage(out))
      return rt::Status::ok();
    return bad("unknown `schedule` " + out + " (known: " + scheduleNames + ", auto)");
  }
  rt::Status rankOrder(const char *key, rt::RankOrder &out) const {
    std::string name;
    OMNIBAL_RETURN_IF_ERROR(text(key, name));
    for (rt::RankOrder order : {rt::RankOrder::Stage, rt::RankOrder::Replica})
      if (name == rankOrderName(order)) {
        out = order;
        return rt::Status::ok();
      }
    return bad("`" + std::string(key) + "` must be stage or replica");
  }
  /// Calls `read` with the place of every element, which must be objects.
  template <typename F> rt::Status each(const char *key, F read) const {
    const nlohmann::json *list = listIn(object, key);
    if (!list)
      return bad("`" + std::string(key) + "` is missing or not a list");
    for (size_t i = 0; i < list->size(); ++i) {
      std::string place =
          where + (where.back() == ']' ? "." : ": ") + key + "[" + std::to_string(i) + "]";
      if (!(*list)[i].is_object())
        return rt::invalid(place + " must be an object");
      OMNIBAL_RETURN_IF_ERROR(read(Place{(*list)[i], place}));
    }
    return rt::Status::ok();
  }
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_JSON_JSONPLACE_H
