// Measuring runs compute what a step computes, call by call, and leave the parameters alone.
#include "runtime/comm/threads/ThreadCommunicator.h"
#include "test/unit/runtime/executor/TinyRun.h"
#include <gtest/gtest.h>
#include <map>
#include <thread>

namespace omnibal::rt {
namespace {

/// What one rank's rehearsal did.
struct Seen {
  Status status;
  std::map<std::pair<const LayerCall *, ActionKind>, int> calls;
  Clock::duration layers{};
  Rehearsal rehearsal;
  bool parametersKept = false, withinScratch = false;
};

Seen rehearseRank(const LoadedProgram &loaded, Communicator &communicator) {
  Seen seen;
  seen.status = [&]() -> Status {
    ExecutorOptions options;
    options.guarded = true; // writing outside of the arena shows
    OMNIBAL_ASSIGN_OR_RETURN(auto executor, Executor::prepare(loaded, communicator, options));
    OMNIBAL_RETURN_IF_ERROR(executor->initializeForRehearsal());
    const Stage &stage = executor->stageInfo();
    auto parameters = [&] {
      std::vector<float> values;
      for (const Parameter &q : stage.parameters)
        values.insert(values.end(), executor->at(q.dataOffset),
                      executor->at(q.dataOffset) + q.elements());
      return values;
    };
    std::vector<float> before = parameters();
    const Program &p = loaded.program;
    auto groups = tinyStep(1, p.trainModes[0].microbatches * p.dataParallel);
    TinySource source(groups, p.dataParallel, executor->replica());
    OMNIBAL_ASSIGN_OR_RETURN(
        seen.rehearsal,
        executor->rehearse(source, [&](const LayerCall &call, ActionKind kind, Clock::duration d) {
          ++seen.calls[{&call, kind}];
          seen.layers += d;
        }));
    seen.parametersKept = !before.empty() && before == parameters();
    seen.withinScratch =
        executor->scratch().size() == static_cast<size_t>(stage.arenaBytes - stage.persistentBytes);
    return Status::ok();
  }();
  return seen;
}

TEST(Rehearsal, RunsEveryLayerCallOncePerMicrobatchWithoutTheOtherRanks) {
  for (int stages : {1, 2}) {
    LoadedProgram loaded = loadedTiny({stages, 3, 1, false});
    // One rank after the other: a rehearsal that waited for a message would never end.
    auto communicators = createThreadCommunicators(stages, std::chrono::milliseconds(20'000));
    for (int rank = 0; rank < stages; ++rank) {
      Seen seen = rehearseRank(loaded, *communicators[rank]);
      ASSERT_TRUE(seen.status) << seen.status.message();
      const Mode &mode = loaded.program.stageList[rank].modes.at("train");
      size_t expected = 0;
      for (const Chunk &chunk : mode.chunks)
        for (auto [calls, kind] : {std::pair{&chunk.forward, ActionKind::Forward},
                                   std::pair{&chunk.backward, ActionKind::Backward}})
          for (const LayerCall &call : *calls) {
            ++expected;
            EXPECT_EQ((seen.calls[{&call, kind}]), mode.microbatches) << call.layer;
          }
      EXPECT_EQ(seen.calls.size(), expected);
      EXPECT_EQ(seen.rehearsal.actions,
                static_cast<int64_t>(mode.chunks.size()) * 2 * mode.microbatches);
      EXPECT_GT(seen.layers.count(), 0);
      EXPECT_GE(seen.rehearsal.total, seen.layers);
      EXPECT_TRUE(seen.parametersKept);
      EXPECT_TRUE(seen.withinScratch);
    }
  }
}

} // namespace
} // namespace omnibal::rt
