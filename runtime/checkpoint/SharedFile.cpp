#include "runtime/checkpoint/SharedFile.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace omnibal::rt {

SharedFile::~SharedFile() {
  if (fd >= 0)
    ::close(fd);
}

Status SharedFile::create(int64_t bytes) {
  fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  return fd < 0 ? error("creating the file") : resize(bytes);
}

Status SharedFile::open() {
  fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  return fd < 0 ? error("opening the file that the first rank created (is the folder shared "
                        "by all ranks?)")
                : Status::ok();
}

Status SharedFile::openOrCreate() {
  fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  return fd < 0 ? error("creating the file") : Status::ok();
}

Status SharedFile::resize(int64_t bytes) {
  if (::fallocate(fd, 0, 0, bytes) && errno != EOPNOTSUPP && errno != ENOSYS)
    return error("reserving space for the file");
  return ::ftruncate(fd, bytes) ? error("reserving space for the file") : Status::ok();
}

Status SharedFile::write(const void *data, size_t bytes, int64_t offset) {
  const char *at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t done = ::pwrite(fd, at, bytes, offset);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return error("writing");
    at += done;
    offset += done;
    bytes -= static_cast<size_t>(done);
  }
  return Status::ok();
}

Status SharedFile::flush() { return ::fsync(fd) ? error("flushing to the disk") : Status::ok(); }

Status SharedFile::error(const char *what) const {
  return {Code::Unavailable,
          target + ": " + what + " failed: " + std::strerror(errno) +
              (errno == ENOSPC || errno == EFBIG || errno == EDQUOT
                   ? " (free some space or choose another folder; nothing was changed)"
                   : "")};
}

} // namespace omnibal::rt
