//===- Npy.h - Arrays in NumPy's file format ------------------------------------------------===//
//
// Supported are little-endian int64 with one dimension and int32 with two (rows of `columns`
// values), in versions 1 to 3 of the format. Reading goes straight into the result and checks sizes
// before it allocates memory. Writing goes through blocks, so an array is in memory once. A written
// file is complete or invisible (AtomicFile).
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_IO_NPY_H
#define RUNTIME_BATCHING_IO_NPY_H

#include "runtime/support/AtomicFile.h"
#include "runtime/support/Status.h"
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Reads a one-dimensional int64 array; DataLoss with the file's name for anything else.
Result<std::vector<int64_t>> readNpy(const std::string &path);

/// Reads a two-dimensional int32 array with `columns` columns, in blocks of whole rows: `take` gets
/// each block and the number of its first row; `begin` (may be empty) gets the number of rows
/// first.
Status readNpyRows(const std::string &path, int64_t columns,
                   const std::function<Status(int64_t rows)> &begin,
                   const std::function<Status(int64_t row, std::span<const int32_t>)> &take);

/// Writes an array piece by piece under a temporary name; commit() makes the file appear.
class NpyWriter {
public:
  /// Begins an array int64 [count].
  static Result<NpyWriter> int64(const std::string &path, int64_t count);
  /// Begins an array int32 [rows, columns].
  static Result<NpyWriter> int32(const std::string &path, int64_t rows, int64_t columns);

  Status append(std::span<const int64_t> values) { return write(values.data(), values.size(), 8); }
  Status append(std::span<const int32_t> values) { return write(values.data(), values.size(), 4); }
  /// Returns an Internal error unless exactly the announced values were appended.
  Status commit();

private:
  NpyWriter(AtomicFile file, int64_t values, int64_t bytes)
      : file(std::move(file)), left(values), valueBytes(bytes) {}
  static Result<NpyWriter> create(const std::string &path, const char *type,
                                  const std::string &shape, int64_t values, int64_t bytes);
  Status write(const void *data, size_t count, int64_t bytes);

  AtomicFile file;
  int64_t left, valueBytes;
};

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_IO_NPY_H
