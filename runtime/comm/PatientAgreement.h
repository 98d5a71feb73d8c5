//===- PatientAgreement.h - Agreeing after work that may take long ----------------------------===//
//
// A slow disk may keep one rank longer than any deadline. So the work is done on a thread of its
// own, and meanwhile the ranks tell each other in rounds who is still at it: how long it takes runs
// into nobody's deadline, while a rank that is lost is noticed as ever.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_COMM_PATIENTAGREEMENT_H
#define RUNTIME_COMM_PATIENTAGREEMENT_H

#include "runtime/comm/Communicator.h"
#include "runtime/support/BackgroundWork.h"

namespace omnibal::rt {

/// Waits until no rank has work under way and agrees about the outcomes, as Communicator::agree
/// does. All ranks call it, also those that have started nothing.
Status agreeOn(Communicator &communicator, BackgroundWork &work);

/// Does `work` and agrees about its outcome. The calling thread, which is the one that may call the
/// communicator, does nothing else meanwhile.
Status agreeAfter(Communicator &communicator, const std::function<Status()> &work);

} // namespace omnibal::rt
#endif // RUNTIME_COMM_PATIENTAGREEMENT_H
