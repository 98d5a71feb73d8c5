#include "runtime/comm/launch/Launch.h"
#include "runtime/comm/PatientAgreement.h"
#include "runtime/comm/mpi/MpiCommunicator.h"
#include "runtime/comm/tcp/TcpCommunicator.h"
#include "runtime/comm/threads/ThreadCommunicator.h"
#include "runtime/support/Checksum.h"
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace omnibal::rt {
namespace {

/// A rank that does not come back this long after another has failed is left behind.
constexpr std::chrono::seconds patience{5};

void report(const Status &status) {
  std::cerr << "omnibal-run: error: " << status.message() << std::endl;
}

/// What the standard library throws (no memory, no threads left) is an error like any other.
Status guarded(const RankBody &body, RankContext &context) {
  std::string rank = "rank " + std::to_string(context.communicator.rank());
  try {
    return body(context);
  } catch (const std::bad_alloc &) {
    return {Code::Unavailable, rank + ": out of memory"};
  } catch (const std::exception &e) {
    return {Code::Unavailable, rank + ": " + e.what()};
  }
}

int runThreads(int ranks, const RankBody &body) {
  auto communicators = createThreadCommunicators(ranks, deadlineFromEnvironment());
  std::mutex mutex;
  std::condition_variable done;
  std::vector<Status> results(ranks);
  int finished = 0, firstFailure = -1;
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  auto finish = [&](int r, const Status &status) {
    std::lock_guard lock(mutex);
    results[r] = status;
    ++finished;
    if (!status && firstFailure < 0)
      firstFailure = r;
    done.notify_all();
  };
  auto run = [&](int r) {
    RankContext context{*communicators[r]};
    Status status = guarded(body, context);
    if (!status)
      communicators[r]->abort(status);
    context.kept.reset();
    finish(r, status);
  };
  for (int r = 0; r < ranks; ++r)
    try {
      threads.emplace_back(run, r);
    } catch (const std::system_error &e) {
      const Status none(Code::Unavailable,
                        "rank " + std::to_string(r) + ": no thread can be started: " + e.what());
      communicators[r]->abort(none);
      finish(r, none);
    }
  {
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return finished == ranks || firstFailure >= 0; });
    if (firstFailure >= 0 && !done.wait_for(lock, patience, [&] { return finished == ranks; })) {
      // Its threads cannot be stopped from outside; the message names it.
      report(results[firstFailure]);
      std::_Exit(1);
    }
  }
  for (std::thread &thread : threads)
    thread.join();
  if (firstFailure < 0)
    return 0;
  // The origin of the failure, not the ranks that were told of it.
  for (const Status &status : results)
    if (!status && status.code() != Code::Aborted) {
      report(status);
      return 1;
    }
  report(results[firstFailure]);
  return 1;
}

int runUnderMpi(const LaunchEnvironment &place, const RankBody &body) {
  auto communicator = createMpiCommunicator(deadlineFromEnvironment());
  if (!communicator) {
    report(std::move(communicator).status());
    return 1;
  }
  Communicator &c = **communicator;
  reportActivityOnTermination();
  RankContext context{c, place.localRank};
  Status status = guarded(body, context);
  if (status)
    return 0;
  // The rank whose error it is must have written it before the job ends.
  if (status.code() == Code::Aborted)
    std::this_thread::sleep_for(std::chrono::seconds(2));
  else
    report(status);
  c.abort(status);
  return 1;
}

void reportStop(int rank, const std::string &doing, const Status &reason) {
  std::cerr << "omnibal-run: rank " << rank << " was stopped in " << doing << ": "
            << reason.message() << std::endl;
}

/// One rank of several processes that no MPI joins.
int runOverTcp(const LaunchEnvironment &place, const LaunchOptions &launch, const RankBody &body) {
  TcpOptions options;
  options.place = {place.rank, place.ranks, place.address, place.port,
                   fnv1a(place.run + std::to_string(launch.identity))};
  options.deadline = deadlineFromEnvironment();
  options.patience = patience;
  options.abandoned = [rank = place.rank](const std::string &doing, const Status &reason) {
    reportStop(rank, doing, reason); // its threads cannot be stopped from outside
    std::_Exit(1);
  };
  auto communicator = createTcpCommunicator(options, options.deadline);
  if (!communicator) {
    if (communicator.status().code() != Code::Aborted) // then another rank reports
      report(communicator.status());
    return 1;
  }
  Communicator &c = **communicator;
  RankContext context{c, place.localRank};
  Status status = guarded(body, context);
  if (status)
    return 0;
  if (status.code() == Code::Aborted)
    reportStop(c.rank(), c.activityOf(c.rank()), status);
  else
    report(status);
  c.abort(status);
  context.kept.reset();
  return 1;
}

} // namespace

int launch(const LaunchEnvironment &place, const LaunchOptions &options, const RankBody &body) {
  switch (place.launcher) {
  case Launcher::None:
    return runThreads(options.ranks, body);
  case Launcher::Mpi:
    return runUnderMpi(place, body);
  case Launcher::Slurm:
  case Launcher::Variables:
    break;
  }
  return runOverTcp(place, options, body);
}

Status checkNumber(const LaunchEnvironment &place, const Communicator &communicator, int ranks,
                   const std::string &product) {
  if (communicator.size() == ranks)
    return Status::ok();
  const std::string started = std::to_string(communicator.size()),
                    needed = std::to_string(ranks) + " ranks (" + product + ")";
  switch (place.launcher) {
  case Launcher::Mpi:
    return invalid("mpirun started " + started + " ranks, but the program needs " + needed +
                   ": mpirun -n " + std::to_string(ranks));
  case Launcher::Slurm:
    return invalid("srun started " + started + " tasks, but the program needs " + needed);
  case Launcher::Variables:
  case Launcher::None:
    break;
  }
  return invalid("WORLD_SIZE is " + started + ", but the program needs " + needed);
}

Agreement agreementOver(Communicator &communicator) {
  return {[&communicator](Status mine) { return communicator.agree(std::move(mine)); },
          [&communicator](const Agreement::Work &work) { return agreeAfter(communicator, work); }};
}

} // namespace omnibal::rt
