#include "runtime/executor/MagnitudeStart.h"
#include "runtime/executor/QuantizedLoad.h"
#include "runtime/support/BFloat16.h"
#include <algorithm>
#include <cmath>

namespace omnibal::rt {
namespace {

/// Sums of squares of the rows of W + scale B A.
class RowSums {
public:
  /// A [rank, in] and B [out, rank], the latter with the scale; nothing: B is zero.
  RowSums(int64_t out, int64_t in, int64_t rank, std::vector<float> a, std::vector<double> b)
      : in(in), rank(rank), a(std::move(a)), b(std::move(b)), sums(static_cast<size_t>(out)) {}

  void add(int64_t o, int64_t i, float weight) {
    double value = weight;
    if (!b.empty())
      for (int64_t r = 0; r < rank; ++r)
        value += b[static_cast<size_t>(o * rank + r)] * a[static_cast<size_t>(r * in + i)];
    sums[static_cast<size_t>(o)] += value * value;
  }

  const std::vector<double> &of() const { return sums; }

private:
  int64_t in, rank;
  std::vector<float> a;
  std::vector<double> b;
  std::vector<double> sums;
};

/// The values that an adapter's matrix begins with.
Result<std::vector<float>> firstValues(const Adapters &adapters, const std::string &parameter,
                                       const std::vector<int64_t> &shape, const FirstValues &first,
                                       uint64_t seed) {
  const StoredTensor *stored = first.find(parameter);
  if (!stored)
    return freshAdapter(adapters, parameter, shape, seed);
  if (stored->shape != shape)
    return invalid(first.filesOf(parameter).path() + ": parameter \"" + parameter +
                   "\" has another shape than the program's");
  std::vector<float> values(static_cast<size_t>(stored->elements));
  OMNIBAL_RETURN_IF_ERROR(convertTensor(*stored, DType::F32, values.data()));
  return values;
}

/// W from its file, some lines at a time, rounded as it will lie in memory.
Status addStored(const StoredTensor &tensor, const Parameter &weight, bool inOut, RowSums &sums) {
  const int64_t lines = tensor.shape[0], length = tensor.shape[1];
  const int64_t step = std::max<int64_t>(1, 65536 / std::max<int64_t>(length, 1));
  std::vector<float> values(static_cast<size_t>(std::min(step, lines) * length));
  for (int64_t line = 0; line < lines; line += step) {
    const int64_t count = std::min(step, lines - line);
    OMNIBAL_RETURN_IF_ERROR(
        convertTensor(tensor, DType::F32, values.data(), line * length, count * length));
    releasePages(tensor, line * length, count * length);
    for (int64_t k = 0; k < count * length; ++k) {
      float value = values[static_cast<size_t>(k)];
      if (weight.dtype == DType::BF16)
        value = BFloat16::fromFloat(value).toFloat();
      const int64_t row = line + k / length, column = k % length;
      sums.add(inOut ? column : row, inOut ? row : column, value);
    }
  }
  return Status::ok();
}

/// What W's codes stand for.
Status addQuantized(const StoredTensor &tensor, const Parameter &weight, RowSums &sums) {
  const QuantizedShape shape = weight.quantizedShape();
  std::vector<int32_t> words(static_cast<size_t>(shape.words()));
  OMNIBAL_RETURN_IF_ERROR(
      loadQuantized(tensor, weight, reinterpret_cast<std::byte *>(words.data())));
  std::vector<float> row(static_cast<size_t>(shape.cols));
  for (int64_t o = 0; o < shape.rows; ++o) {
    dequantize(shape, words.data(), {o, 0, 1, shape.cols}, row.data(), shape.cols);
    for (int64_t i = 0; i < shape.cols; ++i)
      sums.add(o, i, row[static_cast<size_t>(i)]);
  }
  return Status::ok();
}

/// The scale is in B; nothing where that is zero.
std::vector<double> scaled(const std::vector<float> &b, double scale) {
  if (std::ranges::all_of(b, [](float value) { return value == 0; }))
    return {};
  std::vector<double> result;
  for (float value : b)
    result.push_back(scale * value);
  return result;
}

/// Norms of rows; a row of zeros has no direction.
Result<std::vector<float>> rootsOf(const std::vector<double> &sums, const std::string &where) {
  std::vector<float> norms;
  for (double sum : sums) {
    norms.push_back(static_cast<float>(std::sqrt(sum)));
    if (norms.back() > 0 && std::isfinite(norms.back()))
      continue;
    const std::string row = "row " + std::to_string(norms.size() - 1);
    return invalid(where + ": the norm of " + row + " is " + std::to_string(norms.back()) +
                   ", and adapters with magnitudes divide by it; leave the layer out of --lora, or "
                   "compile without --dora");
  }
  return norms;
}

} // namespace

Result<std::vector<float>> freshMagnitude(const Adapters &adapters, const Stage &stage,
                                          const std::string &parameter, const FirstValues &first,
                                          uint64_t seed) {
  const auto linear = std::ranges::find_if(adapters.linears, [&](const LinearAdapter &each) {
    return adapters.dora && each.magnitude == parameter;
  });
  if (linear == adapters.linears.end())
    return std::vector<float>();
  const auto weight = std::ranges::find(stage.parameters, linear->weight, &Parameter::name);
  const StoredTensor *tensor = first.find(linear->weight);
  const std::string where =
      first.filesOf(linear->weight).path() + ": parameter \"" + linear->weight + "\"";
  if (weight == stage.parameters.end() || !tensor || tensor->shape != weight->shape ||
      !isFloat(tensor->dtype))
    return invalid(where + " is missing, or not what the program needs, and \"" + parameter +
                   "\" begins with the norms of its rows");
  const int64_t out = weight->shape[linear->inOut ? 1 : 0],
                in = weight->shape[linear->inOut ? 0 : 1];
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<float> a,
                           firstValues(adapters, linear->a, {adapters.rank, in}, first, seed));
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<float> b,
                           firstValues(adapters, linear->b, {out, adapters.rank}, first, seed));
  RowSums sums(out, in, adapters.rank, std::move(a), scaled(b, adapters.scale()));
  OMNIBAL_RETURN_IF_ERROR(weight->quantization == Quantization::None
                              ? addStored(*tensor, *weight, linear->inOut, sums)
                              : addQuantized(*tensor, *weight, sums));
  return rootsOf(sums.of(), where);
}

} // namespace omnibal::rt
