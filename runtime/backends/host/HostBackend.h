//===- HostBackend.h - The backend that runs on the CPU ---------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_HOSTBACKEND_H
#define RUNTIME_BACKENDS_HOST_HOSTBACKEND_H

#include "runtime/device/Backend.h"

namespace omnibal::rt {

/// Returns the host backend's kind, which lives forever.
BackendKind &hostBackendKind();

/// Creates a kernel of the host backend; InvalidArgument names the kernel and the operand or
/// attribute that is missing or wrong.
Result<std::unique_ptr<Kernel>> createHostKernel(const BoundCall &call);

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_HOSTBACKEND_H
