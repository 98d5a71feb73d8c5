#include "runtime/executor/BackendPlugin.h"
#include "runtime/backends/host/HostBackend.h"
#include "runtime/device/BackendInterface.h"
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <map>
#include <mutex>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

/// Returns where a plugin may lie, the best place first.
std::vector<fs::path> candidates(const std::string &file) {
  std::vector<fs::path> list;
  if (const char *folder = std::getenv("OMNIBAL_PLUGINS"); folder && *folder)
    return {fs::path(folder) / file}; // said plainly: no other is taken
  std::error_code error;
  fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error)
    list = {self.parent_path() / file, self.parent_path().parent_path() / "lib" / file};
  return list;
}

Result<BackendKind *> open(const std::string &target) {
  std::string file = "libomnibal_" + target + ".so", looked;
  std::string start = "target \"" + target + "\": ";
  for (const fs::path &path : candidates(file)) {
    std::error_code error;
    if (!fs::exists(path, error)) {
      looked += (looked.empty() ? "" : ", ") + path.string();
      continue;
    }
    // It stays open forever: its code may run until the process ends.
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char *why = dlerror();
      return Status(Code::Unavailable, start + path.string() +
                                           " cannot be loaded: " + (why ? why : "no reason") +
                                           (target == "cuda" ? "; install the CUDA runtime library "
                                                               "of the toolkit it was built with"
                                                             : ""));
    }
    auto *plugin = static_cast<const BackendPlugin *>(dlsym(library, "omnibalBackendPlugin"));
    if (!plugin)
      return Status(Code::Unavailable, start + path.string() + " is no plugin of omnibal");
    if (std::string(plugin->interface) != backendInterface)
      return Status(Code::Unavailable, start + path.string() + " was built for \"" +
                                           plugin->interface + "\", this program for \"" +
                                           backendInterface + "\"; build both together");
    Status status;
    BackendKind *kind = plugin->create(status);
    if (!kind)
      return std::move(status).context("target \"" + target + "\"");
    return kind;
  }
  return Status(Code::Unavailable,
                start + "the plugin " + file + " is missing (looked for " + looked +
                    "); build with -DOMNIBAL_CUDA=ON where the CUDA toolkit is installed, or set "
                    "OMNIBAL_PLUGINS to its folder");
}

} // namespace

Result<BackendKind *> backendForTarget(const std::string &target) {
  if (target == "host")
    return &hostBackendKind();
  if (target != "cuda")
    return invalid("there is no target \"" + target + "\"; this omnibal knows host and cuda");
  static std::mutex mutex;
  static std::map<std::string, BackendKind *> opened;
  std::lock_guard lock(mutex);
  if (auto found = opened.find(target); found != opened.end())
    return found->second;
  OMNIBAL_ASSIGN_OR_RETURN(BackendKind * kind, open(target));
  opened[target] = kind;
  return kind;
}

} // namespace omnibal::rt
