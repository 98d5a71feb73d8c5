//===- Companions.h - What lies beside the weights in a model's folder -------------------===//
#ifndef RUNTIME_CHECKPOINT_COMPANIONS_H
#define RUNTIME_CHECKPOINT_COMPANIONS_H

#include "runtime/support/FolderFiles.h"
#include "runtime/support/Safetensors.h"
#include "runtime/support/Types.h"
#include <optional>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Returns the sorted names of the files in the folder that Transformers reads to build model,
/// tokenizer and processor.
std::vector<std::string> companionsOf(const FolderFiles &source);
/// Returns the contents of one of them. `type` is the type of the weights that will lie next to the
/// copy, which the model's configuration names; without it the configuration keeps the source's
/// type.
Result<std::string> readCompanion(const FolderFiles &source, const std::string &name,
                                  std::optional<StoredType> type);
/// Copies them to another folder, each file atomically; copying a folder onto itself changes only
/// the named type.
Status copyCompanions(const FolderFiles &source, const std::string &to,
                      std::optional<StoredType> type);

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_COMPANIONS_H
