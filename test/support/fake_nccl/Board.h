//===- Board.h - Where ranks leave each other bytes -------------------------------------------===//
#ifndef TEST_SUPPORT_FAKE_NCCL_BOARD_H
#define TEST_SUPPORT_FAKE_NCCL_BOARD_H

#include <optional>
#include <string>
#include <vector>

namespace omnibal::fake {

/// A folder: files appear there whole, so ranks may be threads or processes of a machine.
class Board {
public:
  explicit Board(std::string folder) : folder(std::move(folder)) {}
  /// A name that no other board has. Nothing is made yet: an id that no rank takes up leaves
  /// nothing.
  static std::string newFolder();

  bool make() const;
  void put(const std::string &name, const void *data, size_t bytes) const;
  void put(const std::string &name) const { put(name, nullptr, 0); }
  bool has(const std::string &name) const;
  std::optional<std::vector<char>> get(const std::string &name) const;
  void remove(const std::string &name) const;
  /// With everything on it.
  void destroy() const;

private:
  std::string folder;
};

} // namespace omnibal::fake
#endif // TEST_SUPPORT_FAKE_NCCL_BOARD_H
