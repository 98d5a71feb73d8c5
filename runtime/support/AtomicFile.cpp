#include "runtime/support/AtomicFile.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace omnibal::rt {
namespace {

Status ioError(const std::string &path, const char *what, int error) {
  std::string message = path + ": " + what + " failed: " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    message += " (free some space or choose another folder; nothing was changed)";
  return {Code::Unavailable, message};
}

} // namespace

Result<AtomicFile> AtomicFile::create(const std::string &path, int64_t expectedBytes) {
  AtomicFile file;
  file.target = path;
  // The process number keeps two runs apart that write to one folder by mistake.
  file.temporary = path + ".tmp-" + std::to_string(::getpid());
  file.descriptor = ::open(file.temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file.descriptor < 0)
    return ioError(path, "creating the file", errno);
  if (expectedBytes > 0 && ::fallocate(file.descriptor, FALLOC_FL_KEEP_SIZE, 0, expectedBytes) &&
      errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR)
    return ioError(path, "reserving space for the file", errno);
  return file;
}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept { *this = std::move(other); }

AtomicFile &AtomicFile::operator=(AtomicFile &&other) noexcept {
  if (this != &other) {
    discard();
    target = std::move(other.target);
    temporary = std::move(other.temporary);
    descriptor = std::exchange(other.descriptor, -1);
  }
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (descriptor < 0)
    return;
  ::close(descriptor);
  ::unlink(temporary.c_str());
  descriptor = -1;
}

Status AtomicFile::write(const void *data, size_t bytes) {
  const int error = writeAll(descriptor, data, bytes);
  return error == 0 ? Status::ok() : ioError(target, "writing", error);
}

int writeAll(int descriptor, const void *data, size_t bytes) {
  const char *at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t done = ::write(descriptor, at, bytes);
    if (done < 0) {
      if (errno == EINTR)
        continue;
      return errno;
    }
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return 0;
}

Status AtomicFile::commit() {
  if (::fsync(descriptor))
    return ioError(target, "flushing to the disk", errno);
  int fd = std::exchange(descriptor, -1);
  if (::close(fd) || ::rename(temporary.c_str(), target.c_str())) {
    int error = errno;
    ::unlink(temporary.c_str());
    return ioError(target, "finishing the file", error);
  }
  std::string folder = std::filesystem::path(target).parent_path().string();
  return syncFolder(folder.empty() ? "." : folder);
}

Status writeFileAtomically(const std::string &path, std::string_view text) {
  OMNIBAL_ASSIGN_OR_RETURN(AtomicFile file,
                           AtomicFile::create(path, static_cast<int64_t>(text.size())));
  OMNIBAL_RETURN_IF_ERROR(file.write(text.data(), text.size()));
  return file.commit();
}

Status syncFolder(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return ioError(path, "opening the folder", errno);
  // Some file systems do not flush folders; they say EINVAL and are then as safe as they get.
  int failed = ::fsync(fd) && errno != EINVAL ? errno : 0;
  ::close(fd);
  return failed ? ioError(path, "flushing the folder", failed) : Status::ok();
}

Result<std::string> readWholeFile(int descriptor, const std::string &path) {
  std::string text;
  char block[1 << 16];
  ssize_t got;
  while ((got = ::read(descriptor, block, sizeof block)) != 0) {
    if (got > 0)
      text.append(block, static_cast<size_t>(got));
    else if (errno != EINTR)
      return ioError(path, "reading", errno);
  }
  return text;
}

Result<std::string> readWholeFile(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return Status(errno == ENOENT ? Code::NotFound : Code::Unavailable,
                  path + ": " + std::strerror(errno));
  Result<std::string> text = readWholeFile(fd, path);
  ::close(fd);
  return text;
}

} // namespace omnibal::rt
