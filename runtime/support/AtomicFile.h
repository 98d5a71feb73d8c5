//===- AtomicFile.h - Files that are complete or invisible -------------------------------===//
//
// Data goes to a temporary file next to the target. commit() flushes it to the disk, renames it
// over the target and flushes the folder. Without commit() the temporary file is removed and the
// target is as it was. A full disk is an error with the file's name; where the file system can
// reserve space, it is found then.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_SUPPORT_ATOMICFILE_H
#define RUNTIME_SUPPORT_ATOMICFILE_H

#include "runtime/support/Status.h"
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace omnibal::rt {

class AtomicFile {
public:
  /// `expectedBytes` > 0 reserves that much space at once.
  static Result<AtomicFile> create(const std::string &path, int64_t expectedBytes = 0);
  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&other) noexcept;
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;
  ~AtomicFile();

  Status write(const void *data, size_t bytes);
  Status commit();
  const std::string &path() const { return target; }

private:
  AtomicFile() = default;
  void discard();

  std::string target, temporary;
  int descriptor = -1;
};

/// Writes all bytes to an open file; returns 0, or the `errno` of what failed.
int writeAll(int descriptor, const void *data, size_t bytes);
/// Writes `text` as the whole of `path`, atomically.
Status writeFileAtomically(const std::string &path, std::string_view text);
/// Flushes a folder's entries (renames, new files) to the disk.
Status syncFolder(const std::string &path);
/// Reads the whole file; an error names it.
Result<std::string> readWholeFile(const std::string &path);
/// Reads the rest of an open file; `path` names it in errors.
Result<std::string> readWholeFile(int descriptor, const std::string &path);

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_ATOMICFILE_H
