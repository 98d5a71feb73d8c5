#include "runtime/comm/mpi/MpiCommunicator.h"
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <unistd.h>

#ifdef OMNIBAL_HAVE_MPI
#include <mpi.h>
#endif

namespace omnibal::rt {
#ifdef OMNIBAL_HAVE_MPI
namespace {

/// Written by announce(), read by a signal handler of the same process.
char lastActivity[256];

void onTermination(int) {
  [[maybe_unused]] ssize_t ignored = write(2, lastActivity, strnlen(lastActivity, 256));
  _exit(1);
}

/// MPI counts are int: larger pieces go in parts.
constexpr int64_t partBytes = int64_t{1} << 30;

class MpiCommunicator final : public Communicator {
public:
  explicit MpiCommunicator(Milliseconds deadline) : Communicator(deadline) {
    // Collectives have their own context, so that no tag of the program can meet theirs.
    MPI_Comm_dup(MPI_COMM_WORLD, &messages);
    MPI_Comm_dup(MPI_COMM_WORLD, &collectives);
    MPI_Comm_rank(messages, &me);
    MPI_Comm_size(messages, &ranks);
    int *bound = nullptr, found = 0;
    MPI_Comm_get_attr(messages, MPI_TAG_UB, &bound, &found);
    largestTag = found ? *bound : 32767;
  }
  ~MpiCommunicator() override {
    // After a failure the job is being aborted; finalizing would wait for the others.
    if (failed)
      return;
    MPI_Finalize();
    // mpirun of Open MPI 4 hears of a process's end in one thread and of its MPI_Finalize in
    // another; where the end overtakes, the job counts as failed (open-mpi/ompi issue 7833). Seen
    // once in hundreds of runs on a busy machine.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }

  int rank() const override { return me; }
  int size() const override { return ranks; }

  Status wait(Handle handle) override {
    auto found = open.find(handle);
    if (found == open.end())
      return {Code::Internal, "wait for an operation that was never started"};
    Operation operation = std::move(found->second);
    open.erase(found);
    auto start = std::chrono::steady_clock::now();
    for (int64_t turn = 0;; ++turn) {
      int done = 0;
      if (MPI_Testall(operation.requests.size(), operation.requests.data(), &done,
                      MPI_STATUSES_IGNORE) != MPI_SUCCESS)
        return {Code::Unavailable, "MPI lost rank " + std::to_string(operation.peer)};
      if (done)
        return Status::ok();
      if (turn < 200) {
        std::this_thread::yield();
        continue;
      }
      auto waited = std::chrono::steady_clock::now() - start;
      if (waited > deadline) {
        failed = true;
        return {Code::DeadlineExceeded, "rank " + std::to_string(me) + " (" + toString(activity) +
                                            ") waited " +
                                            std::to_string(deadline.count() / 1000.0) +
                                            " s for rank " + std::to_string(operation.peer)};
      }
      // Short naps leave the cores to ranks that compute; long waits need not be polled finely.
      bool longer = waited > std::chrono::milliseconds(5);
      std::this_thread::sleep_for(std::chrono::microseconds(longer ? 100 : 10));
    }
  }

  void progress() override {
    if (open.empty())
      return;
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, messages, &flag, MPI_STATUS_IGNORE);
  }

  void abort(const Status &) override {
    failed = true;
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  void announce(const Activity &now) override {
    activity = now;
    std::snprintf(lastActivity, sizeof lastActivity, "omnibal-run: rank %d was stopped in %s\n", me,
                  toString(now).c_str());
  }

private:
  struct Operation {
    int peer = 0;
    std::vector<MPI_Request> requests;
  };

  Result<Handle> post(Direction direction, int peer, int64_t tag,
                      std::span<const Piece> pieces) override {
    const bool sends = direction == Direction::Send;
    if (tag > largestTag)
      return Status(Code::Unavailable, "message tag " + std::to_string(tag) +
                                           " is larger than this MPI allows (" +
                                           std::to_string(largestTag) + ")");
    MPI_Comm where = tag < 0 ? collectives : messages;
    int mpiTag = tag < 0 ? 0 : static_cast<int>(tag);
    Operation operation;
    operation.peer = peer;
    for (const Piece &piece : pieces) {
      int64_t offset = 0;
      do { // an empty piece is an empty message
        int count = static_cast<int>(std::min(partBytes, piece.bytes - offset));
        char *data = static_cast<char *>(piece.data) + offset;
        MPI_Request request;
        // Synchronous sends keep the zero-buffer semantics for small messages too.
        int code = sends ? MPI_Issend(data, count, MPI_BYTE, peer, mpiTag, where, &request)
                         : MPI_Irecv(data, count, MPI_BYTE, peer, mpiTag, where, &request);
        if (code != MPI_SUCCESS)
          return Status(Code::Unavailable, "MPI cannot reach rank " + std::to_string(peer));
        operation.requests.push_back(request);
        offset += count;
      } while (offset < piece.bytes);
    }
    open[next] = std::move(operation);
    return next++;
  }

  MPI_Comm messages, collectives;
  int me = 0, ranks = 1, largestTag = 32767;
  bool failed = false;
  Activity activity;
  Handle next = 0;
  std::map<Handle, Operation> open;
};

} // namespace

Result<std::unique_ptr<Communicator>> createMpiCommunicator(Communicator::Milliseconds deadline) {
  int provided = 0, initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized)
    return Status(Code::Internal, "MPI is initialized already");
  // Only the thread that executes calls MPI; loader and compute threads do not.
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
    return Status(Code::Unavailable, "MPI did not start; is this process under mpirun?");
  if (provided < MPI_THREAD_FUNNELED)
    return Status(Code::Unavailable, "this MPI does not admit threads beside the calling one; "
                                     "build it with thread support");
  return std::unique_ptr<Communicator>(std::make_unique<MpiCommunicator>(deadline));
}

void reportActivityOnTermination() { std::signal(SIGTERM, onTermination); }

#else

void reportActivityOnTermination() {}

Result<std::unique_ptr<Communicator>> createMpiCommunicator(Communicator::Milliseconds) {
  return Status(Code::Unavailable,
                "this omnibal-run was built without MPI: install an MPI (Debian, Ubuntu: apt-get "
                "install libopenmpi-dev) and build again, or run without mpirun (all ranks as "
                "threads)");
}

#endif
} // namespace omnibal::rt
