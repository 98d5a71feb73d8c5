//===- Shares.h - How ranks divide units among themselves -------------------------------------===//
//
// The one rule of the compiler, of programs and of the runtime: of U units that k members divide,
// member i has those from floor(U i / k) to floor(U (i + 1) / k). Shares differ by at most one
// unit, and where there are fewer units than members some are empty.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_SUPPORT_SHARES_H
#define RUNTIME_SUPPORT_SHARES_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace omnibal::rt {

struct UnitRange {
  int64_t begin = 0, end = 0;

  constexpr int64_t size() const { return end - begin; }
  friend bool operator==(const UnitRange &, const UnitRange &) = default;
};

/// Returns the units of `member` of `members`; units times members fit into 63 bits.
constexpr UnitRange shareOf(int64_t units, int64_t member, int64_t members) {
  return {units * member / members, units * (member + 1) / members};
}

/// What a member holds of a tensor of which one dimension is divided: the dimension is a row of
/// `units` units of `inner` elements, as often as it fits, and the member has units [begin, end) of
/// each row.
struct HeldUnits {
  int64_t dim = 0, units = 1, inner = 1;
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  friend bool operator==(const HeldUnits &, const HeldUnits &) = default;
};

/// The shape of what is held. Units and inner divide the dimension.
inline std::vector<int64_t> heldShape(std::vector<int64_t> shape, const HeldUnits &held) {
  int64_t &size = shape[static_cast<std::size_t>(held.dim)];
  size = held.units == 0 ? 0 : size / held.units * held.size();
  return shape;
}

/// Where elements that follow each other lie in the whole, both dense: what is held is cut into
/// runs of `length` elements, and run r begins at element first + r x stride of the whole.
struct HeldRuns {
  int64_t length = 0, stride = 0, first = 0;

  HeldRuns(const std::vector<int64_t> &shape, const HeldUnits &held) {
    int64_t unit = held.inner;
    for (std::size_t dim = static_cast<std::size_t>(held.dim) + 1; dim < shape.size(); ++dim)
      unit *= shape[dim];
    length = held.size() * unit;
    stride = held.units * unit;
    first = held.begin * unit;
  }
  /// Calls use(local, whole, count) for the runs of the held elements [begin, end).
  template <typename Use> auto each(int64_t begin, int64_t end, Use use) const {
    decltype(use(begin, begin, begin)) status{};
    while (begin < end && status) {
      const int64_t run = begin / length, within = begin % length;
      const int64_t count = end - begin < length - within ? end - begin : length - within;
      status = use(begin, first + run * stride + within, count);
      begin += count;
    }
    return status;
  }
};

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_SHARES_H
