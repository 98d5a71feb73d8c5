//===- TraceWriter.h - Events in Chrome's trace format ----------------------------------------===//
//
// Perfetto and chrome://tracing show processes with lanes ("threads") of spans, arrows between
// spans and counters. Times are nanoseconds; the file has microseconds with three decimals,
// exactly.
//
//===-----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_SUPPORT_TRACEWRITER_H
#define RUNTIME_SUPPORT_TRACEWRITER_H

#include "runtime/support/JsonWriter.h"

namespace omnibal::rt {

class TraceWriter {
public:
  /// Where an event is shown.
  struct Place {
    int64_t process = 0, lane = 0;
  };

  void nameProcess(int64_t process, std::string_view name) {
    metadata("process_name", {process, 0}, "name", name);
  }
  void nameLane(Place place, std::string_view name) {
    metadata("thread_name", place, "name", name);
  }
  /// Processes and lanes are shown in the order of these numbers.
  void sortProcess(int64_t process, int64_t number) {
    metadata("process_sort_index", {process, 0}, "sort_index", number);
  }
  void sortLane(Place place, int64_t number) {
    metadata("thread_sort_index", place, "sort_index", number);
  }

  /// A span; those of one lane nest and do not overlap otherwise. `arguments(writer)` writes
  /// attributes that are shown with it.
  template <typename F>
  void span(std::string_view name, std::string_view category, Place place, int64_t beginNs,
            int64_t endNs, F arguments) {
    event("X", name, place, beginNs, [&](JsonWriter &out) {
      out.rawAttribute("dur", microseconds(endNs - beginNs));
      out.attribute("cat", category);
      out.attributeObject("args", [&] { arguments(out); });
    });
  }
  /// A counter's value from this time on.
  void counter(std::string_view name, int64_t process, int64_t ns, std::string_view key,
               int64_t value) {
    event("C", name, {process, 0}, ns, [&](JsonWriter &out) {
      out.attributeObject("args", [&] { out.attribute(key, value); });
    });
  }
  /// A point of an arrow, bound to the span around it; points with one category and id are
  /// connected.
  enum class Arrow : char { Start = 's', Through = 't', End = 'f' };
  void arrow(Arrow point, std::string_view name, std::string_view category, int64_t id, Place place,
             int64_t ns) {
    const char phase[] = {static_cast<char>(point), 0};
    event(phase, name, place, ns, [&](JsonWriter &out) {
      out.attribute("cat", category);
      out.attribute("id", id);
      if (point != Arrow::Start)
        out.attribute("bp", "e"); // bound to the span around, not to the next one
    });
  }

  /// Returns the events, one a line with commas between them, for a JSON array.
  std::string take() { return std::move(events); }

private:
  template <typename F>
  void event(std::string_view phase, std::string_view name, Place place, int64_t ns, F more) {
    JsonWriter out;
    out.object([&] {
      out.attribute("ph", phase);
      out.attribute("name", name);
      out.attribute("pid", place.process);
      out.attribute("tid", place.lane);
      out.rawAttribute("ts", microseconds(ns));
      more(out);
    });
    events += (events.empty() ? "" : ",\n") + out.take();
  }
  template <typename T>
  void metadata(std::string_view kind, Place place, std::string_view key, const T &value) {
    event("M", kind, place, 0, [&](JsonWriter &out) {
      out.attributeObject("args", [&] { out.attribute(key, value); });
    });
  }
  /// Exact, unlike a double of a long time.
  static std::string microseconds(int64_t ns);

  std::string events;
};

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_TRACEWRITER_H
