#include "runtime/batching/io/MixAt.h"
#include <charconv>

namespace omnibal::rt {

Result<WeightsFrom> parseMixAt(const std::string &text, const std::string &unit) {
  WeightsFrom from;
  const char *at = text.data(), *end = at + text.size();
  auto [equals, error] = std::from_chars(at, end, from.first);
  bool isRight = error == std::errc() && equals < end && *equals == '=' && from.first >= 1;
  for (at = equals; isRight && at < end;) { // at '=' or ','
    double weight = -1;
    auto [next, wrong] = std::from_chars(at + 1, end, weight);
    isRight = wrong == std::errc() && weight >= 0 && (next == end || *next == ',');
    from.weights.push_back(weight);
    at = next;
  }
  if (isRight)
    return from;
  return invalid("--mix-at: \"" + text + "\" is not " + unit + "=WEIGHT,WEIGHT,... with " + unit +
                 " of 1 or more and weights of 0 or more");
}

std::string weightsText(const std::vector<double> &weights) {
  std::string text;
  for (double weight : weights) {
    char digits[32];
    text += text.empty() ? "" : ",";
    text.append(digits, std::to_chars(digits, digits + sizeof digits, weight).ptr);
  }
  return text;
}

std::string mixAtText(const WeightsFrom &from) {
  return std::to_string(from.first) + "=" + weightsText(from.weights);
}

} // namespace omnibal::rt
