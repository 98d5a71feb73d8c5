#include "runtime/training/evaluation/FindReferences.h"
#include "runtime/comm/Gather.h"
#include "runtime/support/Checksum.h"
#include "runtime/support/TensorFingerprint.h"
#include "runtime/training/evaluation/EvaluateInOrder.h"
#include <cmath>
#include <filesystem>
#include <iostream>

namespace omnibal::rt {
namespace {

using nlohmann::json;

/// Pairs whose numbers travel at a time.
constexpr int64_t pairsAtOnce = 1 << 14;

/// A pair's numbers as ranks add them up: only the one that found them has any. A digest travels in
/// halves, which doubles hold exactly.
constexpr int64_t numbersOfPair = 4;

void encode(const References::Entry &entry, std::span<double> out) {
  out[0] = entry.values.chosen;
  out[1] = entry.values.rejected;
  out[2] = static_cast<double>(entry.digest >> 32);
  out[3] = static_cast<double>(entry.digest & 0xffffffff);
}
References::Entry decode(std::span<const double> in) {
  return {{static_cast<float>(in[0]), static_cast<float>(in[1])},
          static_cast<uint64_t>(in[2]) << 32 | static_cast<uint64_t>(in[3])};
}

/// Adds up what all ranks have; afterwards all have everything.
Status share(const Session &s, std::vector<References::Entry> &entries) {
  const std::vector<int> everyone = s.communicator.everyone();
  std::vector<double> block;
  for (int64_t first = 0; first < std::ssize(entries); first += pairsAtOnce) {
    const int64_t count = std::min<int64_t>(pairsAtOnce, std::ssize(entries) - first);
    block.assign(static_cast<size_t>(count * numbersOfPair), 0.0);
    for (int64_t i = 0; i < count; ++i)
      encode(entries[first + i], std::span(block).subspan(i * numbersOfPair, numbersOfPair));
    OMNIBAL_RETURN_IF_ERROR(s.communicator.allReduce(std::span<double>(block), everyone));
    for (int64_t i = 0; i < count; ++i)
      entries[first + i] = decode(std::span(block).subspan(i * numbersOfPair, numbersOfPair));
  }
  return Status::ok();
}

/// The fingerprint of all weights that training begins with, the same on all ranks. Each tensor is
/// read by the rank that reads its weights.
Result<std::string> fingerprintOfWeights(const Session &s, const AdapterStart &adapters) {
  const FirstValues values(s.weights, s.program().adapters, adapters);
  std::vector<const StoredTensor *> tensors;
  std::vector<std::string> names;
  for (const Parameter &q : s.executor->stageInfo().parameters)
    if (s.executor->reads(q))
      if (const StoredTensor *tensor = values.find(q.name)) {
        tensors.push_back(tensor);
        names.push_back(q.name);
      }
  std::vector<std::string> fingerprints(tensors.size());
  OMNIBAL_RETURN_IF_ERROR(s.agree.after([&] {
    s.executor->pool().parallelFor(
        std::ssize(tensors), [&](int64_t i, int) { fingerprints[i] = fingerprintOf(*tensors[i]); });
    return Status::ok();
  }));
  json mine = json::object();
  for (size_t i = 0; i < names.size(); ++i)
    mine[names[i]] = fingerprints[i];
  OMNIBAL_ASSIGN_OR_RETURN(auto texts, gatherTexts(s.communicator, mine.dump()));
  json all = json::object();
  for (const std::string &text : texts)
    all.update(json::parse(text));
  std::string fingerprint = checksumText(fnv1a(all.dump()));
  OMNIBAL_RETURN_IF_ERROR(s.communicator.broadcast(fingerprint, 0));
  return fingerprint;
}

/// Where the references of a data set are.
struct ReferenceFile {
  const DataSource &data;
  const std::string &path, &flag;
  std::string weights; ///< the fingerprint that they must have; empty: any
};

class Finder {
public:
  Finder(Session &session, ReferenceFile file) : s(session), file(std::move(file)) {}

  Result<std::shared_ptr<const References>> run() {
    std::string isThere = s.leads() && std::filesystem::exists(file.path, ignored) ? "yes" : "";
    OMNIBAL_RETURN_IF_ERROR(s.communicator.broadcast(isThere, 0));
    const bool makes = isThere.empty();
    if (makes && file.weights.empty())
      return invalid(file.flag + ": " + file.path +
                     " does not exist; training makes it before its first step, when the model is "
                     "still what it begins with, and so does --find-references with its --weights");
    std::vector<References::Entry> entries(static_cast<size_t>(file.data.dataset->size()));
    OMNIBAL_RETURN_IF_ERROR(makes ? compute(entries) : read(entries));
    OMNIBAL_RETURN_IF_ERROR(share(s, entries));
    auto found = std::make_shared<const References>(std::move(entries), file.path);
    if (makes)
      OMNIBAL_RETURN_IF_ERROR(s.agree.after([&] { return write(*found); }));
    return found;
  }

private:
  Status read(std::vector<References::Entry> &entries) {
    return s.agree.after([&] {
      if (!s.leads())
        return Status::ok();
      auto held = References::read(file.path, *file.data.dataset, file.weights);
      if (!held)
        return std::move(held).status().context(file.flag);
      entries = held->all();
      return Status::ok();
    });
  }

  /// With references of 0, a reward is a log-probability times beta.
  Status compute(std::vector<References::Entry> &entries) {
    if (s.leads())
      std::cerr << "omnibal-run: finding the log-probabilities of " << file.data.dataset->size()
                << " pairs by the weights that training begins with, for " << file.path
                << std::endl;
    const double beta = s.program().info.preferenceBeta;
    Status unread, undefined;
    OMNIBAL_RETURN_IF_ERROR(evaluateInOrder(
        s, {file.data, nullptr, "finding references"},
        [&](std::span<const int64_t> samples, const BatchValue &result, const std::byte *bytes,
            const PackedMicrobatch &batch) {
          const bool chosen = result.name == chosenRewardResult;
          if (!chosen && result.name != rejectedRewardResult)
            return;
          for (size_t i = 0; i < samples.size(); ++i) {
            const int64_t begin = batch.borders[2 * i], count = batch.borders[2 * i + 2] - begin;
            References::Entry &entry = entries[samples[i]];
            const double value = reinterpret_cast<const float *>(bytes)[begin] / beta;
            (chosen ? entry.values.chosen : entry.values.rejected) = static_cast<float>(value);
            entry.digest = digestOfPair(std::span(batch.inputIds).subspan(begin, count),
                                        std::span(batch.targets).subspan(begin, count));
            if (!std::isfinite(value) && undefined)
              undefined = invalid(file.data.dataset->describe(samples[i]) +
                                  ": the log-probability of an answer is not a finite number; are "
                                  "these the right weights?");
          }
        },
        unread));
    OMNIBAL_RETURN_IF_ERROR(unread);
    return s.agree(std::move(undefined));
  }

  Status write(const References &found) {
    if (!s.leads())
      return Status::ok();
    Status written = found.write(file.path, *file.data.dataset, file.weights);
    return std::move(written).context(file.flag);
  }

  Session &s;
  ReferenceFile file;
  std::error_code ignored;
};

/// What is wrong with the flags; the same on all ranks.
Status checkFlags(const Session &s) {
  const RunOptions &o = s.options;
  if (!s.program().info.learnsFromPairs())
    return o.reference.empty() && o.evaluateReference.empty()
               ? Status::ok()
               : invalid(
                     "--reference is for programs that learn from pairs of answers; compile with "
                     "--loss dpo, or leave it out");
  if (o.reference.empty())
    return invalid(
        "--reference FILE is required: the program learns from pairs of answers, which it "
        "compares with what the model that training begins with thinks of them; training "
        "makes the file if it is not there");
  if (o.trains() && !o.evaluateData.empty() && o.evaluateReference.empty())
    return invalid("--evaluate-data needs --evaluate-reference FILE, which is for its pairs what "
                   "--reference is for those of --data");
  return Status::ok();
}

} // namespace

Status findReferences(Session &s, const DataSource &data, const AdapterStart &adapters) {
  OMNIBAL_RETURN_IF_ERROR(checkFlags(s));
  if (!s.program().info.learnsFromPairs())
    return Status::ok();
  std::string weights;
  if (s.options.trains() || s.options.findReferences) {
    OMNIBAL_ASSIGN_OR_RETURN(weights, fingerprintOfWeights(s, adapters));
  }
  static const std::string flag = "--reference", ofEvaluation = "--evaluate-reference";
  OMNIBAL_ASSIGN_OR_RETURN(s.references,
                           Finder(s, {data, s.options.reference, flag, weights}).run());
  if (data.evaluation) {
    OMNIBAL_ASSIGN_OR_RETURN(
        s.evaluationReferences,
        Finder(s, {*data.evaluation, s.options.evaluateReference, ofEvaluation, weights}).run());
  }
  return Status::ok();
}

} // namespace omnibal::rt
