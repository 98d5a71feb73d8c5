#include "runtime/batching/io/LengthsCsv.h"
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace omnibal::rt {
namespace {

constexpr size_t blockBytes = size_t(1) << 20;
/// A record that is longer is taken for a quote that somebody forgot to close.
constexpr size_t longestRecord = size_t(16) << 20;
/// The last one may be missing.
enum Column : int8_t { Tiles, Tokens, SquaredTiles, Columns };
constexpr const char *columnNames[Columns] = {"vit_num", "token_num", "vit_square_sum"};
constexpr int64_t largest[Columns] = {INT32_MAX, INT32_MAX, INT64_MAX};
constexpr int8_t ignoredColumn = -1;
/// The values of a line, by column.
using Lengths = std::array<int64_t, Columns>;

/// A piece of the file in an error message: printable, short.
std::string shown(std::string_view text) {
  std::string result = "\"";
  for (char c : text.substr(0, 40))
    result += c >= ' ' && c != 127 ? c : '?';
  return result + (text.size() > 40 ? "...\"" : "\"");
}

std::string_view trimmed(std::string_view text) {
  size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// A whole number from 0 to `most`, or why the text is none.
Result<int64_t> parseLength(std::string_view field, int64_t most) {
  std::string_view text = trimmed(field);
  if (text.empty())
    return invalid("is empty");
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = end == text.data() + text.size();
  if (whole && (error == std::errc::result_out_of_range || value > most))
    return invalid("is " + shown(text) + ", more than " + std::to_string(most));
  if (!whole || error != std::errc())
    return invalid("is " + shown(text) + ", not a whole number");
  if (value < 0)
    return invalid("is " + shown(text) + ", but lengths are not negative");
  return value;
}

/// `units` units make pictures whose squares sum to this. A square is as odd as its root, and it is
/// least where every unit is a picture.
bool isSquareSum(int64_t units, int64_t sum) {
  return sum >= units && sum <= units * units && (sum - units) % 2 == 0;
}

enum class Split { Record, NeedMore, Broken };

/// Fields of one record by the rules of RFC 4180.
struct Record {
  std::vector<std::string> fields;
  int64_t lines = 1;   ///< that it spans; quoted fields may hold line ends
  std::string problem; ///< for Split::Broken

  /// [at, end) begins with the record; `last`: nothing follows `end`. Moves `at` behind it.
  Split split(const char *&at, const char *end, bool last);

private:
  Split quoted(const char *&p, const char *end, bool last);
};

Split Record::quoted(const char *&p, const char *end, bool last) {
  std::string &field = fields.back();
  for (++p; p != end; ++p) {
    lines += *p == '\n';
    if (*p != '"') {
      field += *p;
      continue;
    }
    if (p + 1 == end && !last)
      return Split::NeedMore;
    if (p + 1 == end || p[1] != '"') {
      ++p;
      return Split::Record;
    }
    field += *++p;
  }
  problem = "a quoted field is not closed";
  return last ? Split::Broken : Split::NeedMore;
}

Split Record::split(const char *&at, const char *end, bool last) {
  fields.assign(1, "");
  lines = 1;
  const char *p = at;
  while (true) {
    bool quotes = p != end && *p == '"';
    if (quotes)
      if (Split split = quoted(p, end, last); split != Split::Record)
        return split;
    const char *text = p;
    while (p != end && *p != ',' && *p != '\n')
      ++p;
    if (p == end && !last)
      return Split::NeedMore;
    bool fieldEndsLine = p == end || *p == '\n';
    std::string_view rest(text, static_cast<size_t>(p - text));
    if (fieldEndsLine && rest.ends_with('\r'))
      rest.remove_suffix(1);
    if (quotes && !trimmed(rest).empty()) {
      problem = "there is text after a field's closing quote: " + shown(rest);
      return Split::Broken;
    }
    if (!quotes)
      fields.back() = rest;
    if (p != end)
      ++p;
    if (fieldEndsLine) {
      at = p;
      return Split::Record;
    }
    fields.emplace_back();
  }
}

} // namespace

struct LengthsReader::Impl {
  explicit Impl(std::string path) : path(std::move(path)) {}
  ~Impl() {
    if (descriptor >= 0)
      ::close(descriptor);
  }

  Status fill();
  Status readHeader();
  bool readPlain(const char *&at, Lengths &lengths) const;
  /// One record by the full rules; `got` is false at the end of the file.
  Status readRecord(bool &got);
  Status takeLengths(Lengths &lengths) const;
  void append(const Lengths &lengths, SampleLengths &out) const;
  Status skipEmptyTail();
  /// Whether a line ends within what was read.
  bool holdsLine() const {
    return last || std::memchr(buffer.data() + begin, '\n', end - begin) != nullptr;
  }
  Status bad(const std::string &what) const {
    return invalid(path + ", line " + std::to_string(line) + ": " + what);
  }

  std::string path;
  int descriptor = -1;
  int64_t total = 0, taken = 0;
  int64_t line = 1;            ///< of the file, where the next record begins
  std::vector<int8_t> columns; ///< a Column, or ignoredColumn
  bool knowsPictures = false;  ///< there is a column for them
  std::vector<char> buffer;    ///< one byte more than can be filled, for readPlain's sentinel
  size_t begin = 0, end = 0;
  bool last = false; ///< nothing follows buffer[end]
  Record record;
};

/// More bytes behind those that are left.
Status LengthsReader::Impl::fill() {
  std::memmove(buffer.data(), buffer.data() + begin, end - begin);
  end -= begin;
  begin = 0;
  if (end + 1 == buffer.size()) {
    if (buffer.size() > longestRecord)
      return bad("a line of more than " + std::to_string(longestRecord >> 20) +
                 " MiB; is a quoted field not closed?");
    buffer.resize(2 * buffer.size());
  }
  ssize_t got;
  do {
    got = ::read(descriptor, buffer.data() + end, buffer.size() - 1 - end);
  } while (got < 0 && errno == EINTR);
  if (got < 0)
    return {Code::Unavailable, path + ": reading failed: " + std::strerror(errno)};
  last = got == 0;
  end += static_cast<size_t>(got);
  taken += got;
  return Status::ok();
}

Status LengthsReader::Impl::readRecord(bool &got) {
  while (true) {
    const char *at = buffer.data() + begin;
    got = begin < end;
    if (!got && last)
      return Status::ok();
    Split split = record.split(at, buffer.data() + end, last);
    if (split == Split::Broken)
      return bad(record.problem);
    if (split == Split::Record && got) {
      begin = static_cast<size_t>(at - buffer.data());
      return Status::ok();
    }
    OMNIBAL_RETURN_IF_ERROR(fill());
  }
}

Status LengthsReader::Impl::readHeader() {
  OMNIBAL_RETURN_IF_ERROR(fill());
  // A short first read, as from a pipe, may cut the mark.
  while (end < 3 && !last)
    OMNIBAL_RETURN_IF_ERROR(fill());
  if (end >= 3 && std::memcmp(buffer.data(), "\xef\xbb\xbf", 3) == 0)
    begin = 3;
  bool got = false;
  OMNIBAL_RETURN_IF_ERROR(readRecord(got));
  if (!got)
    return invalid(path +
                   ": the file is empty; a header with vit_num,token_num and a line a sample "
                   "are expected");
  std::string names;
  std::array<int, Columns> found = {};
  for (const std::string &field : record.fields) {
    columns.push_back(ignoredColumn);
    for (int8_t c : {Tiles, Tokens, SquaredTiles})
      if (trimmed(field) == columnNames[c]) {
        columns.back() = c;
        ++found[c];
      }
    names += (names.empty() ? "" : ", ") + shown(trimmed(field));
  }
  if (names.size() > 300)
    names = names.substr(0, 300) + " ...";
  knowsPictures = found[SquaredTiles] > 0;
  for (int8_t c : {Tiles, Tokens, SquaredTiles})
    if (found[c] > 1 || (found[c] == 0 && c != SquaredTiles))
      return bad(std::string("the header has ") + (found[c] ? "two columns " : "no column ") +
                 columnNames[c] + "; it names " + names +
                 " (columns are separated by commas; vit_num: tiles, token_num: tokens)");
  line += record.lines;
  return Status::ok();
}

/// The usual line: no quotes, and nothing but digits in the columns of lengths. False leaves
/// everything else, errors too, to readRecord; a line that ends at the buffer's end may go on
/// behind it.
bool LengthsReader::Impl::readPlain(const char *&at, Lengths &lengths) const {
  const char *p = at, *stop = buffer.data() + end; // *stop is a line end
  for (size_t column = 0; column < columns.size(); ++column) {
    int8_t which = columns[column];
    if (which == ignoredColumn) {
      if (*p == '"')
        return false;
      while (*p != ',' && *p != '\n')
        ++p;
    } else {
      const char *first = p;
      uint64_t value = 0;
      for (unsigned digit; (digit = static_cast<unsigned char>(*p) - unsigned('0')) < 10; ++p)
        value = value * 10 + digit;
      constexpr int digits = 19; // that fit 64 bits, whatever they are
      if (p == first || p - first > digits || value > static_cast<uint64_t>(largest[which]))
        return false;
      lengths[which] = static_cast<int64_t>(value);
      if (*p == '\r' && p[1] == '\n')
        ++p;
    }
    bool lastColumn = column + 1 == columns.size();
    if (*p != (lastColumn ? '\n' : ','))
      return false;
    ++p;
  }
  if (p > stop || (knowsPictures && !isSquareSum(lengths[Tiles], lengths[SquaredTiles])))
    return false;
  at = p;
  return true;
}

Status LengthsReader::Impl::takeLengths(Lengths &lengths) const {
  if (record.fields.size() != columns.size())
    return bad("there are " + std::to_string(record.fields.size()) +
               " fields, but the header has " + std::to_string(columns.size()));
  for (size_t column = 0; column < columns.size(); ++column) {
    if (columns[column] == ignoredColumn)
      continue;
    auto value = parseLength(record.fields[column], largest[columns[column]]);
    if (!value)
      return bad(std::string(columnNames[columns[column]]) + " " + value.status().message());
    lengths[columns[column]] = *value;
  }
  if (int64_t units = lengths[Tiles], sum = lengths[SquaredTiles];
      knowsPictures && !isSquareSum(units, sum))
    return bad("vit_square_sum is " + std::to_string(sum) + ", but the pictures of " +
               std::to_string(units) + " units (vit_num) have squares that sum to " +
               std::to_string(units) + ", if each unit is a picture, to " +
               std::to_string(units * units) + ", if there is one picture, in steps of 2");
  return Status::ok();
}

void LengthsReader::Impl::append(const Lengths &lengths, SampleLengths &out) const {
  out.tiles.push_back(static_cast<int32_t>(lengths[Tiles]));
  out.tokens.push_back(static_cast<int32_t>(lengths[Tokens]));
  if (knowsPictures)
    out.squaredTiles.push_back(lengths[SquaredTiles]);
}

bool isEmptyLine(const std::vector<std::string> &fields) {
  return fields.size() == 1 && trimmed(fields[0]).empty();
}

/// Behind an empty line only further ones may follow: a gap between samples would make it unclear
/// which number they have.
Status LengthsReader::Impl::skipEmptyTail() {
  int64_t first = line;
  while (isEmptyLine(record.fields)) {
    line += record.lines;
    bool got = false;
    OMNIBAL_RETURN_IF_ERROR(readRecord(got));
    if (!got)
      return Status::ok();
  }
  line = first;
  return bad("the line is empty, but samples follow; remove it");
}

LengthsReader::LengthsReader(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
LengthsReader::LengthsReader(LengthsReader &&) noexcept = default;
LengthsReader &LengthsReader::operator=(LengthsReader &&) noexcept = default;
LengthsReader::~LengthsReader() = default;
int64_t LengthsReader::bytesRead() const {
  return impl->taken - static_cast<int64_t>(impl->end - impl->begin);
}
int64_t LengthsReader::bytesTotal() const { return impl->total; }
bool LengthsReader::knowsPictures() const { return impl->knowsPictures; }

Result<LengthsReader> LengthsReader::open(const std::string &path) {
  auto impl = std::make_unique<Impl>(path);
  impl->descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat about = {};
  if (impl->descriptor < 0 || ::fstat(impl->descriptor, &about))
    return Status(errno == ENOENT ? Code::NotFound : Code::Unavailable,
                  path + ": " + std::strerror(errno));
  if (S_ISREG(about.st_mode))
    impl->total = about.st_size;
  // A small table needs no more than itself: a byte behind it, and one for the sentinel.
  const auto bytes = static_cast<size_t>(impl->total);
  impl->buffer.resize(bytes > 0 ? std::min(blockBytes, bytes + 2) : blockBytes);
  OMNIBAL_RETURN_IF_ERROR(impl->readHeader());
  return LengthsReader(std::move(impl));
}

Result<int64_t> LengthsReader::read(int64_t most, SampleLengths &out) {
  Impl &in = *impl;
  int64_t count = 0;
  Lengths lengths = {};
  while (count < most) {
    in.buffer[in.end] = '\n';
    const char *at = in.buffer.data() + in.begin;
    while (count < most && in.readPlain(at, lengths)) {
      in.append(lengths, out);
      ++count;
      ++in.line;
    }
    in.begin = static_cast<size_t>(at - in.buffer.data());
    // A slow pipe: what is there now is not held back for what comes later.
    if (count == most || (count > 0 && !in.holdsLine()))
      break;
    bool got = false;
    OMNIBAL_RETURN_IF_ERROR(in.readRecord(got));
    if (got && isEmptyLine(in.record.fields)) {
      OMNIBAL_RETURN_IF_ERROR(in.skipEmptyTail());
      break;
    }
    if (!got)
      break;
    OMNIBAL_RETURN_IF_ERROR(in.takeLengths(lengths));
    in.append(lengths, out);
    ++count;
    in.line += in.record.lines;
  }
  return count;
}

Result<SampleLengths>
readLengthsCsv(const std::string &path,
               const std::function<void(int64_t read, int64_t total)> &progress) {
  OMNIBAL_ASSIGN_OR_RETURN(LengthsReader reader, LengthsReader::open(path));
  // A line has four bytes at least ("0,0" and its end, which the last one may lack).
  constexpr int64_t mostAtOnce = 1 << 17, leastLine = 4;
  const int64_t block = reader.bytesTotal() > 0
                            ? std::min(mostAtOnce, reader.bytesTotal() / leastLine + 1)
                            : mostAtOnce;
  SampleLengths lengths;
  while (true) {
    OMNIBAL_ASSIGN_OR_RETURN(int64_t count, reader.read(block, lengths));
    if (count == 0)
      break;
    // Room for the whole file at once, guessed from its first lines: growing by doubling would need
    // up to three times the memory.
    int64_t size = lengths.size(), read = std::max<int64_t>(1, reader.bytesRead());
    if (size + block > static_cast<int64_t>(lengths.tiles.capacity())) {
      auto guess = static_cast<int64_t>(1.02 * static_cast<double>(size) *
                                        static_cast<double>(reader.bytesTotal()) /
                                        static_cast<double>(read));
      auto room = static_cast<size_t>(std::max({guess, size + block, size + size / 8}));
      lengths.tiles.reserve(room);
      lengths.tokens.reserve(room);
      if (reader.knowsPictures())
        lengths.squaredTiles.reserve(room);
    }
    if (progress)
      progress(reader.bytesRead(), reader.bytesTotal());
  }
  if (lengths.size() == 0)
    return invalid(path + ": there is a header, but no line of a sample");
  return lengths;
}

} // namespace omnibal::rt
