#include "runtime/executor/CapturedGraphs.h"
#include <gtest/gtest.h>

using namespace omnibal::rt;

namespace {

Function function(std::initializer_list<const char *> operands, Extent rows) {
  Function made;
  KernelCall call;
  call.kernel = "a kernel";
  for (const char *name : operands) {
    View view;
    view.shape = {rows};
    call.operands.push_back({name, view});
  }
  made.calls = {call};
  return made;
}

class RecordedSegments : public testing::Test {
protected:
  RecordedSegments() {
    const Extent tiles{0, 1, 0}, tokens{0, 0, 1};
    program.functions = {function({"x"}, tiles), function({"ids"}, tokens),
                         function({"q", "cu_seqlens"}, tokens), function({"x", "targets"}, tokens)};
    mode.microbatches = 2;
    std::vector<LayerCall> calls;
    for (int32_t f : {0, 0, 1, 2, 2, 3})
      calls.emplace_back().function = f;
    segments = cutIntoSegments(program, mode, calls);
  }

  GraphKey key(size_t segment, int64_t tiles, int64_t rows, const Load &load,
               bool bySamples) const {
    return graphKey({ActionKind::Backward, 1, 0}, segment, segments[segment], tiles, rows, load,
                    bySamples);
  }

  Program program;
  Mode mode;
  std::vector<Segment> segments;
};

TEST_F(RecordedSegments, AreCutWhereTheyDependOnOtherThings) {
  ASSERT_EQ(segments.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(segments[i].tiles, i == 0) << i;
    EXPECT_EQ(segments[i].tokens, i != 0) << i;
    EXPECT_EQ(segments[i].samples, i == 2) << i;
    EXPECT_EQ(segments[i].labels, i == 3) << i;
  }
  EXPECT_EQ(segments[2].begin, 3u);
  EXPECT_EQ(segments[2].end, 5u);
}

TEST_F(RecordedSegments, OtherSamplesAreOtherWorkOnlyWhereKernelsGoByThem) {
  const Load few{100, 4, 1024}, many{100, 16, 1024}, longer{100, 4, 2048}, labels{300, 4, 1024};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(key(i, 2, 640, few, true) == key(i, 2, 640, many, true), i != 2) << i;
    EXPECT_EQ(key(i, 2, 640, few, true) == key(i, 2, 640, longer, true), i != 2) << i;
    EXPECT_EQ(key(i, 2, 640, few, false), key(i, 2, 640, many, false)) << i;
    EXPECT_EQ(key(i, 2, 640, few, false), key(i, 2, 640, longer, false)) << i;
    EXPECT_EQ(key(i, 2, 640, few, true) == key(i, 2, 640, labels, true), i != 3) << i;
    EXPECT_EQ(key(i, 2, 640, few, true) == key(i, 3, 640, few, true), i != 0) << i;
    EXPECT_EQ(key(i, 2, 640, few, true) == key(i, 2, 704, few, true), i == 0) << i;
  }
}

TEST(RecordedPictures, OtherPicturesAreOtherWork) {
  Program program;
  for (const char *name : {"cu_seqlens", "image_segment_cu_seqlens", "image_window_cu_seqlens"}) {
    Function f = function({"q", "cu_seqlens"}, {0, 4, 0});
    f.buffers = {{name, Role::Batch, DType::I32, {}, 0}};
    f.calls[0].operands[1].second.buffer = 0;
    program.functions.push_back(f);
  }
  Mode mode;
  std::vector<LayerCall> calls(3);
  for (int32_t i = 0; i < 3; ++i)
    calls[i].function = i;
  std::vector<Segment> segments = cutIntoSegments(program, mode, calls);
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_TRUE(segments[0].samples && !segments[0].pictures);
  EXPECT_TRUE(!segments[1].samples && segments[1].pictures);
  segments[0].places = segments[1].places = {0};
  auto key = [&](size_t i, const Load &load) {
    return graphKey({ActionKind::Forward, 0, 0}, i, segments[i], 9, 64, load, true);
  };
  const Load some{1, 4, 128, {4, 128}, {8, 128}};
  for (const Load &other :
       {Load{1, 4, 128, {8, 128}, {8, 128}}, Load{1, 4, 128, {4, 192}, {8, 128}},
        Load{1, 4, 128, {4, 128}, {16, 128}}}) {
    EXPECT_EQ(key(0, some), key(0, other));
    EXPECT_NE(key(1, some), key(1, other));
  }
  const Load samples{1, 8, 256, {4, 128}, {8, 128}};
  EXPECT_NE(key(0, some), key(0, samples));
  EXPECT_EQ(key(1, some), key(1, samples));
}

} // namespace
