//===- RecordSignal.h - A signal that asks for a trace of the next step ----------------------===//
#ifndef RUNTIME_SUPPORT_RECORDSIGNAL_H
#define RUNTIME_SUPPORT_RECORDSIGNAL_H

namespace omnibal::rt {

/// From here on SIGUSR2 does not end the process but is a request.
void catchRecordSignal();
/// Whether it has come since the last call.
bool takeRecordRequest();

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_RECORDSIGNAL_H
