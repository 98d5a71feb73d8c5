//===- Recordings.h - Which steps of a run are traced -----------------------------------------===//
#ifndef RUNTIME_TRAINING_RECORDINGS_H
#define RUNTIME_TRAINING_RECORDINGS_H

#include "runtime/device/Backend.h"
#include "runtime/training/session/RunOptions.h"
#include <map>
#include <string>

namespace omnibal::rt {

/// The file of a trace, and its steps: from `first` on and before `end`.
struct Recording {
  std::string file;
  int64_t first = 0, end = 0;
};

/// The steps of --trace and of --profile-at, and those that somebody asks for while the run goes
/// on. All ranks have one and tell it the same. No step belongs to two recordings.
class Recordings {
public:
  /// Of the steps from `first` on and before `total`.
  Recordings(const RunOptions &options, int64_t first, int64_t total);

  /// What the step belongs to; null: nothing.
  const Recording *of(int64_t step) const;
  /// Whether --profile is there, so that steps may be asked for.
  bool areKept() const { return !folder.empty(); }
  /// Records one more step. Returns false if there is no such step, or if it is recorded anyway.
  bool add(int64_t step);
  /// Whether this rank, which is about to begin a step, has been asked for a recording since the
  /// last call: by SIGUSR2 or, if it leads, by a file "request" in the folder of --profile, which
  /// goes.
  bool takeRequest(int64_t step, bool leads) const;
  /// All ranks hear that one of them has been asked: `step`, which begins next, is added. A signal
  /// that a launcher passes on to all ranks comes to them in different steps and is one request: in
  /// the steps behind a recorded one, and on a rank within a second.
  bool hear(int64_t step);

private:
  bool isSameRequest(int64_t step) const { return step <= lastAsked + 2; }

  std::string folder;
  int64_t total;
  std::map<int64_t, Recording> recordings; ///< by their first step
  int64_t lastAsked = -3;                  ///< the last step that was added by hear()
  Clock::time_point heard{};               ///< when that was
};

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_RECORDINGS_H
