//===- KeptKeys.h - Keys and values of an answer's earlier tokens -----------------------------===//
#ifndef RUNTIME_DEVICE_KEPTKEYS_H
#define RUNTIME_DEVICE_KEPTKEYS_H

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace omnibal::rt {

/// A call of a kernel in a mode of a stage.
struct CallPlace {
  int32_t chunk = 0;
  size_t layer = 0, call = 0; ///< of the chunk, of the layer's function
  auto operator<=>(const CallPlace &) const = default;
};

/// What attention has seen of one sample in earlier runs. A micro-batch that has it (Packing.h)
/// holds the next tokens of that sample and nothing else, and adds theirs.
class KeptKeys {
public:
  /// `most`: tokens that the sample will have.
  explicit KeptKeys(int64_t most = 0) : most(most) {}

  /// Keys, values and whatever else a backend's kernel needs of earlier tokens.
  class Memory {
  public:
    virtual ~Memory() = default;
  };
  /// Of one call.
  struct Rows {
    int64_t most = 0;
    int64_t next = 0;  ///< tokens of this run; further rows of operands belong to no sample
    int64_t count = 0; ///< tokens of earlier ones
    std::unique_ptr<Memory> memory;
  };

  Rows &of(const CallPlace &place, int64_t next) {
    Rows &found = rows[place];
    found.most = most;
    found.next = next;
    return found;
  }

private:
  int64_t most;
  std::map<CallPlace, Rows> rows;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_KEPTKEYS_H
