#include "tools/omnibal-run/Launch.h"
#include "runtime/backends/host/MpiCommunicator.h"
#include "runtime/backends/host/ThreadCommunicator.h"
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>
#include <new>
#include <thread>

namespace omnibal::rt {
namespace {

/// A rank that does not come back this long after another has failed is left behind.
constexpr std::chrono::seconds patience{5};

void report(const Status &status) {
  std::cerr << "omnibal-run: error: " << status.message() << std::endl;
}

/// What the standard library throws (no memory, no threads left) is an error like any other.
Status guarded(const RankBody &body, Communicator &communicator) {
  try {
    return body(communicator);
  } catch (const std::bad_alloc &) {
    return {Code::Unavailable, "rank " + std::to_string(communicator.rank()) + ": out of memory"};
  } catch (const std::exception &e) {
    return {Code::Unavailable, "rank " + std::to_string(communicator.rank()) + ": " + e.what()};
  }
}

int runThreads(int ranks, const RankBody &body) {
  auto communicators = createThreadCommunicators(ranks, deadlineFromEnvironment());
  std::mutex mutex;
  std::condition_variable done;
  std::vector<Status> results(ranks);
  int finished = 0, firstFailure = -1;
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      Status status = guarded(body, *communicators[r]);
      if (!status)
        communicators[r]->abort(status);
      std::lock_guard lock(mutex);
      results[r] = status;
      ++finished;
      if (!status && firstFailure < 0)
        firstFailure = r;
      done.notify_all();
    });
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

int runProcess(int ranks, const RankBody &body) {
  auto communicator = createMpiCommunicator(deadlineFromEnvironment());
  if (!communicator) {
    report(std::move(communicator).status());
    return 1;
  }
  Communicator &c = **communicator;
  reportActivityOnTermination();
  Status status;
  if (c.size() != ranks)
    status = invalid("mpirun started " + std::to_string(c.size()) +
                     " ranks, but the program needs " + std::to_string(ranks) +
                     " (stages x data-parallel ranks): mpirun -n " + std::to_string(ranks));
  else
    status = guarded(body, c);
  if (status)
    return 0;
  // The rank whose error it is must have written it before the job ends.
  if (status.code() == Code::Aborted)
    std::this_thread::sleep_for(std::chrono::seconds(2));
  else if (c.size() == ranks || c.rank() == 0)
    report(status);
  c.abort(status);
  return 1;
}

} // namespace

int ranksOnThisMachine(int ranks) { return launchedByMpi() ? mpiLocalRanks() : ranks; }

int launch(int ranks, const RankBody &body) {
  return launchedByMpi() ? runProcess(ranks, body) : runThreads(ranks, body);
}

Agreement agreementOver(Communicator &communicator) {
  return [&communicator](Status mine) -> Status {
    std::vector<int> everyone = communicator.everyone();
    std::vector<double> failed(communicator.size());
    failed[communicator.rank()] = mine ? 0 : 1;
    OMNIBAL_RETURN_IF_ERROR(communicator.allReduce(std::span<double>(failed), everyone));
    for (int r = 0; r < communicator.size(); ++r) {
      if (failed[r] == 0)
        continue;
      char text[2048] = {};
      if (r == communicator.rank())
        std::strncpy(text, mine.message().c_str(), sizeof text - 1);
      OMNIBAL_RETURN_IF_ERROR(
          communicator.broadcast({reinterpret_cast<std::byte *>(text), sizeof text}, r, everyone));
      // Only the rank whose error it is reports it.
      return {r == communicator.rank() ? mine.code() : Code::Aborted, text};
    }
    return Status::ok();
  };
}

} // namespace omnibal::rt
