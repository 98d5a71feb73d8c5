#include "test/support/fake_nccl/Board.h"
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace omnibal::fake {

std::string Board::newFolder() {
  std::random_device device;
  char name[64];
  std::snprintf(name, sizeof name, "omnibal-nccl-%d-%08x%08x", getpid(), device(), device());
  return (std::filesystem::temp_directory_path() / name).string();
}

bool Board::make() const { return mkdir(folder.c_str(), 0700) == 0; }

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
  // Under a name that the other ranks do not know, nothing new begins to appear in it. What one of
  // them was writing at this moment still can, between the emptying and the removal: hence again.
  const std::string gone = folder + "-gone";
  std::error_code error;
  std::filesystem::rename(folder, gone, error);
  for (int attempt = 0; !error && attempt < 1000 && std::filesystem::exists(gone); ++attempt) {
    std::error_code again;
    std::filesystem::remove_all(gone, again);
    if (again)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

} // namespace omnibal::fake
