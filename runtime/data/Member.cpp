#include "runtime/data/Member.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace omnibal::rt {

OpenMember::OpenMember(const std::string &path, int64_t offset, int64_t bytes)
    : path(path), offset(offset), left(bytes) {
  fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    status = {Code::Unavailable, path + ": " + std::strerror(errno)};
}

OpenMember::~OpenMember() {
  if (fd >= 0)
    ::close(fd);
}

int64_t OpenMember::next(void *out, int64_t count) {
  count = std::min(count, left);
  int64_t done = 0;
  while (status && done < count) {
    ssize_t got = ::pread(fd, static_cast<char *>(out) + done, size_t(count - done), offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0) {
      std::string why = got < 0 ? std::strerror(errno) : "the file became shorter";
      status = {Code::Unavailable, path + ": reading failed: " + why};
      break;
    }
    done += got;
    offset += got;
    left -= got;
  }
  return done;
}

void ShortenedJson::read() {
  end = member.next(block, sizeof block);
  at = 0;
}

/// Past one character.
void ShortenedJson::step() {
  const char c = block[at];
  if (!inText) {
    inText = c == '"';
    length = 0;
  } else {
    ++length;
    if (afterBackslash)
      hexDigits = c == 'u' ? 4 : 0;
    else if (hexDigits > 0)
      --hexDigits;
    else if (c == '"')
      inText = false;
    afterBackslash = c == '\\' && !afterBackslash;
  }
  if (++at == end)
    read();
}

void ShortenedJson::advance() {
  step();
  // Nothing is cut in two: neither an escape, of which one character may have two, nor the bytes of
  // a character.
  const auto atCharacter = [&] { return !afterBackslash && hexDigits == 0; };
  if (!inText || length <= longest || !atCharacter() || block[at] == '\\' ||
      (block[at] & 0xC0) == 0x80)
    return;
  while (end > 0 && !(atCharacter() && block[at] == '"'))
    step();
}

} // namespace omnibal::rt
