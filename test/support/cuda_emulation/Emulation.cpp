#include "test/support/cuda_emulation/Emulation.h"
#include "test/support/cuda_emulation/Fiber.h"
#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace omnibal::emulation {
namespace {

constexpr int warpSize = 32;
constexpr int guardBytes = 64;
constexpr unsigned char guardByte = 0xa5;

// The values of cudaError_t that the emulated headers name.
constexpr int invalidConfiguration = 9, launchFailure = 719;

enum class State { Ready, AtBlockBarrier, AtWarpBarrier, Finished };

struct Copy {
  void *to;
  const void *from;
  int group;
};

struct Thread {
  Fiber *fiber = nullptr; ///< once it has begun, until it ends
  uint3 index;
  State state = State::Ready;
  int line = 0;      ///< of the barrier that it waits at
  unsigned mask = 0; ///< lanes that it waits for
  uint64_t value = 0;
  std::vector<Copy> copies; ///< not made yet, in their order
  int groups = 0;           ///< closed so far
};

struct Warp {
  uint64_t published[warpSize] = {};
  unsigned lanes = 0; ///< that took part in the last exchange
};

struct Machine {
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber *> freeFibers;
  std::vector<Warp> warps;
  std::vector<int> order;
  std::vector<unsigned char> shared;
  size_t sharedBytes = 0;
  int count = 0, current = -1;
  int turn = 0; ///< of this round: a position in `order`
  int64_t blockSum = 0, blocksRun = 0;
  const std::function<void()> *body = nullptr;
  Queue queue = nullptr;
  uint64_t seed = 0;
  std::mt19937_64 random;
  std::atomic<int> error = 0; ///< asked for by threads that enqueue
  std::string failure;

  void fail(int code, std::string message) {
    error = code;
    if (failure.empty())
      failure = std::move(message);
  }

  std::string nameOf(const Thread &t) const {
    return "thread (" + std::to_string(t.index.x) + ", " + std::to_string(t.index.y) + ", " +
           std::to_string(t.index.z) + ") of block (" + std::to_string(blockIdx.x) + ", " +
           std::to_string(blockIdx.y) + ", " + std::to_string(blockIdx.z) + ")";
  }

  /// The next thread of this round that can run, or -1.
  int next() {
    while (++turn < count)
      if (threads[order[turn]]->state == State::Ready)
        return order[turn];
    return -1;
  }

  /// Makes `i` the running thread; what follows goes to its fiber.
  Fiber &choose(int i) {
    Thread &t = *threads[i];
    if (!t.fiber) {
      if (freeFibers.empty())
        freeFibers.push_back(fibers.emplace_back(std::make_unique<Fiber>()).get());
      t.fiber = freeFibers.back();
      freeFibers.pop_back();
      t.fiber->start([](void *machine) { static_cast<Machine *>(machine)->runThreads(); }, this);
    }
    current = i;
    threadIdx = t.index;
    return *t.fiber;
  }

  void wait(State state, int line) {
    Thread &t = *threads[current];
    t.state = state;
    t.line = line;
    Fiber &mine = *t.fiber;
    if (const int i = next(); i >= 0)
      mine.change(choose(i));
    else
      mine.leave();
  }

  /// What a fiber does: the chosen thread, and after its end others that have not begun.
  void runThreads() {
    for (;;) {
      (*body)();
      Thread &t = *threads[current];
      t.state = State::Finished;
      Fiber *mine = std::exchange(t.fiber, nullptr);
      const int i = next();
      if (i >= 0 && !threads[i]->fiber) {
        threads[i]->fiber = mine;
        choose(i);
        continue;
      }
      if (i >= 0) {
        Fiber &other = choose(i);
        freeFibers.push_back(mine);
        mine->change(other);
      } else {
        freeFibers.push_back(mine);
        mine->leave();
      }
    }
  }

  /// Runs every ready thread until it waits or ends.
  void round() {
    if (seed)
      std::shuffle(order.begin(), order.end(), random);
    turn = -1;
    if (const int i = next(); i >= 0)
      choose(i).enter();
  }

  bool releaseWarps() {
    bool released = false;
    for (int first = 0; first < count; first += warpSize) {
      const int lanes = std::min(warpSize, count - first);
      for (int l = 0; l < lanes; ++l) {
        Thread &t = *threads[first + l];
        if (t.state != State::AtWarpBarrier || !complete(first, lanes, t))
          continue;
        Warp &warp = warps[first / warpSize];
        const unsigned mask = t.mask;
        warp.lanes = mask;
        for (int m = 0; m < lanes; ++m)
          if (mask >> m & 1) {
            warp.published[m] = threads[first + m]->value;
            threads[first + m]->state = State::Ready;
          }
        released = true;
      }
    }
    return released;
  }

  /// All lanes that `t` waits for wait at the same place for the same lanes.
  bool complete(int first, int lanes, const Thread &t) {
    for (int m = 0; m < warpSize; ++m) {
      if (!(t.mask >> m & 1))
        continue;
      if (m >= lanes) {
        fail(launchFailure, nameOf(t) + " waits for a lane that the block does not have, line " +
                                std::to_string(t.line));
        return false;
      }
      const Thread &other = *threads[first + m];
      if (other.state != State::AtWarpBarrier || other.mask != t.mask || other.line != t.line)
        return false;
    }
    return true;
  }

  bool releaseBlock() {
    const Thread &first = *threads[0];
    int64_t sum = 0;
    for (int i = 0; i < count; ++i) {
      const Thread &t = *threads[i];
      if (t.state != State::AtBlockBarrier || t.line != first.line)
        return false;
      sum += static_cast<int64_t>(t.value);
    }
    blockSum = sum;
    for (int i = 0; i < count; ++i)
      threads[i]->state = State::Ready;
    return true;
  }

  bool allFinished() const {
    for (int i = 0; i < count; ++i)
      if (threads[i]->state != State::Finished)
        return false;
    return true;
  }

  void explainDivergence() {
    std::string text = "threads diverge:";
    int told = 0, lastLine = -2;
    for (int i = 0; i < count && told < 4; ++i) {
      const Thread &t = *threads[i];
      const int line = t.state == State::Finished ? -1 : t.line;
      if (line == lastLine)
        continue;
      lastLine = line;
      ++told;
      text +=
          " " + nameOf(t) +
          (line < 0 ? " has ended;"
                    : std::string(t.state == State::AtBlockBarrier ? " is at the block barrier"
                                                                   : " is at a warp operation") +
                          " of line " + std::to_string(line) + ";");
    }
    fail(launchFailure, text);
  }

  /// A block that failed has left its threads where they were. Their stacks go too: a sanitizer
  /// still knows what was on them.
  void dropAbandonedFibers() {
    auto isAbandoned = [](const auto &thread) { return thread->fiber != nullptr; };
    if (std::none_of(threads.begin(), threads.end(), isAbandoned))
      return;
    for (auto &t : threads)
      t->fiber = nullptr;
    freeFibers.clear();
    fibers.clear();
  }

  void runBlock() {
    std::fill(shared.begin(), shared.end(), guardByte);
    // Reading shared memory that nobody wrote gives NaN.
    std::fill_n(shared.begin() + guardBytes, sharedBytes, static_cast<unsigned char>(0xff));
    dropAbandonedFibers();
    for (int i = 0; i < count; ++i) {
      threads[i]->state = State::Ready;
      threads[i]->copies.clear();
      threads[i]->groups = 0;
    }
    while (!error) {
      round();
      if (allFinished())
        break;
      if (!releaseWarps() && !releaseBlock() && !error)
        explainDivergence();
    }
    for (int i = 0; i < guardBytes && !error; ++i)
      if (shared[i] != guardByte || shared[guardBytes + sharedBytes + i] != guardByte)
        fail(launchFailure, "a block wrote beyond its dynamic shared memory");
    ++blocksRun;
  }

  void prepare(size_t bytes) {
    count = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
    while (static_cast<int>(threads.size()) < count)
      threads.push_back(std::make_unique<Thread>());
    for (int i = 0; i < count; ++i)
      threads[i]->index = {i % blockDim.x, i / blockDim.x % blockDim.y,
                           i / (blockDim.x * blockDim.y)};
    warps.assign((count + warpSize - 1) / warpSize, Warp());
    order.resize(count);
    std::iota(order.begin(), order.end(), 0);
    sharedBytes = bytes;
    shared.resize(bytes + 2 * guardBytes);
  }
};

Machine &machine() {
  static Machine theMachine;
  return theMachine;
}

} // namespace

void setOrder(uint64_t seed) {
  machine().seed = seed;
  machine().random.seed(seed);
}

std::string takeFailure() { return std::exchange(machine().failure, {}); }

int64_t blocksRun() { return machine().blocksRun; }

void setQueue(Queue queue) { machine().queue = queue; }

void submit(void *stream, std::function<void()> work) {
  if (machine().queue)
    machine().queue(stream, std::move(work));
  else
    work();
}

int launch(dim3 grid, dim3 block, size_t sharedBytes, const std::function<void()> &thread) {
  Machine &m = machine();
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  const uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z;
  if (threads == 0 || threads > 1024 || block.z > 64 || blocks == 0 || grid.x > 0x7fffffffu ||
      grid.y > 65535 || grid.z > 65535 || sharedBytes > 227 * 1024) {
    m.fail(invalidConfiguration, "a launch with grid (" + std::to_string(grid.x) + ", " +
                                     std::to_string(grid.y) + ", " + std::to_string(grid.z) +
                                     "), " + std::to_string(threads) + " threads and " +
                                     std::to_string(sharedBytes) + " bytes of shared memory");
    return m.error;
  }
  gridDim = grid;
  blockDim = block;
  m.body = &thread;
  m.prepare(sharedBytes);
  std::vector<uint64_t> order(blocks);
  std::iota(order.begin(), order.end(), 0);
  if (m.seed)
    std::shuffle(order.begin(), order.end(), m.random);
  for (uint64_t b : order) {
    blockIdx = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                static_cast<unsigned>(b / (uint64_t(grid.x) * grid.y))};
    m.runBlock();
    if (m.error)
      break;
  }
  return m.error;
}

int lastError(bool clear) { return clear ? machine().error.exchange(0) : machine().error.load(); }

void *dynamicShared() { return machine().shared.data() + guardBytes; }

int64_t blockBarrier(int64_t value, int line) {
  Machine &m = machine();
  m.threads[m.current]->value = static_cast<uint64_t>(value);
  m.wait(State::AtBlockBarrier, line);
  return m.blockSum;
}

int lane() { return machine().current % warpSize; }

uint64_t exchange(unsigned mask, uint64_t value, int source, int line) {
  Machine &m = machine();
  Thread &t = *m.threads[m.current];
  t.value = value;
  t.mask = mask;
  if (!(mask >> lane() & 1))
    m.fail(launchFailure,
           m.nameOf(t) + " is not in the mask of its warp operation, line " + std::to_string(line));
  m.wait(State::AtWarpBarrier, line);
  const Warp &warp = m.warps[m.current / warpSize];
  if (!(warp.lanes >> source & 1))
    m.fail(launchFailure,
           m.nameOf(t) + " reads a lane that takes no part, line " + std::to_string(line));
  return warp.published[source];
}

namespace {

float widen(uint32_t bits) {
  bits <<= 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Waits for the whole warp; what each lane gave.
const uint64_t *gather(uint64_t value, int line) {
  (void)exchange(0xffffffffu, value, 0, line);
  return machine().warps[machine().current / warpSize].published;
}

} // namespace

void loadMatrices(uint32_t (&to)[4], const unsigned char *row, bool transposed, int line) {
  Machine &m = machine();
  const auto *shared = static_cast<const unsigned char *>(dynamicShared());
  if (reinterpret_cast<uintptr_t>(row) % 16 || row < shared || row + 16 > shared + m.sharedBytes)
    m.fail(launchFailure, m.nameOf(*m.threads[m.current]) +
                              " loads a matrix from a misplaced row, line " + std::to_string(line));
  const uint64_t *rows = gather(reinterpret_cast<uint64_t>(row), line);
  auto at = [&](int matrix, int r, int column) {
    uint16_t value;
    std::memcpy(&value, reinterpret_cast<const unsigned char *>(rows[matrix * 8 + r]) + column * 2,
                sizeof value);
    return uint32_t{value};
  };
  const int one = lane() / 4, two = lane() % 4 * 2;
  for (int i = 0; i < 4 && !m.error; ++i)
    to[i] = transposed ? at(i, two, one) | at(i, two + 1, one) << 16
                       : at(i, one, two) | at(i, one, two + 1) << 16;
}

void multiplyAdd(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], int line) {
  struct Factors {
    const uint32_t *a, *b;
  } mine{a, b};
  const uint64_t *all = gather(reinterpret_cast<uint64_t>(&mine), line);
  auto of = [&](int l) { return *reinterpret_cast<const Factors *>(all[l]); };
  // a: registers are (row, k), (row + 8, k), (row, k + 8), (row + 8, k + 8); b: (k), (k + 8).
  auto left = [&](int row, int k) {
    return widen(of(row % 8 * 4 + k % 8 / 2).a[k / 8 * 2 + row / 8] >> k % 2 * 16 & 0xffff);
  };
  auto right = [&](int k, int col) {
    return widen(of(col * 4 + k % 8 / 2).b[k / 8] >> k % 2 * 16 & 0xffff);
  };
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 16; ++k)
      sums[i] += left(lane() / 4 + i / 2 * 8, k) * right(k, lane() % 4 * 2 + i % 2);
  (void)gather(0, line); // the factors are read
}

void copyAsync(void *to, const void *from) {
  Thread &t = *machine().threads[machine().current];
  if (reinterpret_cast<uintptr_t>(to) % 16 || reinterpret_cast<uintptr_t>(from) % 16)
    machine().fail(launchFailure, machine().nameOf(t) + " copies 16 bytes that are not aligned");
  t.copies.push_back({to, from, t.groups});
}

void closeCopies() { ++machine().threads[machine().current]->groups; }

void waitForCopies(int open) {
  Thread &t = *machine().threads[machine().current];
  size_t made = 0;
  for (; made < t.copies.size() && t.copies[made].group < t.groups - open; ++made)
    if (t.copies[made].from)
      std::memcpy(t.copies[made].to, t.copies[made].from, 16);
    else
      std::memset(t.copies[made].to, 0, 16);
  t.copies.erase(t.copies.begin(), t.copies.begin() + static_cast<long>(made));
}

} // namespace omnibal::emulation
