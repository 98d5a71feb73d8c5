//===- Agreement.h - How the ranks of a run decide together ------------------------------===//
#ifndef RUNTIME_COMM_AGREEMENT_H
#define RUNTIME_COMM_AGREEMENT_H

#include "runtime/support/Status.h"
#include <functional>

namespace omnibal::rt {

/// Called by every rank with its own outcome; returns success only where all succeeded, after all
/// have called (a barrier), else the error of a failed rank. Ranks may be threads or processes.
using Agreement = std::function<Status(Status mine)>;

/// For a run of one rank.
inline Status agreeAlone(Status mine) { return mine; }

} // namespace omnibal::rt
#endif // RUNTIME_COMM_AGREEMENT_H
