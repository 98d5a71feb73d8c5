#include "runtime/training/events/EventFile.h"
#include "runtime/support/AtomicFile.h"
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view namePrefix = "events.out.tfevents.";
constexpr int64_t lastSecond = 9'999'999'999; // names have ten digits, so that they sort by time

double wallTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The second in a name of the folder's event files; -1 if it is no such name.
int64_t secondOf(std::string_view file) {
  if (!file.starts_with(namePrefix))
    return -1;
  file.remove_prefix(namePrefix.size());
  int64_t second = -1;
  const auto [end, error] = std::from_chars(file.data(), file.data() + file.size(), second);
  return error == std::errc() && second <= lastSecond ? second : -1;
}

/// Now, or the second after the folder's newest file, so that a new one is read last even if it is
/// made in the same second or by a machine whose clock is behind.
int64_t secondBehindAll(const std::string &folder) {
  auto second = static_cast<int64_t>(wallTime());
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end;
       it.increment(ignored))
    second = std::max(second, secondOf(it->path().filename().string()) + 1);
  return std::min(second, lastSecond);
}

std::string nameIn(const std::string &folder) {
  char host[HOST_NAME_MAX + 1] = {}, second[24];
  if (::gethostname(host, sizeof host - 1) != 0 || !host[0])
    std::strcpy(host, "localhost");
  std::snprintf(second, sizeof second, "%010lld", static_cast<long long>(secondBehindAll(folder)));
  return (fs::path(folder) /
          (std::string(namePrefix) + second + "." + host + "." + std::to_string(::getpid())))
      .string();
}

Status failed(const std::string &path, const char *what, const std::string &why) {
  return {Code::Unavailable, path + ": " + what + " (--tensorboard): " + why};
}

} // namespace

Result<EventFile> EventFile::create(const std::string &folder, int64_t firstStep) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return failed(folder, "the folder cannot be made", error.message());
  EventFile made;
  made.name = nameIn(folder);
  made.file =
      FileDescriptor(::open(made.name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!made.file)
    return failed(made.name, "cannot be made", std::strerror(errno));
  OMNIBAL_RETURN_IF_ERROR(made.append(versionEvent(wallTime())));
  OMNIBAL_RETURN_IF_ERROR(made.append(startEvent({wallTime(), firstStep})));
  return made;
}

Status EventFile::write(int64_t step, const std::vector<Scalar> &scalars) {
  return append(scalarsEvent({wallTime(), step}, scalars));
}

Status EventFile::append(const std::string &event) {
  const std::string record = recordOf(event);
  const int error = writeAll(file.get(), record.data(), record.size());
  return error == 0 ? Status::ok() : failed(name, "writing failed", std::strerror(error));
}

} // namespace omnibal::rt
