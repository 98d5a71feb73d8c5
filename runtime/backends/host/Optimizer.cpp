#include "runtime/backends/host/Optimizer.h"
#include "runtime/backends/host/vector/Update.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

namespace omnibal::rt {
namespace {

constexpr int64_t taskSize = 65536; // values worth handing out

struct Block {
  size_t run;
  int64_t begin, size;
};

int64_t phaseOf(const FloatRun &run) { return run.phase; }
int64_t phaseOf(const AdamWTensor &) { return 0; }

template <typename Run> std::vector<Block> cutIntoBlocks(std::span<const Run> runs) {
  std::vector<Block> blocks;
  for (size_t r = 0; r < runs.size(); ++r)
    forBlocksOf(runs[r].elements, phaseOf(runs[r]),
                [&](int64_t begin, int64_t size) { blocks.push_back({r, begin, size}); });
  return blocks;
}

/// Runs body(block number) for every block, several small ones a task.
void forBlocks(const std::vector<Block> &blocks, ThreadPool &pool,
               const std::function<void(size_t)> &body) {
  std::vector<size_t> starts = {0};
  int64_t size = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    size += blocks[i].size;
    if (size >= taskSize || i + 1 == blocks.size()) {
      starts.push_back(i + 1);
      size = 0;
    }
  }
  pool.parallelFor(static_cast<int64_t>(starts.size()) - 1, [&](int64_t task, int) {
    for (size_t i = starts[task]; i < starts[task + 1]; ++i)
      body(i);
  });
}

/// The copy's part of a block.
void copyBlock(const AdamWTensor &t, const Block &block) {
  if (t.copy)
    for (int64_t i = block.begin; i < block.begin + block.size; ++i)
      t.copy[i] = BFloat16::fromFloat(t.param[i]);
}

} // namespace

void adamW(std::span<const AdamWTensor> tensors, const AdamWOptions &options, ThreadPool &pool) {
  AdamWFactors factors;
  factors.gradientScale = static_cast<float>(options.gradientScale);
  factors.take1 = static_cast<float>(1 - options.beta1);
  factors.keep2 = static_cast<float>(options.beta2);
  factors.take2 = static_cast<float>(1 - options.beta2);
  const double step = static_cast<double>(options.step);
  const double correction = 1 - std::pow(options.beta1, step);
  factors.rootScale = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, step)));
  factors.epsilon = static_cast<float>(options.epsilon);
  factors.zeroGradients = options.zeroGradients;

  std::vector<Block> blocks = cutIntoBlocks(tensors);
  forBlocks(blocks, pool, [&](size_t number) {
    const Block &block = blocks[number];
    const AdamWTensor &t = tensors[block.run];
    AdamWFactors mine = factors;
    const UpdateRate &rate = options.rates[t.rate];
    mine.stepSize = static_cast<float>(rate.learningRate / correction);
    mine.shrink = static_cast<float>(1 - rate.learningRate * rate.weightDecay);
    updateTable().adamW(t.param + block.begin, t.grad + block.begin, t.moment1 + block.begin,
                        t.moment2 + block.begin, block.size, mine);
    copyBlock(t, block);
  });
}

void copyParameters(std::span<const AdamWTensor> tensors, ThreadPool &pool) {
  std::vector<Block> blocks = cutIntoBlocks(tensors);
  forBlocks(blocks, pool,
            [&](size_t number) { copyBlock(tensors[blocks[number].run], blocks[number]); });
}

std::vector<double> squaresOfBlocks(std::span<const FloatRun> runs, ThreadPool &pool) {
  std::vector<Block> blocks = cutIntoBlocks(runs);
  std::vector<double> sums(blocks.size());
  forBlocks(blocks, pool, [&](size_t number) {
    const Block &block = blocks[number];
    if (const float *data = runs[block.run].data)
      sums[number] = updateTable().squares(data + block.begin, block.size);
  });
  return sums;
}

double squaredNorm(std::span<const FloatRun> runs, ThreadPool &pool) {
  const std::vector<double> sums = squaresOfBlocks(runs, pool);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

void scale(std::span<const FloatRun> runs, double factor, ThreadPool &pool) {
  const float f = static_cast<float>(factor);
  std::vector<Block> blocks = cutIntoBlocks(runs);
  forBlocks(blocks, pool, [&](size_t number) {
    const Block &block = blocks[number];
    float *x = runs[block.run].data + block.begin;
    for (int64_t i = 0; i < block.size; ++i)
      x[i] *= f;
  });
}

void fillZero(std::span<const FloatRun> runs, ThreadPool &pool) {
  std::vector<Block> blocks = cutIntoBlocks(runs);
  forBlocks(blocks, pool, [&](size_t number) {
    const Block &block = blocks[number];
    std::memset(runs[block.run].data + block.begin, 0, block.size * sizeof(float));
  });
}

} // namespace omnibal::rt
