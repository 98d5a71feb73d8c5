//===- ExternalData.cpp - Files that hold a model's weights ------------------------------===//
#include "importers/onnx/ExternalData.h"
#include "importers/onnx/Diagnostics.h"
#include "importers/onnx/Tensors.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace mlir;

namespace omnibal::onnx {

ExternalFile::~ExternalFile() {
  safetensors.reset();
  if (!bytes.empty())
    munmap(const_cast<char *>(bytes.data()), bytes.size());
}

ExternalFiles::ExternalFiles(std::string modelPath, std::vector<std::string> linkFolders)
    : folder(std::filesystem::path(modelPath).parent_path().string()),
      linkFolders(std::move(linkFolders)) {
  if (folder.empty())
    folder = ".";
}

namespace {

/// What is wrong with the path as text; empty if nothing is.
std::string pathProblem(const std::string &location) {
  if (location.empty())
    return "is empty";
  if (location.find('\0') != std::string::npos)
    return "contains a zero byte";
  std::filesystem::path path(location);
  if (path.is_absolute())
    return "is an absolute path";
  for (const std::filesystem::path &part : path)
    if (part == "..")
      return "leads out of the model's folder by '..'";
  return {};
}

bool isWithin(const std::filesystem::path &file, const std::string &folder) {
  std::error_code error;
  std::filesystem::path root = std::filesystem::canonical(folder, error);
  if (error)
    return false;
  auto [rootEnd, fileAt] = std::mismatch(root.begin(), root.end(), file.begin(), file.end());
  return rootEnd == root.end() && fileAt != file.end();
}

/// Opens `path` below `directory`, following no link: each part for itself, for kernels that lack
/// openat2.
int openPartwise(int directory, const std::string &path) {
  int at = dup(directory);
  std::filesystem::path parts(path);
  for (auto part = parts.begin(); part != parts.end() && at >= 0; ++part) {
    bool last = std::next(part) == parts.end();
    int next = openat(at, part->c_str(),
                      O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
    int error = errno;
    close(at);
    errno = error;
    at = next;
  }
  return at;
}

} // namespace

int ExternalFiles::openInside(const std::string &location, std::string &problem) const {
  if (!linkFolders.empty()) {
    std::error_code error;
    std::filesystem::path target =
        std::filesystem::canonical(std::filesystem::path(folder) / location, error);
    if (error) {
      errno = error.value();
      return -1;
    }
    bool admitted = isWithin(target, folder);
    for (const std::string &links : linkFolders)
      admitted |= isWithin(target, links);
    if (!admitted) {
      problem = "leads to '" + target.string() +
                "', outside the model's folder and the admitted "
                "link folders";
      errno = ELOOP;
      return -1;
    }
    // The canonical path holds no link any more; O_NOFOLLOW catches one swapped in since.
    return ::open(target.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  }
  int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0)
    return -1;
  open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long fd = syscall(SYS_openat2, directory, location.c_str(), &how, sizeof(how));
  if (fd < 0 && (errno == ENOSYS || errno == EPERM))
    fd = openPartwise(directory, location);
  int error = errno;
  close(directory);
  errno = error;
  if (fd < 0 && (errno == ELOOP || errno == EXDEV))
    problem = "goes through a symbolic link; name the folder that it leads into with "
              "--allow-links-within, or copy the file";
  return static_cast<int>(fd);
}

FailureOr<const ExternalFile *> ExternalFiles::open(const std::string &location, Location where) {
  auto [entry, isNew] = files.try_emplace(location);
  if (!isNew && !entry->second)
    return failure();
  if (!isNew)
    return entry->second.get();
  // A file that failed once stays a null entry: the error was given.
  auto complain = [&](const std::string &problem) {
    return invalidModel(where) << "external data file '" << location << "' " << problem;
  };
  if (std::string problem = pathProblem(location); !problem.empty())
    return complain(problem);
  std::string problem;
  int fd = openInside(location, problem);
  if (fd < 0 && !problem.empty())
    return complain(problem);
  if (fd < 0 && errno != ENOENT)
    return complain(std::string("cannot be opened: ") + std::strerror(errno));
  auto file = std::make_unique<ExternalFile>();
  if (fd < 0) {
    file->absent = true;
    emitWarning(where) << "external data file '" << location << "' is absent from '" << folder
                       << "'; parameters have names, shapes and types but no values";
    return (entry->second = std::move(file)).get();
  }
  llvm::scope_exit closer([fd] { close(fd); });
  struct stat status = {};
  if (fstat(fd, &status) != 0)
    return complain(std::string("cannot be read: ") + std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    return complain("is not a regular file");
  if (status.st_nlink != 1)
    return complain("is a hard link (" + std::to_string(status.st_nlink) +
                    " names); copy it, so that it is the model's own");
  if (status.st_size > 0) {
    void *map = mmap(nullptr, size_t(status.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
      return complain(std::string("cannot be mapped: ") + std::strerror(errno));
    file->bytes = {static_cast<const char *>(map), size_t(status.st_size)};
  }
  if (llvm::StringRef(location).ends_with(".safetensors")) {
    auto view = rt::SafetensorsFile::view(
        {reinterpret_cast<const std::byte *>(file->bytes.data()), file->bytes.size()}, location);
    if (!view)
      return complain("is damaged: " + view.status().message());
    file->safetensors = *view;
  }
  return (entry->second = std::move(file)).get();
}

FailureOr<ExternalRange> ExternalFiles::locate(const TensorProto &tensor, Location where) {
  ExternalRange range;
  bool hasLength = false;
  for (const StringStringEntryProto &entry : tensor.external_data()) {
    if (entry.key() == "location") {
      range.location = entry.value();
    } else if (entry.key() == "offset" || entry.key() == "length") {
      int64_t &number = entry.key() == "offset" ? range.offset : range.length;
      hasLength |= entry.key() == "length";
      if (llvm::StringRef(entry.value()).getAsInteger(10, number) || number < 0)
        return invalidModel(where) << "tensor '" << tensor.name() << "' has the external data "
                                   << entry.key() << " '" << entry.value() << "'";
    }
  }
  FailureOr<const ExternalFile *> file = open(range.location, where);
  if (failed(file))
    return failure();
  range.file = *file;
  int64_t needed = rawBytes(tensor);
  if (!hasLength)
    range.length = needed;
  if (range.length != needed)
    return invalidModel(where) << "tensor '" << tensor.name() << "' needs " << needed
                               << " bytes but its external data has length " << range.length;
  int64_t size = int64_t(range.file->bytes.size());
  if (!range.file->absent && (range.offset > size || range.length > size - range.offset))
    return invalidModel(where) << "tensor '" << tensor.name() << "' lies at bytes [" << range.offset
                               << ", " << range.offset << " + " << range.length << ") of '"
                               << range.location << "', which has " << size
                               << " bytes; the file is truncated or not the one exported";
  return range;
}

FailureOr<llvm::ArrayRef<char>> ExternalFiles::read(const TensorProto &tensor, Location where) {
  FailureOr<ExternalRange> range = locate(tensor, where);
  if (failed(range))
    return failure();
  if (range->file->absent)
    return invalidModel(where) << "the value of '" << tensor.name()
                               << "' is needed, but its external data file '" << range->location
                               << "' is absent";
  return range->file->bytes.slice(size_t(range->offset), size_t(range->length));
}

} // namespace omnibal::onnx
