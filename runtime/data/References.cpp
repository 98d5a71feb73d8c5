#include "runtime/data/References.h"
#include "runtime/data/Packing.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Checksum.h"
#include "runtime/support/Formats.h"
#include "runtime/support/Json.h"
#include <cmath>
#include <fstream>
#include <limits>

namespace omnibal::rt {
namespace {

using nlohmann::ordered_json;

/// Bytes of lines that go to the file together.
constexpr size_t writtenAtOnce = 1 << 16;

Status badLine(const std::string &path, int64_t line, const std::string &what) {
  return Status(Code::DataLoss, path + ", line " + std::to_string(line) + ": " + what +
                                    "; remove the file, and it is made again");
}

/// The text of a field; empty where there is none.
std::string textOf(const nlohmann::json &object, const char *field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Checks the first line.
Status checkHeader(const std::string &path, const std::string &line, const std::string &weights,
                   int64_t &samples) {
  auto header = parseJson(line, path);
  if (!header || !header->is_object() || textOf(*header, "format") != formats::references ||
      !header->contains("samples") || !(*header)["samples"].is_number_unsigned())
    return badLine(path, 1, std::string("is not the beginning of ") + formats::references);
  if (!weights.empty() && textOf(*header, "weights") != weights)
    return invalid(path + ": the reference's log-probabilities were found by other weights than "
                          "those that --weights and --adapter begin with; give those, or another "
                          "file, which is made where there is none");
  const std::optional<int64_t> count = integerOf((*header)["samples"]);
  if (!count)
    return badLine(path, 1, "counts more pairs than there can be");
  samples = *count;
  return Status::ok();
}

bool isFloat(double number) {
  return std::abs(number) <= double{std::numeric_limits<float>::max()};
}

/// Reads one entry, if the line holds one.
bool readEntry(const nlohmann::json &line, std::string &key, References::Entry &entry) {
  if (!line.is_object() || !line.contains("key"))
    return false;
  for (const char *name : {"chosen", "rejected"})
    if (!line.contains(name) || !line[name].is_number())
      return false;
  const std::string digest = textOf(line, "digest");
  char *end = nullptr;
  entry.digest = std::strtoull(digest.c_str(), &end, 16);
  if (digest.size() != 16 || *end != 0)
    return false;
  key = textOf(line, "key");
  const auto chosen = line["chosen"].get<double>(), rejected = line["rejected"].get<double>();
  if (!isFloat(chosen) || !isFloat(rejected))
    return false;
  entry.values = {static_cast<float>(chosen), static_cast<float>(rejected)};
  return true;
}

std::string hexadecimal(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

} // namespace

uint64_t digestOfPair(std::span<const int32_t> inputIds, std::span<const int32_t> targets) {
  return fnv1aWords(targets, fnv1aWords(inputIds, fnv1a("")));
}

uint64_t digestOfPair(const Sample &pair) {
  std::vector<int32_t> targets;
  for (const TokenRange &sequence : sequencesOf(pair))
    for (int64_t t = sequence.begin; t < sequence.end; ++t) {
      const int32_t label = t + 1 < sequence.end ? pair.labels[t + 1] : ignoredLabel;
      targets.push_back(label == ignoredLabel ? noTarget : label);
    }
  return digestOfPair(pair.inputIds, targets);
}

Result<PairReference> References::of(int64_t index, const Sample &sample) const {
  const Entry &entry = entries.at(index);
  if (entry.digest != digestOfPair(sample))
    return invalid("sample \"" + sample.key + "\": " + from +
                   " has the reference's log-probabilities of another pair under this key; remove "
                   "the file, and it is made again");
  return entry.values;
}

Status References::write(const std::string &path, const Dataset &dataset,
                         const std::string &weights) const {
  OMNIBAL_ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::create(path));
  std::string held;
  auto writeHeld = [&](size_t most) {
    if (held.size() <= most)
      return Status::ok();
    Status written = out.write(held.data(), held.size());
    held.clear();
    return written;
  };
  auto writeLine = [&](const ordered_json &line) {
    held += line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
    return writeHeld(writtenAtOnce);
  };
  OMNIBAL_RETURN_IF_ERROR(
      writeLine({{"format", formats::references}, {"weights", weights}, {"samples", size()}}));
  for (int64_t i = 0; i < size(); ++i)
    OMNIBAL_RETURN_IF_ERROR(writeLine({{"key", dataset.key(i)},
                                       {"chosen", entries[i].values.chosen},
                                       {"rejected", entries[i].values.rejected},
                                       {"digest", hexadecimal(entries[i].digest)}}));
  OMNIBAL_RETURN_IF_ERROR(writeHeld(0));
  return out.commit();
}

Result<References> References::read(const std::string &path, const Dataset &dataset,
                                    const std::string &weights) {
  std::ifstream in(path);
  std::string line;
  if (!in || !std::getline(in, line))
    return Status(Code::Unavailable, path + ": cannot be read (--reference)");
  int64_t samples = 0, number = 1;
  OMNIBAL_RETURN_IF_ERROR(checkHeader(path, line, weights, samples));
  std::vector<Entry> entries(static_cast<size_t>(dataset.size()));
  std::vector<bool> known(entries.size());
  for (; std::getline(in, line); --samples) {
    ++number;
    std::string key;
    Entry entry;
    auto value = parseJson(line, path);
    if (!value || !readEntry(*value, key, entry))
      return badLine(path, number, "holds no log-probabilities of a pair");
    if (const int64_t index = dataset.find(key); index >= 0) {
      entries[index] = entry;
      known[index] = true;
    }
  }
  if (samples != 0)
    return badLine(path, number, "ends before the last pair");
  for (int64_t i = 0; i < dataset.size(); ++i)
    if (!known[i])
      return invalid(path + ": has no log-probabilities of sample \"" + dataset.key(i) +
                     "\"; remove the file, and it is made for all samples of the data set");
  return References(std::move(entries), path);
}

} // namespace omnibal::rt
