//===- VerifyStepRegions.cpp - Rule p14: what plans of single steps place --------------------===//
#include "runtime/program/Verifier.h"
#include "runtime/program/verify/VerifierInternal.h"
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace omnibal::rt {
namespace {

/// Plans place blocks at multiples of this.
constexpr int64_t blockAlignment = 64;

bool isWhole(const Extent &bytes) {
  if (bytes.isOwn())
    return false;
  for (int64_t n : {bytes.constant, bytes.perTile, bytes.perToken})
    if (n < 0 || n % blockAlignment != 0)
      return false;
  return true;
}

/// At the caps; -1 where 64 bits do not hold it.
int64_t bytesAtCaps(const Program &p, const Extent &bytes) {
  const MicrobatchCaps caps = p.caps();
  __int128 sum = static_cast<__int128>(bytes.constant) +
                 static_cast<__int128>(bytes.perTile) * caps.tiles +
                 static_cast<__int128>(bytes.perToken) * p.roundedTokens(caps.tokens);
  return sum > INT64_MAX ? -1 : static_cast<int64_t>(sum);
}

Status checkBlock(const Program &p, const Mode &mode, const Region &region,
                  const std::string &where) {
  auto wrong = [&](const char *what) { return broken("p14", where, what); };
  const StepBlock &block = *region.block;
  const auto variants = static_cast<size_t>(
      std::count_if(mode.chunks.begin(), mode.chunks.end(),
                    [&](const Chunk &chunk) { return chunk.id == block.chunk; }));
  if (variants == 0)
    return wrong("its block belongs to no chunk of the stage");
  if (block.numbers.size() != variants ||
      *std::min_element(block.numbers.begin(), block.numbers.end()) < -1 ||
      *std::max_element(block.numbers.begin(), block.numbers.end()) < 0)
    return wrong("its block's numbers are not one a variant of the chunk, or out of range");
  if (!isWhole(block.bytes))
    return wrong("the sizes of its block are negative or no multiples of 64");
  if (bytesAtCaps(p, block.bytes) != region.bytes)
    return wrong("its block has another size at the caps");
  return Status::ok();
}

/// Chunks of one id are its variants, in turn.
Status checkVariants(const Mode &mode, bool planned, const std::string &where) {
  std::map<int32_t, int32_t> next;
  for (const Chunk &chunk : mode.chunks) {
    const int32_t variant = next[chunk.id]++;
    if (chunk.variant != variant || (variant > 0 && !planned))
      return broken("p14", where + ", chunk " + std::to_string(chunk.id),
                    planned ? "its variants are not numbered in turn"
                            : "it has variants, but steps are not planned");
  }
  return Status::ok();
}

/// An action may write the blocks of its own chunk alone: what others hold then depends on the
/// plan. It reads what another chunk of the stage made where it copies that. Plans keep only what
/// the chunk's variant has a block for.
Status checkOwners(const Program &p, const Mode &mode, const std::string &where) {
  auto reads = [&](const LayerCall &call, size_t formal) {
    const Role role = p.functions[call.function].buffers[formal].role;
    return role == Role::Input || role == Role::GradOutput;
  };
  for (const Chunk &chunk : mode.chunks)
    for (ActionKind kind : computeKinds)
      for (const LayerCall &call : chunk.calls(kind))
        for (size_t i = 0; i < call.bindings.size(); ++i) {
          const Location &l = call.bindings[i];
          const Region *region = l.space == Space::Region ? &mode.regions[l.index] : nullptr;
          if (!region || !region->block)
            continue;
          const bool isOwn = region->block->chunk == chunk.id;
          auto wrong = [&](const char *verb, const char *why) {
            return broken("p14", where + ", " + nameOf(kind) + " of layer \"" + call.layer + "\"",
                          std::string("it ") + verb + " region \"" + region->name + "\", which " +
                              why);
          };
          if (!isOwn && !reads(call, i))
            return wrong("writes", "belongs to another chunk");
          if (isOwn && region->block->numbers[chunk.variant] < 0)
            return wrong("uses", "its variant has no block for");
        }
  return Status::ok();
}

} // namespace

Status verifyStepRegions(const Program &p, const Stage &stage, const Mode &mode,
                         const std::string &where) {
  const bool planned = mode.stepBytes != 0;
  OMNIBAL_RETURN_IF_ERROR(checkVariants(mode, planned, where));
  if (!planned && mode.stepOffset == 0 &&
      std::none_of(mode.regions.begin(), mode.regions.end(),
                   [](const Region &region) { return region.block.has_value(); }))
    return Status::ok();
  if (p.stepProblem.empty())
    return broken("p14", where, "it has memory for plans of steps, but there is no step problem");
  if (mode.stepOffset < stage.persistentBytes || mode.stepOffset % blockAlignment != 0 ||
      mode.stepBytes < 1 || !inside(mode.stepOffset, mode.stepBytes, stage.arenaBytes))
    return broken("p14", where,
                  "the memory for plans of steps does not lie between the persistent part and the "
                  "arena's end, or begins at no multiple of 64");
  std::set<std::tuple<int32_t, int32_t, int32_t>> known;
  for (const Region &region : mode.regions) {
    const std::string at = where + ", region \"" + region.name + "\"";
    if (region.block) {
      OMNIBAL_RETURN_IF_ERROR(checkBlock(p, mode, region, at));
      const StepBlock &block = *region.block;
      for (size_t v = 0; v < block.numbers.size(); ++v)
        if (block.numbers[v] >= 0 &&
            !known.insert({block.chunk, static_cast<int32_t>(v), block.numbers[v]}).second)
          return broken("p14", at, "another region has its block");
      continue;
    }
    // What all plans share is used by one action at a time, apart from what they place.
    for (int64_t offset : region.offsets)
      if (offset != region.offsets.front() ||
          (offset < mode.stepOffset + mode.stepBytes && offset + region.bytes > mode.stepOffset))
        return broken("p14", at,
                      "it has no block, so it must lie in one place outside of the memory for "
                      "plans of steps");
  }
  return checkOwners(p, mode, where);
}

} // namespace omnibal::rt
