//===- ModelFolder.h - A trained model as a Hugging Face folder --------------------------===//
#ifndef RUNTIME_CHECKPOINT_MODELFOLDER_H
#define RUNTIME_CHECKPOINT_MODELFOLDER_H

#include "runtime/checkpoint/NamedTensor.h"
#include "runtime/support/Safetensors.h"
#include <optional>
#include <string>
#include <vector>

namespace omnibal::rt {

struct ModelFolderOptions {
  std::string folder = {};
  /// The type in which every tensor of floating-point numbers is written; without it each keeps the
  /// type that it has in the source.
  std::optional<StoredType> type = {};
  /// A model of more bytes is written in several files and an index.
  int64_t shardBytes = 5'000'000'000;
};

/// Writes the weights under the source's names, and copies the other files of the source's folder
/// that Transformers reads, so that it loads the folder. Every rank calls this. `trained` has the
/// names of all trained parameters of all stages and is the same on every rank. `source` is open on
/// ranks with `leads` and on ranks where something is `mine`. `mine` has the parameters that this
/// rank holds and writes (one rank for each name). Everything else in the source (frozen, or unused
/// by the graph) is copied byte by byte where it keeps its type. Where float16 cannot hold a
/// number, float32 is written in its place, and a notice says so. The weights appear, or replace
/// others, as a whole.
Status saveModelFolder(const ModelFolderOptions &options, const TensorFiles &source,
                       const std::vector<std::string> &trained,
                       const std::vector<NamedTensor> &mine, bool leads, const Agreement &agree,
                       std::vector<std::string> *notices = nullptr);

/// Checks what can be known before training about saving its result: that the files next to the
/// source's weights can be read.
Status checkModelFolderSource(const TensorFiles &source);

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_MODELFOLDER_H
