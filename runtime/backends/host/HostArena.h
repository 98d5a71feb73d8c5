//===- HostArena.h - A rank's arena in host memory --------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_HOSTARENA_H
#define RUNTIME_BACKENDS_HOST_HOSTARENA_H

#include "runtime/device/Backend.h"

namespace omnibal::rt {

Result<std::unique_ptr<Arena>> allocateHostArena(int64_t bytes, bool guarded);

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_HOSTARENA_H
