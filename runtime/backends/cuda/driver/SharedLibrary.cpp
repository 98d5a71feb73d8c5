#include "runtime/backends/cuda/driver/SharedLibrary.h"
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

namespace omnibal::rt::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char *wishVariable = "OMNIBAL_CUDA_LIBRARIES";

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> split(const std::string &list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin)
      parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// ".../site-packages/nvidia/WHEEL/lib" of the python3 that PATH finds first. A virtual
/// environment's python3 is a link: its own folder counts, not the link's end.
std::vector<std::string> wheelFolders(const std::string &wheel) {
  std::vector<std::string> folders;
  std::error_code error;
  for (const std::string &place : split(environment("PATH"))) {
    if (!fs::exists(fs::path(place) / "python3", error))
      continue;
    const fs::path prefix = fs::path(place).parent_path();
    for (const char *lib : {"lib", "local/lib"})
      for (fs::directory_iterator entry(prefix / lib, error), end; !error && entry != end;
           entry.increment(error)) {
        if (!entry->path().filename().string().starts_with("python3"))
          continue;
        for (const char *packages : {"site-packages", "dist-packages"})
          folders.push_back(entry->path() / packages / "nvidia" / wheel / "lib");
      }
    break;
  }
  return folders;
}

} // namespace

std::vector<std::string> libraryFolders(const std::string &wheel) {
  std::vector<std::string> folders;
  for (const char *name : {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"})
    if (const std::string home = environment(name); !home.empty())
      folders.push_back(home + "/lib64");
  folders.push_back("/usr/local/cuda/lib64");
  for (std::string &folder : wheelFolders(wheel))
    folders.push_back(std::move(folder));
  return folders;
}

Result<std::unique_ptr<SharedLibrary>> SharedLibrary::open(const std::string &name,
                                                           const std::string &wheel) {
  std::vector<std::string> wished = split(environment(wishVariable));
  if (wished == std::vector<std::string>{"none"})
    return Status(Code::NotFound, name + ": not opened, " + wishVariable + " is none");
  std::vector<std::string> files;
  for (const std::string &folder : wished)
    files.push_back(folder + "/" + name);
  files.push_back(name); // by the loader
  for (const std::string &folder : libraryFolders(wheel))
    files.push_back(folder + "/" + name);
  auto opened = openFirst(files, name);
  if (opened || !opened.status().message().empty())
    return opened;
  return Status(Code::NotFound, name + " was not found by the loader, under CUDA_HOME or among " +
                                    "the packages of python3; " + wishVariable +
                                    " may name its folder");
}

Result<std::unique_ptr<SharedLibrary>> SharedLibrary::openOurs(const std::string &name,
                                                               const std::string &folder) {
  std::vector<std::string> wished = split(environment(wishVariable));
  if (wished == std::vector<std::string>{"none"})
    return Status(Code::NotFound, "");
  std::vector<std::string> files;
  for (const std::string &place : wished)
    files.push_back(place + "/" + name);
  files.push_back(folder + "/" + name);
  return openFirst(files, name);
}

Result<std::unique_ptr<SharedLibrary>>
SharedLibrary::openFirst(const std::vector<std::string> &files, const std::string &name) {
  std::string broken;
  for (const std::string &file : files) {
    std::error_code error;
    if (file != name && !fs::exists(file, error))
      continue;
    std::unique_ptr<SharedLibrary> made(new SharedLibrary);
    // Never unloaded: the driver may still call into it when the process ends.
    made->library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (made->library) {
      made->file = file;
      return made;
    }
    const char *why = dlerror();
    if (file != name && broken.empty())
      broken = file + " cannot be opened: " + (why ? why : "?");
  }
  return Status(Code::NotFound, broken);
}

SharedLibrary::~SharedLibrary() {
  if (library)
    dlclose(library);
}

Status SharedLibrary::look(const char *symbol, void *&address) const {
  address = dlsym(library, symbol);
  return address ? Status::ok()
                 : Status(Code::NotFound, file + " has no " + std::string(symbol) +
                                              " (a library of another version?)");
}

} // namespace omnibal::rt::cuda
