//===- ModelFolder.h - A trained model as a Hugging Face folder --------------------------===//
#ifndef RUNTIME_CHECKPOINT_MODELFOLDER_H
#define RUNTIME_CHECKPOINT_MODELFOLDER_H

#include "runtime/checkpoint/Agreement.h"
#include "runtime/core/Safetensors.h"
#include <string>
#include <vector>

namespace omnibal::rt {

/// Writes FOLDER/model.safetensors and beside it copies of config.json, tokenizer and processor
/// files that lie beside the source weights, so that Transformers loads the folder. Every rank
/// calls this. `trained`: names of all trained parameters of all stages, the same on every rank:
/// written as float32. `source`: open where `leads` or something is `mine`. `mine`: those that this
/// rank holds and writes (one rank for each name). Everything else in the source (frozen, or unused
/// by the graph) is copied unchanged.
Status saveModelFolder(const std::string &folder, const TensorFiles &source,
                       const std::vector<std::string> &trained,
                       const std::vector<NamedTensor> &mine, bool leads, const Agreement &agree);

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_MODELFOLDER_H
