#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/support/AtomicFile.h"
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

constexpr const char *lockName = "/lock", *bestName = "/best", *replacedSuffix = ".replaced";

/// "process 123 on host": who a lock's holder is, for the next one.
std::string thisProcess() {
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof host - 1) != 0)
    host[0] = 0;
  return "process " + std::to_string(::getpid()) + (host[0] ? " on " + std::string(host) : "");
}

/// Puts names back that a crash between two renames of publishFolder() left behind.
void restoreReplaced(const std::string &folder) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto &entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == replacedSuffix && stepOf(entry.path().stem().string()) >= 0)
      found.push_back(entry.path());
  for (const fs::path &path : found) {
    fs::path final = path.parent_path() / path.stem();
    if (fs::exists(final, ignored))
      fs::remove_all(path, ignored);
    else
      fs::rename(path, final, ignored);
  }
}

/// What no run needs: incomplete checkpoints of killed runs, and complete ones that were on their
/// way out.
void removeLeftovers(const std::string &folder) {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const auto &entry : fs::directory_iterator(folder, ignored)) {
    std::string suffix = entry.path().extension().string();
    if ((suffix == ".removed" || suffix == ".incomplete" || suffix == replacedSuffix) &&
        stepOf(entry.path().stem().string()) >= 0)
      leftovers.push_back(entry.path());
  }
  for (const fs::path &path : leftovers)
    fs::remove_all(path, ignored);
}

/// File systems without an exchange of names (NFS, Lustre): two renames.
Status replaceInTwoSteps(const std::string &incomplete, const std::string &final) {
  const std::string old = final + replacedSuffix;
  std::error_code ignored;
  fs::remove_all(old, ignored);
  if (::rename(final.c_str(), old.c_str()) != 0 || ::rename(incomplete.c_str(), final.c_str()) != 0)
    return {Code::Unavailable, final + ": renaming the folder failed: " + std::strerror(errno)};
  fs::remove_all(old, ignored);
  return Status::ok();
}

} // namespace

CheckpointFolder::CheckpointFolder(CheckpointFolder &&other) noexcept
    : folder(std::move(other.folder)), descriptor(std::exchange(other.descriptor, -1)) {}

CheckpointFolder &CheckpointFolder::operator=(CheckpointFolder &&other) noexcept {
  std::swap(folder, other.folder);
  std::swap(descriptor, other.descriptor);
  return *this;
}

CheckpointFolder::~CheckpointFolder() {
  if (descriptor >= 0)
    ::close(descriptor); // the lock goes with it
}

Result<CheckpointFolder> CheckpointFolder::claim(const std::string &path,
                                                 std::vector<std::string> *notices) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    return Status(Code::Unavailable, path + ": creating the folder failed: " + error.message());
  // Whoever made the folders above it may not have flushed them; where we may not, neither will we.
  for (fs::path at = fs::absolute(path).lexically_normal(); at.has_relative_path();
       at = at.parent_path())
    (void)syncFolder(at.parent_path().string());
  CheckpointFolder claimed;
  claimed.folder = path;
  const std::string lock = path + lockName;
  claimed.descriptor = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (claimed.descriptor < 0)
    return Status(Code::Unavailable, lock + ": " + std::strerror(errno));
  if (::flock(claimed.descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      auto holder = readWholeFile(lock);
      return Status(Code::Unavailable,
                    path + ": another run writes its checkpoints here" +
                        (holder && !holder->empty()
                             ? " (" + holder->substr(0, holder->find('\n')) + ")"
                             : "") +
                        "; give each run a folder of its own, or end that one first");
    }
    if (notices)
      notices->push_back(lock + " cannot be locked (" + std::strerror(errno) +
                         "): nothing keeps a second run out of this folder");
  }
  const std::string who = thisProcess() + "\n";
  if (::ftruncate(claimed.descriptor, 0) != 0 ||
      ::pwrite(claimed.descriptor, who.data(), who.size(), 0) != static_cast<ssize_t>(who.size())) {
    // The lock counts; the name in it only makes a message better.
  }
  restoreReplaced(path);
  removeLeftovers(path);
  return claimed;
}

std::vector<std::string> CheckpointFolder::checkpoints() const { return listCheckpoints(folder); }

int64_t bestStep(const std::string &folder) {
  const auto name = readWholeFile(folder + bestName);
  return name ? stepOf(name->substr(0, name->find('\n'))) : -1;
}

Status writeBest(const std::string &folder, int64_t step) {
  std::error_code ignored;
  if (step == bestStep(folder) || !fs::exists(folder + "/" + stepName(step), ignored))
    return Status::ok();
  return writeFileAtomically(folder + bestName, stepName(step) + "\n");
}

std::vector<std::string> listCheckpoints(const std::string &folder) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(folder, error))
    if (int64_t step = stepOf(entry.path().filename().string()); step >= 0)
      found.emplace_back(step, entry.path().filename().string());
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> names;
  for (auto &[step, name] : found)
    names.push_back(std::move(name));
  return names;
}

Status publishFolder(const std::string &incomplete, const std::string &final) {
  if (::rename(incomplete.c_str(), final.c_str()) == 0)
    return Status::ok();
  if (errno != ENOTEMPTY && errno != EEXIST)
    return {Code::Unavailable, final + ": renaming the folder failed: " + std::strerror(errno)};
  if (::renameat2(AT_FDCWD, incomplete.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) == 0)
    return Status::ok();
  return replaceInTwoSteps(incomplete, final);
}

void pruneCheckpoints(const std::string &folder, const CheckpointRetention &retention,
                      int64_t newest, const std::vector<std::string> &obsolete) {
  int left = std::max(1, retention.newest);
  const int64_t best = bestStep(folder);
  std::error_code ignored;
  for (const std::string &name : listCheckpoints(folder)) {
    const int64_t step = stepOf(name);
    const bool isObsolete =
        step != newest && std::find(obsolete.begin(), obsolete.end(), name) != obsolete.end();
    if (!isObsolete && (step > newest || --left >= 0 || step == best ||
                        (retention.every > 0 && step % retention.every == 0)))
      continue;
    if (step == best)
      fs::remove(folder + bestName, ignored); // of an earlier run
    // Out of sight first: a half-removed folder must not look like a checkpoint.
    std::string path = folder + "/" + name;
    fs::rename(path, path + ".removed", ignored);
  }
  removeLeftovers(folder);
}

} // namespace omnibal::rt
