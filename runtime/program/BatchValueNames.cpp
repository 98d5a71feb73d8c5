#include "runtime/program/Program.h"
#include <charconv>

namespace omnibal::rt {

std::string valueOfLayer(const std::string &name, int64_t layer) {
  return name == layerNumberValue ? name + "." + std::to_string(layer) : name;
}

std::optional<int64_t> layerOfValue(const std::string &value) {
  const std::string prefix = std::string(layerNumberValue) + ".";
  if (!value.starts_with(prefix))
    return std::nullopt;
  int32_t layer = 0;
  const char *begin = value.data() + prefix.size(), *end = value.data() + value.size();
  const auto [read, error] = std::from_chars(begin, end, layer);
  return error == std::errc() && read == end && layer >= 0 ? std::optional<int64_t>(layer)
                                                           : std::nullopt;
}

std::string nameInLayer(const std::string &value) {
  return layerOfValue(value) ? layerNumberValue : value;
}

} // namespace omnibal::rt
