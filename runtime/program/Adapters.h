//===- Adapters.h - Low-rank adapters of linear layers ----------------------------------------===//
#ifndef RUNTIME_PROGRAM_ADAPTERS_H
#define RUNTIME_PROGRAM_ADAPTERS_H

#include "runtime/support/JsonField.h"
#include "runtime/support/Status.h"
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace omnibal::rt {

/// y = W x + scale B (A x) with W [out, in], A [rank, in] and B [out, rank]. With DoRA, before a
/// bias, y is multiplied by magnitude / the norms of the rows of W + scale B A.
struct LinearAdapter {
  std::string weight;         ///< W's parameter, by its name in the source checkpoint
  std::string module;         ///< path of the linear layer in the model
  std::string a, b;           ///< the parameters
  bool inOut = false;         ///< the checkpoint has W as [in, out]
  std::string magnitude = {}; ///< [out]; empty without DoRA

  friend bool operator==(const LinearAdapter &, const LinearAdapter &) = default;
};

/// A parameter that trains as it is, with all others of its module.
struct SavedParameter {
  std::string parameter; ///< by its name in the source checkpoint
  std::string module;    ///< path in the model

  friend bool operator==(const SavedParameter &, const SavedParameter &) = default;
};

/// What a program trains in place of the model's own weights; nothing of `linears`: it has none.
struct Adapters {
  int64_t rank = 0;
  double alpha = 0;
  bool rankStabilized = false; ///< the scale is alpha / sqrt(rank), not alpha / rank
  double dropout = 0;          ///< share of A's input that is dropped in training
  bool dora = false;           ///< each linear layer has a magnitude
  std::vector<LinearAdapter> linears;
  std::vector<SavedParameter> saved;

  bool empty() const { return linears.empty(); }
  double scale() const;
  friend bool operator==(const Adapters &, const Adapters &) = default;
};

/// The tensor that a parameter is in a folder of adapters.
struct AdapterTensor {
  std::string parameter, key;
};
/// All of them, in the order of `adapters`.
std::vector<AdapterTensor> adapterTensors(const Adapters &adapters);

nlohmann::json adaptersToJson(const Adapters &adapters);
Adapters adaptersFromJson(JsonField field);

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_ADAPTERS_H
