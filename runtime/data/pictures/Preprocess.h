//===- Preprocess.h - From 8-bit pixels to the model's input -----------------------------===//
//
// preprocessor_config.json says how: rescale, then subtract the mean and divide by the deviation of
// each channel, in float32 as Hugging Face's processors do. 256 values a channel, so it is a table.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DATA_PICTURES_PREPROCESS_H
#define RUNTIME_DATA_PICTURES_PREPROCESS_H

#include "runtime/support/Status.h"
#include <array>
#include <cstdint>
#include <string>

namespace omnibal::rt {

class Preprocess {
public:
  /// Reads do_rescale, rescale_factor, do_normalize, image_mean and image_std; a missing field has
  /// Hugging Face's default (rescale by 1/255; no normalization unless a mean is given).
  static Result<Preprocess> read(const std::string &path);
  static Result<Preprocess> parse(const std::string &json, const std::string &label);

  /// Interleaved RGB of height x width -> three planes of float.
  void apply(const uint8_t *rgb, int64_t height, int64_t width, float *planes) const;
  /// The number that each byte of a channel becomes.
  const std::array<float, 256> &valuesOf(size_t channel) const { return table[channel]; }

private:
  std::array<std::array<float, 256>, 3> table{};
};

} // namespace omnibal::rt
#endif // RUNTIME_DATA_PICTURES_PREPROCESS_H
