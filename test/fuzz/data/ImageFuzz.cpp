//===- ImageFuzz.cpp - PNG, JPEG and WebP ----------------------------------------------------===//
//
// Switches: 0 the bytes are the file as it is; else the checksums of a PNG's chunks are made to
// fit. Pictures are decoded as runs do it: their sizes first, then those of the size that is
// wanted.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/data/pictures/Image.h"
#include "test/fuzz/Fuzz.h"
#include <array>

namespace omnibal::fuzz {

namespace {
constexpr int64_t mostPixels = 1 << 16;
}

/// The decoders' own figures for the largest picture that is decoded here.
const Allowance allowance{(size_t{1} << 20) + 2 * size_t{rt::decoderChunkBytes} +
                              (3 + size_t{rt::decoderBytesPerPixel}) * size_t{mostPixels},
                          64};

namespace {

using namespace rt;

constexpr std::array<uint32_t, 256> crcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t n = 0; n < 256; ++n) {
    table[n] = n;
    for (int bit = 0; bit < 8; ++bit)
      table[n] = table[n] & 1 ? 0xedb88320u ^ table[n] >> 1 : table[n] >> 1;
  }
  return table;
}();

uint32_t crcOf(std::span<const uint8_t> bytes) {
  uint32_t crc = ~0u;
  for (uint8_t byte : bytes)
    crc = crcTable[(crc ^ byte) & 0xff] ^ crc >> 8;
  return ~crc;
}

void sealPng(std::vector<uint8_t> &file) {
  for (size_t at = 8; at + 12 <= file.size();) {
    const size_t length =
        size_t{file[at]} << 24 | file[at + 1] << 16 | file[at + 2] << 8 | file[at + 3];
    if (length > file.size() - at - 12)
      return;
    const uint32_t crc = crcOf(std::span(file).subspan(at + 4, length + 4));
    for (size_t i = 0; i < 4; ++i)
      file[at + 8 + length + i] = static_cast<uint8_t>(crc >> (24 - 8 * i));
    at += 12 + length;
  }
}

} // namespace

void run(std::string_view input) {
  const Switches switches = takeSwitches(input);
  std::vector<uint8_t> file(input.begin(), input.end());
  if (!switches[0] && file.size() > 8 && file[0] == 0x89)
    sealPng(file);
  auto size = imageSize(file);
  if (!size)
    return;
  const int64_t pixels = size->height * size->width;
  require(size->height > 0 && size->width > 0 && pixels <= 64'000'000, "a size out of bounds");
  auto other = decodeImage(file, size->height + 1, size->width);
  require(other && other->rgb.empty(), "a picture of another size than wanted was decoded");
  if (pixels > mostPixels)
    return;
  if (auto image = decodeImage(file, size->height, size->width))
    require(ImageSize(*image) == *size &&
                static_cast<int64_t>(image->rgb.size()) == 3 * size->height * size->width,
            "the picture has another size than its header says");
}

} // namespace omnibal::fuzz
