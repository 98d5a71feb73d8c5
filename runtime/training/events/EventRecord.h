//===- EventRecord.h - The records of TensorBoard's event files -----------------------------===//
//
// A record frames an Event, which is a protocol buffer. The runtime does without that library: of
// the message's fields only five are written, so they are encoded here by hand.
//
//   Event      1 wall_time (double), 2 step (int64), 3 file_version (string), 5 summary,
//              7 session_log
//   Summary    1 value (repeated): 1 tag (string), 2 simple_value (float)
//   SessionLog 1 status (enum; 1 is START)
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_TRAINING_EVENTS_EVENTRECORD_H
#define RUNTIME_TRAINING_EVENTS_EVENTRECORD_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace omnibal::rt {

struct Scalar {
  std::string tag;
  float value = 0; ///< the format has no wider type for it
};

/// `wallTime`: seconds since 1970.
struct EventTime {
  double wallTime = 0;
  int64_t step = 0;
};

/// The first event of a file.
std::string versionEvent(double wallTime);
/// Of what other files of the folder hold, readers forget the steps from this one on.
std::string startEvent(const EventTime &time);
std::string scalarsEvent(const EventTime &time, const std::vector<Scalar> &scalars);

/// The bytes of the record that holds `event`: its length and checksums around it.
std::string recordOf(std::string_view event);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_EVENTS_EVENTRECORD_H
