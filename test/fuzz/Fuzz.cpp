#include "test/fuzz/Fuzz.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Json.h"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/allocator_interface.h>
#define COUNTS_MEMORY 1
#endif
#endif

namespace omnibal::fuzz {
namespace {

#ifdef COUNTS_MEMORY
std::atomic<int64_t> heapNow, heapMost;

void allocated(const volatile void *, size_t bytes) {
  const int64_t now = heapNow.fetch_add(static_cast<int64_t>(bytes)) + static_cast<int64_t>(bytes);
  if (int64_t most = heapMost.load(); now > most)
    heapMost.compare_exchange_strong(most, now);
}
void freed(const volatile void *at) {
  if (at)
    heapNow -= static_cast<int64_t>(__sanitizer_get_allocated_size(const_cast<const void *>(at)));
}

/// Compares the most that was on the heap at once with what an input of this size may hold.
class HeapCheck {
public:
  explicit HeapCheck(size_t input)
      : limit(allowance.fixed + allowance.perByte * input), before(heapNow.load()) {
    static const int installed = __sanitizer_install_malloc_and_free_hooks(allocated, freed);
    require(installed > 0, "the heap cannot be watched");
    heapMost = before;
  }
  ~HeapCheck() {
    const int64_t held = heapMost.load() - before;
    if (held > static_cast<int64_t>(limit))
      broken("the input made the reader hold " + std::to_string(held) + " bytes, more than the " +
             std::to_string(limit) + " that its size justifies");
  }

private:
  size_t limit;
  int64_t before;
};
#else
struct HeapCheck {
  explicit HeapCheck(size_t) {}
};
#endif

/// The end of the last tensor's data, if all of it is little.
size_t dataEnd(std::string_view header) {
  constexpr uint64_t little = 1 << 16;
  uint64_t end = 0;
  if (auto root = rt::parseJson(header, "header"); root && root->is_object())
    for (const auto &[name, entry] : root->items())
      if (entry.is_object() && entry.contains("data_offsets"))
        if (const auto &offsets = entry["data_offsets"];
            offsets.is_array() && offsets.size() == 2 && offsets[1].is_number_unsigned())
          end = std::max(end, offsets[1].get<uint64_t>());
  return end <= little ? static_cast<size_t>(end) : 0;
}

} // namespace

void broken(const std::string &what) {
  std::fprintf(stderr, "broken: %s\n", what.c_str());
  std::abort();
}

Switches takeSwitches(std::string_view &input) {
  if (input.empty())
    return {};
  Switches switches{static_cast<uint8_t>(input.front())};
  input.remove_prefix(1);
  return switches;
}

std::vector<std::string_view> partsOf(std::string_view input) {
  constexpr std::string_view separator = "\n---\n";
  std::vector<std::string_view> parts;
  for (size_t end; (end = input.find(separator)) != input.npos;) {
    parts.push_back(input.substr(0, end));
    input.remove_prefix(end + separator.size());
  }
  parts.push_back(input);
  return parts;
}

void appendLittleEndian(std::string &to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    to += static_cast<char>(value >> (8 * i) & 0xff);
}

MemoryFile::MemoryFile() : descriptor(::memfd_create("fuzz", MFD_CLOEXEC)) {
  require(descriptor >= 0, "no file in memory can be made");
  name = "/proc/self/fd/" + std::to_string(descriptor);
}

MemoryFile::~MemoryFile() { ::close(descriptor); }

void MemoryFile::set(std::string_view bytes) {
  const bool done =
      !::ftruncate(descriptor, 0) &&
      ::pwrite(descriptor, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
  require(done, "a file in memory cannot be written");
}

MemoryFolder::MemoryFolder() {
  const std::string shared = "/dev/shm";
  std::error_code error;
  name = std::filesystem::is_directory(shared, error)
             ? shared
             : std::filesystem::temp_directory_path(error).string();
  name += "/omnibal-fuzz-XXXXXX";
  require(::mkdtemp(name.data()), "no folder can be made");
}

MemoryFolder::~MemoryFolder() {
  std::error_code error;
  std::filesystem::remove_all(name, error);
}

void MemoryFolder::write(const std::string &file, std::string_view bytes) const {
  const std::string path = pathOf(file);
  const int to = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool done =
      to >= 0 && ::write(to, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  ::close(to);
  require(done, "a file in memory cannot be written");
}

void MemoryFolder::remove(const std::string &file) const { ::unlink(pathOf(file).c_str()); }

std::string safetensorsOf(std::string_view header, std::string_view data, bool fill) {
  std::string file;
  appendLittleEndian(file, header.size(), 8);
  file += header;
  file += fill ? std::string(dataEnd(header), '\x3f') : data;
  return file;
}

} // namespace omnibal::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace omnibal::fuzz;
  const HeapCheck check(size);
  run({reinterpret_cast<const char *>(data), size});
  return 0;
}
