#include "runtime/comm/launch/LaunchEnvironment.h"
#include "runtime/support/Checksum.h"
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace omnibal::rt {
namespace {

constexpr int firstPort = 20000, ports = 10000; ///< for jobs that name none, by their number

class Reader {
public:
  explicit Reader(const Environment &environment) : environment(environment) {}

  const char *text(const char *name) const {
    const char *value = environment(name);
    return value && *value ? value : nullptr;
  }
  bool has(const char *name) const { return text(name) != nullptr; }

  Result<int> number(const char *name, int least, int most) const {
    const char *value = text(name);
    if (!value)
      return invalid(std::string("the environment has no ") + name);
    int result = 0;
    auto [end, error] = std::from_chars(value, value + std::strlen(value), result);
    if (error != std::errc() || *end || result < least || result > most)
      return invalid(std::string("the environment's ") + name + " is \"" + value +
                     "\", but a number from " + std::to_string(least) + " to " +
                     std::to_string(most) + " is expected");
    return result;
  }
  /// The first of these that is a number; `otherwise` without one.
  int numberOr(std::initializer_list<const char *> names, int otherwise) const {
    for (const char *name : names)
      if (auto value = number(name, 0, 1 << 20))
        return *value;
    return otherwise;
  }

private:
  const Environment &environment;
};

bool startedByMpi(const Reader &in) {
  return in.numberOr({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, 0) > 0 ||
         (in.has("PMIX_RANK") && in.has("SLURM_NTASKS"));
}

/// srun's tasks. A batch script itself has SLURM_PROCID too, but is no step.
bool startedBySrun(const Reader &in) {
  return in.has("SLURM_PROCID") && in.has("SLURM_NTASKS") &&
         (in.has("SLURM_STEP_ID") || in.has("SLURM_STEPID") || in.has("SLURM_LAUNCH_NODE_IPADDR"));
}

Status readPort(const Reader &in, LaunchEnvironment &place) {
  const char *name = in.has("OMNIBAL_MASTER_PORT") ? "OMNIBAL_MASTER_PORT" : "MASTER_PORT";
  OMNIBAL_ASSIGN_OR_RETURN(place.port, in.number(name, 1, 65535));
  // torchrun's agent listens there itself; its workers share the port after it.
  const char *agent = in.text("TORCHELASTIC_USE_AGENT_STORE");
  if (!in.has("OMNIBAL_MASTER_PORT") && agent && !std::strcmp(agent, "True"))
    place.port = place.port < 65535 ? place.port + 1 : place.port - 1;
  return Status::ok();
}

Result<LaunchEnvironment> readVariables(const Reader &in) {
  LaunchEnvironment place;
  place.launcher = Launcher::Variables;
  auto explain = [](Status status) {
    return std::move(status).context("RANK is set, so this is one rank of several (as torchrun "
                                     "sets RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT)");
  };
  auto ranks = in.number("WORLD_SIZE", 1, 1 << 20);
  if (!ranks)
    return explain(ranks.status());
  place.ranks = *ranks;
  if (place.ranks == 1) // nobody to meet: the program's ranks are threads
    return LaunchEnvironment{};
  auto rank = in.number("RANK", 0, place.ranks - 1);
  if (!rank)
    return explain(rank.status());
  place.rank = *rank;
  if (!in.has("MASTER_ADDR"))
    return explain(invalid("the environment has no MASTER_ADDR"));
  place.address = in.text("MASTER_ADDR");
  if (Status status = readPort(in, place); !status)
    return explain(std::move(status));
  place.localRank = in.numberOr({"LOCAL_RANK"}, -1);
  place.localRanks = std::max(1, in.numberOr({"LOCAL_WORLD_SIZE"}, 1));
  for (const char *name : {"OMNIBAL_RUN_ID", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"})
    if (const char *text = in.text(name))
      place.run += std::string(name) + "=" + text + ";";
  return place;
}

Result<LaunchEnvironment> readSlurm(const Reader &in) {
  LaunchEnvironment place;
  place.launcher = Launcher::Slurm;
  const char *count = in.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  OMNIBAL_ASSIGN_OR_RETURN(place.ranks, in.number(count, 1, 1 << 20));
  if (place.ranks == 1)
    return LaunchEnvironment{};
  OMNIBAL_ASSIGN_OR_RETURN(place.rank, in.number("SLURM_PROCID", 0, place.ranks - 1));
  place.localRank = in.numberOr({"SLURM_LOCALID"}, -1);
  // "2(x3),1": tasks on each machine; the leading number serves where all have the same.
  place.localRanks = 1;
  for (const char *name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})
    if (const char *text = in.text(name)) {
      std::from_chars(text, text + std::strlen(text), place.localRanks);
      place.localRanks = std::max(1, place.localRanks);
      break;
    }
  for (const char *name : {"OMNIBAL_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID"})
    if (const char *text = in.text(name))
      place.run += std::string(name) + "=" + text + ";";
  if (in.has("MASTER_ADDR"))
    place.address = in.text("MASTER_ADDR");
  for (const char *name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
    if (const char *text = in.text(name); text && place.address.empty())
      place.address = firstHost(text);
  if (const char *text = in.text("SLURM_LAUNCH_NODE_IPADDR"); text && place.address.empty())
    place.address = text;
  if (place.address.empty())
    return invalid("srun started this rank, but neither SLURM_STEP_NODELIST nor MASTER_ADDR says "
                   "where rank 0 is");
  if (in.has("MASTER_PORT") || in.has("OMNIBAL_MASTER_PORT")) {
    OMNIBAL_RETURN_IF_ERROR(readPort(in, place));
  } else {
    place.port = firstPort + static_cast<int>(fnv1a(place.run) % ports);
  }
  return place;
}

} // namespace

std::string firstHost(const std::string &list) {
  size_t end = list.find_first_of(",[");
  if (end == std::string::npos || list[end] == ',')
    return list.substr(0, end);
  size_t number = end + 1, stop = list.find_first_of("-,]", number);
  if (stop == std::string::npos)
    return list.substr(0, end);
  size_t close = list.find(']', stop);
  size_t after = close == std::string::npos ? list.size() : close + 1;
  // What follows the brackets belongs to the name ("a[1-2]-ib").
  std::string rest = list.substr(after, list.find(',', after) - after);
  return list.substr(0, end) + list.substr(number, stop - number) + rest;
}

Result<LaunchEnvironment> readLaunchEnvironment(const Environment &environment) {
  Reader in(environment);
  if (startedByMpi(in)) {
    LaunchEnvironment place;
    place.launcher = Launcher::Mpi;
    place.localRank =
        in.numberOr({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}, -1);
    place.localRanks = std::max(
        1,
        in.numberOr({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"}, 1));
    return place;
  }
  if (in.has("RANK") && in.has("WORLD_SIZE"))
    return readVariables(in);
  if (startedBySrun(in))
    return readSlurm(in);
  return LaunchEnvironment{};
}

Result<LaunchEnvironment> readLaunchEnvironment() {
  return readLaunchEnvironment([](const char *name) { return std::getenv(name); });
}

} // namespace omnibal::rt
