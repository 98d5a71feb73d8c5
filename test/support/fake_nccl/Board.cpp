#include "test/support/fake_nccl/Board.h"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace omnibal::fake {

std::string Board::makeFolder() {
  std::string folder = (std::filesystem::temp_directory_path() / "omnibal-nccl-XXXXXX").string();
  return mkdtemp(folder.data()) ? folder : std::string();
}

void Board::put(const std::string &name, const void *data, size_t bytes) const {
  static std::atomic<int> number = 0;
  std::string part = folder + "/part-" + std::to_string(getpid()) + "-" + std::to_string(number++);
  {
    std::ofstream file(part, std::ios::binary);
    file.write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
  }
  std::error_code ignored;
  std::filesystem::rename(part, folder + "/" + name, ignored);
}

bool Board::has(const std::string &name) const {
  return access((folder + "/" + name).c_str(), F_OK) == 0;
}

std::optional<std::vector<char>> Board::get(const std::string &name) const {
  std::ifstream file(folder + "/" + name, std::ios::binary);
  if (!file)
    return std::nullopt;
  return std::vector<char>(std::istreambuf_iterator<char>(file), {});
}

void Board::remove(const std::string &name) const { ::remove((folder + "/" + name).c_str()); }

void Board::destroy() const {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

} // namespace omnibal::fake
