#include "runtime/checkpoint/SharedTensorFile.h"
#include "runtime/checkpoint/TensorBytes.h"
#include "runtime/core/AtomicFile.h"
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <unordered_map>

namespace omnibal::rt {
namespace {

/// The temporary, which all ranks open; closed with the object.
class SharedFile {
public:
  SharedFile(std::string target, std::string temporary)
      : target(std::move(target)), temporary(std::move(temporary)) {}
  ~SharedFile() {
    if (fd >= 0)
      ::close(fd);
  }
  Status create(int64_t bytes) {
    fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
      return error("creating the file");
    // Space is claimed now: a full disk is found before anything is written.
    if (::fallocate(fd, 0, 0, bytes) && errno != EOPNOTSUPP && errno != ENOSYS)
      return error("reserving space for the file");
    return ::ftruncate(fd, bytes) ? error("reserving space for the file") : Status::ok();
  }
  Status open() {
    fd = ::open(temporary.c_str(), O_WRONLY | O_CLOEXEC);
    return fd < 0 ? error("opening the file that the first rank created (is the folder shared "
                          "by all ranks?)")
                  : Status::ok();
  }
  Status write(const void *data, size_t bytes, int64_t offset) {
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
  Status flush() { return ::fsync(fd) ? error("flushing to the disk") : Status::ok(); }
  Status error(const char *what) const {
    return {Code::Unavailable,
            target + ": " + what + " failed: " + std::strerror(errno) +
                (errno == ENOSPC || errno == EFBIG || errno == EDQUOT
                     ? " (free some space or choose another folder; nothing was changed)"
                     : "")};
  }

private:
  std::string target, temporary;
  int fd = -1;
};

Status writeMine(SharedFile &file, const std::vector<TensorHeader> &tensors,
                 const SafetensorsLayout &layout, const std::vector<NamedTensor> &mine,
                 const std::vector<const StoredTensor *> &copied) {
  std::unordered_map<std::string, size_t> index;
  for (size_t i = 0; i < tensors.size(); ++i)
    index.emplace(tensors[i].name, i);
  for (const NamedTensor &tensor : mine) {
    auto it = index.find(tensor.name);
    if (it == index.end() || tensors[it->second].shape != tensor.shape ||
        tensors[it->second].dtype != StoredType::F32)
      return {Code::Internal, "tensor \"" + tensor.name + "\" is not in the file's layout"};
    int64_t at = layout.offsets[it->second];
    OMNIBAL_RETURN_IF_ERROR(streamTensor(tensor, [&](const void *data, size_t bytes) {
      int64_t here = at;
      at += static_cast<int64_t>(bytes);
      return file.write(data, bytes, here);
    }));
  }
  for (const StoredTensor *tensor : copied) {
    auto it = index.find(tensor->name);
    if (it == index.end() || tensors[it->second].shape != tensor->shape ||
        tensors[it->second].dtype != tensor->dtype)
      return {Code::Internal, "tensor \"" + tensor->name + "\" is not in the file's layout"};
    OMNIBAL_RETURN_IF_ERROR(
        file.write(tensor->data, size_t(tensor->bytes), layout.offsets[it->second]));
  }
  return file.flush();
}

} // namespace

Status writeSharedTensorFile(const std::string &path, const std::vector<TensorHeader> &tensors,
                             const std::map<std::string, std::string> &metadata,
                             const std::vector<NamedTensor> &mine,
                             const std::vector<const StoredTensor *> &copied, bool leads,
                             const Agreement &agree) {
  Result<SafetensorsLayout> layout = layOut(tensors, metadata);
  std::string temporary = path + ".incomplete";
  SharedFile file(path, temporary);
  Status status = layout.status();
  if (leads && status) {
    status = file.create(layout->fileBytes);
    if (status)
      status = file.write(layout->header.data(), layout->header.size(), 0);
  }
  status = agree(std::move(status));
  if (status) {
    const bool writes = leads || !mine.empty();
    if (!leads && writes)
      status = file.open();
    if (status && writes)
      status = writeMine(file, tensors, *layout, mine,
                         leads ? copied : std::vector<const StoredTensor *>());
    status = agree(std::move(status));
  }
  if (!status) {
    if (leads)
      ::unlink(temporary.c_str());
    return status;
  }
  if (leads) {
    if (::rename(temporary.c_str(), path.c_str()))
      status = file.error("finishing the file");
    std::string folder = std::filesystem::path(path).parent_path().string();
    if (status)
      status = syncFolder(folder.empty() ? "." : folder);
  }
  return agree(std::move(status));
}

} // namespace omnibal::rt
