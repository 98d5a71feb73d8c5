#include "runtime/backends/host/Optimizer.h"
#include "runtime/backends/host/vector/Update.h"
#include "runtime/device/DynamicMap.h"
#include "runtime/device/UpdateConstants.h"
#include <algorithm>
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
int64_t phaseOf(const UpdatedTensor &) { return 0; }
int64_t phaseOf(const AveragedTensor &) { return 0; }

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
void copyBlock(const UpdatedTensor &t, const Block &block) {
  if (t.copy)
    for (int64_t i = block.begin; i < block.begin + block.size; ++i)
      t.copy[i] = BFloat16::fromFloat(t.param[i]);
}

/// From an element on that is a block's first: blocks of tasks are blocks of codes.
CodedMoment momentFrom(const CodedMoment &moment, int64_t begin) {
  static_assert(normBlock % codedBlock == 0);
  return {moment.codes + begin, moment.scales + begin / codedBlock};
}

} // namespace

void update(std::span<const UpdatedTensor> tensors, const UpdateOptions &options,
            ThreadPool &pool) {
  const UpdateFactors factors = factorsOf(options);
  const auto rule = updateTable().update[static_cast<size_t>(options.kind)];
  std::vector<Block> blocks = cutIntoBlocks(tensors);
  forBlocks(blocks, pool, [&](size_t number) {
    const Block &block = blocks[number];
    const UpdatedTensor &t = tensors[block.run];
    const UpdateFactors mine = atRate(factors, options, options.rates[t.rate]);
    if (isCoded(options.kind))
      updateTable().coded(t.param + block.begin, t.grad + block.begin,
                          momentFrom(t.coded1, block.begin), momentFrom(t.coded2, block.begin),
                          block.size, mine, signedMap(), unsignedMap());
    else
      rule(t.param + block.begin, t.grad + block.begin, t.moment1 + block.begin,
           t.moment2 ? t.moment2 + block.begin : nullptr, block.size, mine);
    copyBlock(t, block);
  });
}

void copyParameters(std::span<const UpdatedTensor> tensors, ThreadPool &pool) {
  std::vector<Block> blocks = cutIntoBlocks(tensors);
  forBlocks(blocks, pool,
            [&](size_t number) { copyBlock(tensors[blocks[number].run], blocks[number]); });
}

void average(std::span<const AveragedTensor> tensors, double decay, ThreadPool &pool) {
  const auto keep = static_cast<float>(decay), take = static_cast<float>(1 - decay);
  std::vector<Block> blocks = cutIntoBlocks(tensors);
  forBlocks(blocks, pool, [&](size_t number) {
    const Block &block = blocks[number];
    const AveragedTensor &t = tensors[block.run];
    updateTable().average(t.value + block.begin, t.average + block.begin, block.size, keep, take);
  });
}

void exchange(std::span<const AveragedTensor> tensors, ThreadPool &pool) {
  std::vector<Block> blocks = cutIntoBlocks(tensors);
  forBlocks(blocks, pool, [&](size_t number) {
    const Block &block = blocks[number];
    const AveragedTensor &t = tensors[block.run];
    std::swap_ranges(t.value + block.begin, t.value + block.begin + block.size,
                     t.average + block.begin);
  });
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
