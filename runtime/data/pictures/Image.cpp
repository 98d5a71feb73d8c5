#include "runtime/data/pictures/Image.h"
#include <cstring>
#include <memory>
#include <spng.h>
#include <string>
#include <turbojpeg.h>
#include <webp/decode.h>

namespace omnibal::rt {
namespace {

Status corrupt(const std::string &what) { return {Code::DataLoss, what}; }

/// The only size that a caller has a use for; none: any.
struct Wanted {
  int64_t height = 0, width = 0;
  bool is(int64_t otherHeight, int64_t otherWidth) const {
    return height == 0 || (height == otherHeight && width == otherWidth);
  }
};

/// Allocates the picture if its size is sane, and wanted.
Result<Image> allocate(int64_t width, int64_t height, const Wanted &wanted) {
  if (width <= 0 || height <= 0 || width > mostPicturePixels || height > mostPicturePixels ||
      width * height > mostPicturePixels)
    return corrupt("the picture claims " + std::to_string(width) + " x " + std::to_string(height) +
                   " pixels; at most 64 million are accepted");
  Image image;
  image.width = width;
  image.height = height;
  if (wanted.is(height, width))
    image.rgb.resize(static_cast<size_t>(width * height * 3));
  return image;
}

/// Whether so few bytes of a file can be all of a picture: deflate makes at most 1032 of one.
bool isTooShort(spng_ctx *context, size_t fileBytes) {
  constexpr size_t mostOfOne = 1032;
  size_t bytes = 0;
  return !spng_decoded_image_size(context, SPNG_FMT_PNG, &bytes) && bytes / mostOfOne > fileBytes;
}

Result<Image> decodePng(std::span<const uint8_t> file, const Wanted &wanted) {
  std::unique_ptr<spng_ctx, void (*)(spng_ctx *)> context(spng_ctx_new(0), spng_ctx_free);
  if (!context)
    return Status(Code::OutOfMemory, "no memory for a PNG decoder");
  spng_set_crc_action(context.get(), SPNG_CRC_ERROR, SPNG_CRC_ERROR);
  spng_set_chunk_limits(context.get(), size_t{64} << 20, decoderChunkBytes);
  spng_ihdr header{};
  int error = spng_set_png_buffer(context.get(), file.data(), file.size());
  if (!error)
    error = spng_get_ihdr(context.get(), &header);
  if (error)
    return corrupt(std::string("corrupt PNG: ") + spng_strerror(error));
  if (wanted.is(header.height, header.width) && isTooShort(context.get(), file.size()))
    return corrupt("corrupt PNG: too short for " + std::to_string(header.width) + " x " +
                   std::to_string(header.height) + " pixels");
  Result<Image> image = allocate(header.width, header.height, wanted);
  if (!image || image->rgb.empty())
    return image;
  error = spng_decode_image(context.get(), image->rgb.data(), image->rgb.size(), SPNG_FMT_RGB8, 0);
  if (!error)
    error = spng_decode_chunks(context.get()); // to the end: a truncated file is an error
  if (error)
    return corrupt(std::string("corrupt PNG: ") + spng_strerror(error));
  return image;
}

Result<Image> decodeJpeg(std::span<const uint8_t> file, const Wanted &wanted) {
  std::unique_ptr<void, int (*)(void *)> handle(tjInitDecompress(), tjDestroy);
  if (!handle)
    return Status(Code::OutOfMemory, "no memory for a JPEG decoder");
  int width = 0, height = 0, sampling = 0, space = 0;
  if (tjDecompressHeader3(handle.get(), file.data(), file.size(), &width, &height, &sampling,
                          &space))
    return corrupt(std::string("corrupt JPEG: ") + tjGetErrorStr2(handle.get()));
  Result<Image> image = allocate(width, height, wanted);
  if (!image || image->rgb.empty())
    return image;
  // Also a warning counts: a truncated JPEG only warns and leaves the rest gray.
  if (tjDecompress2(handle.get(), file.data(), file.size(), image->rgb.data(), width, 0, height,
                    TJPF_RGB, TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING))
    return corrupt(std::string("corrupt JPEG: ") + tjGetErrorStr2(handle.get()));
  return image;
}

Result<Image> decodeWebp(std::span<const uint8_t> file, const Wanted &wanted) {
  int width = 0, height = 0;
  if (!WebPGetInfo(file.data(), file.size(), &width, &height))
    return corrupt("corrupt WebP: its header cannot be read");
  Result<Image> image = allocate(width, height, wanted);
  if (!image || image->rgb.empty())
    return image;
  if (!WebPDecodeRGBInto(file.data(), file.size(), image->rgb.data(), image->rgb.size(), width * 3))
    return corrupt("corrupt WebP: decoding failed (truncated, damaged or animated)");
  return image;
}

} // namespace

Result<Image> decodeImage(std::span<const uint8_t> file, int64_t height, int64_t width) {
  const Wanted wanted{height, width};
  auto startsWith = [&](size_t at, const char *magic, size_t length) {
    return file.size() >= at + length && !std::memcmp(file.data() + at, magic, length);
  };
  if (startsWith(0, "\x89PNG\r\n\x1a\n", 8))
    return decodePng(file, wanted);
  if (startsWith(0, "\xff\xd8\xff", 3))
    return decodeJpeg(file, wanted);
  if (startsWith(0, "RIFF", 4) && startsWith(8, "WEBP", 4))
    return decodeWebp(file, wanted);
  return corrupt("neither PNG nor JPEG nor WebP");
}

Result<ImageSize> imageSize(std::span<const uint8_t> beginning) {
  // No picture has the size that is wanted here, so of each only the size is told.
  OMNIBAL_ASSIGN_OR_RETURN(Image image, decodeImage(beginning, -1, -1));
  return ImageSize(image);
}

} // namespace omnibal::rt
