#include "runtime/executor/QuantizedLoad.h"
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace omnibal::rt {
namespace {

Status notFinite(Quantization kind, int64_t place, int64_t cols, float number) {
  return invalid("the number in row " + std::to_string(place / cols) + ", column " +
                 std::to_string(place % cols) + " is " + std::to_string(number) + ", and " +
                 nameOf(kind) +
                 " stores finite numbers only; repair the weights, or leave this one out with "
                 "omnibal-compile --quantize-match");
}

/// A tensor whose transpose is quantized: as the matrix's elements lie far apart in the file, all
/// of it is read at once.
Result<std::vector<float>> readTransposed(const StoredTensor &tensor, Quantization kind) {
  const int64_t rows = tensor.shape[0], cols = tensor.shape[1];
  std::vector<float> given(static_cast<size_t>(tensor.elements)), turned(given.size());
  OMNIBAL_RETURN_IF_ERROR(convertTensor(tensor, DType::F32, given.data()));
  releasePages(tensor, 0, tensor.elements);
  for (size_t i = 0; i < given.size(); ++i)
    if (!std::isfinite(given[i]))
      return notFinite(kind, static_cast<int64_t>(i), cols, given[i]);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      turned[c * rows + r] = given[r * cols + c];
  return turned;
}

} // namespace

Status quantizeInto(const QuantizedShape &shape, const ElementReader &read, std::byte *to) {
  constexpr int64_t atOnce = 65536;
  const int64_t step = std::max<int64_t>(shape.step(), 1);
  const int64_t piece = std::max<int64_t>(atOnce / step, 1) * step;
  std::vector<float> values;
  for (int64_t first = 0; first < shape.elements(); first += piece) {
    values.resize(static_cast<size_t>(std::min(piece, shape.elements() - first)));
    OMNIBAL_RETURN_IF_ERROR(read(first, values));
    const int64_t bad = quantize(shape, first, values, reinterpret_cast<int32_t *>(to));
    if (bad >= 0)
      return notFinite(shape.kind, first + bad, shape.cols, values[static_cast<size_t>(bad)]);
  }
  return Status::ok();
}

Status loadQuantized(const StoredTensor &tensor, const Parameter &parameter, std::byte *to) {
  const std::string where = "parameter \"" + tensor.name + "\"";
  std::vector<float> turned;
  if (parameter.transposed) {
    auto read = readTransposed(tensor, parameter.quantization);
    if (!read)
      return std::move(read).status().context(where);
    turned = *std::move(read);
  }
  auto read = [&](int64_t first, std::span<float> values) {
    const auto count = static_cast<int64_t>(values.size());
    if (parameter.transposed) {
      std::copy_n(turned.begin() + first, count, values.begin());
      return Status::ok();
    }
    OMNIBAL_RETURN_IF_ERROR(convertTensor(tensor, DType::F32, values.data(), first, count));
    releasePages(tensor, first, count);
    return Status::ok();
  };
  return quantizeInto(parameter.quantizedShape(), read, to).context(where);
}

} // namespace omnibal::rt
