#include "runtime/data/Prefetcher.h"
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace omnibal::rt {
namespace {

struct Batch {
  std::vector<int64_t> indices;
  std::vector<int64_t> firstTile; ///< of each sample, in the batch
  LoadedBatch result;
  size_t remaining = 0;
  std::vector<BadSample> bad; ///< in any order
  bool unreadable = false;    ///< one of them is more than a picture
  bool exhausted = false;     ///< there was no memory even to say what is wrong
};

struct Task {
  std::shared_ptr<Batch> batch;
  size_t sample = 0;
};

} // namespace

struct Prefetcher::State {
  std::shared_ptr<const Dataset> dataset;
  Preprocess preprocess;
  LoaderOptions options;

  std::mutex mutex;
  std::condition_variable work, done;
  std::deque<std::shared_ptr<Batch>> announced, active; ///< waiting for room; being loaded or ready
  std::deque<Task> tasks;
  int64_t tilesHeld = 0;
  LoaderCounters counters;
  Status failure;
  bool stop = false;
  int64_t tileValues = 0;
  std::vector<std::thread> threads;

  void admit();
  void run();
  Status read(Batch &batch, size_t sample);
  Status decode(Batch &batch, size_t sample);
  void load(const Task &task);
};

/// Moves announced micro-batches to the threads as far as the bounds allow. Needs the lock.
void Prefetcher::State::admit() {
  while (!announced.empty()) {
    auto &batch = announced.front();
    int64_t tiles = options.pixels ? batch->result.tiles : 0;
    if (!active.empty() && (tilesHeld + tiles > options.tilesAhead ||
                            static_cast<int64_t>(active.size()) >= options.batchesAhead))
      return;
    tilesHeld += tiles;
    batch->result.samples.resize(batch->indices.size());
    batch->result.pixels.resize(static_cast<size_t>(tiles * tileValues));
    for (size_t s = 0; s < batch->indices.size(); ++s)
      tasks.push_back({batch, s});
    active.push_back(std::move(batch));
    announced.pop_front();
    work.notify_all();
  }
}

Status Prefetcher::State::read(Batch &batch, size_t s) {
  int64_t index = batch.indices[s];
  const SampleNeeds needs{&options.rules.tokenInputs, options.rules.tokensCap};
  Result<Sample> sample = dataset->sample(index, needs);
  if (!sample)
    return std::move(sample).status();
  OMNIBAL_RETURN_IF_ERROR(checkSample(*sample, options.rules).context(dataset->describe(index)));
  if (options.references) {
    OMNIBAL_ASSIGN_OR_RETURN(sample->reference, options.references->of(index, *sample));
  }
  batch.result.samples[s] = *std::move(sample);
  return Status::ok();
}

Status Prefetcher::State::decode(Batch &batch, size_t s) {
  const int64_t index = batch.indices[s];
  if (!options.pixels || dataset->tiles(index) == 0)
    return Status::ok();
  float *out = batch.result.pixels.data() + batch.firstTile[s] * tileValues;
  return dataset->grid()
             ? dataset->decodePatches(index, preprocess, out)
             : dataset->decodeTiles(index, preprocess, options.tileHeight, options.tileWidth, out);
}

/// Without the lock, except to leave what it found. An exception is an error of the sample: it may
/// not end a thread, and with it the process.
void Prefetcher::State::load(const Task &task) {
  Batch &batch = *task.batch;
  const int64_t index = batch.indices[task.sample];
  bool wasRead = false;
  Status status;
  try {
    status = read(batch, task.sample);
    wasRead = status.isOk();
    if (wasRead)
      status = decode(batch, task.sample);
  } catch (const std::exception &e) {
    status = Status(Code::Unavailable, e.what()).context(dataset->describe(index));
  }
  if (status)
    return;
  if (wasRead) {
    auto begin = batch.result.pixels.begin() + batch.firstTile[task.sample] * tileValues;
    std::fill(begin, begin + dataset->tiles(index) * tileValues, 0.0f);
  }
  std::lock_guard lock(mutex);
  batch.bad.push_back({index, std::move(status)});
  batch.unreadable |= !wasRead;
}

void Prefetcher::State::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    work.wait(lock, [&] { return stop || !tasks.empty(); });
    if (stop)
      return;
    Task task = std::move(tasks.front());
    tasks.pop_front();
    lock.unlock();
    bool exhausted = false;
    try {
      load(task);
    } catch (const std::bad_alloc &) {
      exhausted = true;
    }
    lock.lock();
    task.batch->exhausted |= exhausted;
    ++counters.samples;
    if (options.pixels)
      counters.tiles += dataset->tiles(task.batch->indices[task.sample]);
    if (--task.batch->remaining == 0)
      done.notify_all();
  }
}

Prefetcher::Prefetcher(std::shared_ptr<const Dataset> dataset, Preprocess preprocess,
                       LoaderOptions options)
    : state(std::make_unique<State>()) {
  state->dataset = std::move(dataset);
  state->preprocess = preprocess;
  state->options = std::move(options);
  state->tileValues = state->dataset->grid()
                          ? state->dataset->grid()->valuesPerUnit()
                          : 3 * state->options.tileHeight * state->options.tileWidth;
  try {
    for (int t = 0; t < std::max(1, state->options.threads); ++t)
      state->threads.emplace_back([s = state.get()] { s->run(); });
  } catch (const std::system_error &) {
    if (state->threads.empty())
      throw; // the system refuses more threads; those that there are do all the work
  }
}

Prefetcher::~Prefetcher() {
  {
    std::lock_guard lock(state->mutex);
    state->stop = true;
  }
  state->work.notify_all();
  for (std::thread &thread : state->threads)
    thread.join();
}

void Prefetcher::announce(std::vector<int64_t> samples) {
  auto batch = std::make_shared<Batch>();
  for (int64_t index : samples) {
    batch->firstTile.push_back(batch->result.tiles);
    batch->result.tiles += state->dataset->tiles(index);
  }
  batch->indices = std::move(samples);
  batch->remaining = batch->indices.size();
  std::lock_guard lock(state->mutex);
  state->announced.push_back(std::move(batch));
  state->admit();
}

std::optional<BatchLengths> Prefetcher::lengths(size_t place) const {
  std::lock_guard lock(state->mutex);
  if (place >= state->active.size())
    return std::nullopt;
  const Batch &batch = *state->active[place];
  if (batch.remaining > 0 || batch.exhausted || !batch.bad.empty())
    return std::nullopt;
  BatchLengths lengths;
  lengths.tiles = batch.result.tiles;
  for (const Sample &sample : batch.result.samples)
    for (const TokenRange &sequence : sequencesOf(sample))
      lengths.tokens.push_back(sequence.size());
  return lengths;
}

LoaderCounters Prefetcher::counters() const {
  std::lock_guard lock(state->mutex);
  return state->counters;
}

Result<LoadedBatch> Prefetcher::take(std::chrono::milliseconds deadline) {
  std::unique_lock lock(state->mutex);
  if (!state->failure)
    return state->failure;
  if (state->active.empty())
    return Status(Code::Internal, "a micro-batch is taken that was never announced");
  std::shared_ptr<Batch> batch = state->active.front();
  if (!state->done.wait_for(lock, deadline, [&] { return batch->remaining == 0; })) {
    std::string names;
    for (int64_t index : batch->indices)
      names += (names.empty() ? "" : ", ") + state->dataset->key(index);
    return Status(Code::DeadlineExceeded, "reading the samples " + names + " took more than " +
                                              std::to_string(deadline.count()) + " ms");
  }
  if (batch->exhausted) {
    state->failure = Status(Code::OutOfMemory, "reading samples: out of memory");
    return state->failure;
  }
  auto placeOf = [&](const BadSample &bad) {
    return std::find(batch->indices.begin(), batch->indices.end(), bad.sample);
  };
  std::sort(batch->bad.begin(), batch->bad.end(),
            [&](const BadSample &a, const BadSample &b) { return placeOf(a) < placeOf(b); });
  if (!batch->bad.empty() && !state->options.standIns) {
    state->failure = batch->bad.front().reason;
    return state->failure;
  }
  state->active.pop_front();
  if (state->options.pixels)
    state->tilesHeld -= batch->result.tiles;
  state->admit();
  LoadedBatch result = batch->unreadable ? LoadedBatch() : std::move(batch->result);
  result.bad = std::move(batch->bad);
  for (const Sample &sample : result.samples)
    result.tokens += sample.tokens();
  return result;
}

} // namespace omnibal::rt
