//===- BatchesFolder.h - What omnibal-batch writes and others read --------------------------===//
//
//   samples.npy   int64 [samples in groups]: sample numbers, group after group
//   groups.npy    int64 [groups + 1]: offsets into samples.npy
//   lengths.npy   int32 [samples, 2]: tiles and tokens, so that any epoch can be composed anew
//                 from (seed, epoch) without the data
//   squares.npy   int64 [samples]: sums over the pictures of a sample of their squared numbers of
//                 units; only where they are known
//   rows.npy      int32 [rows, 2]: length group and step of each row; only with length groups
//   groups.json   the length groups (lengths/GroupsFile.h) and their statistics; only with them
//   batches.json  settings and statistics; it appears last and disappears first, so a folder that
//                 has it is complete
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_IO_BATCHESFOLDER_H
#define RUNTIME_BATCHING_IO_BATCHESFOLDER_H

#include "runtime/batching/Balance.h"
#include "runtime/batching/pack/Mixture.h"
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace omnibal::rt {

/// Returns the name that the command line uses: "plan", "isf", ...; "error", "own-group", "skip".
const char *name(BatchMethod method);
const char *name(Oversize oversize);
std::optional<BatchMethod> batchMethodNamed(std::string_view name);
std::optional<Oversize> oversizeNamed(std::string_view name);

/// How batches came about and how good they are.
struct BatchesRecord {
  BatchOptions options;
  Mix mix;
  int64_t samples = 0;        ///< of the epoch, skipped ones included; without a mix, of the table
  bool knowsPictures = false; ///< the sizes of the samples' pictures
  BalanceStatistics before, after;
  double seconds = 0;       ///< packing and forming rows, without files
  int64_t peakRssBytes = 0; ///< of the process until then
};

/// The object of batches.json. Everything but `seconds` and `peak_rss_bytes` is a function of the
/// lengths and the options.
nlohmann::ordered_json describe(const BatchesRecord &record, const Batches &batches);

/// What a folder with length groups has besides.
struct LengthGroupFiles {
  std::vector<int32_t> rows;     ///< rows.npy: length group and step of each row
  nlohmann::ordered_json groups; ///< groups.json
};

/// Creates the folder and writes its files; `description` is that of batches with these lengths.
/// After an error, no batches.json stands over a mixture of old and new files.
Status writeBatchesFolder(const std::string &folder, const SampleLengths &lengths,
                          const Batches &batches, const nlohmann::ordered_json &description,
                          const LengthGroupFiles *lengthGroups = nullptr);

/// What is needed to compose a folder's batches again, also for other epochs.
struct Composition {
  SampleLengths lengths;
  BatchOptions options;
  Mix mix;
};
/// Returns the batches of epoch composition.options.epoch + later; numbers refer to
/// composition.lengths.
Result<Batches> compose(const Composition &composition, int64_t later);
/// The same with another mix than the composition's.
Result<Batches> compose(const Composition &composition, const Mix &mix, int64_t later);

/// The samples of an epoch of a mix: entry i is sample numbers[i] of `lengths`. A data set that is
/// larger than its share is used over several epochs, and a smaller one is repeated within one.
struct MixedEpoch {
  SampleLengths lengths;
  std::vector<int64_t> numbers;
};
Result<MixedEpoch> drawEpoch(const SampleLengths &lengths, const Mix &mix, uint64_t seed,
                             int64_t epoch);
/// Turns batches of a drawn epoch's entries into batches of the samples themselves.
void renumber(const MixedEpoch &drawn, Batches &batches);

/// Reads batches.json, lengths.npy and squares.npy; errors name file and field. A folder with
/// several length groups is an error (lengths/GroupedFolder.h).
Result<Composition> readComposition(const std::string &folder);

/// Reads samples.npy and groups.npy of a folder: offsets ascend and span the samples, and there is
/// at least one group. `lowerBound` and `oversize` of the result are not filled.
Result<Batches> readGroups(const std::string &folder);

/// Reads batches.json alone.
Result<nlohmann::json> readDescription(const std::string &folder);
/// Reads lengths.npy, of so many samples.
Result<SampleLengths> readLengthsTable(const std::string &folder, int64_t samples);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_IO_BATCHESFOLDER_H
