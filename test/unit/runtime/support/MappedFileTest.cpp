#include "runtime/support/MappedFile.h"
#include "runtime/support/FolderFiles.h"
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

class MappedFiles : public testing::Test {
protected:
  MappedFiles() { fs::create_directories(folder); }
  ~MappedFiles() override { fs::remove_all(folder); }

  std::string write(const std::string &text) const {
    std::ofstream(folder / "file.bin") << text;
    return (folder / "file.bin").string();
  }
  static Result<MappedFile> map(const std::string &path) {
    return MappedFile::map(FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)).get());
  }

  const fs::path folder = fs::temp_directory_path() / ("mapped-file-" + std::to_string(getpid()));
};

TEST_F(MappedFiles, HoldsTheBytes) {
  auto file = map(write("abc"));
  ASSERT_TRUE(file);
  const MappedFile moved = *std::move(file);
  ASSERT_EQ(moved.bytes().size(), 3u);
  EXPECT_EQ(moved.bytes()[2], std::byte{'c'});
  auto empty = map(write(""));
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->bytes().empty());
}

TEST_F(MappedFiles, RefusesWhatIsNoFile) {
  EXPECT_EQ(map(folder.string()).status().message(), "not a regular file");
  EXPECT_EQ(map("/dev/null").status().message(), "not a regular file");
  EXPECT_EQ(map((folder / "none").string()).status().code(), Code::Unavailable);
}

TEST_F(MappedFiles, AreNamedWhenTheyBecomeShorter) {
  const std::string path = write(std::string(200'000, 'x'));
  auto readPastTheEnd = [&] {
    std::signal(SIGBUS, SIG_DFL); // sanitizers have handlers of their own
    auto file = map(path);
    fs::resize_file(path, 10);
    volatile std::byte last = file->bytes().back();
    (void)last;
  };
  EXPECT_EXIT(readPastTheEnd(), testing::ExitedWithCode(1),
              "error: " + path + " cannot be read any more");
}

TEST_F(MappedFiles, AreNamedWhenTheyAreDeletedToo) {
  const std::string path = write(std::string(200'000, 'x'));
  auto readPastTheEnd = [&] {
    std::signal(SIGBUS, SIG_DFL);
    auto file = map(path);
    fs::resize_file(path, 10);
    fs::remove(path);
    volatile std::byte last = file->bytes().back();
    (void)last;
  };
  EXPECT_EXIT(readPastTheEnd(), testing::ExitedWithCode(1), "file.bin .deleted. cannot be read");
}

TEST_F(MappedFiles, LeaveTheSignalAloneElsewhere) {
  const std::string path = write("abc");
  auto raise = [&] {
    std::signal(SIGBUS, SIG_DFL);
    auto file = map(path);
    std::raise(SIGBUS);
  };
  EXPECT_EXIT(raise(), testing::KilledBySignal(SIGBUS), "");
}

} // namespace
} // namespace omnibal::rt
