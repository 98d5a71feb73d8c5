//===- SharedLibrary.h - Finds and opens NVIDIA's libraries at run time -----------------------===//
//
// The plugin links none of these libraries: it starts without them, and says what it did not find.
// A library is looked for in the folders of OMNIBAL_CUDA_LIBRARIES (separated by ':'), where the
// loader looks, under CUDA_HOME, and in the wheels of the python3 on PATH. With
// OMNIBAL_CUDA_LIBRARIES=none it is looked for nowhere.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_DRIVER_SHAREDLIBRARY_H
#define RUNTIME_BACKENDS_CUDA_DRIVER_SHAREDLIBRARY_H

#include "runtime/support/Status.h"
#include <memory>
#include <string>
#include <vector>

namespace omnibal::rt::cuda {

class SharedLibrary {
public:
  /// Opens a library. `wheel` is its folder in the wheels, as in nvidia/WHEEL/lib. NotFound says
  /// where it was looked for, or what the loader says about the first file that exists.
  static Result<std::unique_ptr<SharedLibrary>> open(const std::string &name,
                                                     const std::string &wheel);
  /// Opens a library that is built with the plugin, from the folders of OMNIBAL_CUDA_LIBRARIES,
  /// then from `folder`. NotFound with an empty message: there is none.
  static Result<std::unique_ptr<SharedLibrary>> openOurs(const std::string &name,
                                                         const std::string &folder);
  ~SharedLibrary();
  SharedLibrary(const SharedLibrary &) = delete;

  /// Sets `function`. NotFound names the symbol and the file.
  template <typename F> Status find(const char *symbol, F &function) const {
    void *address = nullptr;
    OMNIBAL_RETURN_IF_ERROR(look(symbol, address));
    function = reinterpret_cast<F>(address);
    return Status::ok();
  }
  const std::string &path() const { return file; }
  void *handle() const { return library; }

private:
  SharedLibrary() = default;
  /// Opens the first of `files` that can be opened; one equal to `name` is for the loader to find.
  static Result<std::unique_ptr<SharedLibrary>> openFirst(const std::vector<std::string> &files,
                                                          const std::string &name);
  Status look(const char *symbol, void *&address) const;
  void *library = nullptr;
  std::string file;
};

/// Returns the folders in which a library of `wheel` is looked for in addition to the loader's own.
std::vector<std::string> libraryFolders(const std::string &wheel);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_DRIVER_SHAREDLIBRARY_H
