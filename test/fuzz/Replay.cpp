//===- Replay.cpp - The inputs of a corpus, one after the other, without libFuzzer -----------===//
//
//   fuzz-NAME corpus/NAME.corpus      one input a line, as fuzz.py writes it; after "#" what the
//   next is fuzz-NAME FILE... FOLDER...       each file is an input, and each in a folder
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/support/AtomicFile.h"
#include "test/fuzz/Fuzz.h"
#include <cstdio>
#include <filesystem>
#include <optional>
#include <zlib.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace {

/// What is no digit of base64 is passed over.
std::string decoded(std::string_view line) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int have = 0;
  for (char c : line) {
    const size_t digit = digits.find(c);
    if (digit == digits.npos)
      continue;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if ((have += 6) >= 8)
      bytes += static_cast<char>(bits >> (have -= 8) & 0xff);
  }
  return bytes;
}

std::string unpacked(std::string_view line) {
  const std::string packed = decoded(line);
  std::string bytes(size_t{1} << 16, '\0'); // no input of a corpus is larger
  uLongf size = bytes.size();
  const int code = ::uncompress(reinterpret_cast<Bytef *>(bytes.data()), &size,
                                reinterpret_cast<const Bytef *>(packed.data()), packed.size());
  if (code != Z_OK)
    omnibal::fuzz::broken("a line of the corpus is damaged");
  bytes.resize(size);
  return bytes;
}

void give(std::string_view input) {
  // Behind a copy of exactly this size nothing of ours lies.
  const std::vector<uint8_t> copy(input.begin(), input.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

/// Gives an input, or all of a corpus or folder, and counts them; none where one cannot be read.
std::optional<size_t> giveAll(const std::filesystem::path &path) {
  size_t inputs = 0;
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) {
    for (const auto &entry : std::filesystem::directory_iterator(path)) {
      const auto given = giveAll(entry.path());
      if (!given)
        return std::nullopt;
      inputs += *given;
    }
    return inputs;
  }
  auto text = omnibal::rt::readWholeFile(path);
  if (!text) {
    std::fprintf(stderr, "%s\n", text.status().message().c_str());
    return std::nullopt;
  }
  if (path.extension() != ".corpus") {
    give(*text);
    return 1;
  }
  for (size_t begin = 0, end; begin < text->size(); begin = end + 1) {
    end = std::min(text->find('\n', begin), text->size());
    const std::string_view line(text->data() + begin, end - begin);
    if (line.starts_with('#')) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
      continue;
    }
    give(unpacked(line));
    ++inputs;
  }
  return inputs;
}

} // namespace

int main(int count, char **arguments) {
  size_t inputs = 0;
  for (int i = 1; i < count; ++i) {
    const auto given = giveAll(arguments[i]);
    if (!given || *given == 0)
      return 1;
    inputs += *given;
  }
  std::printf("%zu inputs\n", inputs);
  return inputs == 0;
}
