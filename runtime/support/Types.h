//===- Types.h - Element types and sizes shared by the whole runtime -------------------------===//
#ifndef RUNTIME_SUPPORT_TYPES_H
#define RUNTIME_SUPPORT_TYPES_H

#include "runtime/support/Shares.h"
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace omnibal::rt {

/// BF16: the upper half of a float32 (BFloat16.h).
enum class DType { F32, I32, I64, Bool, F64, BF16 };

constexpr int64_t byteSize(DType type) {
  switch (type) {
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::I64:
  case DType::F64:
    return 8;
  case DType::BF16:
    return 2;
  case DType::Bool:
    return 1;
  }
  return 0;
}

constexpr const char *nameOf(DType type) {
  switch (type) {
  case DType::F32:
    return "f32";
  case DType::I32:
    return "i32";
  case DType::I64:
    return "i64";
  case DType::Bool:
    return "bool";
  case DType::F64:
    return "f64";
  case DType::BF16:
    return "bf16";
  }
  return "?";
}

/// The symbols of a micro-batch: V (image tiles) and N (tokens), and v and n, as many of them as a
/// part of a stage has.
struct SymbolValues {
  int64_t tiles = 0, tokens = 0, ownTiles = 0, ownTokens = 0;

  static constexpr SymbolValues of(int64_t tiles, int64_t tokens, int64_t part = 0,
                                   int64_t parts = 1) {
    return {tiles, tokens, shareOf(tiles, part, parts).size(), shareOf(tokens, part, parts).size()};
  }
  /// Of the last part, which has the largest share.
  static constexpr SymbolValues most(int64_t tiles, int64_t tokens, int64_t parts) {
    return of(tiles, tokens, parts - 1, parts);
  }
  bool operator==(const SymbolValues &) const = default;
};

/// A size that is affine in the symbols of a micro-batch.
struct Extent {
  int64_t constant = 0, perTile = 0, perToken = 0, perOwnTile = 0, perOwnToken = 0;
  int64_t evaluate(const SymbolValues &at) const {
    return constant + perTile * at.tiles + perToken * at.tokens + perOwnTile * at.ownTiles +
           perOwnToken * at.ownTokens;
  }
  /// Of what is not divided, or of the only part.
  int64_t evaluate(int64_t tiles, int64_t tokens) const {
    return evaluate(SymbolValues::of(tiles, tokens));
  }
  /// All coefficients, the constant first.
  std::array<int64_t, 5> numbers() const {
    return {constant, perTile, perToken, perOwnTile, perOwnToken};
  }
  /// Those that files and attributes have: without the last two where these are 0.
  std::vector<int64_t> writtenNumbers() const {
    const auto all = numbers();
    return {all.begin(), isOwn() ? all.end() : all.begin() + 3};
  }
  /// Of three or five numbers, as they are written.
  static Extent of(std::span<const int64_t> written) {
    auto at = [&](size_t i) { return i < written.size() ? written[i] : 0; };
    return {at(0), at(1), at(2), at(3), at(4)};
  }
  Extent plus(const Extent &o) const {
    return {constant + o.constant, perTile + o.perTile, perToken + o.perToken,
            perOwnTile + o.perOwnTile, perOwnToken + o.perOwnToken};
  }
  Extent times(int64_t factor) const {
    return {constant * factor, perTile * factor, perToken * factor, perOwnTile * factor,
            perOwnToken * factor};
  }
  bool isStatic() const { return !growsWithTiles() && !growsWithTokens(); }
  bool growsWithTiles() const { return perTile != 0 || perOwnTile != 0; }
  bool growsWithTokens() const { return perToken != 0 || perOwnToken != 0; }
  /// Whether parts of a stage have different values of it.
  bool isOwn() const { return perOwnTile != 0 || perOwnToken != 0; }
  bool operator==(const Extent &) const = default;
};

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_TYPES_H
