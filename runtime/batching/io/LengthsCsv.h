//===- LengthsCsv.h - Sample lengths from a table -------------------------------------------===//
//
// A CSV file (RFC 4180: quoted fields, CRLF or LF; a byte order mark is skipped) whose header names
// the columns vit_num (tiles) and token_num (tokens), and perhaps vit_square_sum (the sum over the
// sample's pictures of their squared numbers of units); other columns are ignored. The n-th line
// after the header is sample n, from 0. The file is read in blocks, so a pipe will do and memory
// holds the lengths only.
//
// These are errors, which name file and line: no column or two columns of a name, another number of
// fields than the header's, an empty line before the last sample, a quote that is not closed, a
// value that is no whole number from 0 to 2^31 - 1, and a sum of squares that no pictures of
// vit_num units have.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_IO_LENGTHSCSV_H
#define RUNTIME_BATCHING_IO_LENGTHSCSV_H

#include "runtime/batching/Balance.h"
#include <functional>
#include <memory>
#include <string>

namespace omnibal::rt {

/// A table that is read a few samples at a time.
class LengthsReader {
public:
  static Result<LengthsReader> open(const std::string &path);
  LengthsReader(LengthsReader &&) noexcept;
  LengthsReader &operator=(LengthsReader &&) noexcept;
  ~LengthsReader();

  /// Appends up to `most` samples and returns their number, which is 0 at the end of the file.
  Result<int64_t> read(int64_t most, SampleLengths &out);
  /// Returns the bytes of the file read so far, and its size (0: not known).
  int64_t bytesRead() const;
  int64_t bytesTotal() const;
  /// Whether the table has the column vit_square_sum.
  bool knowsPictures() const;

private:
  struct Impl;
  explicit LengthsReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// Reads the whole table; a table without samples is an error. `progress` is called now and then
/// with the bytes read and their total (0: not known).
Result<SampleLengths>
readLengthsCsv(const std::string &path,
               const std::function<void(int64_t read, int64_t total)> &progress = {});

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_IO_LENGTHSCSV_H
