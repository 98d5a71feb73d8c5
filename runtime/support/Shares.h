//===- Shares.h - How ranks divide units among themselves -------------------------------------===//
//
// The one rule of the compiler, of programs and of the runtime: of U units that k members divide,
// member i has those from floor(U i / k) to floor(U (i + 1) / k). Shares differ by at most one
// unit, and where there are fewer units than members some are empty.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_SUPPORT_SHARES_H
#define RUNTIME_SUPPORT_SHARES_H

#include <cstdint>

namespace omnibal::rt {

struct UnitRange {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  friend bool operator==(const UnitRange &, const UnitRange &) = default;
};

/// Returns the units of `member` of `members`; units times members fit into 63 bits.
constexpr UnitRange shareOf(int64_t units, int64_t member, int64_t members) {
  return {units * member / members, units * (member + 1) / members};
}

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_SHARES_H
