#include "runtime/batching/io/Npy.h"
#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace omnibal::rt {
namespace {

static_assert(std::endian::native == std::endian::little,
              "arrays are written as they lie in memory");

constexpr size_t longestHeader = 65536;
constexpr size_t preambleBytes = 12;
constexpr int64_t manyValues = int64_t(1) << 56;

/// An array's file, positioned at its data.
class NpyFile {
public:
  static Result<NpyFile> open(const std::string &path, const std::string &type, size_t dimensions);
  NpyFile(NpyFile &&other) noexcept
      : path(std::move(other.path)), shape(std::move(other.shape)),
        descriptor(std::exchange(other.descriptor, -1)) {}
  NpyFile &operator=(NpyFile &&) = delete;
  ~NpyFile() {
    if (descriptor >= 0)
      ::close(descriptor);
  }

  Status read(void *data, size_t bytes) {
    char *at = static_cast<char *>(data);
    while (bytes > 0) {
      ssize_t got = ::read(descriptor, at, bytes);
      if (got < 0 && errno == EINTR)
        continue;
      if (got < 0)
        return {Code::Unavailable, path + ": reading failed: " + std::strerror(errno)};
      if (got == 0)
        return bad("the file was cut off while it was read");
      at += got;
      bytes -= static_cast<size_t>(got);
    }
    return Status::ok();
  }
  Status bad(const std::string &what) const { return {Code::DataLoss, path + ": " + what}; }

  std::string path;
  std::vector<int64_t> shape;

private:
  NpyFile(std::string path, int descriptor) : path(std::move(path)), descriptor(descriptor) {}
  Status readHeader(const std::string &type, size_t dimensions);

  int descriptor;
};

Result<NpyFile> NpyFile::open(const std::string &path, const std::string &type, size_t dimensions) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return Status(errno == ENOENT ? Code::NotFound : Code::Unavailable,
                  path + ": " + std::strerror(errno));
  NpyFile file(path, descriptor);
  OMNIBAL_RETURN_IF_ERROR(file.readHeader(type, dimensions));
  return file;
}

/// The sizes of "(3, 2)" or "(3,)"; empty if it is neither.
std::vector<int64_t> parseShape(const std::string &header) {
  constexpr std::string_view key = "'shape':";
  const size_t found = header.find(key);
  if (found == header.npos)
    return {};
  std::string_view rest = std::string_view(header).substr(found + key.size());
  const auto take = [&](char expected) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
    const bool there = rest.starts_with(expected);
    rest.remove_prefix(there ? 1 : 0);
    return there;
  };
  const auto number = [&]() -> std::optional<int64_t> {
    constexpr ptrdiff_t mostDigits = 15;
    int64_t value = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc() || value < 0 || end - rest.data() > mostDigits)
      return std::nullopt;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    return value;
  };
  std::vector<int64_t> shape;
  for (bool open = take('('); open;) {
    if (take(')'))
      return shape;
    const std::optional<int64_t> size = number();
    if (!size || shape.size() == 2)
      return {};
    shape.push_back(*size);
    // The only size of "(3,)" has its comma; the last of several may go without.
    if (!take(',') && (shape.size() == 1 || !rest.starts_with(')')))
      return {};
  }
  return {};
}

Status NpyFile::readHeader(const std::string &type, size_t dimensions) {
  struct stat about;
  if (::fstat(descriptor, &about))
    return {Code::Unavailable, path + ": " + std::strerror(errno)};
  auto fileBytes = static_cast<uint64_t>(about.st_size);
  unsigned char preamble[preambleBytes];
  if (!S_ISREG(about.st_mode) || fileBytes < preambleBytes)
    return bad("not a NumPy file");
  OMNIBAL_RETURN_IF_ERROR(read(preamble, preambleBytes));
  if (std::memcmp(preamble, "\x93NUMPY", 6) != 0)
    return bad("not a NumPy file");
  if (preamble[6] < 1 || preamble[6] > 3)
    return bad("version " + std::to_string(preamble[6]) + " of NumPy's format is not known");
  bool wide = preamble[6] >= 2;
  size_t length = preamble[8] | preamble[9] << 8;
  if (wide)
    length |= size_t(preamble[10]) << 16 | size_t(preamble[11]) << 24;
  size_t start = wide ? 12 : 10;
  if (length > fileBytes - start || length > longestHeader || start + length < preambleBytes)
    return bad("the header is cut off");
  std::string header(start + length - preambleBytes, '\0');
  OMNIBAL_RETURN_IF_ERROR(read(header.data(), header.size()));
  if (!wide) // its first two bytes came with the preamble
    header.insert(0, reinterpret_cast<char *>(preamble + 10), 2);
  shape = parseShape(header);
  bool transposed = dimensions > 1 && header.find("'fortran_order': False") == std::string::npos;
  if (header.find("'" + type + "'") == std::string::npos || shape.size() != dimensions ||
      transposed)
    return bad(std::string("a ") + (dimensions == 1 ? "one" : "two") + "-dimensional " +
               (type == "<i8" ? "int64" : "int32") + " array is expected");
  uint64_t bytes = type == "<i8" ? 8 : 4;
  for (int64_t size : shape)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
      return bad("its shape is too large");
  if (fileBytes - start - length != bytes)
    return bad("the data is not as long as the header says");
  return Status::ok();
}

constexpr size_t blockBytes = size_t(1) << 20;

} // namespace

Result<std::vector<int64_t>> readNpy(const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(NpyFile file, NpyFile::open(path, "<i8", 1));
  std::vector<int64_t> values(static_cast<size_t>(file.shape[0]));
  OMNIBAL_RETURN_IF_ERROR(file.read(values.data(), values.size() * sizeof(int64_t)));
  return values;
}

Status readNpyRows(const std::string &path, int64_t columns,
                   const std::function<Status(int64_t rows)> &begin,
                   const std::function<Status(int64_t row, std::span<const int32_t>)> &take) {
  OMNIBAL_ASSIGN_OR_RETURN(NpyFile file, NpyFile::open(path, "<i4", 2));
  if (file.shape[1] != columns)
    return file.bad(std::to_string(columns) + " columns are expected, there are " +
                    std::to_string(file.shape[1]));
  int64_t rows = file.shape[0];
  if (begin)
    OMNIBAL_RETURN_IF_ERROR(begin(rows));
  int64_t step = std::max<int64_t>(1, static_cast<int64_t>(blockBytes / 4) / columns);
  std::vector<int32_t> block(static_cast<size_t>(std::min(step, rows) * columns));
  for (int64_t row = 0; row < rows; row += step) {
    std::span<int32_t> part(block.data(),
                            static_cast<size_t>(std::min(step, rows - row) * columns));
    OMNIBAL_RETURN_IF_ERROR(file.read(part.data(), part.size_bytes()));
    OMNIBAL_RETURN_IF_ERROR(take(row, part));
  }
  return Status::ok();
}

Result<NpyWriter> NpyWriter::create(const std::string &path, const char *type,
                                    const std::string &shape, int64_t values, int64_t bytes) {
  // As NumPy writes it: the data begins at a multiple of 64 bytes, the header ends with a newline.
  std::string header =
      std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  start += header;
  OMNIBAL_ASSIGN_OR_RETURN(
      AtomicFile file,
      AtomicFile::create(path, static_cast<int64_t>(start.size()) + values * bytes));
  OMNIBAL_RETURN_IF_ERROR(file.write(start.data(), start.size()));
  return NpyWriter(std::move(file), values, bytes);
}

Result<NpyWriter> NpyWriter::int64(const std::string &path, int64_t count) {
  if (count < 0 || count > manyValues)
    return invalid(path + ": an array of " + std::to_string(count) + " values cannot be written");
  return create(path, "<i8", "(" + std::to_string(count) + ",)", count, 8);
}

Result<NpyWriter> NpyWriter::int32(const std::string &path, int64_t rows, int64_t columns) {
  if (rows < 0 || columns < 1 || columns > 1024 || rows > manyValues / columns)
    return invalid(path + ": an array of " + std::to_string(rows) + " x " +
                   std::to_string(columns) + " values cannot be written");
  return create(path, "<i4", "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")",
                rows * columns, 4);
}

Status NpyWriter::write(const void *data, size_t count, int64_t bytes) {
  if (bytes != valueBytes || count > static_cast<uint64_t>(left))
    return {Code::Internal, file.path() + ": other values than announced were written"};
  left -= static_cast<int64_t>(count);
  return file.write(data, count * static_cast<size_t>(bytes));
}

Status NpyWriter::commit() {
  if (left != 0)
    return {Code::Internal, file.path() + ": fewer values than announced were written"};
  return file.commit();
}

} // namespace omnibal::rt
