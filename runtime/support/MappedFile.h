//===- MappedFile.h - A file that is read through memory --------------------------------------===//
#ifndef RUNTIME_SUPPORT_MAPPEDFILE_H
#define RUNTIME_SUPPORT_MAPPEDFILE_H

#include "runtime/support/Status.h"
#include <cstddef>
#include <span>
#include <utility>

namespace omnibal::rt {

/// The processes of a machine share one copy of a mapped file. What it costs: a file that becomes
/// shorter while it is mapped, or that a server takes away when another machine replaces it, cannot
/// be read any more (SIGBUS). The process then ends with exit code 1 and an error that names the
/// file, unless its program handles that signal itself.
class MappedFile {
public:
  MappedFile() = default;
  /// Maps all of an open regular file. Messages say what is wrong without naming the file; the code
  /// is InvalidArgument if it is no regular file.
  static Result<MappedFile> map(int descriptor);
  MappedFile(MappedFile &&other) noexcept : all(std::exchange(other.all, {})) {}
  MappedFile &operator=(MappedFile &&other) noexcept {
    std::swap(all, other.all);
    return *this;
  }
  ~MappedFile();

  std::span<const std::byte> bytes() const { return all; }

private:
  std::span<const std::byte> all;
};

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_MAPPEDFILE_H
