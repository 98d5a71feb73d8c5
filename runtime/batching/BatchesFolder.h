//===- BatchesFolder.h - What omnibal-batch writes and others read --------------------------===//
//
//   samples.npy   int64 [samples in groups]: sample numbers, group after group
//   groups.npy    int64 [groups + 1]: offsets into samples.npy
//   lengths.npy   int32 [samples, 2]: tiles and tokens, so that any epoch can be composed anew
//                 from (seed, epoch) without the data
//   batches.json  settings and statistics; it appears last and disappears first, so a folder that
//                 has it is complete
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_BATCHESFOLDER_H
#define RUNTIME_BATCHING_BATCHESFOLDER_H

#include "runtime/batching/Balance.h"
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace omnibal::rt {

/// As on the command line: "plan", "isf", ...; "error", "own-group", "skip".
const char *name(BatchMethod method);
const char *name(Oversize oversize);
std::optional<BatchMethod> batchMethodNamed(std::string_view name);
std::optional<Oversize> oversizeNamed(std::string_view name);

/// How batches came about and how good they are.
struct BatchesRecord {
  BatchOptions options;
  int64_t samples = 0; ///< of the table, skipped ones included
  BalanceStatistics before, after;
  double seconds = 0;       ///< packing and forming rows, without files
  int64_t peakRssBytes = 0; ///< of the process until then
};

/// The object of batches.json. Everything but `seconds` and `peak_rss_bytes` is a function of the
/// lengths and the options.
nlohmann::ordered_json describe(const BatchesRecord &record, const Batches &batches);

/// Writes the four files; creates the folder. On an error nothing of an older set of files is
/// mixed with new ones under a batches.json.
Status writeBatchesFolder(const std::string &folder, const SampleLengths &lengths,
                          const Batches &batches, const nlohmann::ordered_json &description);

/// What composes a folder's batches anew, for other epochs too: balance(lengths, options).
struct Composition {
  SampleLengths lengths;
  BatchOptions options;
};
/// From batches.json and lengths.npy; errors name file and field.
Result<Composition> readComposition(const std::string &folder);

/// {"tile_ns": ..., "token_ns": ..., "square_ns": ...}: numbers of at least 0, absent ones are 0,
/// one above 0; other keys are errors.
Result<LoadCost> readCostFile(const std::string &path);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_BATCHESFOLDER_H
