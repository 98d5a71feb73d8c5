//===- Member.h - One file inside a shard ----------------------------------------------------===//
#ifndef RUNTIME_DATA_MEMBER_H
#define RUNTIME_DATA_MEMBER_H

#include "runtime/support/Status.h"
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

namespace omnibal::rt {

/// Opened anew for each use: the number of shards may exceed the limit of open files.
class OpenMember {
public:
  OpenMember(const std::string &path, int64_t offset, int64_t bytes);
  ~OpenMember();
  OpenMember(const OpenMember &) = delete;
  OpenMember &operator=(const OpenMember &) = delete;

  /// The next bytes, all of `count` unless the member ends before or reading fails.
  int64_t next(void *out, int64_t count);

  Status status;

private:
  const std::string &path;
  int64_t offset, left;
  int fd = -1;
};

/// The characters of a JSON text, a block at a time, where texts in it that are long lose what
/// comes after their first few thousand characters: a parser holds each as a whole.
class ShortenedJson {
public:
  explicit ShortenedJson(OpenMember &member) : member(member) { read(); }

  class Iterator {
  public:
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char *;
    using reference = const char &;
    using iterator_category = std::input_iterator_tag;

    Iterator() = default; ///< behind the last one
    explicit Iterator(ShortenedJson &text) : text(&text) {}
    const char &operator*() const { return text->block[text->at]; }
    Iterator &operator++() {
      text->advance();
      return *this;
    }
    void operator++(int) { text->advance(); }
    bool operator==(const Iterator &other) const { return ended() == other.ended(); }
    bool operator!=(const Iterator &other) const { return !(*this == other); }

  private:
    bool ended() const { return !text || text->end == 0; }
    ShortenedJson *text = nullptr;
  };

private:
  void step();
  void advance();
  void read();

  static constexpr int64_t longest = 4096;
  OpenMember &member;
  char block[1 << 16];
  int64_t at = 0, end = 0;
  bool inText = false;
  bool afterBackslash = false;
  int hexDigits = 0;  ///< of an escape, still to come
  int64_t length = 0; ///< of the text so far
};

} // namespace omnibal::rt
#endif // RUNTIME_DATA_MEMBER_H
