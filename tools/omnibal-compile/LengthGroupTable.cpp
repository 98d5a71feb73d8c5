//===- LengthGroupTable.cpp ----------------------------------------------------------------===//
#include "tools/omnibal-compile/LengthGroupTable.h"
#include "runtime/program/Names.h"
#include "tools/report/TextTable.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

namespace omnibal::compile {
namespace {

std::string seconds(double ns) { return llvm::formatv("{0:f3} s", ns / 1e9).str(); }

std::string list(const std::vector<int64_t> &numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

} // namespace

std::string lengthGroupTable(const plan::LengthGroupReport &report, const std::string &times) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::formatv("length groups: {0} of {1} candidates fit, for {2} samples and about {3} "
                       "tokens a step; times of {4}\n",
                       report.candidates.size(), report.tried, report.samples, report.tokensPerStep,
                       times);
  out << llvm::formatv("cuts of all: {0} ({1} tried)\n", list(report.cuts), report.cutsTried);
  std::vector<std::vector<std::string>> rows = {{"candidate", "tokens", "tiles", "micro-batches",
                                                 "recomputed", "memory", "us a token", "bubble",
                                                 "relaxed epoch"}};
  std::string chosen;
  for (const plan::CandidateRow &row : report.candidates) {
    if (row.chosen)
      chosen += (chosen.empty() ? "" : ", ") + row.name;
    if (!row.wanted && !row.chosen)
      continue;
    std::string bytes;
    for (int64_t stage : row.bytes)
      bytes += (bytes.empty() ? "" : ", ") + rt::bytesToString(stage);
    rows.push_back({row.name, std::to_string(row.tokens), std::to_string(row.tiles),
                    std::to_string(row.microbatches),
                    llvm::formatv("{0} of {1}", row.recomputed, report.layers).str(), bytes,
                    llvm::formatv("{0:f3}", row.tokenNs / 1000).str(),
                    llvm::formatv("{0:f1}%", 100 * row.bubble).str(), row.chosen ? "has it" : ""});
  }
  out << report::textTable(rows, report::Align::Right);
  out << llvm::formatv("relaxed epoch with {0}: {1}\n", chosen, seconds(report.relaxedNs));
  out << llvm::formatv("no cuts of any candidates take less than {0} (gap {1:f2}%)\n",
                       seconds(report.boundNs),
                       100 * (report.relaxedNs / std::max(1.0, report.boundNs) - 1));
  return text;
}

} // namespace omnibal::compile
