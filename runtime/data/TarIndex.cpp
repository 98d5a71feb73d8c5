#include "runtime/data/TarIndex.h"
#include <archive.h>
#include <archive_entry.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace omnibal::rt {
namespace {

constexpr int64_t tarBlock = 512;

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0)
      ::close(fd);
  }
};

/// A tar ends with blocks of zeros; a file cut exactly between two members lacks them.
bool zeroBlockAt(int fd, int64_t offset) {
  char block[tarBlock];
  if (::pread(fd, block, sizeof block, offset) != sizeof block)
    return false;
  for (char byte : block)
    if (byte)
      return false;
  return true;
}

} // namespace

Result<std::vector<TarMember>> indexTar(const std::string &path) {
  auto damaged = [&](const std::string &what) {
    return Status(Code::DataLoss,
                  path + ": " + what + " (copy or write the shard again; it must be a plain tar)");
  };
  // A pipe is refused below, and nobody waits for one who writes into it.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0)
    return Status(errno == ENOENT ? Code::NotFound : Code::Unavailable,
                  path + ": " + std::strerror(errno));
  struct stat info{};
  if (::fstat(file.fd, &info) || !S_ISREG(info.st_mode))
    return invalid(path + ": not a regular file; a tar shard is needed");

  std::unique_ptr<archive, int (*)(archive *)> reader(archive_read_new(), archive_read_free);
  archive_read_support_format_tar(reader.get());
  archive_read_support_format_gnutar(reader.get());
  // Contents are skipped: no more is read than the block of a header.
  if (archive_read_open_fd(reader.get(), file.fd, tarBlock) != ARCHIVE_OK)
    return damaged(std::string("not a tar file: ") + archive_error_string(reader.get()));

  std::vector<TarMember> members;
  int64_t end = 0; // where the last member's blocks end
  for (;;) {
    archive_entry *entry = nullptr;
    int code = archive_read_next_header(reader.get(), &entry);
    if (code == ARCHIVE_EOF)
      break;
    // ARCHIVE_WARN is only about names that the locale cannot show.
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) {
      const char *why = archive_error_string(reader.get());
      return damaged(std::string("damaged or truncated tar after ") +
                     std::to_string(members.size()) + " members" + (why ? ": " : "") +
                     (why ? why : ""));
    }
    const char *utf8 = archive_entry_pathname_utf8(entry);
    const char *raw = utf8 ? utf8 : archive_entry_pathname(entry);
    std::string name = raw ? raw : "";
    int64_t offset = archive_filter_bytes(reader.get(), 0), bytes = archive_entry_size(entry);
    if (archive_entry_filetype(entry) == AE_IFDIR)
      continue;
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) ||
        archive_entry_sparse_count(entry) > 0)
      return damaged("the member " + name +
                     " is a link, sparse or special file; only regular "
                     "files are read");
    if (bytes < 0 || offset > info.st_size - bytes)
      return damaged("truncated: the member " + name + " ends beyond the end of the file");
    end = offset + (bytes + tarBlock - 1) / tarBlock * tarBlock;
    members.push_back({std::move(name), offset, bytes});
  }
  if (!zeroBlockAt(file.fd, end))
    return damaged("truncated: after " + std::to_string(members.size()) +
                   " members the end-of-archive marker is missing");
  return members;
}

} // namespace omnibal::rt
