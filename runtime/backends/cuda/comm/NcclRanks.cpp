#include "runtime/backends/cuda/comm/NcclRanks.h"
#include "runtime/support/Checksum.h"
#include <algorithm>
#include <cstring>
#include <set>
#include <thread>
#include <unistd.h>

namespace omnibal::rt::cuda {
namespace {

/// Time for the rank that caused a failure to say so, after NCCL has noticed.
constexpr std::chrono::seconds moment{2};
/// Time for communicators to come to an end; then they are aborted.
constexpr std::chrono::seconds ending{10};

/// Rank 0's id for all, or why there is none.
struct Invitation {
  nccl::UniqueId id{};
  int32_t refused = 0;
  char text[512] = {};
};

} // namespace

Result<std::unique_ptr<NcclRanks>>
NcclRanks::connect(Communicator &control, const RankStream &queue, const RankGroups &groups) {
  // All ranks must go on or none: whoever waits for a rank without the library waits in vain.
  auto functions = openNccl();
  double missing = functions ? 0 : 1;
  OMNIBAL_RETURN_IF_ERROR(control.allReduce(std::span<double>(&missing, 1), control.everyone()));
  if (!functions)
    return std::move(functions).status();
  if (missing > 0)
    return Status(Code::Aborted, "another rank failed: it has no NCCL");
  std::unique_ptr<NcclRanks> made(new NcclRanks(control, queue, *functions));
  OMNIBAL_RETURN_IF_ERROR(made->checkDevices());
  OMNIBAL_RETURN_IF_ERROR(made->connectAll());
  OMNIBAL_RETURN_IF_ERROR(made->split(groups));
  return made;
}

/// NCCL refuses two ranks on one device, in words that do not help.
Status NcclRanks::checkDevices() const {
  char host[64] = {}, bus[64] = {};
  gethostname(host, sizeof host - 1);
  OMNIBAL_RETURN_IF_ERROR(rt::cuda::check(cudaDeviceGetPCIBusId(bus, sizeof bus, queue.device),
                                          "asking for the device's bus"));
  uint64_t mine = fnv1a(std::string(host) + "/" + bus);
  OMNIBAL_ASSIGN_OR_RETURN(const std::vector<uint64_t> devices,
                           control.gatherAll(mine, control.everyone()));
  std::map<uint64_t, int> seen;
  for (int r = 0; r < control.size(); ++r) {
    auto [other, fresh] = seen.emplace(devices[r], r);
    if (fresh)
      continue;
    bool here = control.rank() == r;
    return {
        here ? Code::InvalidArgument : Code::Aborted,
        "rank " + std::to_string(r) + " has the same device as rank " +
            std::to_string(other->second) +
            (here ? std::string(" (") + bus + " of " + host + ")" : std::string()) +
            "; start at most as many processes on a machine as it has devices, with LOCAL_RANK, "
            "SLURM_LOCALID or CUDA_VISIBLE_DEVICES telling them apart, or run all ranks in one "
            "process, without a launcher"};
  }
  return Status::ok();
}

Status NcclRanks::connectAll() {
  Invitation invitation;
  if (control.rank() == 0)
    if (Status status = check(functions->ncclGetUniqueId(&invitation.id), "making an id", nullptr);
        !status) {
      invitation.refused = static_cast<int32_t>(status.code());
      std::strncpy(invitation.text, status.message().c_str(), sizeof invitation.text - 1);
    }
  OMNIBAL_RETURN_IF_ERROR(control.broadcast(
      {reinterpret_cast<std::byte *>(&invitation), sizeof invitation}, 0, control.everyone()));
  if (invitation.refused)
    return {control.rank() == 0 ? static_cast<Code>(invitation.refused) : Code::Aborted,
            invitation.text};
  nccl::Config config;
  nccl::Result result = functions->ncclCommInitRankConfig(&all, control.size(), invitation.id,
                                                          control.rank(), &config);
  return settle(result, "connecting " + std::to_string(control.size()) + " ranks", all);
}

/// Groups that have no rank in common are split off together: fewer steps that all ranks take.
Status NcclRanks::split(const RankGroups &wanted) {
  std::vector<std::vector<std::vector<int>>> rounds;
  std::vector<std::set<int>> taken;
  std::set<std::vector<int>> known;
  for (const std::vector<int> &group : wanted) {
    if (group.size() < 2 || static_cast<int>(group.size()) == control.size() ||
        !known.insert(group).second)
      continue;
    size_t round = 0;
    while (round < rounds.size() &&
           std::any_of(
               group.begin(), group.end(), [&](int rank) { return taken[round].count(rank) > 0; }))
      ++round;
    if (round == rounds.size()) {
      rounds.emplace_back();
      taken.emplace_back();
    }
    rounds[round].push_back(group);
    taken[round].insert(group.begin(), group.end());
  }
  for (const auto &round : rounds) {
    int color = nccl::noColor;
    for (size_t g = 0; g < round.size(); ++g)
      if (std::find(round[g].begin(), round[g].end(), control.rank()) != round[g].end())
        color = static_cast<int>(g);
    // Written until the parent has settled.
    nccl::Communicator &made = splits.emplace_back(nullptr);
    nccl::Config config;
    nccl::Result result = functions->ncclCommSplit(all, color, control.rank(), &made, &config);
    OMNIBAL_RETURN_IF_ERROR(settle(result, "forming a group of ranks", all));
    if (!made)
      continue;
    groups[round[color]] = made;
    OMNIBAL_RETURN_IF_ERROR(settle(nccl::InProgress, "forming a group of ranks", made));
  }
  return Status::ok();
}

NcclRanks::~NcclRanks() { abort(); }

std::vector<nccl::Communicator> NcclRanks::communicators() const {
  std::vector<nccl::Communicator> list;
  for (nccl::Communicator communicator : splits)
    if (communicator)
      list.push_back(communicator);
  if (all)
    list.push_back(all); // the parent goes last
  return list;
}

nccl::Communicator NcclRanks::of(const std::vector<int> &ranks) const {
  if (static_cast<int>(ranks.size()) == control.size())
    return all;
  auto found = groups.find(ranks);
  return found == groups.end() ? nullptr : found->second;
}

Status NcclRanks::check(nccl::Result result, const std::string &what,
                        nccl::Communicator communicator) const {
  if (result == nccl::Success || result == nccl::InProgress)
    return Status::ok();
  const char *more = functions->ncclGetLastError(communicator);
  return {Code::Unavailable, "NCCL: " + what + " failed: " + functions->ncclGetErrorString(result) +
                                 (more && *more ? std::string(" (") + more + ")" : std::string())};
}

Status NcclRanks::settle(nccl::Result result, const std::string &what,
                         nccl::Communicator communicator) const {
  auto begin = Clock::now();
  for (int64_t round = 0; result == nccl::InProgress; ++round) {
    if (nccl::Result asked = functions->ncclCommGetAsyncError(communicator, &result);
        asked != nccl::Success)
      result = asked;
    if (result != nccl::InProgress)
      break;
    if (round % 64 == 63)
      OMNIBAL_RETURN_IF_ERROR(control.health());
    if (Clock::now() - begin > queue.deadline)
      return {Code::DeadlineExceeded, "NCCL: " + what + " took more than " +
                                          std::to_string(queue.deadline.count() / 1000.0) + " s"};
    if (round > 100)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return check(result, what, communicator);
}

Status NcclRanks::health() const {
  OMNIBAL_RETURN_IF_ERROR(control.health());
  for (nccl::Communicator communicator : communicators()) {
    nccl::Result result = nccl::Success;
    if (nccl::Result asked = functions->ncclCommGetAsyncError(communicator, &result);
        asked != nccl::Success)
      result = asked;
    Status status = check(result, "communication", communicator);
    if (status)
      continue;
    for (auto begin = Clock::now(); Clock::now() - begin < moment;) {
      OMNIBAL_RETURN_IF_ERROR(control.health());
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return status;
  }
  return Status::ok();
}

Status NcclRanks::finish() {
  auto begin = Clock::now();
  for (nccl::Communicator communicator : communicators()) {
    nccl::Result result = functions->ncclCommFinalize(communicator);
    while (result == nccl::InProgress && Clock::now() - begin < ending) {
      if (functions->ncclCommGetAsyncError(communicator, &result) != nccl::Success)
        result = nccl::InternalError;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (result != nccl::Success)
      return {Code::Unavailable, "NCCL: the ranks did not come to an end together"};
  }
  for (nccl::Communicator communicator : communicators())
    (void)functions->ncclCommDestroy(communicator);
  groups.clear();
  splits.clear();
  all = nullptr;
  return Status::ok();
}

void NcclRanks::abort() {
  for (nccl::Communicator communicator : communicators())
    (void)functions->ncclCommAbort(communicator);
  groups.clear();
  splits.clear();
  all = nullptr;
}

} // namespace omnibal::rt::cuda
