#include "runtime/batching/Steps.h"
#include "runtime/batching/Npy.h"
#include "runtime/core/AtomicFile.h"
#include "runtime/core/Json.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

using nlohmann::json;

Result<StepGroups> readStep(const std::string &line, const std::string &where, int64_t groups,
                            const FindSample &find) {
  OMNIBAL_ASSIGN_OR_RETURN(json value, parseJson(line, where));
  if (!value.is_object() || !value.contains("groups") || !value["groups"].is_array())
    return invalid(where + ": an object with an array \"groups\" is expected");
  const json &list = value["groups"];
  if (static_cast<int64_t>(list.size()) != groups)
    return invalid(where + ": " + std::to_string(list.size()) +
                   " groups, but the program needs micro-batches x data-parallel ranks = " +
                   std::to_string(groups));
  StepGroups step(list.size());
  for (size_t g = 0; g < list.size(); ++g) {
    if (!list[g].is_array())
      return invalid(where + ": groups[" + std::to_string(g) + "] is not an array of sample keys");
    for (const json &key : list[g]) {
      int64_t sample = key.is_string() ? find(key.get_ref<const std::string &>()) : -1;
      if (sample < 0)
        return invalid(where + ": groups[" + std::to_string(g) + "] names the sample " +
                       key.dump(-1, ' ', false, json::error_handler_t::replace) +
                       ", which is in none of the --data shards");
      step[g].push_back(sample);
    }
  }
  return step;
}

} // namespace

Result<std::vector<StepGroups>> readStepsFile(const std::string &path, int64_t groups,
                                              const FindSample &find) {
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, readWholeFile(path));
  std::vector<StepGroups> steps;
  size_t begin = 0;
  for (int64_t line = 1; begin < text.size(); ++line) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string content = text.substr(begin, end - begin);
    begin = end + 1;
    if (content.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    OMNIBAL_ASSIGN_OR_RETURN(
        StepGroups step, readStep(content, path + ", line " + std::to_string(line), groups, find));
    steps.push_back(std::move(step));
  }
  if (steps.empty())
    return invalid(path + ": there is no step in this file");
  return steps;
}

Result<std::vector<StepGroups>> readBatches(const std::string &folder, int64_t microbatches,
                                            int64_t ranks, int64_t samples) {
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<int64_t> numbers, readNpy(folder + "/samples.npy"));
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<int64_t> offsets, readNpy(folder + "/groups.npy"));
  std::string path = folder + "/groups.npy";
  if (offsets.size() < 2 || offsets.front() != 0 ||
      offsets.back() != static_cast<int64_t>(numbers.size()))
    return Status(Code::DataLoss, path + ": the offsets do not span samples.npy");
  int64_t groups = static_cast<int64_t>(offsets.size()) - 1;
  if (groups % ranks != 0)
    return invalid(path + ": " + std::to_string(groups) +
                   " groups are no multiple of the program's " + std::to_string(ranks) +
                   " data-parallel ranks; run omnibal-batch with --ranks " + std::to_string(ranks));
  std::vector<StepGroups> steps;
  for (int64_t g = 0; g < groups; ++g) {
    if (offsets[g] > offsets[g + 1] || offsets[g + 1] > offsets.back())
      return Status(Code::DataLoss,
                    path + ": offset " + std::to_string(g + 1) + " is out of order");
    if (g % (microbatches * ranks) == 0)
      steps.emplace_back();
    steps.back().emplace_back(numbers.begin() + offsets[g], numbers.begin() + offsets[g + 1]);
  }
  for (int64_t sample : numbers)
    if (sample < 0 || sample >= samples)
      return invalid(folder + "/samples.npy: sample " + std::to_string(sample) +
                     " does not exist in --data (" + std::to_string(samples) +
                     " samples); were the batches made for another data set?");
  steps.back().resize(microbatches * ranks);
  return steps;
}

} // namespace omnibal::rt
