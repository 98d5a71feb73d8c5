//===- Log.h - What a user of the backend should know though nothing failed ----------------===//
#ifndef RUNTIME_BACKENDS_CUDA_DRIVER_LOG_H
#define RUNTIME_BACKENDS_CUDA_DRIVER_LOG_H

#include <string>

namespace omnibal::rt::cuda {

/// Writes one line to stderr; the same text appears once per process, however many ranks say it.
void logOnce(const std::string &text);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_DRIVER_LOG_H
