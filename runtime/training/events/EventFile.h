//===- EventFile.h - A run's numbers for TensorBoard ----------------------------------------===//
//
// Each start of a run adds a file to the folder. TensorBoard reads the files in the order of their
// names, which begin with a time, and shows them as one run: what a file says of its start hides
// the steps of earlier files that are computed again.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_TRAINING_EVENTS_EVENTFILE_H
#define RUNTIME_TRAINING_EVENTS_EVENTFILE_H

#include "runtime/support/FolderFiles.h"
#include "runtime/support/Status.h"
#include "runtime/training/events/EventRecord.h"

namespace omnibal::rt {

class EventFile {
public:
  /// Makes the folder if there is none, and a new file in it for the steps from `firstStep` on.
  static Result<EventFile> create(const std::string &folder, int64_t firstStep);

  /// The record is handed to the system as a whole before this returns.
  Status write(int64_t step, const std::vector<Scalar> &scalars);
  const std::string &path() const { return name; }

private:
  EventFile() = default;
  Status append(const std::string &event);

  std::string name;
  FileDescriptor file;
};

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_EVENTS_EVENTFILE_H
