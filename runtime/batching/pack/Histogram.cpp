#include "runtime/batching/pack/Histogram.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

constexpr int64_t mostLines = 1 << 14, mostEntries = 1 << 22;

} // namespace

Histogram::Histogram(std::vector<Cell> cells) : theCells(std::move(cells)) {
  for (const Cell &cell : theCells) {
    theSamples += cell.count;
    theTiles += cell.count * cell.tiles;
    theTokens += cell.count * cell.tokens;
  }
}

Histogram::Histogram(const SampleLengths &lengths, Caps caps) {
  int64_t n = lengths.size();
  const int32_t *tiles = lengths.tiles.data(), *tokens = lengths.tokens.data();
  auto within = [&](int64_t i) { return tiles[i] <= caps.tiles && tokens[i] <= caps.tokens; };
  int32_t mostTiles = 0;
  for (int64_t i = 0; i < n; ++i)
    if (within(i))
      mostTiles = std::max(mostTiles, tiles[i]);
  while (mostTiles >> tileShift >= mostLines)
    ++tileShift;
  lines.resize((mostTiles >> tileShift) + 1);
  for (int64_t i = 0; i < n; ++i) {
    if (!within(i))
      continue;
    Line &line = lines[tiles[i] >> tileShift];
    line.first = std::min(line.first, tokens[i]);
    line.last = std::max(line.last, tokens[i]);
    ++theSamples;
    theTiles += tiles[i];
    theTokens += tokens[i];
  }
  auto entries = [&] {
    int64_t sum = 0;
    for (const Line &line : lines)
      if (line.last >= 0)
        sum += (line.last >> tokenShift) - (line.first >> tokenShift) + 1;
    return sum;
  };
  while (entries() > mostEntries)
    ++tokenShift;
  size_t begin = 0;
  for (Line &line : lines) {
    line.begin = begin;
    if (line.last < 0)
      continue;
    line.first >>= tokenShift;
    line.last >>= tokenShift;
    begin += line.last - line.first + 1;
  }
  numbers.assign(begin, 0);
  for (int64_t i = 0; i < n; ++i)
    if (within(i)) {
      const Line &line = lines[tiles[i] >> tileShift];
      ++numbers[line.begin + ((tokens[i] >> tokenShift) - line.first)];
    }
  for (size_t v = 0; v < lines.size(); ++v)
    for (int64_t t = lines[v].first; t <= lines[v].last; ++t) {
      uint32_t &number = numbers[lines[v].begin + (t - lines[v].first)];
      if (number == 0)
        continue;
      theCells.push_back({static_cast<int32_t>(v) << tileShift,
                          static_cast<int32_t>(t << tokenShift), static_cast<int64_t>(number)});
      number = static_cast<uint32_t>(theCells.size() - 1);
    }
}

} // namespace omnibal::rt
