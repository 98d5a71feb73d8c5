#include "runtime/checkpoint/MergedWeights.h"
#include "runtime/checkpoint/TensorBytes.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace omnibal::rt {
namespace {

/// Dense in the orientation of checkpoints.
Result<std::vector<float>> hostValues(const NamedTensor &tensor) {
  std::vector<float> values;
  values.reserve(static_cast<size_t>(elementsOf(tensor)));
  OMNIBAL_RETURN_IF_ERROR(streamTensor(tensor, [&](const float *data, size_t bytes) {
    const size_t count = bytes / sizeof(float);
    values.insert(values.end(), data, data + count);
    return Status::ok();
  }));
  return values;
}

/// One weight, which is nowhere until it is read.
class MergedWeight final : public DeviceMemory {
public:
  MergedWeight(const StoredTensor &weight, NamedTensor a, NamedTensor b,
               std::optional<NamedTensor> magnitude, double scale, bool inOut)
      : weight(weight), a(std::move(a)), b(std::move(b)), magnitude(std::move(magnitude)),
        scale(static_cast<float>(scale)), inOut(inOut) {}

  Status write(void *, int64_t, const std::function<Status(std::byte *)> &) override {
    return {Code::Internal, "the merged weight \"" + weight.name + "\" cannot be written to"};
  }

  Status read(const void *, int64_t, const std::function<Status(const std::byte *)> &use) override {
    OMNIBAL_ASSIGN_OR_RETURN(const std::vector<float> ofA, hostValues(a));
    OMNIBAL_ASSIGN_OR_RETURN(const std::vector<float> ofB, hostValues(b));
    std::vector<float> magnitudes;
    if (magnitude) {
      OMNIBAL_ASSIGN_OR_RETURN(magnitudes, hostValues(*magnitude));
    }
    std::vector<float> merged(static_cast<size_t>(weight.elements));
    OMNIBAL_RETURN_IF_ERROR(convertTensor(weight, DType::F32, merged.data()));
    releasePages(weight, 0, weight.elements);
    const int64_t rank = a.shape[0], in = a.shape[1], out = b.shape[0];
    std::vector<float> row(static_cast<size_t>(in)); // of B A
    for (int64_t o = 0; o < out; ++o) {
      std::ranges::fill(row, 0.f);
      for (int64_t r = 0; r < rank; ++r) {
        const float factor = ofB[static_cast<size_t>(o * rank + r)];
        const float *from = ofA.data() + r * in;
        for (int64_t i = 0; i < in; ++i)
          row[static_cast<size_t>(i)] += factor * from[i];
      }
      float *to = merged.data() + (inOut ? o : o * in);
      const int64_t stride = inOut ? out : 1;
      for (int64_t i = 0; i < in; ++i)
        to[i * stride] += scale * row[static_cast<size_t>(i)];
      if (magnitude)
        OMNIBAL_RETURN_IF_ERROR(setNorm(to, in, stride, magnitudes[static_cast<size_t>(o)]));
    }
    return use(reinterpret_cast<const std::byte *>(merged.data()));
  }

private:
  /// Gives a row, of which the direction stays, this norm.
  Status setNorm(float *row, int64_t count, int64_t stride, float norm) const {
    double squares = 0;
    for (int64_t i = 0; i < count; ++i)
      squares += double{row[i * stride]} * row[i * stride];
    if (squares == 0)
      return invalid("the weight \"" + weight.name +
                     "\" has a row of zeros, which its adapter's magnitude cannot scale");
    const double factor = norm / std::sqrt(squares);
    for (int64_t i = 0; i < count; ++i)
      row[i * stride] = static_cast<float>(row[i * stride] * factor);
    return Status::ok();
  }

  const StoredTensor &weight;
  NamedTensor a, b;
  std::optional<NamedTensor> magnitude;
  float scale;
  bool inOut;
};

} // namespace

Result<MergedWeights> MergedWeights::of(const Adapters &adapters, const TensorFiles &source,
                                        const std::vector<NamedTensor> &mine) {
  std::map<std::string, const NamedTensor *> byName;
  for (const NamedTensor &tensor : mine)
    byName[tensor.name] = &tensor;
  MergedWeights result;
  for (const LinearAdapter &linear : adapters.linears) {
    const auto a = byName.find(linear.a), b = byName.find(linear.b);
    const auto m = adapters.dora ? byName.find(linear.magnitude) : byName.end();
    if (a == byName.end() || b == byName.end() || (adapters.dora && m == byName.end()))
      continue;
    for (const auto &found : {a, b, m})
      if (found != byName.end() && (found->second->held || found->second->isPart()))
        return Status(Code::Internal, "only a share of \"" + found->first +
                                          "\" is here, and merging needs all of it");
    const StoredTensor *weight = source.find(linear.weight);
    std::vector<int64_t> shape = {b->second->shape[0], a->second->shape[1]};
    if (linear.inOut)
      std::swap(shape[0], shape[1]);
    if (!weight || weight->shape != shape)
      return invalid(source.path() + ": the weight \"" + linear.weight + "\" of an adapter is " +
                     (weight ? "of another shape" : "missing") +
                     "; --weights takes what the run began with");
    std::optional<NamedTensor> magnitude;
    if (adapters.dora)
      magnitude = *m->second;
    result.memories.push_back(std::make_unique<MergedWeight>(
        *weight, *a->second, *b->second, magnitude, adapters.scale(), linear.inOut));
    result.list.push_back({linear.weight, shape, nullptr, false, result.memories.back().get()});
    byName.erase(a);
    byName.erase(b);
    if (adapters.dora)
      byName.erase(m);
  }
  for (const auto &[name, tensor] : byName)
    result.list.push_back(*tensor);
  return result;
}

std::vector<std::string> mergedNames(const Adapters &adapters) {
  std::vector<std::string> names;
  for (const LinearAdapter &linear : adapters.linears)
    names.push_back(linear.weight);
  for (const SavedParameter &saved : adapters.saved)
    names.push_back(saved.parameter);
  return names;
}

} // namespace omnibal::rt
