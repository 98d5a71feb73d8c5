//===- DiskFaults.cpp - A disk that is slow, fails, or loses what was not flushed -------------===//
//
// A library for LD_PRELOAD. Variables of the environment say what happens to calls about paths that
// begin with DISK_FAULTS_FOLDER:
//
//   DISK_FAULTS_CALLS    names of calls with commas between them: open, write, fsync, rename
//   DISK_FAULTS_DELAY    each of them takes so many seconds longer
//   DISK_FAULTS_DELAYED  only so many of the process's first ones do
//   DISK_FAULTS_FAIL     N:ERROR: from the process's N-th of them on they fail with this number
//   DISK_FAULTS_FLUSHED  folder that gets what a power cut would leave: at every fsync of a file
//                        its contents, as inode.file, and at every fsync of a folder the names and
//                        inodes of its entries, as inode.folder
//   DISK_FAULTS_THREADS  N: the process's N-th thread and later ones cannot be started
//
//===-------------------------------------------------------------------------------------------===//
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace {

template <typename Function> Function next(const char *name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

const char *setting(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

bool concerns(const char *path) {
  const char *folder = setting("DISK_FAULTS_FOLDER");
  return *folder && path && std::strncmp(path, folder, std::strlen(folder)) == 0;
}
std::string pathOf(int descriptor) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = readlink(link.c_str(), path, sizeof path);
  return length < 0 ? "" : std::string(path, static_cast<size_t>(length));
}

/// Waits if the call is to take longer; true if it is to fail, with errno set.
bool meets(const char *call, const char *path) {
  if (!concerns(path))
    return false;
  const std::string calls = "," + std::string(setting("DISK_FAULTS_CALLS")) + ",";
  if (calls.find("," + std::string(call) + ",") == std::string::npos)
    return false;
  const double delay = std::atof(setting("DISK_FAULTS_DELAY"));
  static std::atomic<int> delayed = 0;
  const int most = std::atoi(setting("DISK_FAULTS_DELAYED"));
  if (delay > 0 && (most == 0 || ++delayed <= most))
    std::this_thread::sleep_for(std::chrono::duration<double>(delay));
  int first = 0, error = 0;
  static std::atomic<int> met = 0;
  if (std::sscanf(setting("DISK_FAULTS_FAIL"), "%d:%d", &first, &error) != 2 || ++met < first)
    return false;
  errno = error;
  return true;
}

/// Files appear in the folder as a whole: the process may be killed at any moment.
void publish(const std::string &name, const std::string &bytes) {
  static std::atomic<int> number = 0;
  const std::string target = std::string(setting("DISK_FAULTS_FLUSHED")) + "/" + name;
  const std::string temporary =
      target + "." + std::to_string(getpid()) + "." + std::to_string(++number);
  FILE *file = std::fopen(temporary.c_str(), "wb");
  if (!file || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() ||
      std::fclose(file) != 0 ||
      next<int (*)(const char *, const char *)>("rename")(temporary.c_str(), target.c_str()) != 0)
    std::abort();
}

std::string contentsOf(const std::string &path) {
  std::string bytes;
  if (FILE *file = std::fopen(path.c_str(), "rb")) {
    char block[1 << 16];
    for (size_t got; (got = std::fread(block, 1, sizeof block, file)) > 0;)
      bytes.append(block, got);
    std::fclose(file);
  }
  return bytes;
}

std::string entriesOf(const std::string &path) {
  std::string text;
  if (DIR *folder = opendir(path.c_str())) {
    while (const dirent *entry = readdir(folder))
      if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
        text += std::to_string(entry->d_ino) + (entry->d_type == DT_DIR ? " d " : " f ") +
                entry->d_name + "\n";
    closedir(folder);
  }
  return text;
}

/// What has been flushed stays even if the power is cut.
void keepFlushed(int descriptor) {
  const std::string path = pathOf(descriptor);
  struct stat found{};
  if (!*setting("DISK_FAULTS_FLUSHED") || !concerns(path.c_str()) || fstat(descriptor, &found) != 0)
    return;
  const std::string inode = std::to_string(found.st_ino);
  if (S_ISDIR(found.st_mode))
    publish(inode + ".folder", entriesOf(path));
  else
    publish(inode + ".file", contentsOf(path));
}

int openAs(const char *name, const char *path, int flags, mode_t mode) {
  if (meets("open", path))
    return -1;
  return next<int (*)(const char *, int, ...)>(name)(path, flags, mode);
}

mode_t modeOf(int flags, va_list rest) {
  return (flags & (O_CREAT | O_TMPFILE)) ? static_cast<mode_t>(va_arg(rest, int)) : 0;
}

} // namespace

#define DISK_FAULTS_OPEN(NAME)                                                                     \
  extern "C" int NAME(const char *path, int flags, ...) {                                          \
    va_list rest;                                                                                  \
    va_start(rest, flags);                                                                         \
    const mode_t mode = modeOf(flags, rest);                                                       \
    va_end(rest);                                                                                  \
    return openAs(#NAME, path, flags, mode);                                                       \
  }
DISK_FAULTS_OPEN(open)
DISK_FAULTS_OPEN(open64)

extern "C" ssize_t write(int descriptor, const void *data, size_t bytes) {
  if (*setting("DISK_FAULTS_FOLDER") && meets("write", pathOf(descriptor).c_str()))
    return -1;
  return next<ssize_t (*)(int, const void *, size_t)>("write")(descriptor, data, bytes);
}

extern "C" ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t at) {
  if (*setting("DISK_FAULTS_FOLDER") && meets("write", pathOf(descriptor).c_str()))
    return -1;
  return next<ssize_t (*)(int, const void *, size_t, off64_t)>("pwrite64")(descriptor, data, bytes,
                                                                           at);
}
extern "C" ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t at) {
  return pwrite64(descriptor, data, bytes, at);
}

extern "C" int fsync(int descriptor) {
  if (*setting("DISK_FAULTS_FOLDER") && meets("fsync", pathOf(descriptor).c_str()))
    return -1;
  const int result = next<int (*)(int)>("fsync")(descriptor);
  if (result == 0)
    keepFlushed(descriptor);
  return result;
}

extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                              void *(*start)(void *), void *argument) {
  static std::atomic<int> started = 0;
  const int most = std::atoi(setting("DISK_FAULTS_THREADS"));
  if (most > 0 && ++started >= most)
    return EAGAIN;
  return next<int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)>(
      "pthread_create")(thread, attributes, start, argument);
}

extern "C" int rename(const char *from, const char *to) {
  if (meets("rename", to))
    return -1;
  return next<int (*)(const char *, const char *)>("rename")(from, to);
}
