#include "runtime/device/PartMove.h"
#include "runtime/device/CallReader.h"
#include <algorithm>
#include <array>

namespace omnibal::rt {
namespace {

constexpr std::array<std::pair<std::string_view, PartMoveKind>, 7> moveKernels = {
    {{"all_reduce", PartMoveKind::AllReduce},
     {"all_gather", PartMoveKind::AllGather},
     {"reduce_scatter", PartMoveKind::ReduceScatter},
     {"all_to_all", PartMoveKind::AllToAll},
     {"take_part", PartMoveKind::Take},
     {"place_part", PartMoveKind::Place},
     {"keep_first", PartMoveKind::KeepFirst}}};

const std::pair<std::string_view, PartMoveKind> *findMove(std::string_view kernel) {
  auto found = std::find_if(moveKernels.begin(), moveKernels.end(),
                            [&](const auto &each) { return each.first == kernel; });
  return found == moveKernels.end() ? nullptr : &*found;
}

/// Whether `src`, and `dst`, are split.
bool splitsSource(PartMoveKind kind) {
  return kind == PartMoveKind::AllGather || kind == PartMoveKind::AllToAll ||
         kind == PartMoveKind::Place;
}
bool splitsResult(PartMoveKind kind) {
  return kind == PartMoveKind::ReduceScatter || kind == PartMoveKind::AllToAll ||
         kind == PartMoveKind::Take;
}

PartSplit readSplit(CallReader &call, const std::string &side) {
  PartSplit split;
  const std::vector<int64_t> numbers = call.integers(side);
  if (numbers.size() != 3 || numbers[0] < 0 || numbers[0] >= TensorView::maxRank ||
      numbers[1] < 0 || numbers[2] < 1)
    call.fail("attribute '" + side + "' must be a dimension, its units and their elements");
  else
    split = {numbers[0], {numbers[1]}, numbers[2], {1}};
  split.units = call.extent(side + "_units", split.units);
  if (!split.units.isStatic() && split.units != Extent{0, 1} && split.units != Extent{0, 0, 1})
    call.fail("attribute '" + side + "_units' must be a number, V or N");
  split.outer = call.extent(side + "_outer", split.outer);
  return split;
}

/// Indices that both sides have of a dimension: where they begin on either side.
struct IndexRun {
  int64_t one, other, count;
};

/// Restricts [begin, end) of the whole dimension to what a side has; calls use(begin, end, local).
template <typename Use>
void restrictTo(const PartSide &side, int64_t dim, int64_t begin, int64_t end, Use use) {
  if (!*side.split || (*side.split)->dim != dim)
    return use(begin, end, begin);
  const UnitSplit &split = **side.split;
  const int64_t row = split.units * split.inner, own = side.own.size() * split.inner;
  for (int64_t r = row > 0 ? begin / row : split.outer; r < split.outer && r * row < end; ++r) {
    const int64_t first = r * row + side.own.begin * split.inner;
    const int64_t from = std::max(begin, first), to = std::min(end, first + own);
    if (from < to)
      use(from, to, r * own + from - first);
  }
}

std::vector<IndexRun> commonIndices(int64_t size, int64_t dim, const PartSide &one,
                                    const PartSide &other) {
  std::vector<IndexRun> runs;
  restrictTo(one, dim, 0, size, [&](int64_t begin, int64_t end, int64_t at) {
    restrictTo(other, dim, begin, end, [&](int64_t from, int64_t to, int64_t local) {
      runs.push_back({at + from - begin, local, to - from});
    });
  });
  return runs;
}

/// Runs of one length that follow each other at even distances.
struct EvenRuns {
  IndexRun first;
  int64_t runs = 1, one = 0, other = 0; ///< from one run to the next
};

std::vector<EvenRuns> evenRunsOf(const std::vector<IndexRun> &list) {
  std::vector<EvenRuns> result;
  for (const IndexRun &run : list) {
    EvenRuns *last = result.empty() ? nullptr : &result.back();
    const int64_t one = last ? run.one - last->first.one : 0,
                  other = last ? run.other - last->first.other : 0;
    if (last && last->first.count == run.count &&
        (last->runs == 1 || (one == last->one * last->runs && other == last->other * last->runs))) {
      if (last->runs == 1)
        last->one = one, last->other = other;
      ++last->runs;
    } else {
      result.push_back({run});
    }
  }
  return result;
}

/// Puts a dimension in front of a block's, or makes one of it and the first.
void prepend(CommonBlock &block, const CommonBlock::Dim &dim) {
  if (dim.size == 1)
    return;
  if (!block.dims.empty()) {
    CommonBlock::Dim &first = block.dims.front();
    if (dim.one == first.one * first.size && dim.other == first.other * first.size) {
      first.size *= dim.size;
      return;
    }
  }
  block.dims.insert(block.dims.begin(), dim);
}

int64_t heldSize(int64_t size, int64_t dim, const PartSide &side) {
  return *side.split && (*side.split)->dim == dim
             ? (*side.split)->outer * side.own.size() * (*side.split)->inner
             : size;
}

} // namespace

std::optional<PartMoveKind> PartMove::kindOf(std::string_view kernel) {
  const auto *found = findMove(kernel);
  return found ? std::optional(found->second) : std::nullopt;
}

bool PartMove::isKernel(std::string_view kernel) { return kindOf(kernel).has_value(); }

Result<PartMove> PartMove::read(const BoundCall &bound) {
  CallReader call(bound);
  PartMove move;
  const std::optional<PartMoveKind> found = kindOf(bound.kernel);
  if (!found)
    return invalid("'" + bound.kernel + "' is no move among parts");
  move.kind = *found;
  move.src = call.operand("src");
  move.dst = call.operand("dst");
  if (move.kind == PartMoveKind::ReduceScatter)
    move.workspace = call.operand("workspace");
  if (splitsSource(move.kind))
    move.from = readSplit(call, "from");
  if (splitsResult(move.kind))
    move.to = readSplit(call, "to");
  OMNIBAL_RETURN_IF_ERROR(call.finish());
  return move;
}

std::vector<int64_t> PartMove::wholeShape(std::span<const int64_t> shape,
                                          const std::optional<UnitSplit> &split, int64_t part,
                                          int64_t parts) {
  std::vector<int64_t> whole(shape.begin(), shape.end());
  if (!split)
    return whole;
  const auto dim = static_cast<size_t>(split->dim);
  const int64_t own = split->of(part, parts).size() * split->inner;
  if (dim >= whole.size() || whole[dim] != split->outer * own)
    return {};
  whole[dim] = split->outer * split->units * split->inner;
  return whole;
}

std::vector<CommonBlock> commonBlocks(std::span<const int64_t> whole, const PartSide &one,
                                      const PartSide &other) {
  std::vector<CommonBlock> blocks(1);
  int64_t oneStride = 1, otherStride = 1;
  for (int64_t d = static_cast<int64_t>(whole.size()) - 1; d >= 0; --d) {
    std::vector<CommonBlock> longer;
    for (const EvenRuns &even : evenRunsOf(commonIndices(whole[d], d, one, other)))
      for (const CommonBlock &behind : blocks) {
        CommonBlock block = behind;
        block.one += even.first.one * oneStride;
        block.other += even.first.other * otherStride;
        if (even.first.count == 0)
          continue;
        prepend(block, {even.first.count, oneStride, otherStride});
        prepend(block, {even.runs, even.one * oneStride, even.other * otherStride});
        longer.push_back(std::move(block));
      }
    blocks = std::move(longer);
    oneStride *= heldSize(whole[d], d, one);
    otherStride *= heldSize(whole[d], d, other);
  }
  return blocks;
}

void forCommonRuns(std::span<const int64_t> whole, const PartSide &one, const PartSide &other,
                   const std::function<void(int64_t, int64_t, int64_t)> &use) {
  const auto rank = static_cast<int64_t>(whole.size());
  int64_t last = -1; // behind it, elements that follow each other do so on both sides
  for (const PartSide *side : {&one, &other})
    if (*side->split)
      last = std::max(last, (*side->split)->dim);
  std::vector<int64_t> ones(whole.size() + 1, 1), others(whole.size() + 1, 1); // strides
  for (int64_t d = rank - 1; d >= 0; --d) {
    ones[d] = ones[d + 1] * heldSize(whole[d], d, one);
    others[d] = others[d + 1] * heldSize(whole[d], d, other);
  }
  if (last < 0) {
    if (ones[0] > 0)
      use(0, 0, ones[0]);
    return;
  }
  std::vector<std::vector<IndexRun>> runs;
  for (int64_t d = 0; d <= last; ++d)
    runs.push_back(commonIndices(whole[d], d, one, other));
  const int64_t behind = ones[last + 1];
  if (behind == 0)
    return;
  std::function<void(int64_t, int64_t, int64_t)> descend = [&](int64_t d, int64_t at, int64_t to) {
    for (const IndexRun &run : runs[d]) {
      if (d == last) {
        use(at + run.one * behind, to + run.other * behind, run.count * behind);
        continue;
      }
      for (int64_t i = 0; i < run.count; ++i)
        descend(d + 1, at + (run.one + i) * ones[d + 1], to + (run.other + i) * others[d + 1]);
    }
  };
  descend(0, 0, 0);
}

} // namespace omnibal::rt
