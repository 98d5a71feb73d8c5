//===- BackendPlugin.h - Backends that are opened at run time ---------------------------------===//
#ifndef RUNTIME_EXECUTOR_BACKENDPLUGIN_H
#define RUNTIME_EXECUTOR_BACKENDPLUGIN_H

#include "runtime/device/Backend.h"
#include <string>

namespace omnibal::rt {

/// Returns the kind of device for a program's target; it is opened once per process. "host" is
/// built in; any other kind is a plugin libomnibal_TARGET.so in $OMNIBAL_PLUGINS, next to the
/// program that runs, or in ../lib from there. InvalidArgument: there is no such target;
/// Unavailable: the plugin is absent or finds no usable device.
Result<BackendKind *> backendForTarget(const std::string &target);

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_BACKENDPLUGIN_H
