#include "runtime/backends/cuda/libraries/AlgorithmFile.h"
#include "runtime/backends/cuda/driver/Log.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Formats.h"
#include "runtime/support/Json.h"
#include <cmath>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>

namespace omnibal::rt::cuda {
namespace {

constexpr const char *version = formats::algorithms;
constexpr int digits = 16; ///< hexadecimal, of one of an algorithm's words

/// Processes that measure take turns; a file system without locks lets all of them go on.
class FileLock {
public:
  explicit FileLock(const std::string &path) {
    if (path.empty())
      return;
    descriptor = ::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor >= 0)
      (void)::flock(descriptor, LOCK_EX);
  }
  ~FileLock() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  FileLock(const FileLock &) = delete;

private:
  int descriptor = -1;
};

std::string hexadecimal(const lt::Algorithm &algorithm) {
  const char *figures = "0123456789abcdef";
  std::string text;
  for (uint64_t word : algorithm.data)
    for (int digit = digits - 1; digit >= 0; --digit)
      text += figures[word >> 4 * digit & 15];
  return text;
}

bool readHexadecimal(const std::string &text, lt::Algorithm &algorithm) {
  if (text.size() != digits * std::size(algorithm.data))
    return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    uint64_t value;
    if (c >= '0' && c <= '9')
      value = c - '0';
    else if (c >= 'a' && c <= 'f')
      value = c - 'a' + 10;
    else
      return false;
    uint64_t &word = algorithm.data[i / digits];
    word = word << 4 | value;
  }
  return true;
}

std::string defaultPath() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache && *cache)
    return std::string(cache) + "/omnibal/cuda-algorithms.json";
  if (home && *home)
    return std::string(home) + "/.cache/omnibal/cuda-algorithms.json";
  return "";
}

} // namespace

std::string printAlgorithms(const std::map<std::string, MeasuredAlgorithm> &entries) {
  // One entry a line, in the order of keys: the file's text follows from what it holds.
  std::string text = std::string("{\"version\": \"") + version + "\", \"algorithms\": {";
  bool first = true;
  for (const auto &[key, entry] : entries) {
    text += first ? "\n" : ",\n";
    first = false;
    text += nlohmann::json(key).dump() + ": {\"algorithm\": \"" + hexadecimal(entry.algorithm) +
            "\", \"seconds\": " + nlohmann::json(entry.seconds).dump() + "}";
  }
  return text + "\n}}\n";
}

Result<std::map<std::string, MeasuredAlgorithm>> parseAlgorithms(const std::string &text,
                                                                 const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(const nlohmann::json root, parseJson(text, path));
  if (!root.is_object() || root.size() != 2 || !root.contains("version") ||
      root["version"] != version || !root.contains("algorithms") || !root["algorithms"].is_object())
    return invalid(path + ": this is no file of version " + version);
  std::map<std::string, MeasuredAlgorithm> entries;
  for (const auto &[key, value] : root["algorithms"].items()) {
    MeasuredAlgorithm entry;
    if (!value.is_object() || value.size() != 2 || !value.contains("algorithm") ||
        !value["algorithm"].is_string() ||
        !readHexadecimal(value["algorithm"].get<std::string>(), entry.algorithm) ||
        !value.contains("seconds") || !value["seconds"].is_number())
      return invalid(path + ": the entry \"" + key + "\" is not an algorithm with its seconds");
    entry.seconds = value["seconds"].get<double>();
    if (!std::isfinite(entry.seconds) || entry.seconds < 0)
      return invalid(path + ": the seconds of \"" + key + "\" are no duration");
    entries[key] = entry;
  }
  return entries;
}

std::shared_ptr<AlgorithmFile> AlgorithmFile::shared() {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<AlgorithmFile>> open;
  const char *wish = std::getenv("OMNIBAL_CUDA_ALGORITHMS");
  if (wish && std::string(wish) == "off")
    return nullptr;
  const std::string path = wish && *wish ? wish : defaultPath();
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<AlgorithmFile> file = open[path].lock();
  if (!file)
    open[path] = file = std::make_shared<AlgorithmFile>(path);
  return file;
}

AlgorithmFile::AlgorithmFile(std::string path) : path(std::move(path)) { read(); }

void AlgorithmFile::read() {
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error))
    return;
  auto text = readWholeFile(path);
  Status status = text.status();
  if (text) {
    auto parsed = parseAlgorithms(*text, path);
    if (parsed) {
      // What is in use here stays: a run keeps its choices.
      for (auto &[key, entry] : *parsed)
        entries.emplace(key, entry);
      return;
    }
    status = std::move(parsed).status();
  }
  logOnce("algorithms are measured anew, the file of earlier choices is not used: " +
          status.message());
}

Status AlgorithmFile::write() const { return writeFileAtomically(path, printAlgorithms(entries)); }

bool AlgorithmFile::knows(const std::string &key) {
  std::lock_guard<std::mutex> lock(mutex);
  return entries.count(key) > 0;
}

Result<MeasuredAlgorithm> AlgorithmFile::get(const std::string &key, const Measure &measure) {
  std::lock_guard<std::mutex> lock(mutex);
  if (auto found = entries.find(key); found != entries.end())
    return found->second;
  std::error_code error;
  if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, error); // else writing says what is wrong
  FileLock turn(path);
  read(); // another process may have been here
  if (auto found = entries.find(key); found != entries.end())
    return found->second;
  OMNIBAL_ASSIGN_OR_RETURN(const MeasuredAlgorithm measured, measure());
  entries[key] = measured;
  if (!path.empty())
    if (Status status = write(); !status)
      logOnce("measured algorithms are not kept: " + status.message());
  return measured;
}

} // namespace omnibal::rt::cuda
