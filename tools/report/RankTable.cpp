#include "tools/report/RankTable.h"
#include "runtime/support/NumberText.h"
#include "tools/report/TextTable.h"
#include <set>

namespace omnibal::report {
namespace {

using planner::RankCandidate;
using planner::RankDivision;

std::string milliseconds(int64_t ns) { return rt::milliseconds(ns, 2) + " ms"; }

/// As people write it.
std::string priceText(double price) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", price);
  return text;
}

/// Why a division has no plan is too long for a table; it stands below.
std::string outcome(const RankCandidate &candidate, const RankTableWords &words) {
  if (candidate.layoutPrice) {
    RankCandidate plain = candidate;
    plain.layoutPrice.reset();
    return outcome(plain, words) + ", with " + words.layoutPrice + " " +
           priceText(*candidate.layoutPrice);
  }
  if (candidate.isChosen)
    return "chosen";
  if (candidate.stepNs)
    return candidate.ruledOut.empty() ? "slower" : candidate.ruledOut;
  if (candidate.isRefused)
    return "cannot be divided";
  return candidate.isInfeasible ? "does not fit" : candidate.ruledOut;
}

std::string neighborsOf(const RankDivision &division) {
  return division.rankOrder == rt::RankOrder::Replica ? "replicas" : "stages";
}

std::string numbersOf(const RankDivision &division, bool haveOrders) {
  return std::to_string(division.parts) + " x " + std::to_string(division.stages) + " x " +
         std::to_string(division.replicas) + (division.zero ? " with ZeRO-1" : "") +
         (haveOrders ? ", neighbors " + neighborsOf(division) : "");
}

/// Reasons, a line each. Divisions that are refused for their number of parts say so once.
std::string reasons(const planner::RankReport &report, bool haveOrders) {
  std::string text;
  std::set<std::pair<int64_t, std::string>> refused;
  for (const RankCandidate &candidate : report.candidates) {
    const RankDivision &division = candidate.division;
    if (candidate.isInfeasible)
      text += numbersOf(division, haveOrders) + ": " + candidate.ruledOut + "\n";
    else if (candidate.isRefused && refused.insert({division.parts, candidate.ruledOut}).second)
      text += std::to_string(division.parts) + " parts: " + candidate.ruledOut + "\n";
  }
  return text;
}

std::string rowsOf(const planner::RankReport &report, bool haveOrders,
                   const RankTableWords &words) {
  std::vector<std::vector<std::string>> rows = {
      {"parts", "stages", "replicas", "ZeRO-1", "micro-batches", "predicted step", "bound", ""}};
  auto addOrder = [&](const std::string &text) {
    if (haveOrders)
      rows.back().insert(rows.back().begin() + 3, text);
  };
  addOrder("neighbors");
  for (const RankCandidate &candidate : report.candidates) {
    const RankDivision &division = candidate.division;
    const bool hasBound = !candidate.isInfeasible && !candidate.isRefused;
    rows.push_back({std::to_string(division.parts), std::to_string(division.stages),
                    std::to_string(division.replicas), division.zero ? "yes" : "no",
                    std::to_string(division.microbatches),
                    candidate.stepNs ? milliseconds(*candidate.stepNs) : "-",
                    hasBound ? milliseconds(candidate.boundNs) : "-", outcome(candidate, words)});
    addOrder(neighborsOf(division));
  }
  return textTable(rows, Align::Right);
}

} // namespace

std::string rankTable(const planner::RankReport &report, const RankTableWords &words) {
  bool haveOrders = false, isWhole = true;
  for (const RankCandidate &candidate : report.candidates) {
    haveOrders |= candidate.division.rankOrder != rt::RankOrder::Stage;
    isWhole &= !candidate.isRefused;
  }
  std::string text = "\ndivisions of " + std::to_string(report.limits.ranks) + " ranks, " +
                     std::to_string(report.limits.groups) + " micro-batches a step:\n" +
                     rowsOf(report, haveOrders, words) + reasons(report, haveOrders);
  if (!words.withoutParts.empty())
    text += "stages have one part, as " + words.withoutParts +
            " does not go together with parts that differ yet\n";
  const auto step = static_cast<double>(*report.chosen().stepNs);
  const auto least = static_cast<double>(std::max<int64_t>(1, report.boundNs));
  return text + "no plan of any " + (isWhole ? "division" : "other division") +
         " takes less than " + milliseconds(report.boundNs) + " (gap " +
         rt::fixed(100 * (step / least - 1), 2) + "%)\n";
}

} // namespace omnibal::report
