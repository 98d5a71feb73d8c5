//===- SharedFile.h - A file that several ranks write at their places -------------------------===//
#ifndef RUNTIME_CHECKPOINT_SHAREDFILE_H
#define RUNTIME_CHECKPOINT_SHAREDFILE_H

#include "runtime/support/Status.h"
#include <cstdint>
#include <string>

namespace omnibal::rt {

/// Closed with the object. Errors name `target`, what the file will be called.
class SharedFile {
public:
  SharedFile(std::string target, std::string path)
      : target(std::move(target)), path(std::move(path)) {}
  ~SharedFile();
  SharedFile(const SharedFile &) = delete;

  /// Makes it anew. Space is claimed now: a full disk is found before anything is written.
  Status create(int64_t bytes);
  /// Opens what another rank has created.
  Status open();
  /// Opens it, or makes it where no other rank has yet.
  Status openOrCreate();
  /// Claims space and cuts off what is behind; what other ranks have written stays.
  Status resize(int64_t bytes);
  Status write(const void *data, size_t bytes, int64_t offset);
  Status flush();
  Status error(const char *what) const;

private:
  std::string target, path;
  int fd = -1;
};

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_SHAREDFILE_H
