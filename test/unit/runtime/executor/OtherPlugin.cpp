// A plugin that was built with other headers.
#include "runtime/device/Backend.h"

extern "C" __attribute__((visibility("default")))
const omnibal::rt::BackendPlugin omnibalBackendPlugin{"omnibal backend of another day", nullptr};
