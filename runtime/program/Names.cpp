#include "runtime/program/Names.h"
#include <array>
#include <cstdio>

namespace omnibal::rt {
namespace {

template <typename E> struct Words;
template <> struct Words<DType> {
  static constexpr std::array<const char *, 6> list = {"f32", "i32", "i64", "bool", "f64", "bf16"};
};
template <> struct Words<Role> {
  static constexpr std::array<const char *, 12> list = {
      "input",       "output",     "parameter", "parameter_grad", "saved",  "held",
      "grad_output", "grad_input", "batch",     "constant",       "result", "temporary"};
};
template <> struct Words<Space> {
  static constexpr std::array<const char *, 4> list = {"parameter", "gradient", "constant",
                                                       "region"};
};
template <> struct Words<ActionKind> {
  static constexpr std::array<const char *, 14> list = {
      "forward",           "backward",       "input_grad", "weight_grad",      "post_recv",
      "wait_recv",         "send",           "wait_send",  "reduce_shared",    "reduce_gradients",
      "scatter_gradients", "reduce_scalars", "update",     "gather_parameters"};
};

template <> struct Words<OptimizerKind> {
  static constexpr std::array<const char *, optimizerKinds.size()> list = {
      "adamw", "lion", "sgd", "muon", "adamw8bit", "adafactor"};
};

template <> struct Words<RankOrder> {
  static constexpr auto list = rankOrderNames;
};

template <> struct Words<Interpolation> {
  static constexpr std::array<const char *, 2> list = {"bilinear", "bicubic"};
};

template <typename E> const char *word(E value) {
  return Words<E>::list[static_cast<size_t>(value)];
}

} // namespace

const char *nameOf(Role role) { return word(role); }
const char *nameOf(Space space) { return word(space); }
const char *nameOf(ActionKind kind) { return word(kind); }
const char *nameOf(Interpolation interpolation) { return word(interpolation); }
const char *nameOf(OptimizerKind kind) { return word(kind); }
const char *nameOf(RankOrder order) { return word(order); }

template <typename E> std::optional<E> fromName(std::string_view name) {
  for (size_t i = 0; i < Words<E>::list.size(); ++i)
    if (name == Words<E>::list[i])
      return static_cast<E>(i);
  return std::nullopt;
}
template std::optional<DType> fromName<DType>(std::string_view);
template std::optional<Role> fromName<Role>(std::string_view);
template std::optional<Space> fromName<Space>(std::string_view);
template std::optional<ActionKind> fromName<ActionKind>(std::string_view);
template std::optional<Interpolation> fromName<Interpolation>(std::string_view);
template std::optional<OptimizerKind> fromName<OptimizerKind>(std::string_view);
template std::optional<RankOrder> fromName<RankOrder>(std::string_view);

std::string nameOf(Unit unit) {
  const std::string microbatch = "micro-batch " + std::to_string(unit.microbatch);
  return unit.part == 0 ? microbatch : "part " + std::to_string(unit.part) + " of " + microbatch;
}

std::string toString(const Extent &extent) {
  std::string text;
  auto add = [&](int64_t factor, const char *symbol) {
    if (factor == 0)
      return;
    if (!text.empty())
      text += " + ";
    if (factor != 1 || !*symbol)
      text += std::to_string(factor) + (*symbol ? " " : "");
    text += symbol;
  };
  add(extent.constant, "");
  add(extent.perTile, "V");
  add(extent.perToken, "N");
  add(extent.perOwnTile, "v");
  add(extent.perOwnToken, "n");
  return text.empty() ? "0" : text;
}

std::string toString(const std::vector<Extent> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + toString(shape[i]);
  return text + "]";
}

std::string toString(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string bytesToString(int64_t bytes) {
  const char *units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= (unit ? 1000.0 : 10000.0) && unit < 5) {
    value /= 1000.0;
    ++unit;
  }
  char text[40];
  const char *format = unit == 0 ? "%.0f %s" : value < 100 ? "%.2f %s" : "%.1f %s";
  std::snprintf(text, sizeof text, format, value, units[unit]);
  return text;
}

} // namespace omnibal::rt
