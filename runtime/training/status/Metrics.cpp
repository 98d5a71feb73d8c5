#include "runtime/training/status/Metrics.h"
#include <algorithm>
#include <utility>
#include <vector>

namespace omnibal::rt {
namespace {

using Json = nlohmann::ordered_json;

std::string escaped(const std::string &value) {
  std::string text;
  for (char letter : value) {
    if (letter == '\\' || letter == '"')
      text += '\\';
    text += letter == '\n' ? std::string("\\n") : std::string(1, letter);
  }
  return text;
}

class Text {
public:
  explicit Text(const std::string &run) : common("run=\"" + escaped(run) + "\"") {}

  void addAll(const std::string &prefix, const Json &fields, const std::string &what) {
    for (const auto &[field, value] : fields.items()) {
      const bool counts = field == "tokens_seen" || field == "samples_seen";
      begin("omnibal_" + prefix + field + (counts ? "_total" : ""), counts ? "counter" : "gauge",
            "`" + field + "` of " + what);
      sample("", value);
      if (value.is_object() && field != "sources")
        for (const auto &[part, own] : value.items())
          sample(",name=\"" + escaped(part) + "\"", own);
      if (!prefix.empty() && fields.contains("sources"))
        for (const auto &[source, own] : fields["sources"].items())
          if (own.contains(field))
            sample(",source=\"" + escaped(source) + "\"", own[field]);
    }
    if (!prefix.empty() && fields.contains("sources"))
      addOfSourcesAlone(prefix, fields, what);
  }

  void add(const std::string &name, const std::string &help, const Json &value) {
    begin(name, "gauge", help);
    sample("", value);
  }

  std::string take() { return std::move(text); }

private:
  /// What is told of sources but not of all of them together.
  void addOfSourcesAlone(const std::string &prefix, const Json &fields, const std::string &what) {
    std::vector<std::string> done;
    for (const auto &[first, of] : fields["sources"].items())
      for (const auto &[field, value] : of.items()) {
        if (fields.contains(field) || std::find(done.begin(), done.end(), field) != done.end())
          continue;
        done.push_back(field);
        begin("omnibal_" + prefix + field, "gauge", "`" + field + "` of " + what);
        for (const auto &[source, own] : fields["sources"].items())
          if (own.contains(field))
            sample(",source=\"" + escaped(source) + "\"", own[field]);
      }
  }

  /// What stands before a metric's first number.
  void begin(const std::string &name, const std::string &type, const std::string &help) {
    current = name;
    head = "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void sample(const std::string &labels, const Json &value) {
    if (!value.is_number() || value.dump() == "null") // what no JSON has: not a number, infinite
      return;
    text += std::exchange(head, "") + current + "{" + common + labels + "} " + value.dump() + "\n";
  }

  std::string common, current, head, text;
};

} // namespace

std::string metricsText(const RunMetrics &metrics) {
  Text text(metrics.run);
  text.add("omnibal_time_seconds", "When this was written, in seconds since 1970", metrics.time);
  if (metrics.step.is_object())
    text.addAll("", metrics.step, "the newest line of the log");
  if (metrics.evaluation.is_object())
    text.addAll("evaluation_", metrics.evaluation, "the newest evaluation");
  return text.take();
}

} // namespace omnibal::rt
