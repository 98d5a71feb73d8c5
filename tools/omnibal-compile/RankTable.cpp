#include "tools/omnibal-compile/RankTable.h"
#include "tools/report/TextTable.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <set>

namespace omnibal::compile {
namespace {

std::string milliseconds(int64_t ns) {
  return llvm::formatv("{0:f2} ms", static_cast<double>(ns) / 1e6).str();
}

/// Why a division has no plan is too long for a table; it stands below.
std::string outcome(const plan::RankCandidate &candidate) {
  if (candidate.layoutPrice) {
    plan::RankCandidate plain = candidate;
    plain.layoutPrice.reset();
    std::string text = outcome(plain) + ", with --layout-price ";
    llvm::raw_string_ostream(text) << llvm::format("%g", *candidate.layoutPrice);
    return text;
  }
  if (candidate.isChosen)
    return "chosen";
  if (candidate.stepNs)
    return candidate.ruledOut.empty() ? "slower" : candidate.ruledOut;
  if (candidate.isRefused)
    return "cannot be divided";
  return candidate.isInfeasible ? "does not fit" : candidate.ruledOut;
}

std::string neighborsOf(const planner::RankDivision &division) {
  return division.rankOrder == rt::RankOrder::Replica ? "replicas" : "stages";
}

/// Reasons, a line each. Divisions that are refused for their number of parts say so once.
std::string reasons(const plan::RankReport &report, bool haveOrders) {
  std::string text;
  std::set<std::pair<int64_t, std::string>> refused;
  for (const plan::RankCandidate &candidate : report.candidates) {
    const planner::RankDivision &division = candidate.division;
    if (candidate.isInfeasible)
      text += llvm::formatv("{0} x {1} x {2}{3}{4}: {5}\n", division.parts, division.stages,
                            division.replicas, division.zero ? " with ZeRO-1" : "",
                            haveOrders ? ", neighbors " + neighborsOf(division) : std::string(),
                            candidate.ruledOut);
    else if (candidate.isRefused && refused.insert({division.parts, candidate.ruledOut}).second)
      text += llvm::formatv("{0} parts: {1}\n", division.parts, candidate.ruledOut);
  }
  return text;
}

} // namespace

std::string rankTable(const plan::RankReport &report, const std::string &withoutParts) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::formatv("\ndivisions of {0} ranks, {1} micro-batches a step:\n", report.limits.ranks,
                       report.limits.groups);
  const bool haveOrders = llvm::any_of(report.candidates, [](const auto &candidate) {
    return candidate.division.rankOrder != rt::RankOrder::Stage;
  });
  std::vector<std::vector<std::string>> rows = {
      {"parts", "stages", "replicas", "ZeRO-1", "micro-batches", "predicted step", "bound", ""}};
  auto addOrder = [&](const std::string &text) {
    if (haveOrders)
      rows.back().insert(rows.back().begin() + 3, text);
  };
  addOrder("neighbors");
  for (const plan::RankCandidate &candidate : report.candidates) {
    const planner::RankDivision &division = candidate.division;
    const bool hasBound = !candidate.isInfeasible && !candidate.isRefused;
    rows.push_back({std::to_string(division.parts), std::to_string(division.stages),
                    std::to_string(division.replicas), division.zero ? "yes" : "no",
                    std::to_string(division.microbatches),
                    candidate.stepNs ? milliseconds(*candidate.stepNs) : "-",
                    hasBound ? milliseconds(candidate.boundNs) : "-", outcome(candidate)});
    addOrder(neighborsOf(division));
  }
  out << report::textTable(rows, report::Align::Right);
  out << reasons(report, haveOrders);
  if (!withoutParts.empty())
    out << "stages have one part, as " << withoutParts
        << " does not go together with parts that differ yet\n";
  const auto least = static_cast<double>(std::max<int64_t>(1, report.boundNs));
  const bool isWhole = llvm::none_of(report.candidates, [](const auto &c) { return c.isRefused; });
  out << llvm::formatv("no plan of any {0} takes less than {1} (gap {2:f2}%)\n",
                       isWhole ? "division" : "other division", milliseconds(report.boundNs),
                       100 * (static_cast<double>(*report.chosen().stepNs) / least - 1));
  return text;
}

} // namespace omnibal::compile
