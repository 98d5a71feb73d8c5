//===- StopSignals.h - Signals that ask a run to end early ------------------------------------===//
#ifndef RUNTIME_SUPPORT_STOPSIGNALS_H
#define RUNTIME_SUPPORT_STOPSIGNALS_H

#include <string>

namespace omnibal::rt {

/// From here on SIGTERM, SIGINT and SIGUSR1 (what `sbatch --signal` is usually told to send) do not
/// end the process but ask for an end. Whoever asks again a second later or more wants it at once:
/// that signal ends the process as if it had never been caught. Within a second it counts as the
/// same request, because a terminal and a launcher may both pass one key press on.
void catchStopSignals();
/// Whether one of them has come.
bool stopWasRequested();
/// "SIGTERM"; empty while none has come.
std::string stopSignalName();

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_STOPSIGNALS_H
