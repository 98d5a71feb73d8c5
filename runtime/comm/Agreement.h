//===- Agreement.h - How the ranks of a run decide together ------------------------------===//
#ifndef RUNTIME_COMM_AGREEMENT_H
#define RUNTIME_COMM_AGREEMENT_H

#include "runtime/support/Status.h"
#include <functional>
#include <utility>

namespace omnibal::rt {

/// Every rank calls this with its own outcome. It returns, after all have called (a barrier),
/// success if all succeeded, and otherwise the error of a failed rank. Ranks may be threads or
/// processes.
class Agreement {
public:
  using Work = std::function<Status()>;

  template <typename Agree> Agreement(Agree agree) : agree(std::move(agree)) {}
  Agreement(std::function<Status(Status)> agree, std::function<Status(const Work &)> patient)
      : agree(std::move(agree)), patient(std::move(patient)) {}

  Status operator()(Status mine) const { return agree(std::move(mine)); }
  /// Does work that may take longer than ranks wait for each other, such as reading and writing
  /// files, and agrees about its outcome. The work may run on another thread.
  Status after(const Work &work) const { return patient ? patient(work) : agree(work()); }

private:
  std::function<Status(Status)> agree;
  std::function<Status(const Work &)> patient;
};

/// The agreement of a run with one rank.
inline Status agreeAlone(Status mine) { return mine; }

} // namespace omnibal::rt
#endif // RUNTIME_COMM_AGREEMENT_H
