//===- FolderFiles.h - The files of a model's folder, and no others ----------------------===//
//
// A model's folder was made by others: an index or a graph in it names files, and files may be
// symbolic links. What is opened here lies in the folder. Links are followed where their target
// lies in an admitted folder only: in the model's own cache (the Hugging Face cache keeps a model
// in models--X: snapshots/REVISION holds links into blobs) or in one that the user names. The
// kernel opens beneath the admitted folder (openat2), so nothing can be swapped between check and
// use.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_SUPPORT_FOLDERFILES_H
#define RUNTIME_SUPPORT_FOLDERFILES_H

#include "runtime/support/Status.h"
#include <string>
#include <utility>
#include <vector>

namespace omnibal::rt {

/// Closes itself.
class FileDescriptor {
public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number(number) {}
  FileDescriptor(FileDescriptor &&other) noexcept : number(std::exchange(other.number, -1)) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~FileDescriptor();
  int get() const { return number; }
  explicit operator bool() const { return number >= 0; }

private:
  int number = -1;
};

class FolderFiles {
public:
  FolderFiles() : FolderFiles(".") {}
  /// `linkFolders`: where symbolic links may lead besides the cache that the folder belongs to.
  explicit FolderFiles(std::string folder, std::vector<std::string> linkFolders = {});

  /// Opens a file for reading. Messages say what is wrong with the file without naming it ("is an
  /// absolute path"); the code is NotFound if nothing is there.
  Result<FileDescriptor> open(const std::string &name) const;
  /// A regular file's contents; messages name it.
  Result<std::string> read(const std::string &name) const;

  const std::string &folder() const { return path; }
  /// models--X if the folder is a snapshot in it, else empty.
  const std::string &cache() const { return cacheRoot; }
  std::string pathOf(const std::string &name) const;

private:
  Result<FileDescriptor> openLink(const std::string &name) const;

  std::string path, cacheRoot;
  std::vector<std::string> linkFolders;
};

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_FOLDERFILES_H
