//===- HostBackend.h - The backend that runs on the CPU ---------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_HOSTBACKEND_H
#define RUNTIME_BACKENDS_HOST_HOSTBACKEND_H

#include "runtime/device/Backend.h"

namespace omnibal::rt {

/// Returns the host backend's kind, which lives forever.
BackendKind &hostBackendKind();

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_HOSTBACKEND_H
