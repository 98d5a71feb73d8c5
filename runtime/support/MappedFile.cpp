#include "runtime/support/MappedFile.h"
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace omnibal::rt {
namespace {

/// Reads /proc/self/maps in a signal handler: it calls only what signal-safety(7) allows.
class MemoryMaps {
public:
  MemoryMaps() : file(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  MemoryMaps(const MemoryMaps &) = delete;
  MemoryMaps &operator=(const MemoryMaps &) = delete;
  ~MemoryMaps() {
    if (file >= 0)
      ::close(file);
  }

  /// Returns the path of the file that is mapped at an address; empty if none is.
  std::string_view fileAt(uintptr_t address) {
    for (next(); here != 0;) { // "begin-end rights offset device inode   path"
      const uintptr_t begin = readHex();
      next();
      const uintptr_t end = readHex();
      while (here != 0 && here != '\n' && here != '/')
        next();
      size_t length = 0;
      for (; here != 0 && here != '\n'; next())
        if (length < sizeof path)
          path[length++] = here;
      if (begin <= address && address < end)
        return {path, length};
      next();
    }
    return {};
  }

private:
  /// 0 at the end.
  void next() {
    if (at == have) {
      const ssize_t got = ::read(file, block, sizeof block);
      have = got > 0 ? static_cast<size_t>(got) : 0;
      at = 0;
    }
    here = at < have ? block[at++] : '\0';
  }
  uintptr_t readHex() {
    uintptr_t value = 0;
    for (;; next()) {
      if (here >= '0' && here <= '9')
        value = value * 16 + static_cast<uintptr_t>(here - '0');
      else if (here >= 'a' && here <= 'f')
        value = value * 16 + static_cast<uintptr_t>(here - 'a' + 10);
      else
        return value;
    }
  }

  int file;
  char block[1024];
  size_t at = 0, have = 0;
  char here = '\0';
  char path[PATH_MAX];
};

void say(std::string_view text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

void endByName(int signal, siginfo_t *info, void *) {
  MemoryMaps maps;
  const std::string_view path = maps.fileAt(reinterpret_cast<uintptr_t>(info->si_addr));
  if (path.empty()) { // something else: what would have happened without this handler
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  say("error: ");
  say(path);
  say(" cannot be read any more: it became shorter, was replaced or its disk failed while it was "
      "in use; leave files alone that a run reads, and start it again\n");
  ::_exit(1);
}

/// Leaves the handlers of others alone, such as those of sanitizers.
void nameFilesThatGo() {
  struct sigaction action = {};
  if (::sigaction(SIGBUS, nullptr, &action) || action.sa_handler != SIG_DFL)
    return;
  action = {};
  action.sa_sigaction = endByName;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

} // namespace

Result<MappedFile> MappedFile::map(int descriptor) {
  struct stat info{};
  if (::fstat(descriptor, &info))
    return Status(Code::Unavailable, std::string("cannot be read: ") + std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    return invalid("not a regular file");
  MappedFile file;
  if (info.st_size == 0)
    return file;
  const auto size = static_cast<size_t>(info.st_size);
  void *at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (at == MAP_FAILED)
    return Status(Code::Unavailable, std::string("mapping failed: ") + std::strerror(errno));
  file.all = {static_cast<const std::byte *>(at), size};
  nameFilesThatGo();
  return file;
}

MappedFile::~MappedFile() {
  if (!all.empty())
    ::munmap(const_cast<std::byte *>(all.data()), all.size());
}

} // namespace omnibal::rt
