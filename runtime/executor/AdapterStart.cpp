#include "runtime/executor/AdapterStart.h"
#include "runtime/support/Checksum.h"
#include "runtime/support/SplitMix.h"
#include <algorithm>
#include <cmath>

namespace omnibal::rt {
namespace {

/// In [-1, 1), with as many bits as a float32 holds exactly.
double uniform(uint64_t key, uint64_t index) {
  const uint64_t bits = SplitMix::at(key, index) >> 40;
  return static_cast<double>(bits) * 0x1p-23 - 1;
}

} // namespace

std::vector<float> freshAdapter(const Adapters &adapters, const std::string &parameter,
                                const std::vector<int64_t> &shape, uint64_t seed) {
  const auto linear = std::ranges::find_if(adapters.linears, [&](const LinearAdapter &each) {
    return each.a == parameter || each.b == parameter;
  });
  if (linear == adapters.linears.end())
    return {};
  std::vector<float> values(static_cast<size_t>(shape[0] * shape[1]));
  if (linear->b == parameter)
    return values;
  const double bound = 1 / std::sqrt(static_cast<double>(shape[1]));
  const uint64_t key = fnv1a(parameter, SplitMix::mixed(seed));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(bound * uniform(key, i));
  return values;
}

StoredTensor viewOf(const std::string &name, const std::vector<int64_t> &shape,
                    const std::vector<float> &values) {
  StoredTensor tensor;
  tensor.name = name;
  tensor.shape = shape;
  tensor.elements = static_cast<int64_t>(values.size());
  tensor.data = reinterpret_cast<const std::byte *>(values.data());
  tensor.bytes = tensor.elements * int64_t{sizeof(float)};
  return tensor;
}

} // namespace omnibal::rt
