#include "runtime/support/FolderFiles.h"
#include "runtime/support/AtomicFile.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

/// What is wrong with a name as text; empty if nothing is.
std::string nameProblem(const std::string &name) {
  if (name.empty())
    return "is empty";
  if (name.find('\0') != std::string::npos)
    return "contains a zero byte";
  fs::path path(name);
  if (path.is_absolute())
    return "is an absolute path";
  for (const fs::path &part : path)
    if (part == "..")
      return "leads out of the model's folder by '..'";
  return {};
}

/// models--X of a folder models--X/snapshots/REVISION, without links; else empty.
std::string cacheOf(const std::string &folder) {
  std::error_code error;
  fs::path real = fs::canonical(folder, error);
  if (error || real.parent_path().filename() != "snapshots")
    return {};
  fs::path root = real.parent_path().parent_path();
  return root.filename().string().starts_with("models--") ? root.string() : std::string();
}

/// Opens `path` below `directory`, following no link: each part for itself, for kernels that lack
/// openat2.
int openPartwise(int directory, const std::string &path) {
  int at = ::dup(directory);
  fs::path parts(path);
  for (auto part = parts.begin(); part != parts.end() && at >= 0; ++part) {
    bool last = std::next(part) == parts.end();
    int next = ::openat(at, part->c_str(),
                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
    int error = errno;
    ::close(at);
    errno = error;
    at = next;
  }
  return at;
}

/// Opens `name` below `folder`, following no link; errno is ELOOP or EXDEV where there is one.
FileDescriptor openBeneath(const std::string &folder, const std::string &name) {
  FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory)
    return {};
  open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long fd = ::syscall(SYS_openat2, directory.get(), name.c_str(), &how, sizeof(how));
  if (fd < 0 && (errno == ENOSYS || errno == EPERM))
    fd = openPartwise(directory.get(), name);
  return FileDescriptor(static_cast<int>(fd));
}

/// Returns what is left of a path without links below `folder`; empty if it lies elsewhere.
std::string below(const fs::path &target, const std::string &folder) {
  std::error_code error;
  fs::path root = fs::canonical(folder, error);
  if (error)
    return {};
  auto [rootEnd, rest] = std::mismatch(root.begin(), root.end(), target.begin(), target.end());
  if (rootEnd != root.end())
    return {};
  fs::path relative;
  for (; rest != target.end(); ++rest)
    relative /= *rest;
  return relative.string();
}

Status openError(int error) {
  return {error == ENOENT ? Code::NotFound : Code::Unavailable,
          std::string("cannot be opened: ") + std::strerror(error)};
}

bool isLinkError(int error) { return error == ELOOP || error == EXDEV; }

} // namespace

FileDescriptor::~FileDescriptor() {
  if (number < 0)
    return;
  int error = errno; // of what the descriptor was used for
  ::close(number);
  errno = error;
}

FolderFiles::FolderFiles(std::string folder, std::vector<std::string> links)
    : path(folder.empty() ? "." : std::move(folder)), cacheRoot(cacheOf(path)),
      linkFolders(std::move(links)) {}

std::string FolderFiles::pathOf(const std::string &name) const {
  return (fs::path(path) / name).string();
}

Result<FileDescriptor> FolderFiles::open(const std::string &name) const {
  if (std::string problem = nameProblem(name); !problem.empty())
    return invalid(problem);
  FileDescriptor file = openBeneath(path, name);
  if (file)
    return file;
  if (isLinkError(errno))
    return openLink(name);
  return openError(errno);
}

/// `name` is a link or lies behind one.
Result<FileDescriptor> FolderFiles::openLink(const std::string &name) const {
  if (cacheRoot.empty() && linkFolders.empty())
    return invalid("goes through a symbolic link; name the folder that it leads into with "
                   "--allow-links-within, or copy the file");
  std::error_code error;
  fs::path target = fs::canonical(pathOf(name), error);
  if (error == std::errc::no_such_file_or_directory)
    return invalid("is a symbolic link that leads to no file (an interrupted download?); download "
                   "the model again");
  if (error)
    return openError(error.value());
  std::vector<std::string> admitted = {path};
  if (!cacheRoot.empty())
    admitted.push_back(cacheRoot);
  admitted.insert(admitted.end(), linkFolders.begin(), linkFolders.end());
  for (const std::string &root : admitted) {
    std::string rest = below(target, root);
    if (rest.empty())
      continue;
    FileDescriptor file = openBeneath(fs::canonical(root, error).string(), rest);
    if (file)
      return file;
    if (isLinkError(errno)) // the path held no link a moment ago
      return invalid("was replaced by a symbolic link while it was opened");
    return openError(errno);
  }
  return invalid("leads to '" + target.string() + "', outside " +
                 (cacheRoot.empty() ? "the model's folder and the admitted link folders"
                                    : "the model's cache '" + cacheRoot + "'") +
                 "; name the folder that it may lead into with --allow-links-within, or copy the "
                 "file");
}

Result<std::string> FolderFiles::read(const std::string &name) const {
  auto file = open(name);
  if (!file)
    return Status(file.status().code(), pathOf(name) + " " + file.status().message());
  struct stat info{};
  if (::fstat(file->get(), &info) || !S_ISREG(info.st_mode))
    return invalid(pathOf(name) + " is not a regular file");
  return readWholeFile(file->get(), pathOf(name));
}

} // namespace omnibal::rt
