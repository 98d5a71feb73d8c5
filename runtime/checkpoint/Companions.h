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

/// Names, sorted, of the files in the folder that Transformers reads to build model, tokenizer and
/// processor.
std::vector<std::string> companionsOf(const FolderFiles &source);
/// Contents of one of them. `type`: of the weights that will lie beside the copy; the model's
/// configuration names it. None: the source's.
Result<std::string> readCompanion(const FolderFiles &source, const std::string &name,
                                  std::optional<StoredType> type);
/// Copies them to another folder, each file atomically; a folder onto itself changes nothing but
/// the named type.
Status copyCompanions(const FolderFiles &source, const std::string &to,
                      std::optional<StoredType> type);

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_COMPANIONS_H
