#include "tools/omnibal-compile/RankTable.h"
#include "tools/report/TextTable.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

namespace omnibal::compile {
namespace {

std::string milliseconds(int64_t ns) {
  return llvm::formatv("{0:f2} ms", static_cast<double>(ns) / 1e6).str();
}

/// Why a division has no plan is too long for a table; it stands below.
std::string outcome(const plan::RankCandidate &candidate) {
  if (candidate.isChosen)
    return "chosen";
  if (candidate.stepNs)
    return candidate.ruledOut.empty() ? "slower" : candidate.ruledOut;
  return candidate.isInfeasible ? "does not fit" : candidate.ruledOut;
}

} // namespace

std::string rankTable(const plan::RankReport &report) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::formatv("\ndivisions of {0} ranks, {1} micro-batches a step:\n", report.limits.ranks,
                       report.limits.groups);
  std::vector<std::vector<std::string>> rows = {
      {"stages", "replicas", "ZeRO-1", "micro-batches", "predicted step", "bound", ""}};
  for (const plan::RankCandidate &candidate : report.candidates) {
    const planner::RankDivision &division = candidate.division;
    rows.push_back({std::to_string(division.stages), std::to_string(division.replicas),
                    division.zero ? "yes" : "no", std::to_string(division.microbatches),
                    candidate.stepNs ? milliseconds(*candidate.stepNs) : "-",
                    candidate.isInfeasible ? "-" : milliseconds(candidate.boundNs),
                    outcome(candidate)});
  }
  out << report::textTable(rows, report::Align::Right);
  for (const plan::RankCandidate &candidate : report.candidates)
    if (candidate.isInfeasible)
      out << llvm::formatv("{0} x {1}{2}: {3}\n", candidate.division.stages,
                           candidate.division.replicas,
                           candidate.division.zero ? " with ZeRO-1" : "", candidate.ruledOut);
  const auto least = static_cast<double>(std::max<int64_t>(1, report.boundNs));
  out << llvm::formatv("no plan of any division takes less than {0} (gap {1:f2}%)\n",
                       milliseconds(report.boundNs),
                       100 * (static_cast<double>(*report.chosen().stepNs) / least - 1));
  return text;
}

} // namespace omnibal::compile
