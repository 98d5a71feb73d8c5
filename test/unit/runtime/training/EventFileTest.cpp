#include "runtime/training/events/EventFile.h"
#include "runtime/support/AtomicFile.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

class EventFiles : public ::testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() /
             ("event-files-" +
              std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  fs::path folder;
};

TEST_F(EventFiles, FoldersAreMadeAndEveryStepIsThereAtOnce) {
  auto file = EventFile::create((folder / "run" / "events").string(), 4);
  ASSERT_TRUE(file) << file.status().message();
  // Wall times take 9 bytes: records of 9 + 15 and 9 + 2 + 4 bytes.
  uintmax_t size = 24 + 16 + 15 + 16;
  EXPECT_EQ(fs::file_size(file->path()), size);
  for (int64_t step : {4, 5}) {
    ASSERT_TRUE(file->write(step, {{"loss", 1}}));
    size += 9 + 2 + 2 + 2 + 6 + 5 + 16;
    EXPECT_EQ(fs::file_size(file->path()), size);
  }
}

TEST_F(EventFiles, ANewFileIsReadBehindTheOthers) {
  fs::create_directories(folder);
  const std::string ahead = "events.out.tfevents.4000000000.host.1";
  for (const std::string &name :
       {ahead, std::string("events.out.tfevents.x"), std::string("events.out.tfevents."),
        std::string("events.out.tfevents.123456789012345678901234567890.host.1"),
        std::string("run.jsonl")})
    std::ofstream(folder / name) << "kept";
  auto first = EventFile::create(folder.string(), 0),
       second = EventFile::create(folder.string(), 1);
  ASSERT_TRUE(first && second);
  EXPECT_LT((folder / ahead).string(), first->path());
  EXPECT_LT(first->path(), second->path());
  EXPECT_NE(second->path().find("events.out.tfevents.4000000002."), std::string::npos);
  EXPECT_EQ(*readWholeFile((folder / ahead).string()), "kept");
}

TEST_F(EventFiles, WhatCannotBeAFolderIsNamed) {
  std::ofstream(folder) << "a file";
  for (const std::string &path : {folder.string(), (folder / "below").string()}) {
    auto file = EventFile::create(path, 0);
    ASSERT_FALSE(file);
    EXPECT_NE(file.status().message().find(path), std::string::npos) << file.status().message();
    EXPECT_NE(file.status().message().find("--tensorboard"), std::string::npos);
  }
}

} // namespace
} // namespace omnibal::rt
