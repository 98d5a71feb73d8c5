//===- Calibrate.cpp - Measures a program's layer functions on this machine ---------------===//
//
// Every rank runs the computing actions of its stage in the schedule's order, again and again, with
// made-up micro-batches of several loads in turn. Nobody waits for anybody, so all ranks are busy
// the whole time and share the machine's memory as in training; caches are as warm as there. Layer
// calls are timed one by one. A function's time at a load is the median over repeats of its mean in
// a repeat: a step is a sum of such times, and what else runs on the machine disturbs single
// repeats.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/comm/Gather.h"
#include "runtime/data/DataLoader.h"
#include "runtime/program/RankGrid.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/training/calibration/CalibrationTable.h"
#include "runtime/training/calibration/MeasuringTurns.h"
#include "runtime/training/session/Session.h"
#include <algorithm>
#include <cmath>
#include <iostream>

namespace omnibal::rt {
namespace {

/// Parts of the caps; of the tokens so many samples of equal length, of these a part of the usual
/// share of labels. The first is the heaviest, so that memory is touched before anything counts.
struct LoadShape {
  double tiles, tokens;
  int samples;
  double labels;
};
constexpr LoadShape loadShapes[] = {{1, 1, 1, 1},       {1, 1, 4, 1},       {0.5, 0.5, 1, 1},
                                    {0.25, 0.75, 2, 1}, {0.75, 0.25, 1, 1}, {0.5, 1, 2, 0.5}};
constexpr int repeats = 4;        ///< of a load at least, one a round
constexpr Seconds leastTime{0.3}; ///< of measuring one load, all rounds together
constexpr Seconds warmUpTime{1};  ///< before the first: pages, caches and clock rates settle
constexpr int64_t sampledLabels = 1000;

double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  double upper = *middle;
  if (values.size() % 2)
    return upper;
  return (upper + *std::max_element(values.begin(), middle)) / 2;
}

/// Gives the same micro-batch every time.
class OneMicrobatch final : public MicrobatchSource {
public:
  OneMicrobatch(const Program &program, const MicrobatchCaps &caps, const LoadShape &shape,
                double labelsPerToken, bool pixels) {
    const ModelInfo &info = program.info;
    auto part = [](double share, int64_t cap) {
      return std::min(cap, std::max<int64_t>(1, std::llround(share * static_cast<double>(cap))));
    };
    batch.tiles = caps.tiles > 0 ? part(shape.tiles, caps.tiles) : 0;
    batch.tokens = part(shape.tokens, caps.tokens);
    int64_t samples = std::min<int64_t>(shape.samples, batch.tokens);
    for (int64_t s = 0; s <= samples; ++s)
      batch.borders.push_back(batch.tokens * s / samples);
    batch.cuSeqlens.assign(batch.borders.begin(), batch.borders.end());
    batch.cuSeqlens.resize(batch.tokens + 1, static_cast<int32_t>(batch.tokens));
    int64_t rows = std::min(batch.tiles * info.tokensPerTile, batch.tokens - 1);
    double share = std::min(1.0, shape.labels * labelsPerToken);
    int64_t vocabulary = std::max<int64_t>(1, info.vocabulary), sample = 0;
    for (int64_t t = 0; t < batch.tokens; ++t) {
      sample += t == batch.borders[sample + 1];
      batch.positions.push_back(static_cast<int32_t>(t - batch.borders[sample]));
      batch.inputIds.push_back(static_cast<int32_t>(t * 7919 % vocabulary));
      batch.imageRows.push_back(t < rows ? static_cast<int32_t>(t) : noImageRow);
      // Evenly spread: position t has a label where the running count passes a whole number.
      auto count = [&](int64_t n) { return std::floor(share * static_cast<double>(n) + 1e-9); };
      bool labeled = count(t + 1) > count(t);
      batch.targets.push_back(labeled ? static_cast<int32_t>((t + 1) * 7919 % vocabulary)
                                      : noTarget);
      batch.labelTokens += labeled;
    }
    batch.references.resize(batch.tokens);
    if (info.grid)
      addPictures(*info.grid, samples);
    for (const std::string &name : info.tokenInputs)
      batch.tokenInputs[name].assign(batch.tokens, 0);
    if (pixels) {
      int64_t count = batch.tiles;
      for (int64_t size : info.tileShape)
        count *= size;
      batch.pixels.resize(count);
      for (int64_t i = 0; i < count; ++i)
        batch.pixels[i] = static_cast<float>(i * 31 % 255) / 127.0f - 1.0f;
    }
  }

  Result<const PackedMicrobatch *> get(int32_t) override { return &batch; }

  TimedLoad load() const {
    TimedLoad load{batch.tiles, batch.tokens, weightOf(batch).squaredTokens, batch.labelTokens, 0};
    for (const PictureUnits &picture : pictures)
      load.squaredTiles += picture.count() * picture.count();
    return load;
  }

private:
  /// Pictures as square as their number of units allows, one a sample and what is left.
  void addPictures(const PictureGrid &grid, int64_t samples) {
    for (int64_t s = 0; s < samples; ++s) {
      const int64_t units = batch.tiles * (s + 1) / samples - batch.tiles * s / samples;
      if (units == 0)
        continue;
      const auto rows = static_cast<int64_t>(std::sqrt(static_cast<double>(units)));
      pictures.push_back({rows, units / rows});
      if (units % rows)
        pictures.push_back({1, units % rows});
    }
    batch.pictureInputs = pictureInputs(pictures, grid);
    std::vector<int32_t> &positions = batch.pictureInputs.integers["position_ids"];
    for (int axis = 0; axis < 3; ++axis)
      positions.insert(positions.end(), batch.positions.begin(), batch.positions.end());
  }

  PackedMicrobatch batch;
  std::vector<PictureUnits> pictures; ///< of a model that takes them at their own sizes
};

/// Least squares of seconds = latency + bytes / speed, relative errors.
MeasuredLink fitLink(const std::vector<std::pair<double, double>> &bytesAndSeconds) {
  std::vector<TimedLoad> points;
  for (auto [bytes, seconds] : bytesAndSeconds)
    points.push_back({std::llround(bytes), 0, 0, 0, seconds * 1e9});
  TimeFit fit = fitTimes(points, {true, true, false, false, false, false});
  constexpr double fastest = 1e15; // where bytes cost nothing that can be measured
  double perByte = fit.ns[TimeFit::Tile];
  return {fit.ns[TimeFit::Fixed], perByte > 1e9 / fastest ? 1e9 / perByte : fastest};
}

class Calibration {
public:
  Calibration(Session &session, const DataSource &data) : s(session), data(data) {}

  Status run() {
    OMNIBAL_RETURN_IF_ERROR(s.agree(countLabels()));
    // The largest mode first: it touches the most memory.
    for (mode = s.program().trainModes.size(); mode-- > 0;)
      OMNIBAL_RETURN_IF_ERROR(measureMode());
    found.actionNs = actions > 0 ? overhead / static_cast<double>(actions) : 0;
    found.noise = median(noises);
    OMNIBAL_RETURN_IF_ERROR(measureLink());
    OMNIBAL_RETURN_IF_ERROR(measureReduction());
    return write();
  }

private:
  /// The share of tokens with a loss, in the data if there are any.
  Status countLabels() {
    if (!data.dataset)
      return Status::ok();
    int64_t size = data.dataset->size(), count = std::min(size, sampledLabels);
    int64_t tokens = 0, labels = 0;
    for (int64_t i = 0; i < count; ++i) {
      OMNIBAL_ASSIGN_OR_RETURN(Sample sample, data.dataset->sample(i * size / count));
      tokens += sample.tokens();
      labels += labelTokensOf(sample);
    }
    labelsPerToken = tokens > 0 ? static_cast<double>(labels) / static_cast<double>(tokens) : 1;
    return Status::ok();
  }

  struct Repeat {
    std::map<int32_t, std::pair<Seconds, int64_t>> functions; ///< total and calls
    Seconds layers{0}, total{0};
    int64_t actions = 0;
  };

  Result<Repeat> rehearse(OneMicrobatch &source) {
    Repeat repeat;
    const LayerClock clock = [&](const LayerCall &call, ActionKind, Clock::duration d) {
      auto &[total, count] = repeat.functions[call.function];
      total += d;
      ++count;
      repeat.layers += d;
      layerOf.try_emplace(call.function, call.layer);
    };
    OMNIBAL_ASSIGN_OR_RETURN(Rehearsal rehearsal, s.executor->rehearse(source, clock, mode));
    repeat.total = rehearsal.total;
    repeat.actions = rehearsal.actions;
    return repeat;
  }

  Status warmUp(OneMicrobatch &source) {
    for (auto begin = Clock::now(); Clock::now() - begin < warmUpTime;)
      OMNIBAL_RETURN_IF_ERROR(rehearse(source).status());
    return Status::ok();
  }

  /// All ranks agree on how long, by the slowest, and take the loads in turn. Functions that modes
  /// share are measured at the loads of both.
  Status measureMode() {
    const std::vector<TrainMode> &modes = s.program().trainModes;
    const bool pixels = readsPixels(s.executor->stageInfo(), trainModeName(mode));
    auto sourceOf = [&](size_t load) {
      return OneMicrobatch(s.program(), modes[mode].caps(), loadShapes[load], labelsPerToken,
                           pixels);
    };
    const size_t loads = std::size(loadShapes);
    std::vector<Seconds> shares;
    for (size_t load = 0; load < loads; ++load) {
      OneMicrobatch source = sourceOf(load);
      if (load == 0)
        OMNIBAL_RETURN_IF_ERROR(warmUp(source));
      OMNIBAL_ASSIGN_OR_RETURN(Seconds slowest, slowestTrial(source));
      shares.push_back(std::max(leastTime, repeats * slowest));
    }
    OMNIBAL_RETURN_IF_ERROR(s.communicator.barrier(s.communicator.everyone()));
    std::vector<std::vector<Repeat>> lists(loads);
    const std::vector<MeasuringTurn> turns = measuringTurns(shares, repeats);
    auto begin = Clock::now();
    for (size_t turn = 0; turn < turns.size(); ++turn) {
      const auto [load, end] = turns[turn];
      if (s.leads() && turn % loads == 0)
        std::cerr << "omnibal-run: measuring round " << turn / loads + 1 << " of " << repeats
                  << (modes.size() > 1 ? " of mode " + modes[mode].name : std::string())
                  << std::endl;
      OneMicrobatch source = sourceOf(load);
      do {
        OMNIBAL_ASSIGN_OR_RETURN(Repeat repeat, rehearse(source));
        lists[load].push_back(std::move(repeat));
      } while (Clock::now() - begin < end);
    }
    // The last one ran partly beside ranks that had ended.
    if (std::vector<Repeat> &last = lists[turns.back().load]; last.size() > 3)
      last.pop_back();
    for (size_t load = 0; load < loads; ++load)
      note(sourceOf(load).load(), lists[load]);
    return Status::ok();
  }

  /// What one repeat takes on the rank where it takes longest.
  Result<Seconds> slowestTrial(OneMicrobatch &source) {
    auto begin = Clock::now();
    auto trial = rehearse(source);
    OMNIBAL_RETURN_IF_ERROR(s.agree(trial.status()));
    OMNIBAL_ASSIGN_OR_RETURN(
        const std::vector<double> times,
        s.communicator.gatherAll(Seconds(Clock::now() - begin).count(), s.communicator.everyone()));
    return Seconds(*std::max_element(times.begin(), times.end()));
  }

  void note(TimedLoad load, const std::vector<Repeat> &list) {
    std::vector<double> totals, deviations;
    for (const Repeat &repeat : list) {
      totals.push_back(repeat.layers.count());
      overhead += (repeat.total - repeat.layers).count() * 1e9;
      actions += repeat.actions;
    }
    double middle = median(totals);
    for (double total : totals)
      deviations.push_back(middle > 0 ? std::abs(total / middle - 1) : 0);
    noises.push_back(median(deviations));
    for (const auto &[number, ignored] : list.front().functions) {
      const Function &function = s.program().functions[number];
      if (function.digest.empty())
        continue;
      std::vector<double> means;
      int64_t count = 0;
      for (const Repeat &repeat : list) {
        auto [total, calls] = repeat.functions.at(number);
        means.push_back(total.count() * 1e9 / static_cast<double>(calls));
        count += calls;
      }
      MeasuredFunction &measured = found.functions[function.digest];
      measured.name = function.name;
      measured.layer = layerOf[number];
      load.ns = median(means);
      measured.add(load, static_cast<double>(count));
    }
  }

  /// Bytes that every rank has to spare while nothing runs.
  int64_t spareBytes() const {
    int64_t spare = std::numeric_limits<int64_t>::max();
    for (const Stage &stage : s.program().stageList)
      spare = std::min(spare, stage.arenaBytes - stage.persistentBytes);
    return spare / 64 * 64;
  }

  /// One message of these bytes to or from the peer, from its start to its end.
  Status transfer(int peer, int64_t bytes, bool sends) {
    Transport::Piece piece{s.executor->scratch().data(), bytes};
    Transport &transport = s.executor->transport();
    OMNIBAL_ASSIGN_OR_RETURN(auto handle, sends ? transport.send(peer, 0, {&piece, 1})
                                                : transport.receive(peer, 0, {&piece, 1}));
    OMNIBAL_RETURN_IF_ERROR(transport.wait(handle));
    return s.executor->backend().finish();
  }

  /// Seconds from the first send to the end of the answer, at both ends; `first` sends first, after
  /// computing for a while.
  Result<double> thereAndBack(int peer, int64_t bytes, bool first, Seconds pause) {
    for (auto begin = Clock::now(); first && Clock::now() - begin < pause;)
      ;
    auto begin = Clock::now();
    OMNIBAL_RETURN_IF_ERROR(transfer(peer, bytes, first));
    OMNIBAL_RETURN_IF_ERROR(transfer(peer, bytes, !first));
    return Seconds(Clock::now() - begin).count();
  }

  /// Messages between neighbors in a pipeline, all pairs at once. A rank that has waited long for a
  /// message notices it later than one that has just begun to wait, and in a pipeline those are the
  /// messages that count: so the first message comes late and only its answer at once.
  Status measureLink() {
    const RankGrid grid(s.program());
    const int parts = grid.parts, rank = s.communicator.rank(),
              own = grid.numberOf(grid.placeOf(rank)),
              other = (own / parts ^ 1) * parts + own % parts;
    if (s.communicator.size() <= parts)
      return Status::ok();
    const bool paired = other < s.communicator.size();
    const int peer = paired ? grid.rankOf(grid.placeAt(other)) : rank;
    constexpr int rounds = 20;
    constexpr Seconds late{0.006};
    std::vector<std::pair<double, double>> points;
    for (int64_t bytes : {int64_t{4} << 10, int64_t{64} << 10, int64_t{512} << 10, int64_t{2} << 20,
                          int64_t{8} << 20}) {
      if (bytes > spareBytes())
        break;
      OMNIBAL_RETURN_IF_ERROR(s.communicator.barrier(s.communicator.everyone()));
      std::vector<double> prompt;
      for (int i = 0; paired && i < rounds; ++i) {
        OMNIBAL_ASSIGN_OR_RETURN(double time, thereAndBack(peer, bytes, rank < peer, Seconds(0)));
        prompt.push_back(time / 2);
      }
      double delayed = 0;
      for (int i = 0; paired && i < rounds; ++i) {
        bool first = (i % 2 == 0) == (rank < peer);
        OMNIBAL_ASSIGN_OR_RETURN(double time, thereAndBack(peer, bytes, first, late));
        delayed += first ? time : 0;
      }
      // A mean: naps end at any time. Half of the rounds began here.
      const int half = rounds / 2;
      if (paired)
        points.push_back({static_cast<double>(bytes),
                          std::max(median(prompt), delayed / half - median(prompt))});
    }
    if (!points.empty())
      found.link = fitLink(points);
    return Status::ok();
  }

  /// Measures the reduction over the replicas of a stage, or with one replica over all ranks. The
  /// result is stated so that 2(d-1) latency + 2(d-1)/d bytes / speed is what was measured.
  Status measureReduction() {
    const Program &p = s.program();
    const std::vector<int> replicas =
        RankGrid(p).replicasOf(s.executor->stage(), s.executor->part());
    const std::vector<int> ranks = p.dataParallel > 1 ? replicas : s.communicator.everyone();
    double members = static_cast<double>(ranks.size());
    if (ranks.size() < 2)
      return Status::ok();
    constexpr int rounds = 10;
    std::vector<std::pair<double, double>> points;
    for (int64_t bytes : {int64_t{16} << 10, int64_t{1} << 20, int64_t{16} << 20}) {
      if (bytes > spareBytes())
        break;
      std::vector<double> times;
      std::span<float> values(reinterpret_cast<float *>(s.executor->scratch().data()),
                              bytes / sizeof(float));
      for (int i = 0; i < rounds; ++i) {
        OMNIBAL_RETURN_IF_ERROR(
            s.executor->backend().write(values.data(), bytes, [&](std::byte *to) {
              std::fill_n(reinterpret_cast<float *>(to), values.size(), 1.0f);
              return Status::ok();
            }));
        OMNIBAL_RETURN_IF_ERROR(s.communicator.barrier(s.communicator.everyone()));
        auto begin = Clock::now();
        OMNIBAL_RETURN_IF_ERROR(s.executor->transport().allReduce(values, ranks));
        OMNIBAL_RETURN_IF_ERROR(s.executor->backend().finish());
        times.push_back(Seconds(Clock::now() - begin).count());
      }
      points.push_back({static_cast<double>(bytes) / members, median(times) / (2 * (members - 1))});
    }
    if (!points.empty())
      found.reduction = fitLink(points);
    return Status::ok();
  }

  Status write() {
    OMNIBAL_ASSIGN_OR_RETURN(auto texts, gatherTexts(s.communicator, found.toJson().dump()));
    if (!s.leads())
      return s.agree(Status::ok());
    Measurements all = Measurements::fromJson(nlohmann::json::parse(texts.front()));
    for (size_t r = 1; r < texts.size(); ++r)
      all.add(Measurements::fromJson(nlohmann::json::parse(texts[r])));
    Status status = writeFileAtomically(
        s.options.calibrate,
        calibrationTable(s.program(), all, labelsPerToken, s.executor->pool().threads(), s.device));
    if (status)
      report(all);
    return s.agree(status);
  }

  void report(const Measurements &all) const {
    char text[160];
    std::snprintf(text, sizeof text, "%zu functions measured, noise %.1f %%%s",
                  all.functions.size(), all.noise * 100,
                  all.noise > 0.05 ? " (something else uses this machine)" : "");
    std::cerr << "omnibal-run: " << text << "; written to " << s.options.calibrate << std::endl;
  }

  Session &s;
  const DataSource &data;
  double labelsPerToken = 1;
  size_t mode = 0; ///< the train mode that is measured
  Measurements found;
  std::map<int32_t, std::string> layerOf;
  std::vector<double> noises; ///< one a load
  double overhead = 0;        ///< nanoseconds
  int64_t actions = 0;
};

} // namespace

Status calibrate(Session &session, const DataSource &data) {
  return Calibration(session, data).run();
}

} // namespace omnibal::rt
