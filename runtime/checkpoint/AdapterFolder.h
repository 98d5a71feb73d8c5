//===- AdapterFolder.h - Adapters as PEFT stores them ----------------------------------------===//
#ifndef RUNTIME_CHECKPOINT_ADAPTERFOLDER_H
#define RUNTIME_CHECKPOINT_ADAPTERFOLDER_H

#include "runtime/checkpoint/NamedTensor.h"
#include "runtime/program/Adapters.h"
#include "runtime/support/Safetensors.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Opens a folder with adapter_config.json and adapter_model.safetensors. It must be LoRA of the
/// rank and scale of `adapters`, and hold their tensors and no others.
Result<TensorFiles> openAdapterFolder(const std::string &folder, const Adapters &adapters,
                                      const std::vector<std::string> &linkFolders);

/// Shapes of parameters by name.
using ParameterShapes = std::map<std::string, std::vector<int64_t>>;

struct AdapterFolderOptions {
  std::string folder = {};
  std::optional<StoredType> type = {}; ///< of all numbers; none: float32
};

/// Writes such a folder, which PEFT loads beside the model of `source`. Every rank calls this;
/// `mine` has what this rank holds and writes, and `shapes` all that trains, on every rank.
/// `source` is open on the rank with `leads`. Where float16 cannot hold a number, all are float32,
/// and a notice says so.
Status saveAdapterFolder(const AdapterFolderOptions &options, const Adapters &adapters,
                         const ParameterShapes &shapes, const TensorFiles &source,
                         const std::vector<NamedTensor> &mine, bool leads, const Agreement &agree,
                         std::vector<std::string> &notices);

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_ADAPTERFOLDER_H
