//===- AdapterStart.h - Where the parameters of adapters begin --------------------------------===//
#ifndef RUNTIME_EXECUTOR_ADAPTERSTART_H
#define RUNTIME_EXECUTOR_ADAPTERSTART_H

#include "runtime/program/Adapters.h"
#include "runtime/support/Safetensors.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Values of what a program's adapters train, where its weights have none.
struct AdapterStart {
  std::optional<TensorFiles> folder = {}; ///< of adapters, which has all of them; none: fresh ones
  uint64_t seed = 0;                      ///< of fresh ones
};

/// Where each parameter's values are stored, if they are.
class FirstValues {
public:
  FirstValues(const TensorFiles &weights, const Adapters &adapters, const AdapterStart &start)
      : weights(weights), start(start) {
    if (start.folder)
      for (const AdapterTensor &tensor : adapterTensors(adapters))
        inFolder[tensor.parameter] = tensor.key;
  }

  const StoredTensor *find(const std::string &parameter) const {
    return filesOf(parameter).find(nameOf(parameter));
  }
  const TensorFiles &filesOf(const std::string &parameter) const {
    return inFolder.contains(parameter) ? *start.folder : weights;
  }
  const std::string &nameOf(const std::string &parameter) const {
    const auto key = inFolder.find(parameter);
    return key == inFolder.end() ? parameter : key->second;
  }

private:
  const TensorFiles &weights;
  const AdapterStart &start;
  std::map<std::string, std::string> inFolder;
};

/// Fresh values, dense: those of A are uniform in [-1 / sqrt(in), 1 / sqrt(in)), as PEFT draws
/// them, and those of B are zero, so that training begins at the model. They follow from name and
/// seed, whatever the layout of the ranks. Empty if the parameter is not a matrix of an adapter.
std::vector<float> freshAdapter(const Adapters &adapters, const std::string &parameter,
                                const std::vector<int64_t> &shape, uint64_t seed);

/// A view of dense values as a stored tensor.
StoredTensor viewOf(const std::string &name, const std::vector<int64_t> &shape,
                    const std::vector<float> &values);

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_ADAPTERSTART_H
