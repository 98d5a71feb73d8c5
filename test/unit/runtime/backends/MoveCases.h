//===- MoveCases.h - Moves among parts, and who has which element after them
//-------------------===//
//
// Values are small integers, so that sums are exact; what each part must end up with is looked up
// element by element.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef TEST_UNIT_RUNTIME_BACKENDS_MOVECASES_H
#define TEST_UNIT_RUNTIME_BACKENDS_MOVECASES_H

#include "runtime/device/PartMove.h"
#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

namespace omnibal::rt::movetest {

using Shape = std::vector<int64_t>;
using Split = std::optional<PartSplit>;
using SplitAt = std::optional<UnitSplit>;

inline int64_t elementsOf(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

inline Shape shapeOf(Shape whole, const SplitAt &split, int64_t part, int64_t parts) {
  if (split)
    whole[split->dim] = split->outer * split->inner * split->of(part, parts).size();
  return whole;
}

/// The elements of the whole that a part has, in its order.
inline std::vector<int64_t> elementsHeld(const Shape &whole, const SplitAt &split, int64_t part,
                                         int64_t parts) {
  std::vector<int64_t> held;
  int64_t behind = 1;
  for (size_t d = split ? split->dim + 1 : 0; split && d < whole.size(); ++d)
    behind *= whole[d];
  for (int64_t e = 0; e < elementsOf(whole); ++e) {
    bool mine = true;
    if (split) {
      const int64_t unit = e / behind % whole[split->dim] / split->inner % split->units;
      const UnitRange own = split->of(part, parts);
      mine = unit >= own.begin && unit < own.end;
    }
    if (mine)
      held.push_back(e);
  }
  return held;
}

inline TensorView viewOf(float *data, const Shape &shape) {
  TensorView view;
  view.data = data;
  view.rank = static_cast<int>(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    view.shape[d] = shape[d];
    view.strides[d] = stride;
    stride *= shape[d];
  }
  return view;
}

struct MoveCase {
  PartMoveKind kind;
  Shape whole;
  Split from, to;
  int64_t parts;
  SymbolValues symbols = {};

  SplitAt source() const { return splitAt(from, symbols); }
  SplitAt result() const { return splitAt(to, symbols); }
  PartMove move() const {
    PartMove made;
    made.kind = kind;
    made.from = from;
    made.to = to;
    made.src = 0;
    made.dst = 1;
    made.workspace = 2;
    return made;
  }
  Shape sourceShape(int64_t part) const { return shapeOf(whole, source(), part, parts); }
  Shape resultShape(int64_t part) const { return shapeOf(whole, result(), part, parts); }
};

/// What part `part` has of the value before the move; summands differ by part.
inline std::vector<float> sourceOf(const MoveCase &c, int64_t part) {
  const bool isSum = c.kind == PartMoveKind::AllReduce || c.kind == PartMoveKind::ReduceScatter ||
                     c.kind == PartMoveKind::KeepFirst;
  std::vector<float> values;
  for (int64_t e : elementsHeld(c.whole, c.source(), part, c.parts))
    values.push_back(static_cast<float>(isSum ? e % 97 + 100 * (part + 1) : e + 1));
  return values;
}

inline std::vector<float> expectedOf(const MoveCase &c, int64_t part) {
  std::vector<float> values;
  for (int64_t e : elementsHeld(c.whole, c.result(), part, c.parts)) {
    float value = static_cast<float>(e + 1);
    if (c.kind == PartMoveKind::AllReduce || c.kind == PartMoveKind::ReduceScatter)
      value = static_cast<float>(c.parts * (e % 97) + 50 * c.parts * (c.parts + 1));
    if (c.kind == PartMoveKind::KeepFirst)
      value = part == 0 ? static_cast<float>(e % 97 + 100) : 0;
    if (c.kind == PartMoveKind::Place) {
      const std::vector<int64_t> own = elementsHeld(c.whole, c.source(), part, c.parts);
      value = std::find(own.begin(), own.end(), e) == own.end() ? 0 : value;
    }
    values.push_back(value);
  }
  return values;
}

/// A split of one of the dimensions of a shape, with rows and units of several elements.
inline PartSplit splitOf(int64_t dim, int64_t outer, int64_t units, int64_t inner) {
  return {dim, {units}, inner, {outer}};
}

/// Every kind, with splits of several rows and units, also of one dimension.
inline std::vector<MoveCase> plainMoves(int64_t k) {
  const Shape whole = {2, 3 * 5 * 2, 7};
  const Split rows = splitOf(1, 3, 5, 2), columns = splitOf(2, 1, 7, 1),
              first = splitOf(0, 1, 2, 1);
  std::vector<MoveCase> cases = {{PartMoveKind::AllReduce, whole, {}, {}, k},
                                 {PartMoveKind::KeepFirst, whole, {}, {}, k}};
  for (const Split &each : {rows, columns, first}) {
    cases.push_back({PartMoveKind::AllGather, whole, each, {}, k});
    cases.push_back({PartMoveKind::ReduceScatter, whole, {}, each, k});
    cases.push_back({PartMoveKind::Take, whole, {}, each, k});
    cases.push_back({PartMoveKind::Place, whole, each, {}, k});
    for (const Split &other : {rows, columns, first})
      cases.push_back({PartMoveKind::AllToAll, whole, each, other, k});
  }
  const Split coarse = splitOf(1, 1, 4, 6), fine = splitOf(1, 2, 6, 2);
  cases.push_back({PartMoveKind::AllToAll, {3, 24}, coarse, fine, k});
  cases.push_back({PartMoveKind::AllToAll, {3, 24}, fine, coarse, k});
  return cases;
}

/// Units are the micro-batch's tokens, rows its tiles; and values without elements.
inline std::vector<MoveCase> movesOfMicrobatches(int64_t k) {
  std::vector<MoveCase> cases;
  for (int64_t tokens : {0, 1, 5, 16}) {
    const SymbolValues symbols = SymbolValues::of(2, tokens);
    const Split rows = PartSplit{1, {0, 0, 1}, 3, {0, 1}}, columns = splitOf(0, 1, 4, 1);
    const Shape whole = {4, 2 * tokens * 3};
    cases.push_back({PartMoveKind::AllGather, whole, rows, {}, k, symbols});
    cases.push_back({PartMoveKind::ReduceScatter, whole, {}, rows, k, symbols});
    cases.push_back({PartMoveKind::Take, whole, {}, rows, k, symbols});
    cases.push_back({PartMoveKind::Place, whole, rows, {}, k, symbols});
    cases.push_back({PartMoveKind::AllToAll, whole, rows, columns, k, symbols});
  }
  cases.push_back({PartMoveKind::AllReduce, {0, 4}, {}, {}, k});
  cases.push_back({PartMoveKind::AllGather, {0, 4}, Split(splitOf(1, 1, 4, 1)), {}, k});
  cases.push_back({PartMoveKind::ReduceScatter, {0, 4}, {}, Split(splitOf(1, 1, 4, 1)), k});
  cases.push_back({PartMoveKind::AllGather, {1, 4}, Split(splitOf(0, 1, 1, 1)), {}, k});
  return cases;
}

} // namespace omnibal::rt::movetest
#endif // TEST_UNIT_RUNTIME_BACKENDS_MOVECASES_H
