//===- Fuzz.h - What the targets share --------------------------------------------------------===//
//
// A target defines run(), which gives one input to a reader and looks at what the reader made of
// it. In builds with OMNIBAL_FUZZ libFuzzer makes the inputs; in others Replay.cpp gives those of
// the corpus. What must never happen ends the process: a crash, a sanitizer's report, broken(), and
// more memory than the input can justify.
//
//===-----------------------------------------------------------------------------------------===//
#ifndef TEST_FUZZ_FUZZ_H
#define TEST_FUZZ_FUZZ_H

#include "runtime/support/Status.h"
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace omnibal::fuzz {

/// Defined by each target.
void run(std::string_view input);

/// What an input of a target may hold on the heap at once, counted where the address sanitizer can.
struct Allowance {
  size_t fixed = size_t{4} << 20, perByte = 512;
};
/// Defined by each target.
extern const Allowance allowance;

/// Ends the process: a reader accepted what it should not, or something else than it says.
[[noreturn]] void broken(const std::string &what);
inline void require(bool holds, const char *what) {
  if (!holds)
    broken(what);
}
/// For what must succeed.
inline void require(const rt::Status &status) {
  if (!status)
    broken(status.message());
}

/// The first byte of an input of bytes: switches that say how the target seals it. Checksums and
/// lengths that fit take a fuzzer past the door; without them the door itself is tried.
struct Switches {
  uint8_t bits = 0;
  bool operator[](int number) const { return bits >> number & 1; }
};
/// Takes it off.
Switches takeSwitches(std::string_view &input);

/// Parts of a text with lines "---" between them.
std::vector<std::string_view> partsOf(std::string_view input);

void appendLittleEndian(std::string &to, uint64_t value, int bytes);

/// A file in memory that is opened by its path.
class MemoryFile {
public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  void set(std::string_view bytes);
  const std::string &path() const { return name; }

private:
  int descriptor;
  std::string name;
};

/// A folder in memory, where the machine has one, and gone with the process.
class MemoryFolder {
public:
  MemoryFolder();
  ~MemoryFolder();
  MemoryFolder(const MemoryFolder &) = delete;
  MemoryFolder &operator=(const MemoryFolder &) = delete;
  const std::string &path() const { return name; }
  std::string pathOf(const std::string &file) const { return name + "/" + file; }
  void write(const std::string &file, std::string_view bytes) const;
  void remove(const std::string &file) const;

private:
  std::string name;
};

/// The bytes of a safetensors file with this header. `fill`: as much data as the header's offsets
/// reach to, if that is little; otherwise `data`.
std::string safetensorsOf(std::string_view header, std::string_view data, bool fill);

} // namespace omnibal::fuzz
#endif // TEST_FUZZ_FUZZ_H
