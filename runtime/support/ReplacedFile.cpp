#include "runtime/support/ReplacedFile.h"
#include "runtime/support/AtomicFile.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace omnibal::rt {

Status replaceFile(const std::string &path, std::string_view text) {
  const std::string temporary = path + ".tmp-" + std::to_string(::getpid());
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0)
    return {Code::Unavailable, path + ": creating the file failed: " + std::strerror(errno)};
  int error = writeAll(file, text.data(), text.size());
  if (::close(file) && error == 0)
    error = errno;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()))
    error = errno;
  if (error == 0)
    return Status::ok();
  ::unlink(temporary.c_str());
  return {Code::Unavailable, path + ": writing the file failed: " + std::strerror(error)};
}

} // namespace omnibal::rt
