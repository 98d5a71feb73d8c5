#include "tools/omnibal-run/ShowSample.h"
#include "runtime/data/DataLoader.h"
#include "runtime/data/pictures/EncodePng.h"
#include "runtime/data/pictures/Image.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/training/session/Session.h"
#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <sstream>
#include <string_view>

namespace omnibal::rt {
namespace {

std::string counted(int64_t count, const std::string &what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// What a token is to training.
std::string_view partOf(const Sample &sample, const TokenRange &sequence, int64_t token,
                        int64_t imageTokenId) {
  if (imageTokenId >= 0 && sample.inputIds[token] == imageTokenId)
    return "picture";
  // Nothing comes before the first token that could predict it.
  return token > sequence.begin && sample.labels[token] != ignoredLabel ? "label" : "no label";
}

/// "151667 x 256, 12": equal neighbors together.
std::string runsOf(const int32_t *begin, const int32_t *end) {
  std::string text;
  while (begin != end) {
    const int32_t *next = std::find_if(begin, end, [&](int32_t value) { return value != *begin; });
    text += (text.empty() ? "" : ", ") + std::to_string(*begin);
    if (next - begin > 1)
      text += " x " + std::to_string(next - begin);
    begin = next;
  }
  return text;
}

/// A line for each run of tokens with one part.
void printTokens(const Sample &sample, const TokenRange &sequence, int64_t imageTokenId,
                 std::ostream &out) {
  out << std::left << std::setw(16) << "tokens" << std::setw(10) << "part" << "ids\n";
  for (int64_t begin = sequence.begin, end = 0; begin < sequence.end; begin = end) {
    const std::string_view part = partOf(sample, sequence, begin, imageTokenId);
    for (end = begin; end < sequence.end && partOf(sample, sequence, end, imageTokenId) == part;
         ++end)
      ;
    const std::string range =
        std::to_string(begin) + (end - begin > 1 ? "-" + std::to_string(end - 1) : "");
    out << std::setw(16) << range << std::setw(10) << part
        << runsOf(&sample.inputIds[begin], &sample.inputIds[begin] + (end - begin)) << "\n";
  }
}

/// Labels that are other ids than those of their tokens are rarely meant.
void printOtherLabels(const Sample &sample, std::ostream &out) {
  int64_t others = 0;
  size_t first = 0;
  for (size_t t = 0; t < sample.labels.size(); ++t)
    if (sample.labels[t] != ignoredLabel && sample.labels[t] != sample.inputIds[t])
      first = others++ == 0 ? t : first;
  if (others > 0)
    out << "labels other than the token of their place: " << others << ", the first at " << first
        << " (" << sample.labels[first] << ")\n";
}

void printTokenInputs(const Sample &sample, const Program &program, std::ostream &out) {
  for (const std::string &name : program.info.tokenInputs)
    if (auto found = sample.tokenInputs.find(name); found != sample.tokenInputs.end())
      out << name << ": "
          << runsOf(found->second.data(), found->second.data() + found->second.size()) << "\n";
}

/// Least, mean and most of what a picture becomes, over its channels.
std::string rangeOf(const Image &image, const Preprocess &preprocess) {
  double least = 0, most = 0, sum = 0;
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    const double value = preprocess.valuesOf(i % 3)[image.rgb[i]];
    least = i == 0 ? value : std::min(least, value);
    most = i == 0 ? value : std::max(most, value);
    sum += value;
  }
  std::ostringstream text;
  text << std::fixed << std::setprecision(3) << least << " to " << most << ", mean "
       << sum / static_cast<double>(std::max<size_t>(1, image.rgb.size()));
  return text.str();
}

/// A file's name, whatever the key holds.
std::string fileOf(const std::string &folder, std::string key, int64_t picture) {
  std::replace(key.begin(), key.end(), '/', '_');
  return (std::filesystem::path(folder) / (key + "." + std::to_string(picture) + ".png")).string();
}

/// One line, and the file that was asked for. `number`: among all that the model sees of the
/// sample.
Status printPicture(const Image &image, int64_t number, const std::string &size,
                    const DataSource &data, const std::string &key, const RunOptions &options,
                    std::ostream &out) {
  out << "picture " << number << ": " << image.width << " x " << image.height << " pixels, " << size
      << ", values " << rangeOf(image, data.preprocess);
  if (!options.output.empty()) {
    const std::string file = fileOf(options.output, key, number);
    OMNIBAL_ASSIGN_OR_RETURN(std::string png, encodePng(image));
    OMNIBAL_RETURN_IF_ERROR(writeFileAtomically(file, png));
    out << ", written to " << file;
  }
  out << "\n";
  return Status::ok();
}

Status printPictures(const DataSource &data, const Program &program, int64_t index,
                     const Sample &sample, const RunOptions &options, std::ostream &out) {
  const bool grid = program.info.grid.has_value();
  const int64_t pictures = data.dataset->pictures(index);
  for (int64_t p = 0, number = 0; p < pictures; ++p) {
    OMNIBAL_ASSIGN_OR_RETURN(std::vector<Image> tiles, data.dataset->picture(index, p));
    for (const Image &image : tiles)
      OMNIBAL_RETURN_IF_ERROR(printPicture(image, number++,
                                           grid ? counted(sample.pictures[p].count(), "unit")
                                                : counted(program.info.tokensPerTile, "token"),
                                           data, sample.key, options, out));
  }
  const std::vector<int64_t> &tile = program.info.tileShape;
  if (pictures == 0 || (!grid && tile.size() != 3))
    return Status::ok();
  // What a run does with them, and refuses of them.
  return pixelsOf(*data.dataset, index, data.preprocess, program).status();
}

} // namespace

Status showSample(const Program &program, const RunOptions &options, std::ostream &out) {
  OMNIBAL_ASSIGN_OR_RETURN(DataSource data, openData(options.data, options, program));
  const int64_t index = data.dataset->find(options.showSample);
  if (index < 0)
    return invalid(
        "--show-sample: no sample of --data has the key \"" + options.showSample +
        "\"; there are " + std::to_string(data.dataset->size()) +
        (data.dataset->size() > 0 ? ", the first is \"" + data.dataset->key(0) + "\"" : ""));
  if (std::error_code error; !options.output.empty() &&
                             (std::filesystem::create_directories(options.output, error), error))
    return invalid("-o: " + options.output + ": creating the folder failed: " + error.message());
  OMNIBAL_ASSIGN_OR_RETURN(Sample sample, data.dataset->sample(index));
  out << data.dataset->describe(index) << ": " << counted(sample.tokens(), "token") << ", "
      << labelTokensOf(sample) << " with a label, "
      << counted(sample.tiles, program.info.grid ? "unit" : "tile") << "\n";
  for (const TokenRange &sequence : sequencesOf(sample)) {
    if (sample.isPair())
      out << (sequence.begin == 0 ? "chosen" : "rejected")
          << " answer: " << counted(sequence.size(), "token") << ", "
          << labelTokensOf(sample, sequence) << " with a label\n";
    printTokens(sample, sequence, program.info.imageTokenId, out);
  }
  printOtherLabels(sample, out);
  printTokenInputs(sample, program, out);
  OMNIBAL_RETURN_IF_ERROR(printPictures(data, program, index, sample, options, out));
  return checkSample(sample, sampleRules(program)).context(data.dataset->describe(index));
}

} // namespace omnibal::rt
