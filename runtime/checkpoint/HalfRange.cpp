#include "runtime/checkpoint/HalfRange.h"
#include "runtime/checkpoint/TensorBytes.h"
#include "runtime/support/Float16.h"
#include <algorithm>
#include <cmath>
#include <span>

namespace omnibal::rt {

bool exceedsHalf(double value) {
  return std::isfinite(value) && std::isinf(Float16::fromDouble(value).toFloat());
}

std::string beyondHalf(const std::string &tensor, double value) {
  return "the tensor \"" + tensor + "\" holds " + std::to_string(value) + ", more than float16 can";
}

Result<std::string> findBeyondHalf(const std::vector<NamedTensor> &tensors) {
  std::string problem;
  for (const NamedTensor &tensor : tensors)
    OMNIBAL_RETURN_IF_ERROR(withHostCopy(tensor, [&](const NamedTensor &here) {
      const std::span<const float> values(here.data, static_cast<size_t>(elementsOf(here)));
      if (auto found = std::ranges::find_if(values, exceedsHalf); found != values.end())
        problem = beyondHalf(tensor.name, *found);
      return Status::ok();
    }));
  return problem;
}

} // namespace omnibal::rt
