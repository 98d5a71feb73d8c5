#include "runtime/data/pictures/Preprocess.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Json.h"
#include <cmath>

namespace omnibal::rt {
namespace {

/// Reads a list of three numbers, or one number for all channels.
Result<std::array<double, 3>> channels(const nlohmann::json &root, const char *field,
                                       const std::string &label) {
  const nlohmann::json &value = root[field];
  std::array<double, 3> out{};
  if (value.is_number()) {
    out.fill(value.get<double>());
    return out;
  }
  if (!value.is_array() || value.size() != 3 || !value[0].is_number() || !value[1].is_number() ||
      !value[2].is_number())
    return invalid(label + ": " + field + " must be a list of three numbers");
  for (size_t c = 0; c < 3; ++c)
    out[c] = value[c].get<double>();
  return out;
}

Result<bool> flag(const nlohmann::json &root, const char *field, bool otherwise,
                  const std::string &label) {
  if (!root.contains(field) || root[field].is_null())
    return otherwise;
  if (!root[field].is_boolean())
    return invalid(label + ": " + field + " must be true or false");
  return root[field].get<bool>();
}

} // namespace

Result<Preprocess> Preprocess::read(const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, readWholeFile(path));
  return parse(text, path);
}

Result<Preprocess> Preprocess::parse(const std::string &text, const std::string &label) {
  OMNIBAL_ASSIGN_OR_RETURN(nlohmann::json root, parseJson(text, label));
  if (!root.is_object())
    return invalid(label + ": not a JSON object");
  if (root.contains("image_processor") && root["image_processor"].is_object())
    root = nlohmann::json(root["image_processor"]); // the combined processor_config.json
  auto present = [&](const char *field) { return root.contains(field) && !root[field].is_null(); };

  OMNIBAL_ASSIGN_OR_RETURN(bool rescale, flag(root, "do_rescale", true, label));
  OMNIBAL_ASSIGN_OR_RETURN(bool normalize,
                           flag(root, "do_normalize", present("image_mean"), label));
  double factor = 1.0 / 255.0;
  if (present("rescale_factor")) {
    if (!root["rescale_factor"].is_number() || !(root["rescale_factor"].get<double>() > 0))
      return invalid(label + ": rescale_factor must be a positive number");
    factor = root["rescale_factor"].get<double>();
  }
  if (!rescale)
    factor = 1;
  std::array<double, 3> mean{0, 0, 0}, deviation{1, 1, 1};
  if (normalize) {
    if (!present("image_mean") || !present("image_std"))
      return invalid(label + ": do_normalize needs image_mean and image_std");
    OMNIBAL_ASSIGN_OR_RETURN(mean, channels(root, "image_mean", label));
    OMNIBAL_ASSIGN_OR_RETURN(deviation, channels(root, "image_std", label));
    for (double d : deviation)
      if (!(d > 0) || !std::isfinite(d))
        return invalid(label + ": image_std must hold positive numbers");
  }
  Preprocess result;
  for (size_t c = 0; c < 3; ++c)
    for (size_t v = 0; v < 256; ++v) {
      float x = static_cast<float>(v) * static_cast<float>(factor);
      result.table[c][v] = (x - static_cast<float>(mean[c])) / static_cast<float>(deviation[c]);
      // A factor or a mean above the largest float32, or a deviation below the smallest.
      if (!std::isfinite(result.table[c][v]))
        return invalid(label + ": with rescale_factor, image_mean and image_std a pixel of " +
                       std::to_string(v) + " in channel " + std::to_string(c) +
                       " becomes no finite float32; take the file of the model's own processor");
    }
  return result;
}

void Preprocess::apply(const uint8_t *rgb, int64_t height, int64_t width, float *planes) const {
  int64_t pixels = height * width;
  for (size_t c = 0; c < 3; ++c) {
    const auto &values = table[c];
    float *plane = planes + static_cast<int64_t>(c) * pixels;
    for (int64_t p = 0; p < pixels; ++p)
      plane[p] = values[rgb[3 * p + static_cast<int64_t>(c)]];
  }
}

} // namespace omnibal::rt
