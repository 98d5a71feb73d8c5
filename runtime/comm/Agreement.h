//===- Agreement.h - How the ranks of a run decide together ------------------------------===//
#ifndef RUNTIME_COMM_AGREEMENT_H
#define RUNTIME_COMM_AGREEMENT_H

#include "runtime/support/Status.h"
#include <functional>

namespace omnibal::rt {

/// Every rank calls this with its own outcome. It returns, after all have called (a barrier),
/// success if all succeeded, and otherwise the error of a failed rank. Ranks may be threads or
/// processes.
using Agreement = std::function<Status(Status mine)>;

/// The agreement of a run with one rank.
inline Status agreeAlone(Status mine) { return mine; }

} // namespace omnibal::rt
#endif // RUNTIME_COMM_AGREEMENT_H
