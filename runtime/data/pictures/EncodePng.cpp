#include "runtime/data/pictures/EncodePng.h"
#include <cstdlib>
#include <memory>
#include <spng.h>

namespace omnibal::rt {

Result<std::string> encodePng(const Image &image) {
  std::unique_ptr<spng_ctx, void (*)(spng_ctx *)> context(spng_ctx_new(SPNG_CTX_ENCODER),
                                                          spng_ctx_free);
  if (!context)
    return Status(Code::OutOfMemory, "no memory for a PNG encoder");
  spng_ihdr header{};
  header.width = static_cast<uint32_t>(image.width);
  header.height = static_cast<uint32_t>(image.height);
  header.bit_depth = 8;
  header.color_type = SPNG_COLOR_TYPE_TRUECOLOR;
  int error = spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  if (!error)
    error = spng_set_ihdr(context.get(), &header);
  if (!error)
    error = spng_encode_image(context.get(), image.rgb.data(), image.rgb.size(), SPNG_FMT_PNG,
                              SPNG_ENCODE_FINALIZE);
  size_t bytes = 0;
  std::unique_ptr<void, void (*)(void *)> file(
      error ? nullptr : spng_get_png_buffer(context.get(), &bytes, &error), std::free);
  if (error || !file)
    return Status(Code::Unavailable, std::string("encoding a PNG failed: ") + spng_strerror(error));
  return std::string(static_cast<const char *>(file.get()), bytes);
}

} // namespace omnibal::rt
