#include "runtime/training/checkpoints/MixOfRun.h"
#include "runtime/support/Checksum.h"

namespace omnibal::rt {
namespace {

using nlohmann::json;

json mixAtTexts(const RunOptions &options) {
  json texts = json::array();
  for (const WeightsFrom &from : options.mixAt)
    texts.push_back(mixAtText(from));
  return texts;
}

json stretchesToJson(const std::vector<MixStretch> &stretches) {
  json list = json::array();
  for (const MixStretch &stretch : stretches) {
    list.push_back({{"epoch", stretch.epoch}, {"weights", stretch.weights}});
    if (stretch.rows != MixStretch::allRows)
      list.back()["rows_before"] = stretch.rows;
  }
  return list;
}

std::vector<MixStretch> stretchesOf(const json &list) {
  std::vector<MixStretch> stretches;
  for (const json &each : list)
    stretches.push_back({each.at("epoch"), each.value("rows_before", MixStretch::allRows),
                         each.at("weights").get<std::vector<double>>()});
  return stretches;
}

/// Whether each of them may be drawn.
Status checkMixAt(const RunOptions &options, const MixCourse *course, int64_t total) {
  if (options.mixAt.empty())
    return Status::ok();
  if (!course)
    return invalid("--mix-at: " + options.batches +
                   " has no mix of data sets whose epochs can be drawn anew; make it by "
                   "omnibal-batch --mix");
  for (const WeightsFrom &from : options.mixAt) {
    OMNIBAL_RETURN_IF_ERROR(
        checkWeights(course->mix().sizes, from.weights).context("--mix-at " + mixAtText(from)));
    if (from.first > total)
      return invalid("--mix-at " + mixAtText(from) + ": the run has only " + std::to_string(total) +
                     " steps");
  }
  return Status::ok();
}

} // namespace

void describeMix(const RunOptions &options, json &run) {
  if (!options.mixAt.empty())
    run[mixAtKey] = mixAtTexts(options);
}

Status MixOfRun::check(const Session &session, int64_t total) const {
  OMNIBAL_RETURN_IF_ERROR(session.agree(checkMixAt(options, steps.mix(), total)));
  return session.communicator.checkEqual(fnv1a(mixAtTexts(options).dump()),
                                         "values of --mix-at; give all ranks the same flags");
}

void MixOfRun::begin(const RunCheckpoints::Start &start) {
  if (!steps.mix())
    return;
  std::vector<MixStretch> met;
  if (!start.otherData)
    met = stretchesOf(start.kept.value(key, json::array()));
  const std::vector<double> before = met.empty() ? std::vector<double>() : met.back().weights;
  std::vector<double> now;
  for (const WeightsFrom &from : options.mixAt)
    if (const int64_t step = from.first - 1; step <= start.step)
      now = from.weights;
    else
      changes.push_back({start.entry + (step - start.step) * options.accumulate, from.weights});
  if (now != before)
    changes.insert(changes.begin(), {start.entry, now});
  other = !met.empty() || !changes.empty();
  steps.mix()->begin(std::move(met), changes, start.position, steps.firstGroups());
}

std::string MixOfRun::noteAt(int64_t entry) const {
  for (const WeightsFrom &change : changes)
    if (change.first == entry)
      return " begins an epoch in which the data sets have the weights " +
             (change.weights.empty() ? "that --batches says" : weightsText(change.weights)) +
             " (--mix-at)";
  return "";
}

json MixOfRun::state(int64_t epoch) const {
  return steps.mix() ? stretchesToJson(steps.mix()->metUntil(epoch)) : json::array();
}

} // namespace omnibal::rt
