//===- Moves.h - Moves among parts over a transport of the fake device
//-------------------------===//
#ifndef TEST_UNIT_RUNTIME_BACKENDS_CUDA_MOVES_H
#define TEST_UNIT_RUNTIME_BACKENDS_CUDA_MOVES_H

#include "test/unit/runtime/backends/MoveCases.h"
#include "test/unit/runtime/backends/cuda/FakeRank.h"

namespace omnibal::rt::cuda {

/// Makes all moves as part `part` of `ranks`, one after the other, and looks at results in the end.
inline void expectMoves(const std::vector<movetest::MoveCase> &cases, int64_t part, FakeRank &rank,
                        Transport &transport, std::span<const int> ranks) {
  constexpr int64_t source = 0, workspace = 16384, results = 32768, room = 4096;
  int64_t next = results;
  for (const movetest::MoveCase &c : cases) {
    rank.put(source, movetest::sourceOf(c, part)); // overwrites what the last move read
    const TensorView views[] = {movetest::viewOf(rank.floats(source), c.sourceShape(part)),
                                movetest::viewOf(rank.floats(next), c.resultShape(part)),
                                movetest::viewOf(rank.floats(workspace), c.resultShape(part))};
    EXPECT_OK(transport.exchange(c.move(), views, c.symbols, ranks));
    next += room;
  }
  next = results;
  for (size_t i = 0; i < cases.size(); ++i, next += room) {
    const std::vector<float> expected = movetest::expectedOf(cases[i], part);
    EXPECT_EQ(rank.get(next, expected.size()), expected) << "move " << i << " of part " << part;
  }
}

} // namespace omnibal::rt::cuda
#endif // TEST_UNIT_RUNTIME_BACKENDS_CUDA_MOVES_H
